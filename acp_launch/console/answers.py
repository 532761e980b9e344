"""
The ways to answer a permission question: one key each, and words that say what an answer does.

What an option does is its kind; its name is the agent's, who may call a permission "Deny". So the name stands alone
only where it plainly says the same, and otherwise beside our word for the kind.
"""

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from acp_launch.console.ask.asked import cut
from acp_launch.console.draw.outside import one_line
from acp_launch.protocol import acp
from acp_launch.secret.redact import redactor
from acp_launch.session.permission.policy import choose
from acp_launch.session.person import Answer, Choice

LONGEST = 100  # characters of a name
KEYS = {"allow_once": "y", "allow_always": "a", "reject_once": "n", "reject_always": "d"}
WORDS = {
    "allow_once": "Allow once",
    "allow_always": "Allow always",
    "reject_once": "Deny once",
    "reject_always": "Deny always",
}
UNKNOWN = "Unclear"  # what the agent makes of a kind that is not in the protocol
SPARE = "bcefghijklmopqrstuvwxz"  # from the tenth on, where no digit is left
OURS = "Allow always (kept by acp-launch)"  # where the agent itself has no such option
_ALLOWS = re.compile(r"(always )?(allow|yes|accept)\b")
_DENIES = re.compile(r"(always )?(deny|no|reject|don['\u2019]t)\b")
_NEGATION = re.compile(
    r"\b(deny|no|not|never|nothing|reject|refuse|decline|forbid|block|stop|skip|abort|cancel|disallow)\b|n['\u2019]t\b"
)
_ALWAYS = re.compile(r"\b(always|forever|never|all)\b|n['\u2019]t ask")


class Way(Struct, frozen=True):
    choice: Choice
    answer: Answer


class Answers(Struct, frozen=True):
    offered: tuple[Way, ...]
    dismissed: Answer  # where none is chosen
    left_out: tuple[str, ...]  # what to say of the others


def answers(options: Sequence[Any]) -> Answers:
    """A letter for the first option of each kind; for any other its number, or a letter that is free.

    Of several options with the same id only the first counts, as it does for the agent's question as a whole.
    """
    offered = _distinct(options)
    keys = _keys([acp.text(option.get("kind")) for option in offered])
    ways = [_way(key, option) for key, option in zip(keys, offered, strict=True) if key]
    if "a" not in keys and (once := choose(True, offered)) is not None:
        ways.append(Way(Choice("a", OURS), Answer(once, always=True)))
    more = keys.count("")
    left_out = (f"[... {more:,} more options are not shown ...]",) if more else ()
    return Answers(tuple(ways), Answer(choose(False, offered)), left_out)


def label(kind: str, name: str) -> str:
    """What an option does, and what the agent calls it where that is something else."""
    word = WORDS.get(kind, UNKNOWN)
    name = cut(one_line(redactor.text(name)), LONGEST)
    if not name or name.casefold() == word.casefold():
        return word
    return name if _says(name.casefold(), kind) else f'{word} ("{name}")'


def _says(name: str, kind: str) -> bool:
    """Whether nobody could take it for the name of another kind."""
    if kind not in WORDS or kind.endswith("_always") != (_ALWAYS.search(name) is not None):
        return False
    if kind.endswith("_always") and "always" not in name:
        return False
    if kind.startswith("reject"):
        return _DENIES.match(name) is not None
    return _ALLOWS.match(name) is not None and _NEGATION.search(name) is None


def _distinct(options: Sequence[Any]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for option in map(acp.mapping, options):
        if isinstance(id := option.get("optionId"), str):
            found.setdefault(id, option)
    return list(found.values())


def _keys(kinds: Sequence[str]) -> list[str]:
    """One for each, "" for those there is none for. A digit is the number in the list that is shown."""
    first = {kind: kinds.index(kind) for kind in KEYS if kind in kinds}
    spare = iter(SPARE)
    keys: list[str] = []
    shown = 0
    for place, kind in enumerate(kinds):
        number = str(shown + 1) if shown < 9 else ""
        key = KEYS[kind] if first.get(kind) == place else number or next(spare, "")
        shown += bool(key)
        keys.append(key)
    return keys


def _way(key: str, option: dict[str, Any]) -> Way:
    kind = acp.text(option.get("kind"))
    return Way(
        Choice(key, label(kind, acp.text(option.get("name")))),
        Answer(acp.text(option.get("optionId")), always=kind.endswith("_always")),
    )
