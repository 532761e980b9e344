"""
Keyring backends that ask for a password do so with `input` and `getpass`, in the middle of somebody's JSON-RPC pipe.

While one works, its own thread finds stdin at its end and nobody to ask. Other threads notice nothing, not even when
this one hangs for ever and is given up; but descriptors 0 and 1, which programs inherit that it starts, are the whole
process's (see `descriptors`).
"""

import getpass
import io
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from acp_launch.secret.descriptors import diverted


class _Thread(threading.local):
    quiet = False


_this = _Thread()


@contextmanager
def nobody_to_ask() -> Iterator[None]:
    """In this thread reading stdin gives its end, and asking for a password raises EOFError; what is printed goes to
    stderr. For the programs it starts, too."""
    stdin, asking = sys.stdin, getpass.getpass
    ours, refusing = cast(TextIO, _Stdin(stdin)), _refusing(asking)
    sys.stdin, getpass.getpass, _this.quiet = ours, refusing, True
    try:
        with diverted():
            yield
    finally:
        _this.quiet = False
        # Somebody may have put theirs in front meanwhile; then ours stays behind it and only passes on.
        if sys.stdin is ours:
            sys.stdin = stdin
        if getpass.getpass is refusing:
            getpass.getpass = asking


class _Stdin:
    def __init__(self, real: TextIO | None) -> None:
        self._real = real
        self._ended = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")

    def _stream(self) -> TextIO | None:
        return self._ended if _this.quiet else self._real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream(), name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._stream() or ())


def _refusing(asking: Callable[..., str]) -> Callable[..., str]:
    """Asks the thread, not this call: a backend keeps the function it found at its first import."""

    def getpass(*arguments: Any, **options: Any) -> str:
        if _this.quiet:
            raise EOFError("nobody may be asked for a password here")
        return asking(*arguments, **options)

    return getpass
