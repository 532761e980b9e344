"""
Descriptors 0 and 1 while a stranger's code works in this process, or starts programs of its own.

Our stdin may be a pipe with the value that is being set, our stdout a stream of JSON. Meanwhile descriptor 0 is at its
end and descriptor 1 leads to stderr, for this process and for every program it starts. They belong to the process, not
to a thread: the main thread only waits, and says what it has to say within `out_loud`. What a stranger prints itself
in those milliseconds comes out on stdout; the programs it had started by then do not.
"""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_DIVERTED = (0, 1)
_one_at_a_time = threading.Lock()
_working: set[object] = set()
_kept: list[int] = []  # what 0 and 1 were, while they are diverted


@contextmanager
def diverted() -> Iterator[None]:
    """Any number of threads may be in here; the last one out puts everything back."""
    work = object()
    _flush()
    with _one_at_a_time:
        if not _kept:
            _divert()
        _working.add(work)
    try:
        yield
    finally:
        _flush()
        with _one_at_a_time:
            _working.discard(work)
            if not _working:
                _restore()


@contextmanager
def out_loud() -> Iterator[None]:
    """stdout is what it was while the block runs."""
    _flush()
    with _one_at_a_time:
        if _kept:
            os.dup2(_kept[1], 1)
    try:
        yield
    finally:
        _flush()
        with _one_at_a_time:
            if _kept:
                os.dup2(2, 1)


def give_back() -> None:
    """Put everything back, although somebody who was given up is still at work."""
    _flush()
    with _one_at_a_time:
        _working.clear()
        _restore()


def _divert() -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        _kept.extend([os.dup(descriptor) for descriptor in _DIVERTED])
        os.dup2(nothing, 0)
        os.dup2(2, 1)
    finally:
        os.close(nothing)


def _restore() -> None:
    for descriptor, kept in zip(_DIVERTED, _kept, strict=False):  # nothing is kept when it was put back already
        os.dup2(kept, descriptor)
        os.close(kept)
    _kept.clear()


def _flush() -> None:
    """What was printed goes where descriptor 1 leads now, and not where it leads next."""
    for stream in (sys.stdout, sys.__stdout__):
        if stream is not None:
            with suppress(OSError, ValueError):  # whoever writes there next is told that it is gone
                stream.flush()
