"""
`--timeout` as people write it: a duration as in a profile, or a bare number of seconds. With the name of a wait before
it, `initialize=5m`, it is about that wait.
"""

from acp_launch.document.scalars import Duration
from acp_launch.errors import UsageError

WAITS = ("initialize", "session", "silence")  # of `agent.timeouts`
NAMED = ", ".join(f"{wait}=DURATION" for wait in WAITS)
Limit = tuple[str, Duration]  # the wait, empty for all of the run


def seconds(text: str) -> Duration:
    """
    `2m`, `1.5s`, `1.5`.

    Raises:
        UsageError: this is no length of time.
    """
    try:
        return Duration.parse(f"{text}s" if text[-1:].isdigit() else text)
    except ValueError:
        fix = "write a positive number and its unit, seconds without one: 90, 500ms, 2m, 1h"
        raise UsageError(f'--timeout: expected a duration, found "{text}"', fix=fix) from None


def limit(text: str) -> Limit:
    """
    `2m`, `silence=2m`.

    Raises:
        UsageError: this is neither.
    """
    wait, mark, length = text.rpartition("=")
    if mark and wait not in WAITS:
        fix = f"give a DURATION for the whole run, or {NAMED}"
        raise UsageError(f'--timeout: there is no wait "{wait}"', fix=fix)
    return wait, seconds(length)
