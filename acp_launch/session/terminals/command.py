"""
What `terminal/create` asks us to run (ACP v1 "terminals"): its params become an argv, an environment, a directory.

The schema calls `command` a program, but agents also put a whole shell line there and no `args`: what is no program,
and would mean something to a shell, is given to /bin/sh. The directory need not be one of the session's: a command
goes where it likes, so that would be a promise we cannot keep. It is shown where somebody decides.
"""

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from acp_launch.plan.executable import CannotRun, find
from acp_launch.session.service import invalid, missing

KEPT = 1024 * 1024  # bytes of output, where the agent names no limit
MOST = 8 * 1024 * 1024  # bytes, whatever it names
UINT64 = 2**64 - 1
_SHELL = re.compile(r"[\s|&;<>()$`\\\"'*?\[\]#~=%!{}]")
# Variables that make no program do something else; the others are told to whoever decides.
_HARMLESS = re.compile(r"CI|CLAUDECODE|COLORTERM|COLUMNS|FORCE_COLOR|LANG|LC_[A-Z]+|LINES|NO_COLOR|TERM|TZ")


class Command(Struct, frozen=True):
    """`said` is what the agent asked for, after the variables of its own that may change what that does."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    said: str
    args: tuple[str, ...]
    limit: int  # bytes of output

    @property
    def line(self) -> str:
        """As it would be typed."""
        return " ".join([self.said, *map(shlex.quote, self.args)])

    def tool_call(self) -> dict[str, Any]:
        """What to ask before it is run."""
        args = {"args": list(self.args)} if self.args else {}
        raw = {"command": self.said, **args, "cwd": str(self.cwd)}
        return {"kind": "execute", "title": self.line, "rawInput": raw}


def command(params: dict[str, Any], *, cwd: Path, env: Mapping[str, str]) -> Command:
    """`cwd` is where it is run unless the agent says; `env` what it has unless the agent says more.

    Raises:
        Refusal: the params are wrong, or there is no such program or directory.
    """
    program, words = _word(params.get("command"), "command"), _words(params)
    own = _variables(params)
    directory = _directory(params, cwd)
    whole = {**env, **own}
    argv, typed = _argv(program, words, directory, whole.get("PATH"))
    told = [f"{name}={shlex.quote(value)}" for name, value in own.items() if not _HARMLESS.fullmatch(name)]
    return Command(argv, whole, directory, " ".join([*told, typed]), tuple(words), _limit(params))


def _argv(program: str, words: list[str], cwd: Path, path: str | None) -> tuple[tuple[str, ...], str]:
    """What to start, and how the first of it would be typed."""
    found = find(program, project=cwd, path=path)
    if not isinstance(found, CannotRun):
        return (str(found), *words), shlex.quote(program)
    if not words and _SHELL.search(program):
        return ("/bin/sh", "-c", program), program
    raise missing(f"it cannot be run: {found.message}; {found.fix}")


def _directory(params: dict[str, Any], default: Path) -> Path:
    value = params.get("cwd")
    if value is None:
        return default
    directory = Path(_word(value, "cwd"))
    if not directory.is_absolute():
        raise invalid(f'"cwd" must be absolute, and "{directory}" is not')
    if not os.path.lexists(directory):
        raise missing(f'there is no directory "{directory}"', {"path": str(directory)})
    if not directory.is_dir():
        raise invalid(f'"{directory}" is not a directory')
    return directory


def _words(params: dict[str, Any]) -> list[str]:
    value = params.get("args")
    if value is None:
        return []
    if not isinstance(value, list):
        raise invalid('"args" must be a list of strings')
    return [_word(word, "args", may_be_empty=True) for word in value]


def _variables(params: dict[str, Any]) -> dict[str, str]:
    value = params.get("env")
    if value is None:
        return {}
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise invalid('"env" must be a list of objects with "name" and "value"')
    named = [(_word(entry.get("name"), "env"), _word(entry.get("value"), "env", may_be_empty=True)) for entry in value]
    if odd := next((name for name, _ in named if "=" in name), None):
        raise invalid(f'"env": "{odd}" is no name of a variable')
    return dict(named)


def _word(value: object, name: str, *, may_be_empty: bool = False) -> str:
    """Text that can be given to a program."""
    if not isinstance(value, str) or not (value or may_be_empty):
        raise invalid(f'"{name}": expected {"" if may_be_empty else "some "}text')
    if "\0" in value:
        raise invalid(f'"{name}" holds a NUL character')
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        raise invalid(f'"{name}" holds half a surrogate pair, which is no text') from None
    return value


def _limit(params: dict[str, Any]) -> int:
    value = params.get("outputByteLimit")
    if value is None:
        return KEPT
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= UINT64:
        raise invalid('"outputByteLimit" must be a whole number from 0 on')
    return min(value, MOST)
