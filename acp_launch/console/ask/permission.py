"""A permission question: the tool call, and the answers that the agent offers."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from acp_launch.console.ask.viewport import Detail, Row, break_lines, lines_above
from acp_launch.console.draw.difflines import changes, number_lines
from acp_launch.console.draw.sanitize import content_text, cut_telling, diff_texts, one_line
from acp_launch.console.stderr import harmless, harmless_line
from acp_launch.console.stdout import fit
from acp_launch.protocol import acp
from acp_launch.regex import regex
from acp_launch.secret.redact import redactor
from acp_launch.session.events import Answer, Ask, Choice, Person, Tone, ToolQuestion
from acp_launch.session.permission.policy import choose, distinct, holds
from acp_launch.session.permission.subject import ADDRESSES, COMMANDS, CONTENT, DIRECTORIES, PATHS, WORDS, plain
from acp_launch.session.state import server, title, tool

# The answers to a permission question: one key each, and a label that says what it does.
#
# The effect of an option is its kind. Its name is the agent's choice, and an agent may call a permission "Deny". So the
# name is shown alone only if it clearly says the same as the kind, and otherwise next to our label. Our answer lives as
# long as its name says (`session.permission.policy.holds`), but the agent may remember it longer. So a name that says
# neither once, nor session, nor always, stands next to "from now on", which is true for both. "For good" is always our
# label, with the command that lists such answers.


MAX_NAME_CHARS = 100  # of an answer
FOR_GOOD = "for good"
KEYS = {"allow_once": "y", "allow_always": "a", FOR_GOOD: "g", "reject_once": "n", "reject_always": "d"}
ANSWERS = {
    "allow_once": "Allow once",
    "allow_always": "Allow from now on",
    "reject_once": "Deny once",
    "reject_always": "Deny from now on",
}
GOOD = {"allow_always": "Allow for good, listed by {}", "reject_always": "Deny for good, listed by {}"}
UNKNOWN = "Unclear"  # the kind is not in the protocol, so its effect is unknown
_ALLOWS = regex(r"(always )?(allow|yes|accept)\b")
_DENIES = regex(r"(always )?(deny|no|reject|don['\u2019]t)\b")
_NEGATION = regex(
    r"\b(deny|no|not|never|nothing|reject|refuse|decline|forbid|block|stop|skip|abort|cancel|disallow)\b|n['\u2019]t\b"
)
_LASTS = regex(r"\b(always|forever|never|all|sessions?|future)\b|n['\u2019]t ask")  # more than once
_SESSION = regex(r"\bsession\b")
_BARE = frozenset({"always", "always allow", "allow always", "always deny", "deny always", "always reject"})


class AnswerChoice(Struct, frozen=True):
    """An answer that can be chosen, with its key and label."""

    choice: Choice
    answer: Answer


class Answers(Struct, frozen=True):
    """All answers to a question."""

    offered: tuple[AnswerChoice, ...]
    dismissed: Answer  # if the user chooses none
    left_out: tuple[str, ...]  # a line about options that are not shown


def answers(options: Sequence[Any], where: str, *, is_keepable: bool = True) -> Answers:
    """
    Give the first option of each kind a letter, as well as the first that allows for good; each other option gets its
    number, up to 9. If no option allows for good, add one. `where` is the command that lists answers remembered for
    good. If the call is not `is_keepable`, no answer is remembered.

    Of several options with the same id only the first counts, as in the agent's question as a whole.
    """
    valid = distinct(options)
    offered = [_option(option, where if is_keepable else "") for option in valid]
    keys = _keys([slot for slot, _, _ in offered])
    ways = [
        AnswerChoice(Choice(key, text), answer) for key, (_, text, answer) in zip(keys, offered, strict=True) if key
    ]
    once = choose(True, valid)
    if is_keepable and KEYS[FOR_GOOD] not in keys and once is not None:
        ways.append(
            AnswerChoice(Choice(KEYS[FOR_GOOD], label("allow_always", "Always", where)), Answer(once, "always"))
        )
    more = keys.count("")
    left_out = (f"[... {more:,} more options are not shown ...]",) if more else ()
    return Answers(tuple(ways), Answer(choose(False, valid)), left_out)


def label(kind: str, name: str, where: str = "") -> str:
    """Say what an option does, with the agent's name for it if that says something else. `where` is the command that
    lists answers remembered for good; empty if none are."""
    life = holds(kind, name)
    name = cut_telling(one_line(redactor.text(name)), MAX_NAME_CHARS)
    if life == "always" and where:
        word = GOOD[kind].format(where)
        return word if name.casefold() in _BARE else f'{word} ("{name}")'
    word = ANSWERS.get(kind, UNKNOWN)
    if not name or name.casefold() == word.casefold():
        return word
    return name if _says(name.casefold(), kind) else f'{word} ("{name}")'


def _says(name: str, kind: str) -> bool:
    """Return whether the name cannot be mistaken for another kind, or for another duration."""
    if kind not in ANSWERS:
        return False
    is_other_life = _LASTS.search(name) if kind.endswith("_once") else not _SESSION.search(name)
    if is_other_life:
        return False
    if kind.startswith("reject"):
        return _DENIES.match(name) is not None
    return _ALLOWS.match(name) is not None and _NEGATION.search(name) is None


def _option(option: dict[str, Any], where: str) -> tuple[str, str, Answer]:
    """Return its slot, which has a letter for the first option in it, its label, and the answer."""
    kind, name = acp.text(option.get("kind")), acp.text(option.get("name"))
    life = holds(kind, name) if where else "once"
    slot = FOR_GOOD if (kind, life) == ("allow_always", "always") else kind
    return slot, label(kind, name, where), Answer(acp.text(option.get("optionId")), life)


def _keys(slots: Sequence[str]) -> list[str]:
    """Return a key for each option; "" if none is left. A digit is the number in the list that is shown."""
    first = {slot: slots.index(slot) for slot in KEYS if slot in slots}
    keys: list[str] = []
    shown = 0
    for place, slot in enumerate(slots):
        key = KEYS[slot] if first.get(slot) == place else str(shown + 1) if shown < 9 else ""
        shown += bool(key)
        keys.append(key)
    return keys


PROMPT = "Allow it?"
DISMISSED = "No (dismissed)"
MAX_DETAIL_CHARS = 4000
MAX_TITLE_CHARS = 500  # of a title, a path, a kind
MAX_CHANGE_LINES = 40
SIGNS: dict[str, Tone] = {"+": "added", "-": "removed", " ": "faint", "…": "faint"}
MAX_PARTS = 20  # places, changes, arguments
# Importance of details on a small screen: the first is the most important.
HEADING, TOOL, COMMAND, PLACE, ARGUMENT, ASIDE, WORDY = range(7)


def permission_asker(person: Person, where: str, cwd: str = "") -> Ask:
    """Return a function that asks `person`; dismissed means denied. `where` lists answers remembered for good. Paths
    below `cwd`, the session's directory, are shown from there.
    """

    async def ask(question: ToolQuestion) -> Answer:
        async with person.floor():
            ways = answers(question.options, where, is_keepable=question.is_keepable)
            choices = [way.choice for way in ways.offered]
            columns, rows = person.room(PROMPT, choices)
            lasting = _lasting_line(question, ways, columns, cwd)
            below = len(ways.left_out) + sum(len(break_lines(line, columns)) for line in lasting)
            for text, tone in lines_above(list(_details(question, cwd)), columns, rows - below):
                person.say(text, tone)
            for line in lasting:
                person.say(line)
            for line in ways.left_out:
                person.say(line, "warning")
            if not ways.offered:
                person.say("the agent offers no valid answer; denied", "warning")
                return ways.dismissed
            key = await person.choose(PROMPT, [way.choice for way in ways.offered])
            if key is None:
                person.say(f"{PROMPT} {DISMISSED}", "dim")
            found = next((way.answer for way in ways.offered if way.choice.key == key), None)
            return found or ways.dismissed

    return ask


LASTING = ("allow_always", "reject_always")  # kinds of options that the agent may remember
WIDE = 60  # columns from which there is room for a remark


def _lasting_line(question: ToolQuestion, ways: Answers, columns: int, cwd: str) -> list[str]:
    """Return a line, of two rows at most, about the calls that the lasting answers hold for; none if every answer is
    for this once."""
    of_agent = [option for option in distinct(question.options) if option.get("kind") in LASTING]
    ids = {acp.text(option.get("optionId")) for option in of_agent}
    lasting = [way for way in ways.offered if way.answer.holds != "once" or way.answer.option_id in ids]
    if not lasting or (question.is_keepable and not question.scope):
        return []
    begun = f"{', '.join(way.choice.key for way in lasting)} will also apply to: "
    if not question.is_keepable:
        return [f"{begun}calls that only the agent knows"]
    is_shared = columns >= WIDE and any(way.answer.option_id in ids for way in lasting)
    more = " (the agent may apply it more widely)" if is_shared else ""
    what = _from(cwd, harmless_line(redactor.text(question.scope)))
    return [fit(begun + what, 2 * columns - len(more)) + more]


def _from(cwd: str, text: str) -> str:
    """Return a text with paths below `cwd` as they are from there."""
    if cwd in ("", "/"):
        return text
    return re.sub(rf"""(?<![^\s"'`]){re.escape(cwd)}/(?=[^\s/])""", "", text)


def _details(question: ToolQuestion, cwd: str) -> Iterator[Detail]:
    # Redact before anything is cut, because half a secret cannot be recognised.
    call, announced = redactor.tree(question.call), redactor.text(question.announced)
    kind = _name(acp.text(call.get("kind"))) or "not said"
    name = _name(title(call)) if kind == "execute" else _from(cwd, _name(title(call)))  # a command stays as it is
    yield Detail(((f"The agent asks for permission: {name}", "heading"),), HEADING, f"Asked for: {name}")
    if len(whole := title(call)) > MAX_TITLE_CHARS:
        yield _line(COMMAND, f"in full: {whole}")  # gemini gives a command nowhere else
    used, host = tool(call), server(call)
    is_in_title = used.casefold() == kind.casefold() == name.partition(" ")[0].casefold() and not host
    if used and not is_in_title:
        of = f", of the MCP server {_name(host)}" if host else ""
        yield _line(TOOL, f"tool: {_name(used)}{of}, kind: {kind}")
    if announced and not title(call).startswith(announced):
        yield _line(ASIDE if used else TOOL, f"announced as: {_name(announced)}", "faint")
    if not used:
        yield _line(ASIDE, f"kind: {kind}", "faint")
    yield from _places(call, cwd)
    yield from _arguments(call, cwd)
    # Texts that are neither an argument nor a change: gemini sends its arguments that way.
    told = [call.get("title"), *acp.mapping(call.get("rawInput")).values()]
    texts = [content_text(acp.mapping(content.get("content"))).strip() for content in _of_type(call, "content")]
    texts = [text for text in texts if text and text not in told]
    yield from (_line(ARGUMENT, f"the agent says: {text}") for text in texts[:MAX_PARTS])
    yield from _more(len(texts), "texts")
    diffs = list(_of_type(call, "diff"))
    yield from (Detail(tuple(_change(diff, cwd)), PLACE) for diff in diffs[:MAX_PARTS])
    yield from _more(len(diffs), "changes")


def _places(call: dict[str, Any], cwd: str) -> Iterator[Detail]:
    """Yield each place once. It may also be an argument or a changed file, and is then left out here."""
    given = acp.mapping(call.get("rawInput"))
    told = [*given.values(), *(diff.get("path") for diff in _of_type(call, "diff"))]
    paths = [acp.text(location.get("path")) for location in map(acp.mapping, acp.sequence(call.get("locations")))]
    places = [path for path in dict.fromkeys(paths) if path and path not in told]
    yield from (_line(PLACE, _from(cwd, _name(path))) for path in places[:MAX_PARTS])
    yield from _more(len(places), "places")


def _arguments(call: dict[str, Any], cwd: str) -> Iterator[Detail]:
    """Yield the arguments, but for the path of a change. If there are too many, the least important are left out."""
    given, changed = call.get("rawInput"), [diff.get("path") for diff in _of_type(call, "diff")][:MAX_PARTS]
    if given is not None and not isinstance(given, dict):
        given = {"input": given}
    texts = [text for diff in _of_type(call, "diff") for text in _drawn_texts(diff)]
    more = {key: value for key, value in (given or {}).items() if not _is_drawn(key, value, texts)}
    told = ((_weight(key), key, value) for key, value in more.items())
    lines = [
        (weight, f"{key}: {_argument(value)}") for weight, key, value in told if weight != PLACE or value not in changed
    ]
    least = sorted(weight for weight, _ in lines)[:MAX_PARTS]
    shown = []
    for weight, line in lines:
        if weight in least:
            least.remove(weight)
            shown.append(_line(weight, _from(cwd, line) if weight == PLACE else line))
    yield from shown
    yield from _more(len(lines), "arguments")


def _drawn_texts(diff: dict[str, Any]) -> list[str]:
    """Return the texts of a change, if all of it is drawn."""
    _, old, new = diff_texts(diff)
    return [] if number_lines(changes(old, new), MAX_CHANGE_LINES)[1] else [old or "", new]


def _is_drawn(key: object, value: Any, texts: Sequence[str]) -> bool:
    """Whether an argument about the content of a file says only what its change shows, as claude's and qwen's do."""
    if not texts or not CONTENT.fullmatch(plain(key)):
        return False
    if isinstance(value, str):
        return any(value in text for text in texts)
    if isinstance(value, dict):
        return all(_is_drawn(inner, each, texts) for inner, each in value.items())
    if isinstance(value, list):
        return all(isinstance(each, dict) and _is_drawn(key, each, texts) for each in value)
    return value is None or value is False


def _weight(key: object) -> int:
    name = plain(key)
    if name in COMMANDS:
        return COMMAND
    if PATHS.fullmatch(name) or name in DIRECTORIES | ADDRESSES:
        return PLACE
    return WORDY if name in WORDS else ARGUMENT


def _argument(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "(nested too deeply to show)"


def _change(diff: dict[str, Any], cwd: str) -> Iterator[Row]:
    """Describe the change of a file. The agent may name the file nowhere else."""
    path, old, new = diff_texts(diff)
    made = changes(old, new)
    yield f"    changes {_from(cwd, _name(path))}  +{made.added} -{made.removed}", "plain"
    drawn, left = number_lines(made, MAX_CHANGE_LINES)
    for line, margin in drawn:
        yield f"      {margin}{_shorten(harmless_line(line.text))}", SIGNS[line.sign]
    if left:
        yield f"      [... {left:,} lines are not shown ...]", "warning"


def _of_type(call: dict[str, Any], kind: str) -> Iterator[dict[str, Any]]:
    contents = map(acp.mapping, acp.sequence(call.get("content")))
    return (content for content in contents if content.get("type") == kind)


def _line(weight: int, text: str, tone: Tone = "quote") -> Detail:
    """Make a line of foreign text. Each further line of it is barred, so that none looks like ours."""
    return Detail(((f"    {_shorten(harmless(text))}".replace("\n", "\n    | "), tone),), weight)


def _more(count: int, what: str) -> Iterator[Detail]:
    if count > MAX_PARTS:
        yield _line(ASIDE, f"[... {count - MAX_PARTS:,} more {what} are not shown ...]", "warning")


def _name(text: str) -> str:
    """Return `text` on one line; a cut says how much is missing."""
    return cut_telling(harmless_line(text), MAX_TITLE_CHARS)


def _shorten(text: str) -> str:
    """Return the text, or both its ends with a note between: the user must know that a part is missing."""
    if len(text) <= MAX_DETAIL_CHARS:
        return text
    half = MAX_DETAIL_CHARS // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half:,} characters are not shown ...]\n{text[-half:]}"
