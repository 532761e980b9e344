"""
Forms and links that the agent wants the user to fill in or follow (ACP v1 "Elicitation"; C-68, C-74, C-75).

`read` turns the params of `elicitation/create` into a form or a link, `check` says whether a value is valid against the
agent's schema, `Elicitation` serves the requests. Pure, but for the service itself.

Descriptive members (titles, descriptions, defaults) count as omitted if they are malformed; members that decide which
answers are valid must be right, or the request is refused, as is one with a field of an unknown type. Every answer
comes from the user: nothing is ever taken from the secrets of a launch, or decided alone. A pattern is shown and never
run, since it may take any time (C-76): the agent judges it.
"""

import math
from collections.abc import Awaitable, Callable, Mapping
from datetime import date, datetime
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from acp_launch.protocol import acp
from acp_launch.protocol.splice import written
from acp_launch.secret.redact import redactor
from acp_launch.session.events import Services, invalid

Action = Literal["accept", "decline", "cancel"]
Kind = Literal["text", "number", "integer", "boolean", "choice", "choices"]
Value = str | int | float | bool | list[str]


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


class Link(Struct, frozen=True):
    """A page that the agent wants the user to visit; its `url` is unchecked."""

    message: str
    url: str
    id: str


class Filled(Struct, frozen=True):
    """The result of a form. `content` is by field name, and only there if the form was accepted."""

    action: Action
    content: dict[str, Value] = {}


MAX_ANSWER_CHARS = 100_000
INT64 = range(-(2**63), 2**63)  # what ACP carries as an integer


def check(field: Field, value: object) -> str:
    """Return the fault of a value, as the end of a sentence about it; empty if it is valid."""
    return _CHECKS[field.kind](field, value)


def _check_text(field: Field, value: object) -> str:
    if not isinstance(value, str):
        return "must be text"
    if not _can(str.encode, value):  # half a surrogate pair
        return "holds an incomplete character"
    if len(value) > MAX_ANSWER_CHARS:
        return f"must have at most {MAX_ANSWER_CHARS:,} characters, not {len(value):,}"
    return _check_size(field, len(value), "character") or _check_format(field, value)


def _check_choice(field: Field, value: object) -> str:
    if not any(option.value == value for option in field.options):
        return "must be one of the choices"
    return _check_text(field, value)


def _check_choices(field: Field, value: object) -> str:
    offered = {option.value for option in field.options}
    if not isinstance(value, list) or not all(isinstance(item, str) and item in offered for item in value):
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
    return _check_bounds(field, value) if is_sendable else "must be a finite number"


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
    is_right, example = FORMATS[field.format]
    return "" if is_right(value) else f"must be {example}"


def _can(read: Callable[[str], object], value: str) -> bool:
    try:
        read(value)
    except ValueError:
        return False
    return True


def _is_moment(value: str) -> bool:
    """Whether it is a time with its offset from UTC."""
    return _can(datetime.fromisoformat, value) and datetime.fromisoformat(value).tzinfo is not None


def _is_address(value: str) -> bool:
    return _can(urlsplit, value) and bool(urlsplit(value).scheme) and not set(value) & set(' <>"')


FORMATS: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "email": (lambda value: 0 < value.find("@") < len(value) - 1, "an e-mail address, such as me@example.com"),
    "uri": (_is_address, "a whole address, such as https://example.com"),
    "date": (lambda value: _can(date.fromisoformat, value), "a date, such as 2026-12-31"),
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

_YES = frozenset({"y", "yes", "true", "on", "1"})
_NO = frozenset({"n", "no", "false", "off", "0"})


def whole(form: Form, content: Mapping[str, Value]) -> str:
    """Return the first fault of all the answers together."""
    for field in form.fields:
        if field.name not in content:
            problem = "is required" if field.is_required else ""
        else:
            problem = check(field, content[field.name])
        if problem:
            return f"{field.label} {problem}"
    return ""


def typed(field: Field, text: str) -> tuple[Value | None, str]:
    """Return the value of a typed text, None for no value, and its fault.

    An empty text, or `-`, leaves an optional field out.
    """
    bare = text.strip()
    if not bare or (bare == LEAVE_OUT and not field.is_required):
        return None, "is required" if field.is_required else ""
    value, problem = _READERS[field.kind](field, text)
    return value, problem or check(field, value)


def _read_text(field: Field, text: str) -> tuple[Value | None, str]:
    return text, ""


def _read_integer(field: Field, text: str) -> tuple[Value | None, str]:
    return (int(text), "") if _can(int, text) else (None, "must be a whole number, such as 42")


def _read_number(field: Field, text: str) -> tuple[Value | None, str]:
    if _can(int, text) and int(text) in INT64:
        return int(text), ""
    return (float(text), "") if _can(float, text) else (None, "must be a number, such as 4.2")


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
    if bare.isdecimal() and 0 < int(bare) <= len(field.options):
        return field.options[int(bare) - 1].value
    folded = bare.casefold()
    exact = {option.value for option in field.options if bare in (option.title, option.value)}
    alike = {option.value for option in field.options if folded in (option.title.casefold(), option.value.casefold())}
    found = exact or alike
    return found.pop() if len(found) == 1 else None


