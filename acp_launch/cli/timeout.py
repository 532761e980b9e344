"""`--timeout` as people write it: a duration as in a profile, or a bare number of seconds."""

from acp_launch.document.duration import Duration
from acp_launch.errors import UsageError


def duration(text: str) -> Duration:
    """`2m`, `1.5s`, `1.5`. Raises ValueError when `text` is none."""
    return Duration.parse(f"{text}s" if text[-1:].isdigit() else text)


def seconds(text: str) -> float:
    """
    Raises:
        UsageError: this is no length of time.
    """
    try:
        return duration(text)
    except ValueError:
        fix = "write a positive number and its unit, seconds without one: 90, 500ms, 2m, 1h"
        raise UsageError(f'--timeout: expected a duration, found "{text}"', fix=fix) from None
