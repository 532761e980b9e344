"""What an agent asks for beside the conversation: a form to be filled in, or a page to be visited."""

from typing import Literal

from msgspec import Struct

Action = Literal["accept", "decline", "cancel"]
Kind = Literal["text", "number", "integer", "boolean", "choice", "choices"]
Value = str | int | float | bool | list[str]

FORMATS = ("email", "uri", "date", "date-time")


class Option(Struct, frozen=True):
    """What can be chosen: `value` is sent, `title` is read."""

    value: str
    title: str


class Field(Struct, frozen=True, kw_only=True):
    """One value that is asked for. `least` and `most` bound a number, the characters of a text (a choice is one too),
    or how many are chosen."""

    name: str
    kind: Kind
    title: str = ""
    description: str = ""
    is_required: bool = False
    default: Value | None = None
    options: tuple[Option, ...] = ()
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
    missing: tuple[str, ...] = ()  # required ones: while there are any, nothing can be sent


class Link(Struct, frozen=True):
    """A page the agent wants visited; nothing about `url` has been looked at."""

    message: str
    url: str
    id: str


class Filled(Struct, frozen=True):
    """What became of a form. `content` is by field name, and only there when it is accepted."""

    action: Action
    content: dict[str, Value] = {}
