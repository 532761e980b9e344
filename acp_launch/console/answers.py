"""
The ways to answer a permission question: one key each, and words that say what an answer does.

What an option does is its kind; its name is the agent's, who may call a permission "Deny". So the name stands alone
only where it plainly says the same, and otherwise beside our word for the kind. An answer of ours lives as long as its
name says (`kept.holds`), and the agent may remember it for longer: so a name that says neither once, nor for the
session, nor for good stands beside "from now on", which holds for both. For good is always our word, with the command
that lists such answers.
"""

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from acp_launch.console.ask.asked import cut
from acp_launch.console.draw.outside import one_line
from acp_launch.protocol import acp
from acp_launch.secret.redact import redactor
from acp_launch.session.permission.policy import choose, holds
from acp_launch.session.person import Answer, Choice

LONGEST = 100  # characters of a name
FOR_GOOD = "for good"
KEYS = {"allow_once": "y", "allow_always": "a", FOR_GOOD: "g", "reject_once": "n", "reject_always": "d"}
WORDS = {
    "allow_once": "Allow once",
    "allow_always": "Allow from now on",
    "reject_once": "Deny once",
    "reject_always": "Deny from now on",
}
GOOD = {"allow_always": "Allow for good, listed by {}", "reject_always": "Deny for good, listed by {}"}
UNKNOWN = "Unclear"  # what the agent makes of a kind that is not in the protocol
SPARE = "bcefhijklmopqrstuvwxz"  # from the tenth on, where no digit is left
_ALLOWS = re.compile(r"(always )?(allow|yes|accept)\b")
_DENIES = re.compile(r"(always )?(deny|no|reject|don['\u2019]t)\b")
_NEGATION = re.compile(
    r"\b(deny|no|not|never|nothing|reject|refuse|decline|forbid|block|stop|skip|abort|cancel|disallow)\b|n['\u2019]t\b"
)
_LASTS = re.compile(r"\b(always|forever|never|all|sessions?|future)\b|n['\u2019]t ask")  # not this once
_SESSION = re.compile(r"\bsession\b")
_BARE = frozenset({"always", "always allow", "allow always", "always deny", "deny always", "always reject"})


class Way(Struct, frozen=True):
    choice: Choice
    answer: Answer


class Answers(Struct, frozen=True):
    offered: tuple[Way, ...]
    dismissed: Answer  # where none is chosen
    left_out: tuple[str, ...]  # what to say of the others


def answers(options: Sequence[Any], where: str, *, is_keepable: bool = True) -> Answers:
    """
    A letter for the first option of each kind, and for the first that allows for good; for any other its number, or a
    letter that is free. Where none allows for good, one of ours does. `where` is the command that lists what is kept
    for good; of a call that is not `is_keepable` nothing is kept.

    Of several options with the same id only the first counts, as it does for the agent's question as a whole.
    """
    offered = [_offered(option, where if is_keepable else "") for option in _distinct(options)]
    keys = _keys([each.slot for each in offered])
    ways = [Way(Choice(key, each.label), each.answer) for key, each in zip(keys, offered, strict=True) if key]
    once = choose(True, [each.option for each in offered])
    if is_keepable and KEYS[FOR_GOOD] not in keys and once is not None:
        ways.append(Way(Choice(KEYS[FOR_GOOD], label("allow_always", "Always", where)), Answer(once, "always")))
    more = keys.count("")
    left_out = (f"[... {more:,} more options are not shown ...]",) if more else ()
    return Answers(tuple(ways), Answer(choose(False, [each.option for each in offered])), left_out)


def label(kind: str, name: str, where: str = "") -> str:
    """What an option does, and what the agent calls it where that is something else. `where` lists what is kept for
    good; empty where nothing is kept."""
    life = holds(kind, name)
    name = cut(one_line(redactor.text(name)), LONGEST)
    if life == "always" and where:
        word = GOOD[kind].format(where)
        return word if name.casefold() in _BARE else f'{word} ("{name}")'
    word = WORDS.get(kind, UNKNOWN)
    if not name or name.casefold() == word.casefold():
        return word
    return name if _says(name.casefold(), kind) else f'{word} ("{name}")'


def _says(name: str, kind: str) -> bool:
    """Whether nobody could take it for the name of another kind, or for an answer of another life."""
    if kind not in WORDS:
        return False
    is_other_life = _LASTS.search(name) if kind.endswith("_once") else not _SESSION.search(name)
    if is_other_life:
        return False
    if kind.startswith("reject"):
        return _DENIES.match(name) is not None
    return _ALLOWS.match(name) is not None and _NEGATION.search(name) is None


class _Offered(Struct, frozen=True):
    option: dict[str, Any]
    slot: str  # which letter it gets, if it is the first
    label: str
    answer: Answer


def _offered(option: dict[str, Any], where: str) -> _Offered:
    kind, name = acp.text(option.get("kind")), acp.text(option.get("name"))
    life = holds(kind, name) if where else "once"
    slot = FOR_GOOD if (kind, life) == ("allow_always", "always") else kind
    return _Offered(option, slot, label(kind, name, where), Answer(acp.text(option.get("optionId")), life))


def _distinct(options: Sequence[Any]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for option in map(acp.mapping, options):
        if isinstance(id := option.get("optionId"), str):
            found.setdefault(id, option)
    return list(found.values())


def _keys(slots: Sequence[str]) -> list[str]:
    """One for each, "" for those there is none for. A digit is the number in the list that is shown."""
    first = {slot: slots.index(slot) for slot in KEYS if slot in slots}
    spare = iter(SPARE)
    keys: list[str] = []
    shown = 0
    for place, slot in enumerate(slots):
        number = str(shown + 1) if shown < 9 else ""
        key = KEYS[slot] if first.get(slot) == place else number or next(spare, "")
        shown += bool(key)
        keys.append(key)
    return keys
