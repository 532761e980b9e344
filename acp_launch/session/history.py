"""
What was said in a session, for `session history`: a line for each turn, in a file for each session.

It is kept so that a session can be read without its agent. Texts are redacted before they come here, and cut; a file
that is full loses its older half, and the oldest files go when there are many.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Struct
from msgspec.structs import replace as replace_fields

from acp_launch.descent import FILE, descend, parent, remove
from acp_launch.private import Unfit, make_digest, make_private, read_bounded, replace

FOLDER = "turns"  # in the state directory
MAX_FILE_BYTES = 256 * 1024  # of a file
MAX_FILES = 1000
MAX_PROMPT_CHARACTERS = 16 * 1024
MAX_ANSWER_CHARACTERS = 64 * 1024
MAX_TITLE_CHARACTERS = 200  # of a tool call
MAX_TITLES = 200  # of a turn
_ADDING = FILE | os.O_WRONLY | os.O_CREAT | os.O_APPEND


class SessionTurn(Struct, frozen=True, kw_only=True):
    """A turn that has ended; `time` in Unix seconds."""

    time: Annotated[float, msgspec.Meta(ge=0, lt=1 << 36)]  # up to a year that a date can have
    prompt: str
    answer: str
    tools: tuple[str, ...] = ()
    stop_reason: str = ""


class History:
    """The histories of the sessions of a store."""

    def __init__(self, state: Path) -> None:
        self._folder = state / FOLDER
        self._directory = -1  # the descriptor of the folder, once a turn was added
        self._paths: dict[Sequence[str], Path] = {}  # by the keys of sessions

    def close(self) -> None:
        if self._directory >= 0:
            os.close(self._directory)
            self._directory = -1

    def add(self, key: Sequence[str], turn: SessionTurn) -> None:
        """Add a turn. A full disk costs only this."""
        path = self._path(key)
        prompt, answer = _fit(turn.prompt, MAX_PROMPT_CHARACTERS), _fit(turn.answer, MAX_ANSWER_CHARACTERS)
        tools = tuple(_fit(each, MAX_TITLE_CHARACTERS) for each in turn.tools[:MAX_TITLES])
        cut = replace_fields(
            turn, prompt=prompt, answer=answer, tools=tools, stop_reason=_fit(turn.stop_reason, MAX_TITLE_CHARACTERS)
        )
        with suppress(OSError):
            descriptor = self._open(path.name)
            try:
                written = os.write(descriptor, msgspec.json.encode(cut) + b"\n")
                size = os.fstat(descriptor).st_size
            finally:
                os.close(descriptor)
            if size > MAX_FILE_BYTES:
                lines = path.read_bytes().splitlines(keepends=True)
                replace(path, b"".join(lines[len(lines) // 2 :]), below=self._folder)
            if size == written:  # it is new
                self._remove_oldest()

    def _open(self, name: str) -> int:
        """Open a file for another line. The folder stays open; it is made anew if it was removed."""
        if self._directory >= 0:
            with suppress(FileNotFoundError):
                return os.open(name, _ADDING, 0o600, dir_fd=self._directory)
            self.close()
        make_private(self._folder)
        self._directory = descend(self._folder, ())
        return os.open(name, _ADDING, 0o600, dir_fd=self._directory)

    def turns(self, key: Sequence[str]) -> list[SessionTurn]:
        """Return the turns of a session; a line that cannot be read, as after a crash, is left out."""
        found = None
        with suppress(OSError, Unfit):
            found = read_bounded(self._path(key), 4 * MAX_FILE_BYTES)
        turns = []
        for line in found[0].splitlines() if found else ():
            with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                turns.append(msgspec.json.decode(line, type=SessionTurn))
        return turns

    def move(self, key: Sequence[str], new: Sequence[str]) -> None:
        with suppress(OSError), parent(self._path(key), self._folder) as (directory, name):  # there may be none
            os.replace(name, self._path(new).name, src_dir_fd=directory, dst_dir_fd=directory)

    def remove(self, key: Sequence[str]) -> None:
        with suppress(OSError):
            remove(self._path(key), below=self._folder)

    def _path(self, key: Sequence[str]) -> Path:
        if key not in self._paths:
            self._paths[key] = self._folder / f"{make_digest(*key)}.ndjson"
        return self._paths[key]

    def _remove_oldest(self) -> None:
        """Remove a tenth more than there are too many, so that few runs look at each file."""
        names = os.listdir(self._folder)  # noqa: PTH208 - each run does it, and a thousand paths cost 3 ms
        if (excess := len(names) - MAX_FILES) > 0:
            files = sorted(map(self._folder.joinpath, names), key=lambda file: file.stat().st_mtime)
            for file in files[: excess + MAX_FILES // 10]:
                remove(file, below=self._folder)


def _fit(text: str, most: int) -> str:
    """Cut a text, and replace half a character, which an agent may send and UTF-8 does not have."""
    return text[:most].encode(errors="replace").decode()
