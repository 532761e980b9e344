"""
`elicitation/create` and `elicitation/complete` (ACP v1 "Elicitation"; C-68, C-74, C-75): reads params, serves requests.

Descriptive members (titles, descriptions, defaults) count as omitted if they are malformed; members that decide which
answers are valid must be right. A field of an unknown type is never shown as a known one: an optional field is left
out, and with a required one nothing can be sent. A request too large to fill in or read is refused before it is
inspected, because this code holds up everything else.

`read` turns params into a form or a link, `Elicitation` serves the requests. Every answer comes from the user: nothing
is ever taken from the secrets of a launch, or decided alone. An open question ends by being cancelled, as in every
service.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from acp_launch.protocol import acp
from acp_launch.secret.redact import redactor
from acp_launch.session.elicitation.answer import FORMATS, Action, Field, Filled, Form, Kind, Link, Option, check
from acp_launch.session.service import Refusal, Services, invalid

T = TypeVar("T")

FIELDS = 200  # of a form
OPTIONS = 1000  # of a field
NAME = 1000  # characters of a name, a title or an option
PROSE = 20_000  # characters of a message, a description or an address

_KINDS: Mapping[str, Kind] = {"number": "number", "integer": "integer", "boolean": "boolean"}


class _Object(Struct, frozen=True):
    """A JSON object of the request; `place` is its name in a refusal."""

    said: Mapping[str, Any]
    place: str

    def required(self, name: str, type: type[T]) -> T:
        found = self.said.get(name)
        if not isinstance(found, type):
            raise invalid(f"{self.place}: {name} is {'missing' if found is None else 'malformed'}")
        return found

    def optional(self, name: str, type: type[T]) -> T | None:
        """Return a member, or None if it is omitted or null."""
        return None if self.said.get(name) is None else self.required(name, type)

    def written(self, name: str, most: int) -> str:
        """Return a text of at most `most` characters."""
        return _bounded(self.required(name, str), most, f"{self.place}: {name}")

    def text(self, name: str, most: int) -> str:
        """Return a text; empty if the member is anything else."""
        return _bounded(acp.text(self.said.get(name)), most, f"{self.place}: {name}")

    def listed(self, name: str, most: int) -> list[Any] | None:
        found = self.optional(name, list)
        if found is not None and len(found) > most:
            raise invalid(f"{self.place}: {name} has {len(found):,} entries; at most {most:,} are allowed")
        return found

    def strings(self, name: str, most: int = OPTIONS) -> list[str] | None:
        found = self.listed(name, most)
        if found is not None and not all(isinstance(item, str) for item in found):
            raise invalid(f"{self.place}: {name} holds something that is not a string")
        return found and [_bounded(item, NAME, f"{self.place}: {name}") for item in found]

    def number(self, name: str) -> float | None:
        """Return a number. An integer stays one, so that it loses no digits."""
        found = self.said.get(name)
        if found is not None and (isinstance(found, bool) or not isinstance(found, int | float)):
            raise invalid(f"{self.place}: {name} is malformed")
        return found

    def options(self, name: str) -> list[Option] | None:
        found = self.listed(name, OPTIONS)
        return found and [_option(_Object(acp.mapping(item), f"{self.place}: {name}")) for item in found]


def read(params: Mapping[str, Any]) -> Form | Link | None:
    """Read the params; None for a mode other than `form` and `url`.

    Raises:
        Refusal: the params are malformed.
    """
    asked = _Object(params, "the request")
    message, mode = asked.written("message", PROSE), asked.written("mode", NAME)
    if "requestId" not in params:
        asked.required("sessionId", str)
    if mode == "url":
        return Link(message, url=asked.written("url", PROSE), id=asked.written("elicitationId", NAME))
    if mode == "form":
        return _form(message, _Object(asked.required("requestedSchema", dict), "requestedSchema"))
    return None


def _form(message: str, schema: _Object) -> Form:
    properties: dict[str, Any] = schema.optional("properties", dict) or {}
    if len(properties) > FIELDS:
        raise invalid(f"{schema.place}: it has {len(properties):,} fields; at most {FIELDS} are allowed")
    required = dict.fromkeys(schema.strings("required", FIELDS) or ())
    found = {name: _property(name, item, is_required=name in required) for name, item in properties.items()}
    return Form(
        message=message,
        title=schema.text("title", NAME),
        description=schema.text("description", PROSE),
        fields=tuple(field for field in found.values() if field is not None),
        left_out=tuple(name for name, field in found.items() if field is None and name not in required),
        missing=tuple(name for name in required if found.get(name) is None),
    )


def _property(name: str, item: object, *, is_required: bool) -> Field | None:
    """Read a field; None if its type is unknown, or if no value can be valid."""
    schema = _Object(acp.mapping(item), f'the field "{_bounded(name, NAME, "the name of a field")}"')
    type = schema.required("type", str)
    field = Field(
        name=name,
        kind=_KINDS.get(type, "text"),
        title=schema.text("title", NAME),
        description=schema.text("description", PROSE),
        is_required=is_required,
    )
    if type == "string":
        found = _text(schema, field)
    elif type == "array":
        found = _choices(schema, field)
    else:
        found = _plain(schema, field) if type in _KINDS else None
    return found and _with_default(found, schema.said.get("default"))


def _text(schema: _Object, field: Field) -> Field | None:
    format = schema.text("format", NAME)
    text = replace(
        field,
        least=schema.number("minLength"),
        most=schema.number("maxLength"),
        pattern=schema.optional("pattern", str) or "",
        format=format if format in FORMATS else "",
    )
    titled, values = schema.options("oneOf"), schema.strings("enum")
    if titled is None and values is None:
        return text
    options = _untitled(values or []) if titled is None else titled
    if titled is not None and values is not None:
        both = frozenset(values)
        options = [option for option in titled if option.value in both]
    return _offering(replace(text, kind="choice"), options)


def _choices(schema: _Object, field: Field) -> Field | None:
    items = _Object(schema.required("items", dict), f"{schema.place}: items")
    least, most = schema.number("minItems"), schema.number("maxItems")
    options = items.options("anyOf")
    if options is None:
        if items.required("type", str) != "string":
            return None
        items.required("enum", list)
        options = _untitled(items.strings("enum") or [])
    return _offering(replace(field, kind="choices", least=least, most=most), options)


def _plain(schema: _Object, field: Field) -> Field:
    return replace(field, least=schema.number("minimum"), most=schema.number("maximum"))


def _offering(field: Field, options: list[Option]) -> Field | None:
    """Return the field with these options, each value once."""
    unique = {option.value: option for option in reversed(options)}
    offered = tuple(option for option in options if unique[option.value] is option)
    return replace(field, options=offered) if offered else None


def _option(schema: _Object) -> Option:
    return Option(schema.written("const", NAME), schema.written("title", NAME))


def _untitled(values: list[str]) -> list[Option]:
    return [Option(value, value) for value in values]


def _with_default(field: Field, said: object) -> Field:
    """Set the default, unless it would be refused as an answer.

    Its pattern is checked only when the user takes it, because this code holds up everything else, and a form may have
    any number of fields.
    """
    if field.kind == "choices" and isinstance(said, list):
        offered = {option.value for option in field.options}
        said = [value for value in dict.fromkeys(filter(_is_text, said)) if value in offered] or None
    if said is None or check(replace(field, pattern=""), said):
        return field
    return replace(field, default=said)


def _bounded(text: str, most: int, place: str) -> str:
    if len(text) > most:
        raise invalid(f"{place} has {len(text):,} characters; at most {most:,} are allowed")
    return text


def _is_text(value: object) -> bool:
    return isinstance(value, str)


REMEMBERED = 1000  # links that may be open at a time; the oldest is forgotten
_WORDS = 100  # characters


class Elicitation:
    """Serves elicitations. `forms` and `urls` are what the agent was told we support.

    `note` gets the agent's words, without secrets but otherwise unchanged.
    """

    def __init__(
        self,
        agent_name: str,
        *,
        fill: Callable[[Form], Awaitable[Filled]],
        visit: Callable[[Link], Awaitable[Action]],
        forms: bool,
        urls: bool,
        note: Callable[[str], None],
    ) -> None:
        self._agent_name = agent_name
        self._fill = fill
        self._visit = visit
        self._forms = forms
        self._urls = urls
        self._note = note
        self._open: dict[str, str] = {}  # links that may still be completed: their topics, by id

    def services(self) -> Services:
        return {"elicitation/create": self._create} if self._forms or self._urls else {}

    def completed(self, elicitation_id: str) -> None:
        """Note that the agent reports a link as completed.

        Ids that are unknown or already completed are ignored (C-75).
        """
        about = self._open.pop(elicitation_id, None)
        if about is not None:
            self._note(f"{self._agent_name} says that this is done: {about}")

    async def _create(self, params: dict[str, Any]) -> object:
        asked = read(params)
        match asked:
            case Form() if self._forms:
                return _answer(await self._fill(asked))
            case Link() if self._urls:
                return {"action": await self._follow(asked)}
        raise _not_offered(params["mode"])

    async def _follow(self, link: Link) -> Action:
        """Ask the user to follow a link. It may be completed while the question is open; not once it is declined."""
        self._open[link.id] = _first_words(redactor.text(link.message))
        if len(self._open) > REMEMBERED:
            self._open.pop(next(iter(self._open)))
        action: Action = "cancel"
        try:
            action = await self._visit(link)
        finally:
            if action != "accept":
                self._open.pop(link.id, None)
        return action


def _answer(filled: Filled) -> dict[str, Any]:
    if filled.action != "accept":
        return {"action": filled.action}
    return {"action": "accept", "content": filled.content}


def _not_offered(mode: str) -> Refusal:
    return invalid(f'elicitations of the mode "{mode}" were not offered')


def _first_words(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WORDS else f"{line[: _WORDS - 1]}…"
