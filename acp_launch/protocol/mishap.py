"""
Reports of messages that we failed to handle because of a bug of ours: each failure loses that message only.

The report names the place in our code, for a bug report. It never quotes the message, which may contain a secret.
"""

from collections import Counter
from collections.abc import Callable

PACKAGE = __name__.partition(".")[0]
REPORTED = (1, 100, 10_000)  # the failures at one place that are reported: an agent may send many such messages


class Mishaps:
    """Counts failures and reports some of them."""

    def __init__(self, note: Callable[[str], None]) -> None:
        """`note` takes a sentence for the user."""
        self._note = note
        self._counts: Counter[str] = Counter()

    def add(self, whose: str, error: Exception) -> None:
        """Report a message of `whose` ("the agent") that was not handled because of `error`."""
        kind = f"{type(error).__name__} in {_place(error)}"
        if count := self._count(kind):
            so_far = f"; {count:,} so far" if count > 1 else ""
            self._note(
                f"a message of {whose} was skipped because of a bug in acp-launch; please report it ({kind}{so_far})"
            )

    def add_junk(self, whose: str, reason: str) -> None:
        """Report a line in `whose` ("the stdout of the agent") that is not a message."""
        if count := self._count(""):
            self._note(f"{whose} holds {reason}; ignored ({count} so far)")

    def _count(self, kind: str) -> int:
        """Count a failure; return how many of its kind there are, 0 if that is not to be reported."""
        self._counts[kind] += 1
        return self._counts[kind] if self._counts[kind] in REPORTED else 0


def _place(error: Exception) -> str:
    """Return the innermost line of our code: `bridge.ids:24`."""
    place, step = "another package", error.__traceback__
    while step is not None:
        module = str(step.tb_frame.f_globals.get("__name__"))
        if module.startswith(f"{PACKAGE}."):
            place = f"{module.removeprefix(f'{PACKAGE}.')}:{step.tb_lineno}"
        step = step.tb_next
    return place
