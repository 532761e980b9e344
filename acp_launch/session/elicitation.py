"""
Forms and links that the agent wants the user to fill in or follow (ACP v1 "Elicitation"; C-68, C-74, C-75).

`read` turns the params of `elicitation/create` into a form or a link, `check` says whether a value is valid against the
agent's schema, `Elicitation` serves the requests. Pure, but for the service itself.

Descriptive members (titles, descriptions, defaults) count as omitted if they are malformed; members that decide which
answers are valid must be right. A field of an unknown type is never shown as a known one: an optional field is left
out, and with a required one nothing can be sent. A request too large to fill in or read is refused before it is
inspected, because this code holds up everything else. Every answer comes from the user: nothing is ever taken from the
secrets of a launch, or decided alone. A pattern is shown and never run, since it may take any time (C-76): the agent
judges it.
"""

import math
from collections.abc import Awaitable, Callable, Mapping
from datetime import date, datetime
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from acp_launch.protocol import acp
from acp_launch.regex import regex
from acp_launch.secret.redact import redactor
from acp_launch.session.observer import Services, invalid

T = TypeVar("T")
Action = Literal["accept", "decline", "cancel"]
Kind = Literal["text", "number", "integer", "boolean", "choice", "choices"]
Value = str | int | float | bool | list[str]

FORMATS = ("email", "uri", "date", "date-time")


class FieldOption(Struct, frozen=True):
    """A choice: `value` is sent, `title` is shown."""

    value: str
    title: str


class Field(Struct, frozen=True, kw_only=True):
    """One value of a form.

    `least` and `most` bound a number, the characters of a text (a choice is one too), or how many are chosen.
    """

    name: str
    kind: Kind
    title: str = ""
    description: str = ""
    is_required: bool = False
    default: Value | None = None
    options: tuple[FieldOption, ...] = ()
    least: float | None = None
    most: float | None = None
    pattern: str = ""
    format: str = ""  # one of FORMATS

    @property
    def label(self) -> str:
        return self.title or self.name


class Form(Struct, frozen=True, kw_only=True):
    message: str
    title: str = ""
    description: str = ""
    fields: tuple[Field, ...] = ()
    left_out: tuple[str, ...] = ()  # optional fields that cannot be shown
    missing: tuple[str, ...] = ()  # required fields that cannot be shown; if there are any, nothing can be sent


class Link(Struct, frozen=True):
    """A page that the agent wants the user to visit; its `url` is unchecked."""

    message: str
    url: str
    id: str


class Filled(Struct, frozen=True):
    """The result of a form. `content` is by field name, and only there if the form was accepted."""

    action: Action
    content: dict[str, Value] = {}


LONGEST = 100_000  # characters of one answer
INT64 = range(-(2**63), 2**63)  # what ACP carries as an integer

_EMAIL = regex(r"[^\s@]+@[^\s@.]+(\.[^\s@.]+)*")
_DATE = regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = regex(r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})")
_URI = regex(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]+")


def check(field: Field, value: object) -> str:
    """Return what is wrong with a value, as the end of a sentence about it; empty if it is valid."""
    return _CHECKS[field.kind](field, value)


def _check_text(field: Field, value: object) -> str:
    if not isinstance(value, str):
        return "must be text"
    if not _is_unicode(value):
        return "holds an incomplete character"
    if len(value) > LONGEST:
        return f"must have at most {LONGEST:,} characters, not {len(value):,}"
    return _check_size(field, len(value), "character") or _check_format(field, value)


def _check_choice(field: Field, value: object) -> str:
    if not any(option.value == value for option in field.options):
        return "must be one of the choices"
    return _check_text(field, value)


def _check_choices(field: Field, value: object) -> str:
    offered = {option.value for option in field.options}
    if not isinstance(value, list) or not all(
        isinstance(item, str) and item in offered and _is_unicode(item) for item in value
    ):
        return "must be some of the choices"
    return _check_size(field, len(value), "choice")


def _check_integer(field: Field, value: object) -> str:
    if not isinstance(value, int) or isinstance(value, bool):
        return "must be a whole number"
    return _check_bounds(field, value) if value in INT64 else "has too many digits"


def _check_number(field: Field, value: object) -> str:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return "must be a number"
    is_sendable = value in INT64 if isinstance(value, int) else math.isfinite(value)
    return _check_bounds(field, value) if is_sendable else "is too large"


def _check_boolean(field: Field, value: object) -> str:
    return "" if isinstance(value, bool) else "must be yes or no"


def _check_bounds(field: Field, value: float) -> str:
    if field.least is not None and value < field.least:
        return f"must be at least {field.least}"
    if field.most is not None and value > field.most:
        return f"must be at most {field.most}"
    return ""


def _check_size(field: Field, size: int, unit: str) -> str:
    if field.least is not None and size < field.least:
        return f"must have at least {_counted(field.least, unit)}, not {size}"
    if field.most is not None and size > field.most:
        return f"must have at most {_counted(field.most, unit)}, not {size}"
    return ""


def _counted(count: float, unit: str) -> str:
    return f"{count:g} {unit}{'' if count == 1 else 's'}"


