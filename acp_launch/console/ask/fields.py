"""A field of a form in words: what it asks for, which answers are right, and how a value is written."""

import re

from acp_launch.console.ask.asked import LONGEST, cut, shown
from acp_launch.console.stderr import harmless
from acp_launch.secret.redact import redactor
from acp_launch.session.elicitation.answer import EMPTY, LEAVE_OUT, Field, Value
from acp_launch.session.elicitation.pattern import is_readable

LISTED = 100  # options; of more only the first are shown, and any can be typed
# Not `tokens`, of which agents have a number.
_SECRET = re.compile(r"pass(word|wd|phrase|code)|secret|token(?!s)|credential|(api|private|access).?key", re.IGNORECASE)
_KINDS = {
    "number": "A number",
    "integer": "A whole number",
    "boolean": "Yes or no",
    "choice": "One of these, by number or name",
    "choices": "Any of these, by number or name, with commas between",
}
_FORMATS = {
    "email": "An e-mail address",
    "uri": "A whole address, such as https://example.com",
    "date": "A date, such as 2026-12-31",
    "date-time": "A date and time with its offset, such as 2026-12-31T23:59:00Z",
}


def label(field: Field) -> str:
    return shown(field.label)


def hint(field: Field, *, has_default: bool) -> str:
    """One line, of whole sentences; empty for a text of any kind that is required."""
    kind = _KINDS.get(field.kind) or _FORMATS.get(field.format) or "Text"
    said = [*([f"{kind}{_bounds(field)}"] if kind != "Text" or _bounds(field) else []), *_pattern(field)]
    if not field.is_required:
        said.append(f"Optional: {LEAVE_OUT if has_default else 'an empty line'} leaves it out")
    return "".join(f"{sentence}. " for sentence in said).rstrip()


def options(field: Field) -> list[str]:
    """A line for each, numbered; the value too where it says something else than the title."""
    lines = [f"{number}. {_option(field, number - 1)}" for number, _ in enumerate(field.options[:LISTED], 1)]
    more = len(field.options) - LISTED
    return [*lines, f"and {more:,} more"] if more > 0 else lines


def wants_secret(field: Field) -> bool:
    """Whether it looks as if it did, which no form may."""
    return _SECRET.search(f"{field.name} {field.title}") is not None


def holds_secret(value: Value) -> bool:
    texts = value if isinstance(value, list) else [str(value)]
    return any(redactor.text(text) != text for text in texts)


def as_typed(field: Field, value: Value | None) -> str:
    """As somebody would type it; empty for none."""
    if value is None:
        return ""
    if value == []:
        return LEAVE_OUT
    return shown(_written(field, value)) or EMPTY


def as_sent(field: Field, value: Value | None) -> str:
    """Whole, for a last look."""
    if value is None:
        return "(left out)"
    if value in ("", []):
        return "(empty)" if value == "" else "(none)"
    return cut(harmless(redactor.text(_written(field, value)), keep=""), LONGEST)


def _written(field: Field, value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    titles = {option.value: option.title for option in field.options}
    if isinstance(value, list):
        return ", ".join(titles[one] for one in value)
    return titles.get(value, value) if isinstance(value, str) else str(value)


def _option(field: Field, index: int) -> str:
    option = field.options[index]
    title, value = shown(option.title), shown(option.value)
    return title if title == value else f"{title} ({value})"


def _bounds(field: Field) -> str:
    unit = {"text": " characters", "choices": " of them"}.get(field.kind, "")
    if field.kind == "choice" or (field.least is None and field.most is None):
        return ""
    if field.most is None:
        return f", at least {field.least}{unit}"
    return f", at most {field.most}{unit}" if field.least is None else f", {field.least} to {field.most}{unit}"


def _pattern(field: Field) -> list[str]:
    if not field.pattern:
        return []
    pattern = shown(field.pattern)
    return [f"It must match {pattern}" if is_readable(field.pattern) else f"It must match {pattern} (not checked here)"]