_READERS: Mapping[str, Callable[[Field, str], tuple[Value | None, str]]] = {
    "text": _read_text,
    "number": _read_number,
    "integer": _read_integer,
    "boolean": _read_boolean,
    "choice": _read_choice,
    "choices": _read_choices,
}


# The params of a request.

MAX_FORM_BYTES = 256 * 1024  # more than a user would fill in or read


class _Option(Struct):
    const: str
    title: str


class _Items(Struct, frozen=True):
    enum: list[str] | None = None
    anyOf: list[_Option] | None = None  # noqa: N815 - wire name, as those below


class _Property(Struct):
    type: Literal["string", "number", "integer", "boolean", "array"]
    title: Any = ""
    description: Any = ""
    default: Any = None
    format: Any = ""
    pattern: str | None = None
    minimum: int | float | None = None
    maximum: int | float | None = None
    minLength: int | None = None  # noqa: N815
    maxLength: int | None = None  # noqa: N815
    minItems: int | None = None  # noqa: N815
    maxItems: int | None = None  # noqa: N815
    enum: list[str] | None = None
    oneOf: list[_Option] | None = None  # noqa: N815
    items: _Items = _Items()


class _Schema(Struct):
    title: Any = ""
    description: Any = ""
    properties: dict[str, _Property] | None = None
    required: list[str] | None = None


class _FormAsked(Struct, tag_field="mode", tag="form"):
    message: str
    requestedSchema: _Schema  # noqa: N815


class _LinkAsked(Struct, tag_field="mode", tag="url"):
    message: str
    url: str
    elicitationId: str  # noqa: N815


def read(params: Mapping[str, Any]) -> Form | Link:
    """Read the params.

    Raises:
        Refusal: they are malformed, too large, or of a mode other than `form` and `url`.
    """
    if (size := len(written(params))) > MAX_FORM_BYTES:
        raise invalid(f"the request has {size:,} bytes; at most {MAX_FORM_BYTES:,} are allowed")
    try:
        asked = msgspec.convert(params, _FormAsked | _LinkAsked)
    except msgspec.ValidationError as error:
        raise invalid(f"the request is malformed: {error}") from None
    if isinstance(asked, _LinkAsked):
        return Link(asked.message, url=asked.url, id=asked.elicitationId)
    schema = asked.requestedSchema
    required = frozenset(schema.required or ())
    return Form(
        message=asked.message,
        title=acp.text(schema.title),
        description=acp.text(schema.description),
        fields=tuple(_field(name, item, name in required) for name, item in (schema.properties or {}).items()),
    )


_KINDS: Mapping[str, Kind] = {
    "string": "text",
    "number": "number",
    "integer": "integer",
    "boolean": "boolean",
    "array": "choices",
}


def _field(name: str, said: _Property, is_required: bool) -> Field:
    format = acp.text(said.format)
    sizes = {"string": (said.minLength, said.maxLength), "array": (said.minItems, said.maxItems)}
    least, most = sizes.get(said.type, (said.minimum, said.maximum))
    options = _options(said.oneOf, said.enum) if said.type == "string" else _options(said.items.anyOf, said.items.enum)
    field = Field(
        name=name,
        kind="choice" if said.type == "string" and options else _KINDS[said.type],
        title=acp.text(said.title),
        description=acp.text(said.description),
        is_required=is_required,
        options=options,
        least=least,
        most=most,
        pattern=said.pattern or "",
        format=format if format in FORMATS else "",
    )
    return field if said.default is None or check(field, said.default) else replace(field, default=said.default)


def _options(titled: list[_Option] | None, values: list[str] | None) -> tuple[FieldOption, ...]:
    if titled is not None:
        return tuple(FieldOption(option.const, option.title) for option in titled)
    return tuple(FieldOption(value, value) for value in values or ())


REMEMBERED = 1000  # links that may be open at a time; the oldest is forgotten
_WORDS = 100  # characters


class Elicitation:
    """Serves elicitations. `note` gets the agent's words, without secrets but otherwise unchanged."""

    def __init__(
        self,
        agent_name: str,
        *,
        fill: Callable[[Form], Awaitable[Filled]],
        visit: Callable[[Link], Awaitable[Action]],
        note: Callable[[str], None],
    ) -> None:
        self._agent_name = agent_name
        self._fill = fill
        self._visit = visit
        self._note = note
        self._open: dict[str, str] = {}  # links that may still be completed: their topics, by id

    def services(self) -> Services:
        return {"elicitation/create": self._create}

    def completed(self, elicitation_id: str) -> None:
        """Note that the agent reports a link as completed.

        Ids that are unknown or already completed are ignored (C-75).
        """
        about = self._open.pop(elicitation_id, None)
        if about is not None:
            self._note(f"{self._agent_name} says that this is done: {about}")

    async def _create(self, params: dict[str, Any]) -> object:
        asked = read(params)
        if isinstance(asked, Link):
            return {"action": await self._follow(asked)}
        filled = await self._fill(asked)
        content = {"content": filled.content} if filled.action == "accept" else {}
        return {"action": filled.action, **content}

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