def _check_format(field: Field, value: str) -> str:
    if not field.format:
        return ""
    is_right, example = _FORMATS[field.format]
    return "" if is_right(value) else f"must be {example}"


def _can(read: Callable[[str], object], value: str) -> bool:
    try:
        read(value)
    except ValueError:
        return False
    return True


def _is_date(value: str) -> bool:
    return _DATE.fullmatch(value) is not None and _can(date.fromisoformat, value)


def _is_moment(value: str) -> bool:
    """Whether it is an RFC 3339 time, which includes the offset from UTC."""
    text = value.upper()
    day, between, time = text.partition("T")
    return between != "" and _is_date(day) and _TIME.fullmatch(time) is not None and _can(datetime.fromisoformat, text)


def _is_unicode(value: str) -> bool:
    """Whether it can be sent: half a surrogate pair cannot."""
    return _can(str.encode, value)


_FORMATS: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "email": (lambda value: _EMAIL.fullmatch(value) is not None, "an e-mail address, such as me@example.com"),
    "uri": (
        lambda value: _URI.fullmatch(value) is not None and value.isprintable() and _can(urlsplit, value),
        "a whole address, such as https://example.com",
    ),
    "date": (_is_date, "a date, such as 2026-12-31"),
    "date-time": (_is_moment, "a date and time with its offset, such as 2026-12-31T23:59:00Z"),
}
_CHECKS: Mapping[str, Callable[[Field, object], str]] = {
    "text": _check_text,
    "number": _check_number,
    "integer": _check_integer,
    "boolean": _check_boolean,
    "choice": _check_choice,
    "choices": _check_choices,
}


# Text that the user types into a form becomes a value.


LEAVE_OUT = "-"
EMPTY = '""'

_INTEGER = regex(r"[+-]?[0-9]{1,30}")
_NUMBER = regex(r"[+-]?([0-9]{1,400}(\.[0-9]{0,400})?|\.[0-9]{1,400})([eE][+-]?[0-9]{1,4})?")
_YES = frozenset({"y", "yes", "true", "on", "1"})
_NO = frozenset({"n", "no", "false", "off", "0"})


def whole(form: Form, content: Mapping[str, Value]) -> str:
    """Return the first fault of all the answers together."""
    if form.missing:
        return f"{form.missing[0]} cannot be given"
    for field in form.fields:
        if field.name not in content:
            problem = "is required" if field.is_required else ""
        else:
            problem = check(field, content[field.name])
        if problem:
            return f"{field.label} {problem}"
    return ""


def typed(field: Field, text: str) -> tuple[Value | None, str]:
    """Return the value of a typed text, None for no value, and what is wrong with it.

    An empty text, or `-`, leaves an optional field out; `-` chooses none of the choices of a required one, and `""` is
    the empty text.
    """
    bare = text.strip()
    if not bare or bare == LEAVE_OUT:
        if field.kind == "choices" and bare and field.is_required:
            return [], check(field, [])
        if not field.is_required:
            return None, ""
        if not bare:
            return None, f"is required{_how_empty(field)}"
    value, problem = _READERS[field.kind](field, text)
    return value, problem or check(field, value)


def _how_empty(field: Field) -> str:
    if field.kind == "text" and not check(field, ""):
        return f"; {EMPTY} is the empty text"
    return "; - is none of them" if field.kind == "choices" and not check(field, []) else ""


def _read_text(field: Field, text: str) -> tuple[Value | None, str]:
    return "" if text.strip() == EMPTY else text, ""


def _read_integer(field: Field, text: str) -> tuple[Value | None, str]:
    bare = text.strip()
    return (int(bare), "") if _INTEGER.fullmatch(bare) else (None, "must be a whole number, such as 42")


def _read_number(field: Field, text: str) -> tuple[Value | None, str]:
    bare = text.strip()
    if _INTEGER.fullmatch(bare) and int(bare) in INT64:
        return int(bare), ""
    return (float(bare), "") if _NUMBER.fullmatch(bare) else (None, "must be a number, such as 4.2")


def _read_boolean(field: Field, text: str) -> tuple[Value | None, str]:
    bare = text.strip().lower()
    return (bare in _YES, "") if bare in _YES | _NO else (None, "must be yes or no")


def _read_choice(field: Field, text: str) -> tuple[Value | None, str]:
    chosen = _chosen(field, text)
    return chosen, "" if chosen is not None else f"must be a number from 1 to {len(field.options)}, or a name above"


def _read_choices(field: Field, text: str) -> tuple[Value | None, str]:
    if (one := _chosen(field, text)) is not None:  # a name may hold a comma
        return [one], ""
    chosen = []
    for part in text.split(","):
        if (one := _chosen(field, part)) is None:
            return None, f"must be numbers from 1 to {len(field.options)}, or names above, with commas between"
        chosen.append(one)
    return list(dict.fromkeys(chosen)), ""


