"""A form of an agent. The user fills it in field by field, and nothing is sent before a review of the whole (C-74)."""

import re
from collections.abc import Callable

from acp_launch.console.ask.links import Links
from acp_launch.console.draw.sanitize import MAX_QUESTION_CHARS, cut_telling, quote, quote_line
from acp_launch.console.stderr import harmless_line
from acp_launch.regex import regex
from acp_launch.secret.redact import redactor
from acp_launch.session.elicitation import (
    FORMATS,
    LEAVE_OUT,
    Elicitation,
    Field,
    Filled,
    Form,
    Value,
    check,
    typed,
    whole,
)
from acp_launch.session.events import BACK, Choice, Person

# A field of a form as text: its prompt, the valid answers, and the spelling of a value.


LISTED = 100  # options; further ones are not shown, but can be typed
# Not `tokens`: a field of an agent may ask for a number of tokens.
_SECRET = regex(r"pass(word|wd|phrase|code)|secret|token(?!s)|credential|(api|private|access).?key", re.IGNORECASE)
_KINDS = {
    "number": "A number",
    "integer": "A whole number",
    "boolean": "Yes or no",
    "choice": "One of these, by number or name",
    "choices": "Any of these, by number or name, with commas between",
}


def label(field: Field) -> str:
    return quote_line(field.label)


def hint(field: Field, *, has_default: bool) -> str:
    """Describe the valid answers in one line; empty for a required text of any kind."""
    _, example = FORMATS.get(field.format, (None, "text"))
    kind = _KINDS.get(field.kind) or example[0].upper() + example[1:]
    said = [f"{kind}{_bounds(field)}"] if kind != "Text" or _bounds(field) else []
    if field.pattern:
        said.append(f"It must match {quote_line(field.pattern)}")
    if not field.is_required:
        said.append(f"Optional: {LEAVE_OUT if has_default else 'an empty line'} leaves it out")
    return "".join(f"{sentence}. " for sentence in said).rstrip()


def options(field: Field) -> list[str]:
    """Return a numbered line for each option; the value follows where it differs from the title."""
    lines = [f"{number}. {_option(field, number - 1)}" for number, _ in enumerate(field.options[:LISTED], 1)]
    more = len(field.options) - LISTED
    return [*lines, f"and {more:,} more"] if more > 0 else lines


def holds_secret(value: Value) -> bool:
    texts = value if isinstance(value, list) else [str(value)]
    return any(redactor.text(text) != text for text in texts)


def as_typed(field: Field, value: Value | None) -> str:
    """Return the value as the user would type it; empty for None."""
    if value is None:
        return ""
    return quote_line(_value_text(field, value))


def as_sent(field: Field, value: Value | None) -> str:
    """Return the whole value for the review."""
    if value is None:
        return "(left out)"
    if value in ("", []):
        return "(empty)" if value == "" else "(none)"
    return cut_telling(harmless_line(redactor.text(_value_text(field, value))), MAX_QUESTION_CHARS)


