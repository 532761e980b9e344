"""
The replies `read` and `edit`: through the client if it serves files, otherwise directly, and then only inside the
session's directories (ACP v1 "file system"). The reply `shell`: a command in a terminal of the client (ACP v1
"terminals").
"""

import os
import stat
from pathlib import Path

from acp_launch.demo.tools import ToolCall
from acp_launch.demo.turn import Turn
from acp_launch.demo.wire import INVALID_PARAMS, NOT_FOUND, Message, RpcError

LIMIT = 1 << 20  # bytes read directly
LINE = "Edited by the demo agent."
OUTPUT = 100_000  # bytes of output to keep
TITLE = 200  # characters
NO_TERMINALS = (
    "Your client offers no terminals (clientCapabilities.terminal), so I cannot run anything."
    " In a profile, `client: {terminal: true}` offers them."
)


def read(turn: Turn, rest: str) -> None:
    name, rest = _name(rest)
    numbers = rest.split()
    if not name or len(numbers) > 2 or not all(number.isdecimal() and int(number) for number in numbers):
        turn.say("Say which file, and if you like from which line on and how many: `read README.md 1 5`.")
        return
    path = _path(turn, name)
    line, count = [*map(int, numbers), None, None][:2]
    location = {"path": str(path), **({"line": line} if line else {})}
    with ToolCall(turn, f"Read {name}", "read", location, locations=[location]) as call:
        call.begin()
        try:
            text = _read(turn, path, line, count)
        except (RpcError, OSError) as error:
            call.end("failed", str(error))
            turn.say(f"I could not read {name}: {error}")
            return
        call.end("completed", text)
    turn.say(f"{name}, read {_through(turn.session.offered.read_files)}:\n\n```\n{text.rstrip()}\n```\n")


def edit(turn: Turn, rest: str) -> None:
    name, text = _name(rest)
    if not name:
        turn.say("Say which file, and if you like the line to add: `edit notes.txt buy milk`.")
        return
    path = _path(turn, name)
    try:
        old = _old(turn, path)
    except (RpcError, OSError) as error:
        turn.say(f"I could not read {name}: {error}")
        return
    before = old or ""
    new = before + ("\n" if before and not before.endswith("\n") else "") + (text or LINE) + "\n"
    _change(turn, name, path, old, new)


def _change(turn: Turn, name: str, path: Path, old: str | None, new: str) -> None:
    diff = {"type": "diff", "path": str(path), "oldText": old, "newText": new}
    location = {"path": str(path), "line": len(new.splitlines())}
    title = f"{'Create' if old is None else 'Edit'} {name}"
    with ToolCall(turn, title, "edit", {"path": str(path)}, content=[diff], locations=[location]) as call:
        refusal = call.refusal(("demo", "edit"))
        if refusal:
            turn.say(refusal)
            return
        call.begin()
        try:
            _write(turn, path, new)
        except (RpcError, OSError) as error:
            call.end("failed", str(error))
            turn.say(f"I could not write {name}: {error}")
            return
        call.end("completed", f"wrote {len(new)} characters", keep=[diff])
    turn.say(f"{name} is written, {_through(turn.session.offered.write_files)}.")


def _through(client: bool) -> str:
    return "through the client" if client else "by myself, since the client serves no files"


def _name(rest: str) -> tuple[str, str]:
    """Split off the file name, which may be quoted and may be written as a mention."""
    rest = rest.removeprefix("@")
    if rest.startswith('"'):
        name, _, after = rest[1:].partition('"')
    else:
        name, _, after = rest.partition(" ")
    return name, after.strip()


def _path(turn: Turn, name: str) -> Path:
    return Path(os.path.normpath(Path(turn.session.cwd, name)))


def _old(turn: Turn, path: Path) -> str | None:
    """Return the content of the file; None if it does not exist."""
    try:
        return _read(turn, path, None, None)
    except FileNotFoundError:
        return None
    except RpcError as error:
        if error.code == NOT_FOUND:
            return None
        raise


def _read(turn: Turn, path: Path, line: int | None, count: int | None) -> str:
    """Return `count` lines of the file, starting with `line`, counted from 1."""
    if turn.session.offered.read_files:
        window = {"line": line, "limit": count}
        asked = {key: value for key, value in window.items() if value is not None}
        content = turn.ask("fs/read_text_file", {"path": str(path), **asked}).get("content")
        return content if isinstance(content, str) else ""
    lines = _own(turn, path).splitlines(keepends=True)
    start = (line or 1) - 1
    return "".join(lines[start : None if count is None else start + count])


def _write(turn: Turn, path: Path, text: str) -> None:
    if turn.session.offered.write_files:
        turn.ask("fs/write_text_file", {"path": str(path), "content": text})
        return
    _check_inside(turn, path)
    path.write_text(text, encoding="utf-8", newline="")


def _own(turn: Turn, path: Path) -> str:
    _check_inside(turn, path)
    if not stat.S_ISREG(path.stat().st_mode):  # a FIFO would block
        raise RpcError(INVALID_PARAMS, "it is not a file")
    with path.open("rb") as file:
        return file.read(LIMIT).decode(errors="replace")


def _check_inside(turn: Turn, path: Path) -> None:
    roots = [turn.session.cwd, *turn.session.directories]
    if not any(path.resolve().is_relative_to(Path(root).resolve()) for root in roots):
        raise RpcError(INVALID_PARAMS, "it is outside the directories of this session")


# A command in a terminal of the client.


def shell(turn: Turn, rest: str) -> None:
    if not rest:
        turn.say("Say which command: `shell ls -l`.")
        return
    if not turn.session.offered.terminal:
        turn.say(NO_TERMINALS)
        return
    with ToolCall(turn, rest[:TITLE], "execute", {"command": rest, "cwd": turn.session.cwd}) as call:
        refusal = call.refusal(("demo", "shell"))
        turn.say(refusal or _run(turn, rest, call))


def _run(turn: Turn, command: str, call: ToolCall) -> str:
    """Run the command and return the result in words."""
    asked = {"command": "sh", "args": ["-c", command], "cwd": turn.session.cwd, "outputByteLimit": OUTPUT}
    try:
        terminal = {"terminalId": str(turn.ask("terminal/create", asked).get("terminalId"))}
    except RpcError as error:
        call.end("failed", str(error))
        return f"The client did not run it: {error}"
    shown: Message = {"type": "terminal", **terminal}
    call.begin(content=[shown])
    try:
        ended = turn.ask("terminal/wait_for_exit", terminal)
        said = turn.ask("terminal/output", terminal)
    except RpcError as error:
        call.end("failed", str(error), keep=[shown])
        return f"The terminal failed: {error}"
    finally:  # a cancelled turn ends its command too
        turn.dismiss("terminal/release", terminal)
    outcome = _outcome(ended)
    call.end("completed" if ended.get("exitCode") == 0 else "failed", outcome, keep=[shown])
    return f"It ended with {outcome} and said {_size(said)}."


def _outcome(ended: Message) -> str:
    signal = ended.get("signal")
    return f"signal {signal}" if signal else f"exit status {ended.get('exitCode')}"


def _size(said: Message) -> str:
    output = said.get("output")
    lines = len(output.splitlines()) if isinstance(output, str) else 0
    rest = ", without its beginning" if said.get("truncated") is True else ""
    return f"{lines} line{'' if lines == 1 else 's'}{rest}"
