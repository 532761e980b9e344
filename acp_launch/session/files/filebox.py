"""
The files below a session's directories, and none elsewhere: reading and replacing them, blocking, for a thread.

How they are opened is in `beneath`, how they are replaced in `replacing`. Directories that are missing are made.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import BinaryIO, NoReturn

from msgspec import Struct

from acp_launch.protocol import jsonrpc
from acp_launch.session.files.beneath import Place, opened, parent, place, regular
from acp_launch.session.files.excerpt import TooMuch, lines, size
from acp_launch.session.files.replacing import put
from acp_launch.session.service import Refusal, invalid, missing


class _Present(Struct, frozen=True):
    data: bytes
    status: os.stat_result


class FileBox:
    def __init__(self, roots: Sequence[Path], *, limit: int) -> None:
        """`limit` is the most that is read or written at once, in bytes."""
        self._roots = [(root, Path(os.path.realpath(root))) for root in roots]
        self._limit = limit
        self._writing = Lock()  # what was given up goes on in its thread

    def place(self, path: str) -> Place:
        """Where the agent's path leads; raises as `beneath.place` does."""
        return place(path, self._roots)

    def found(self, path: str) -> Place:
        """Like `place`, for a file that must be there.

        Raises:
            Refusal: it is not, or it is no regular file.
        """
        there = self.place(path)
        with _said(there, "read"), parent(there) as (directory, name):
            regular(os.stat(name, dir_fd=directory, follow_symlinks=False), there)
        return there

    def read(self, place: Place, first: int, count: int | None) -> str:
        """The text from line `first` on (1-based), `count` lines of it, with its line ends and its byte order mark.

        Raises:
            Refusal: there is no such file, it is too large, or not text in UTF-8.
        """
        with _said(place, "read"), parent(place) as (directory, name), opened(directory, name, place) as file:
            if count is None and first == 1:
                self.check_size(os.fstat(file.fileno()).st_size, place)
            data = self._taken(file, first, count, place)
        return _text(data, place)

    def present(self, place: Place) -> bytes | None:
        """What the file holds; None when there is none yet."""
        with _said(place, "read"):
            try:
                with parent(place) as (directory, name):
                    found = self._present(directory, name, place, os.O_RDONLY)
            except FileNotFoundError:
                return None
        return found.data if found else None

    def replace(self, place: Place, data: bytes, *, instead_of: bytes | None) -> None:
        """Make `data` the content of the file, if it still holds what `present` gave.

        Raises:
            Refusal: it does not, or it cannot be written.
        """
        with self._writing, _said(place, "written"), parent(place, make=True) as (directory, name):
            found = self._present(directory, name, place, os.O_RDWR)  # what is read-only stays
            if (found.data if found else None) != instead_of:
                raise Refusal(jsonrpc.INTERNAL_ERROR, f'"{place.shown}" was changed meanwhile; read it again')
            put(directory, name, data, found.status if found else None)

    def check_size(self, found: int, place: Place) -> None:
        """
        Raises:
            Refusal: so many bytes are more than the limit.
        """
        if found > self._limit:
            raise invalid(f'"{place.shown}": {size(found)} are more than the {size(self._limit)} taken at once')

    def _present(self, directory: int, name: str, place: Place, how: int) -> _Present | None:
        try:
            with opened(directory, name, place, how) as file:
                status = os.fstat(file.fileno())
                self.check_size(status.st_size, place)
                return _Present(self._taken(file, 1, None, place), status)
        except FileNotFoundError:
            return None

    def _taken(self, file: BinaryIO, first: int, count: int | None, place: Place) -> bytes:
        try:
            return lines(file, first, count, self._limit)
        except TooMuch as much:
            raise invalid(f'"{place.shown}": {much}') from None


def _text(data: bytes, place: Place) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise invalid(f'"{place.shown}" is not text in UTF-8') from None
    if "\0" in text:
        raise invalid(f'"{place.shown}" is not text: it holds NUL characters')
    return text


@contextmanager
def _said(place: Place, what: str) -> Iterator[None]:
    """Whatever the system says against it becomes a refusal."""
    try:
        yield
    except OSError as error:
        _refuse(error, place, what)


def _refuse(error: OSError, place: Place, what: str) -> NoReturn:
    is_lookup = what == "read"
    if is_lookup and isinstance(error, FileNotFoundError | NotADirectoryError):
        raise missing(f'there is no file "{place.shown}"', {"path": place.shown}) from None
    reason = (error.strerror or str(error)).lower()
    raise Refusal(jsonrpc.INTERNAL_ERROR, f'"{place.shown}" could not be {what}: {reason}') from None
