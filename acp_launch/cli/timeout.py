"""
`--timeout` as people write it: a duration as in a profile, or a bare number of seconds. With the name of a wait before
it, `initialize=5m`, it is about that wait.
"""

from collections.abc import Sequence

from acp_launch.document.duration import Duration
from acp_launch.errors import UsageError

WAITS = ("initialize", "session", "silence")  # of `agent.timeouts`
NAMED = ", ".join(f"{wait}=DURATION" for wait in WAITS)
Limit = tuple[str, Duration]  # the wait, empty for all of the run


def duration(text: str) -> Duration:
    """`2m`, `1.5s`, `1.5`. Raises ValueError when `text` is none."""
    return Duration.parse(f"{text}s" if text[-1:].isdigit() else text)


def seconds(text: str) -> Duration:
    """
    Raises:
        UsageError: this is no length of time.
    """
    try:
        return duration(text)
    except ValueError:
        fix = "write a positive number and its unit, seconds without one: 90, 500ms, 2m, 1h"
        raise UsageError(f'--timeout: expected a duration, found "{text}"', fix=fix) from None


def limit(text: str) -> Limit:
    """`2m`, `silence=2m`. Raises ValueError when `text` is neither."""
    wait, mark, length = text.rpartition("=")
    if mark and wait not in WAITS:
        raise ValueError(text)
    return wait, duration(length)


def limits(texts: Sequence[str]) -> tuple[Limit, ...]:
    """
    Raises:
        UsageError: one of them is none.
    """
    return tuple(map(_checked, texts))


def _checked(text: str) -> Limit:
    wait, mark, length = text.rpartition("=")
    if mark and wait not in WAITS:
        fix = f"give a DURATION for the whole run, or {NAMED}"
        raise UsageError(f'--timeout: there is no wait "{wait}"', fix=fix)
    return wait, seconds(length)
