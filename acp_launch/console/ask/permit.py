"""A permission question: what the agent wants to do, and the ways to answer that it offers."""

import json
from collections.abc import Iterator
from typing import Any

from acp_launch.console.answers import answers
from acp_launch.console.ask.asked import cut
from acp_launch.console.draw.difflines import changes
from acp_launch.console.stderr import harmless
from acp_launch.protocol import acp
from acp_launch.secret.redact import redactor
from acp_launch.session.person import Answer, Ask, Person
from acp_launch.session.toolcall import title

SHOWN = 4000  # characters of one detail
LONGEST = 500  # of a title, a path, a kind
LINES = 40  # of one change
MOST = 20  # places, changes, arguments


def permitting(person: Person) -> Ask:
    """Asks `person`; a question that is dismissed is denied."""

    async def ask(call: dict[str, Any], options: list[Any]) -> Answer:
        async with person.floor():
            _show(person, call)
            ways = answers(options)
            for line in ways.left_out:
                person.say(line, "warning")
            if not ways.offered:
                person.say("the agent offers no answer that can be given; it is denied", "warning")
                return ways.dismissed
            key = await person.choose("Allow it?", [way.choice for way in ways.offered])
        found = next((way.answer for way in ways.offered if way.choice.key == key), None)
        return found or ways.dismissed

    return ask


def _show(person: Person, call: dict[str, Any]) -> None:
    # Before anything is cut: half a secret is one that nobody can recognise.
    call = redactor.tree(call)
    person.say(f"The agent asks for permission: {_name(title(call))}", "warning")
    for line in _particulars(call):
        person.say(_indented(_shortened(harmless(line))), "quote")
    diffs = list(_diffs(call))
    for diff in diffs[:MOST]:
        _show_change(person, diff)
    if len(diffs) > MOST:
        person.say(f"    [... {len(diffs) - MOST:,} more changes are not shown ...]", "warning")


def _particulars(call: dict[str, Any]) -> list[str]:
    """A place is told once: it may be an argument and a changed file as well."""
    given = acp.mapping(call.get("rawInput"))
    told = [*given.values(), *(diff.get("path") for diff in _diffs(call))]
    paths = [acp.text(location.get("path")) for location in map(acp.mapping, acp.sequence(call.get("locations")))]
    places = [_name(path) for path in dict.fromkeys(paths) if path and path not in told]
    return [
        f"kind: {_name(acp.text(call.get('kind'))) or 'not said'}",
        *_counted(places, "places"),
        *_counted([f"{key}: {_argument(value)}" for key, value in given.items()], "arguments"),
    ]


def _argument(value: Any) -> str:
    """A text as it is, anything else as the JSON it came as."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "(nested too deeply to be shown)"


def _counted(lines: list[str], what: str) -> list[str]:
    more = len(lines) - MOST
    return [*lines[:MOST], f"[... {more:,} more {what} are not shown ...]"] if more > 0 else lines


def _name(text: str) -> str:
    """On one line, cut with a word about it."""
    return cut(harmless(text, keep=""), LONGEST)


def _diffs(call: dict[str, Any]) -> Iterator[dict[str, Any]]:
    contents = map(acp.mapping, acp.sequence(call.get("content")))
    return (content for content in contents if content.get("type") == "diff")


def _show_change(person: Person, diff: dict[str, Any]) -> None:
    """What an edit would do to a file, which an agent may name nowhere else."""
    old = diff.get("oldText")
    made = changes(old if isinstance(old, str) else None, acp.text(diff.get("newText")))
    path = _name(acp.text(diff.get("path")))
    person.say(f"    changes {path}  +{made.added} -{made.removed}")
    wide = len(str(max((line.number for line in made.lines), default=0)))
    for line in made.lines[:LINES]:
        shown = f"{line.number or '':>{wide}} {line.sign} {_shortened(harmless(line.text, keep=''))}"
        person.say(f"      {shown}", "quote" if line.sign in "+-" else "faint")
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
