"""
Failures of our own while we handle a message of the other side: each costs that message, and nothing that came with it.

Where it happened is told to a person, who can report it. What the message said is not: it may hold a secret.
"""

from collections import Counter
from collections.abc import Callable

PACKAGE = __name__.partition(".")[0]
TOLD = (1, 100, 10_000)  # of the failures at one place, those that are told of: an agent may send many such messages


class Mishaps:
    def __init__(self, note: Callable[[str], None]) -> None:
        """`note` takes a sentence for a person."""
        self._note = note
        self._counts: Counter[str] = Counter()

    def add(self, whose: str, error: Exception) -> None:
        """A message of `whose` ("the agent") was not handled, because of `error`."""
        kind = f"{type(error).__name__} in {_place(error)}"
        self._counts[kind] += 1
        if (count := self._counts[kind]) in TOLD:
            so_far = f"; {count:,} so far" if count > 1 else ""
            self._note(f"a message of {whose} is left out: a bug in acp-launch, please report it ({kind}{so_far})")


def _place(error: Exception) -> str:
    """The innermost line of ours: `bridge.ids:24`."""
    place, step = "another package", error.__traceback__
    while step is not None:
        module = str(step.tb_frame.f_globals.get("__name__"))
        if module.startswith(f"{PACKAGE}."):
            place = f"{module.removeprefix(f'{PACKAGE}.')}:{step.tb_lineno}"
        step = step.tb_next
    return place
