"""A file in the user's own editor, checked when it is saved: `edit PROFILE` and `config edit`."""

import asyncio
import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from acp_launch.console import problems
from acp_launch.console.ask.terminal import ask_line, forget_typed
from acp_launch.console.stderr import say
from acp_launch.errors import UsageError
from acp_launch.interactive.editor import command, edit_content
from acp_launch.problem import Problem, errors
from acp_launch.process.foreground import available

EDIT, SAVE, DISCARD = "e", "s", "d"
QUESTION = "Edit it again, save it anyway, or discard the changes? [E/s/d]: "
UNCHANGED = "the file was not changed"


def edit_text(file: Path, before: str, check: Callable[[str], Sequence[Problem]], *, may_save: bool) -> str | None:
    """Let the user edit the text of `file` until it has no problems; return None if there is nothing to save.

    The user edits a copy, so that a running launch never reads half a change. `may_save` is whether a text with
    problems may be saved.

    Raises:
        UsageError: there is no terminal or no editor, or the editor failed.
    """
    if not available():
        raise UsageError("an editor needs a terminal", fix=f"edit the file itself: {shlex.quote(str(file))}")
    command(dict(os.environ))
    text = before
    while True:
        try:
            text = asyncio.run(edit_content(text.encode(), file.name, kept=UNCHANGED)).decode()
        except UnicodeDecodeError:
            raise UsageError("what the editor saved is not UTF-8", fix=UNCHANGED) from None
        if text == before:
            say("nothing was changed")
            return None
        wrong = check(text)
        problems.show(wrong, as_json=False, outcome="the file is not saved yet")
        answer = _ask(may_save=may_save) if errors(wrong) else SAVE
        if answer == DISCARD:
            say("nothing was changed")
        if answer != EDIT:
            return text if answer == SAVE else None


def _ask(*, may_save: bool) -> str:
    """Ask what to do about a text with problems. An empty answer is to edit again, and the end of input to discard."""
    question = QUESTION if may_save else "Edit it again, or discard the changes? [E/d]: "
    forget_typed()  # keys typed ahead are not an answer
    while True:
        line = ask_line(question)
        answer = line.strip().lower()[:1] or EDIT
        if not line or answer in (EDIT, DISCARD) or (answer == SAVE and may_save):
            return answer if line else DISCARD
