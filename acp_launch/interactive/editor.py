"""
A text in the user's own editor: `$VISUAL`, `$EDITOR`, or a usual one. A prompt, or a file of acp-launch.

The text lies in a file for the user alone, in a directory of its own, where editors put their backups too. All of it is
removed afterwards, also if we leave at once. After `kill -9` it stays, readable by the user alone.
"""

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from acp_launch import shutdown
from acp_launch.errors import UsageError
from acp_launch.plan.executable import inherited
from acp_launch.plan.written import keep_path
from acp_launch.private import Unfit, create, read_bounded
from acp_launch.process.foreground import foreground
from acp_launch.process.program import LocalProgram

USUAL = ("editor", "nano", "vi")  # `editor` is what a Debian user has chosen
NAME = "prompt.md"
MAX_PROMPT_BYTES = 16 * 1024 * 1024
SET = "set EDITOR to its command"


def command(env: Mapping[str, str]) -> list[str]:
    """Return the command of the user's editor; the name of a file comes after it.

    Raises:
        UsageError: there is none.
    """
    wanted = env.get("VISUAL", "").strip() or env.get("EDITOR", "").strip()
    try:
        words = shlex.split(wanted) if wanted else [next(filter(shutil.which, USUAL), "")]
    except ValueError:
        raise UsageError(f"VISUAL or EDITOR is not a command: {wanted}", fix=SET) from None
    if not words[0]:
        raise UsageError("no editor was found", fix=SET)
    program = shutil.which(words[0], path=keep_path(env)["PATH"])
    if program is None:
        raise UsageError(f"the editor {words[0]} was not found", fix=SET)
    return [str(Path(program).absolute()), *words[1:]]


async def edit_text(text: str, env: Mapping[str, str] = os.environ) -> str:
    """Return the text as the user saved it, without its last line end; until then the terminal is the editor's.

    Raises:
        LaunchError: there is no editor, it failed, or what it saved cannot be read. The text is as it was.
    """
    content = text.encode("utf-8", "replace") + b"\n"
    saved = await edit_content(content, NAME, env, kept="the prompt was not changed")
    return saved.decode("utf-8-sig", "replace").replace("\r\n", "\n").removesuffix("\n")


async def edit_content(content: bytes, name: str, env: Mapping[str, str] = os.environ, *, kept: str) -> bytes:
    """Return the content as the user saved it in a file of that name. `kept` says in errors what stays as it is.

    Raises:
        LaunchError: there is no editor, it failed, or what it saved cannot be read.
    """
    argv = command(env)
    try:
        with _file(name) as path:
            create(path, content)
            program = LocalProgram("editor", (*argv, str(path)), inherited(env, "all"), Path.cwd())
            ended = await foreground(program)
            if ended.status != 0:
                raise UsageError(f"the editor {Path(argv[0]).name} {ended}", fix=kept)
            try:
                found = read_bounded(path, MAX_PROMPT_BYTES)
            except Unfit as unfit:
                raise UsageError(f"what the editor saved {unfit}", fix=kept) from None
            if found is None:
                raise UsageError("the editor removed its file", fix=kept)
            return found[0]
    except OSError as error:
        raise UsageError(f"no file for the editor: {error.strerror or error}", fix="check TMPDIR") from None


@contextmanager
def _file(name: str) -> Iterator[Path]:
    """Provide the path of a file in a directory for the user alone, which is removed after the block."""
    directory = tempfile.mkdtemp(prefix="acp-launch-")  # with mode 0700
    remove = partial(shutil.rmtree, directory, ignore_errors=True)
    forget = shutdown.at_exit(remove)
    try:
        yield Path(directory, name)
    finally:
        forget()
        remove()
