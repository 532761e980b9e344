"""A permission question: what the agent wants to do, and the ways to answer that it offers."""

from collections.abc import Iterator
from typing import Any

from acp_launch.console.difflines import changes
from acp_launch.console.stderr import harmless
from acp_launch.protocol import acp
from acp_launch.secret.redact import redactor
from acp_launch.session.permission.policy import choose
from acp_launch.session.person import Answer, Ask, Choice, Person
from acp_launch.session.toolcall import title

SHOWN = 4000  # characters of one detail
LINES = 40  # of one change
KEYS = {"allow_once": "y", "allow_always": "a", "reject_once": "n", "reject_always": "d"}
OURS = "Allow always (kept by acp-launch)"  # where the agent itself has no such option


def permitting(person: Person) -> Ask:
    """Asks `person`; a question that is dismissed is denied."""

    async def ask(call: dict[str, Any], options: list[Any]) -> Answer:
        offered = [option for option in map(acp.mapping, options) if isinstance(option.get("optionId"), str)]
        async with person.floor():
            _show(person, call)
            ways = _ways(offered)
            key = await person.choose("Allow it?", [choice for choice, _ in ways])
        found = next((answer for choice, answer in ways if choice.key == key), None)
        return found or Answer(choose(False, offered))

    return ask


def _ways(offered: list[dict[str, Any]]) -> list[tuple[Choice, Answer]]:
    """A letter for the first option of each kind, a digit for any other."""
    ways: list[tuple[Choice, Answer]] = []
    taken: set[str] = set()
    for number, option in enumerate(offered, 1):
        kind = acp.text(option.get("kind"))
        letter = KEYS.get(kind, "")
        key = letter if letter and letter not in taken else str(number)
        taken.add(key)
        name = redactor.text(acp.text(option.get("name")) or kind)
        answer = Answer(acp.text(option.get("optionId")), always=kind.endswith("_always"))
        ways.append((Choice(key, harmless(name, keep="")), answer))
    if "a" not in taken and (once := choose(True, offered)) is not None:
        ways.append((Choice("a", OURS), Answer(once, always=True)))
    return ways


def _show(person: Person, call: dict[str, Any]) -> None:
    # Before anything is cut: half a secret is one that nobody can recognise.
    call = redactor.tree(call)
    person.say(f"The agent asks for permission: {harmless(title(call), keep='')}", "warning")
    for line in _particulars(call):
        person.say(_indented(_shortened(harmless(line))))
    for diff in _diffs(call):
        _show_change(person, diff)


def _particulars(call: dict[str, Any]) -> list[str]:
    """A place is told once: it may be an argument and a changed file as well."""
    given = acp.mapping(call.get("rawInput"))
    told = [*given.values(), *(diff.get("path") for diff in _diffs(call))]
    places = [acp.text(location.get("path")) for location in map(acp.mapping, acp.sequence(call.get("locations")))]
    return [
        f"kind: {acp.text(call.get('kind')) or 'not said'}",
        *(place for place in dict.fromkeys(places) if place and place not in told),
        *(f"{key}: {value}" for key, value in given.items()),
    ]


def _diffs(call: dict[str, Any]) -> Iterator[dict[str, Any]]:
    contents = map(acp.mapping, acp.sequence(call.get("content")))
    return (content for content in contents if content.get("type") == "diff")


def _show_change(person: Person, diff: dict[str, Any]) -> None:
    """What an edit would do to a file, which an agent may name nowhere else."""
    old = diff.get("oldText")
    made = changes(old if isinstance(old, str) else None, acp.text(diff.get("newText")))
    path = harmless(acp.text(diff.get("path")), keep="")
    person.say(f"    changes {path}  +{made.added} -{made.removed}")
    wide = len(str(max((line.number for line in made.lines), default=0)))
    for line in made.lines[:LINES]:
        shown = f"{line.number or '':>{wide}} {line.sign} {_shortened(harmless(line.text, keep=''))}"
        person.say(f"      {shown}", "plain" if line.sign in "+-" else "dim")
    if len(made.lines) > LINES:
        person.say(f"      [... {len(made.lines) - LINES:,} lines are not shown ...]", "warning")


def _indented(text: str) -> str:
    """However many lines it has, none of them looks like one of ours."""
    return f"    {text}".replace("\n", "\n      ")


def _shortened(text: str) -> str:
    """All of it, or a word about what is not shown: nobody should allow what they think they have seen whole."""
    if len(text) <= SHOWN:
        return text
    return f"{text[: SHOWN // 2]}\n[... {len(text) - SHOWN:,} characters are not shown ...]\n{text[-SHOWN // 2 :]}"