def _chosen(field: Field, text: str) -> str | None:
    """Return the choice by its number in the list, its title or its value, in this order."""
    bare = text.strip()
    if _INTEGER.fullmatch(bare) and 0 < int(bare) <= len(field.options):
        return field.options[int(bare) - 1].value
    exact = [option.value for option in field.options if bare in (option.title, option.value)]
    folded = bare.casefold()
    alike = [option.value for option in field.options if folded in (option.title.casefold(), option.value.casefold())]
    found = exact or alike
    return found[0] if len(found) == 1 else None


_READERS: Mapping[str, Callable[[Field, str], tuple[Value | None, str]]] = {
    "text": _read_text,
    "number": _read_number,
    "integer": _read_integer,
    "boolean": _read_boolean,
    "choice": _read_choice,
    "choices": _read_choices,
}


# The params of a request.

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
        return _require_short(self.required(name, str), most, f"{self.place}: {name}")

    def text(self, name: str, most: int) -> str:
        """Return a text; empty if the member is anything else."""
        return _require_short(acp.text(self.said.get(name)), most, f"{self.place}: {name}")

    def listed(self, name: str, most: int) -> list[Any] | None:
        found = self.optional(name, list)
        if found is not None and len(found) > most:
            raise invalid(f"{self.place}: {name} has {len(found):,} entries; at most {most:,} are allowed")
        return found

    def strings(self, name: str, most: int = OPTIONS) -> list[str] | None:
        found = self.listed(name, most)
        if found is not None and not all(isinstance(item, str) for item in found):
            raise invalid(f"{self.place}: {name} holds something that is not a string")
        return found and [_require_short(item, NAME, f"{self.place}: {name}") for item in found]

    def number(self, name: str) -> float | None:
        """Return a number. An integer stays one, so that it loses no digits."""
        found = self.said.get(name)
        if found is not None and (isinstance(found, bool) or not isinstance(found, int | float)):
            raise invalid(f"{self.place}: {name} is malformed")
        return found

    def options(self, name: str) -> list[FieldOption] | None:
        found = self.listed(name, OPTIONS)
        items = [_Object(acp.mapping(item), f"{self.place}: {name}") for item in found or ()]
        return found and [FieldOption(item.written("const", NAME), item.written("title", NAME)) for item in items]


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
    schema = _Object(acp.mapping(item), f'the field "{_require_short(name, NAME, "the name of a field")}"')
    type = schema.required("type", str)
    field = Field(
        name=name,
        kind=_KINDS.get(type, "text"),
        title=schema.text("title", NAME),
        description=schema.text("description", PROSE),
        is_required=is_required,
    )
    found: Field | None = None
    if type == "string":
        found = _text(schema, field)
    elif type == "array":
        found = _choices(schema, field)
    elif type in _KINDS:
        found = replace(field, least=schema.number("minimum"), most=schema.number("maximum"))
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
    options = [FieldOption(value, value) for value in values or ()] if titled is None else titled
    if titled is not None and values is not None:
        both = frozenset(values)
        options = [option for option in titled if option.value in both]
    return _with_options(replace(text, kind="choice"), options)


def _choices(schema: _Object, field: Field) -> Field | None:
    items = _Object(schema.required("items", dict), f"{schema.place}: items")
    least, most = schema.number("minItems"), schema.number("maxItems")
    options = items.options("anyOf")
    if options is None:
        if items.required("type", str) != "string":
            return None
        items.required("enum", list)
        options = [FieldOption(value, value) for value in items.strings("enum") or ()]
    return _with_options(replace(field, kind="choices", least=least, most=most), options)


def _with_options(field: Field, options: list[FieldOption]) -> Field | None:
    """Return the field with these options, each value once."""
    unique = {option.value: option for option in reversed(options)}
    offered = tuple(option for option in options if unique[option.value] is option)
    return replace(field, options=offered) if offered else None


def _with_default(field: Field, said: object) -> Field:
    """Set the default, unless it would be refused as an answer."""
    if field.kind == "choices" and isinstance(said, list):
        offered = {option.value for option in field.options}
        texts = [value for value in said if isinstance(value, str) and value in offered]
        said = list(dict.fromkeys(texts)) or None
    if said is None or check(field, said):
        return field
    return replace(field, default=said)


def _require_short(text: str, most: int, place: str) -> str:
    if len(text) > most:
        raise invalid(f"{place} has {len(text):,} characters; at most {most:,} are allowed")
    return text


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
                filled = await self._fill(asked)
                content = {"content": filled.content} if filled.action == "accept" else {}
                return {"action": filled.action, **content}
            case Link() if self._urls:
                return {"action": await self._follow(asked)}
        raise invalid(f'elicitations of the mode "{params["mode"]}" were not offered')

    async def _follow(self, link: Link) -> Action:
        """Ask the user to follow a link. It may be completed while the question is open; not once it is declined."""
        about = " ".join(redactor.text(link.message).split())
        self._open[link.id] = about if len(about) <= _WORDS else f"{about[: _WORDS - 1]}…"
        if len(self._open) > REMEMBERED:
            self._open.pop(next(iter(self._open)))
        action: Action = "cancel"
        try:
            action = await self._visit(link)
        finally:
            if action != "accept":
                self._open.pop(link.id, None)
        return action