def _value_text(field: Field, value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    titles = {option.value: option.title for option in field.options}
    if isinstance(value, list):
        return ", ".join(titles[one] for one in value)
    return titles.get(value, value) if isinstance(value, str) else str(value)


def _option(field: Field, index: int) -> str:
    option = field.options[index]
    title, value = quote_line(option.title), quote_line(option.value)
    return title if title == value else f"{title} ({value})"


def _bounds(field: Field) -> str:
    unit = {"text": " characters", "choices": " of them"}.get(field.kind, "")
    if field.kind == "choice" or (field.least is None and field.most is None):
        return ""
    if field.most is None:
        return f", at least {field.least}{unit}"
    return f", at most {field.most}{unit}" if field.least is None else f", {field.least} to {field.most}{unit}"


SEND = Choice("s", "send")
EDIT = Choice("e", "edit")
DECLINE = Choice("d", "decline")
CANCEL = Choice("c", "cancel, without an answer")


class FieldLeft(Exception):  # noqa: N818 - not an error: the user goes back
    """Raised when the user goes back from a field."""


class FormDismissed(Exception):  # noqa: N818 - not an error: the user ended the input
    """Raised when the user dismisses a question: the form is cancelled."""


class Forms:
    def __init__(self, person: Person, agent_name: str) -> None:
        self._person = person
        self._agent_name = quote_line(agent_name)

    async def fill(self, form: Form) -> Filled:
        """Fill in the form. Every value was typed by the user, or is a default that the user accepted."""
        async with self._person.floor():
            self._person.say(f"The agent {self._agent_name} asks you to fill in a form:", "heading")
            for text in (form.title, form.message, form.description):
                quote(self._person, text)
            if form.fields:
                self._person.say("Escape (then Enter, if nothing happens) goes back a field.", "dim")
                self._person.say("To leave without sending: Ctrl-D on an empty line, at any field.", "dim")
            try:
                return await self._complete(form)
            except FormDismissed:
                key = await self._person.choose("The form is not sent. Decline it?", [DECLINE, CANCEL])
                return Filled("decline" if key == DECLINE.key else "cancel")

    async def _complete(self, form: Form) -> Filled:
        given = {field.name: field.default for field in form.fields if field.default is not None}
        at = 0
        while True:
            await self._ask_fields(form, given, at)
            key = await self._review(form, given)
            if key == SEND.key and not (problem := whole(form, given)):
                return Filled("accept", given)
            if key == SEND.key:
                self._person.say(
                    f"The form cannot be sent: {quote_line(problem, longest=MAX_QUESTION_CHARS)}.", "warning"
                )
            elif key != EDIT.key and (key is not None or not form.fields):
                return Filled("decline" if key == DECLINE.key else "cancel")
            at = len(form.fields) - 1 if key is None else 0

    async def _ask_fields(self, form: Form, given: dict[str, Value], at: int) -> None:
        """Ask for the fields from the one with the number `at` on; `given` holds the defaults, and gets the answers."""
        while at < len(form.fields):
            field = form.fields[at]
            self._present(field, f"{at + 1} of {len(form.fields)}", has_default=field.name in given)
            try:
                value = await self._answer(field, given.get(field.name))
            except FieldLeft:
                if not at:
                    raise FormDismissed from None
                at -= 1
                continue
            given.pop(field.name, None)
            if value is not None:
                given[field.name] = value
            at += 1

    def _present(self, field: Field, place: str, *, has_default: bool) -> None:
        self._person.say(f"{place}: {label(field)}", "heading")
        quote(self._person, field.description)
        if _SECRET.search(f"{field.name} {field.title}"):  # which forms must not ask for
            self._person.say("Do not type a secret here: the agent sees it.", "warning")
        for line in options(field):
            self._person.say(f"    {line}", "quote")
        if said := hint(field, has_default=has_default):
            self._person.say(said, "dim")

    async def _answer(self, field: Field, given: Value | None) -> Value | None:
        """Ask until the answer is valid."""
        default = as_typed(field, given)
        while True:
            text = await self._person.line(f'"{label(field)}"', default=default)
            if text is None:
                raise FormDismissed
            if text == BACK:
                raise FieldLeft
            is_given = given is not None and text == default
            value, problem = (given, check(field, given)) if is_given else typed(field, text)
            if not problem:
                return value
            self._person.say(quote_line(f'"{field.label}" {problem}.', longest=MAX_QUESTION_CHARS), "warning")

    async def _review(self, form: Form, given: dict[str, Value]) -> str | None:
        if not form.fields:
            prompt = "The form has no fields; it asks for your consent."
            return await self._person.choose(prompt, [SEND, DECLINE, CANCEL])
        self._person.say(f"This goes to {self._agent_name}:", "heading")
        for field in form.fields:
            value = given.get(field.name)
            self._person.say(f"    {label(field)}: {as_sent(field, value)}", "quote")
            if value is not None and holds_secret(value):
                self._person.say(f'"{label(field)}" contains a secret of this launch.', "warning")
        return await self._person.choose("Send it?", [SEND, EDIT, DECLINE, CANCEL])


def make_elicitation(person: Person, agent: str, note: Callable[[str], None]) -> Elicitation:
    """Return what asks this user for an agent: forms field by field, and pages to visit."""
    return Elicitation(agent, fill=Forms(person, agent).fill, visit=Links(person, agent).visit, note=note)
