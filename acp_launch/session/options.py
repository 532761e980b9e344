"""
The options of a session, whichever of three ways an agent lists them in, and the option and value that a user means.

    configOptions                                unchanged           session/set_config_option
    modes  {currentModeId, availableModes}       an option "mode"    session/set_mode
    models {currentModelId, availableModels}     an option "model"   session/set_model, which ACP removed in June 2026

With config options the other two are ignored (C-49); an empty list of them counts as none. Reading is lenient: an
option of an unknown type is ignored, a bad item is dropped alone, a category may be missing or unknown (C-50). Pure.

`read_options` reads, `find` and `value_of` look up what the user wants.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from acp_launch.errors import SessionError
from acp_launch.problem import likeliest
from acp_launch.protocol import acp

OPTIONS = 200  # in one list; more are not read
CHOICES = 5_000  # in one option; openrouter has some hundred models
ID = 4_096  # characters; an item with a longer one is dropped, because an id cannot be cut
NAME = 200  # characters; a longer one is cut
DESCRIPTION = 1_000

Value = str | bool


class Choosable(Struct, frozen=True):
    """One value of an option. `group` is its heading, empty in a flat list."""

    value: str
    name: str
    description: str = ""
    group: str = ""


class Option(Struct, frozen=True, kw_only=True):
    """Something that can be set. `current` is a bool for a boolean option, which has no choices."""

    id: str
    name: str
    description: str = ""
    category: str = ""
    kind: Literal["select", "boolean"] = "select"
    current: Value = ""
    choices: tuple[Choosable, ...] = ()
    source: Literal["option", "mode", "model"] = "option"

    @property
    def shown(self) -> str:
        """Return the current value in the words that a user knows."""
        if isinstance(self.current, bool):
            return "on" if self.current else "off"
        return next((choice.name for choice in self.choices if choice.value == self.current), one_line(self.current))


Options = tuple[Option, ...]


def read_options(result: object) -> Options:
    """Return the options in the answer to session/new, load or resume."""
    said = acp.mapping(result)
    if listed := acp.sequence(said.get("configOptions")):
        return config_options(listed)
    modes, models = acp.mapping(said.get("modes")), acp.mapping(said.get("models"))
    found = (
        _legacy("mode", modes.get("currentModeId"), modes.get("availableModes"), "id"),
        _legacy("model", models.get("currentModelId"), models.get("availableModels"), "modelId"),
    )
    return tuple(option for option in found if option is not None)


def config_options(listed: object) -> Options:
    """Read a whole list of config options; of two with one id the first counts."""
    found: dict[str, Option] = {}
    for item in acp.sequence(listed)[:OPTIONS]:
        option = _option(acp.mapping(item))
        if option is not None:
            found.setdefault(option.id, option)
    return tuple(found.values())


def match(options: Options, wanted: str) -> Option | None:
    """Return the option with that id, else the first of that category, else the first of that name in any case."""
    if not wanted:
        return None
    plain = wanted.casefold()
    ways: tuple[Callable[[Option], bool], ...] = (
        lambda option: option.id == wanted,
        lambda option: option.category == wanted,
        lambda option: plain in (option.id.casefold(), option.name.casefold()),
    )
    return next((option for way in ways for option in options if way(option)), None)


def as_set(options: Options, id: str, value: Value) -> Options:
    """Return the same list with one value changed."""
    return tuple(replace(option, current=value) if option.id == id else option for option in options)


def in_mode(options: Options, mode_id: str) -> Options:
    """Return the list after the agent has changed its mode: agents keep a config option for it in step."""
    option = match(options, "mode")
    if option is None or (option.source == "option" and all(choice.value != mode_id for choice in option.choices)):
        return options
    return as_set(options, option.id, mode_id)


def identity(value: object) -> str | None:
    """Return `value` if it can be an id: text of a bounded length, without
    half a surrogate pair, which cannot be sent."""
    if not isinstance(value, str) or len(value) > ID:
        return None
    return value if value.isascii() or not any("\ud800" <= mark <= "\udfff" for mark in value) else None


def one_line(value: object, limit: int = NAME) -> str:
    """Return text as a part of one line; empty if it is not text."""
    return " ".join(acp.text(value)[: limit * 4].split())[:limit]


def _option(item: dict[str, Any]) -> Option | None:
    id, current, kind = identity(item.get("id")), item.get("currentValue"), item.get("type")
    if not id:
        return None
    option = Option(
        id=id,
        name=one_line(item.get("name")) or one_line(id),
        description=one_line(item.get("description"), DESCRIPTION),
        category=identity(item.get("category")) or "",
    )
    if kind == "boolean" and isinstance(current, bool):
        return replace(option, kind="boolean", current=current)
    if kind == "select" and isinstance(item.get("options"), list):
        return replace(option, current=identity(current) or "", choices=tuple(_choices(item["options"]))[:CHOICES])
    return None


def _choices(items: Sequence[object], group: str = "") -> Iterator[Choosable]:
    """Yield the choices of a flat or grouped list (C-51), or of any mixture of them."""
    for item in map(acp.mapping, items[:CHOICES]):
        if not group and isinstance(item.get("options"), list):
            yield from _choices(item["options"], one_line(item.get("name")) or one_line(item.get("group")) or "-")
        elif (choice := _choice(item, "value", group)) is not None:
            yield choice


def _choice(item: dict[str, Any], key: str, group: str = "") -> Choosable | None:
    value = identity(item.get(key))
    name = one_line(item.get("name")) or one_line(value)
    if value is None or not name:
        return None
    return Choosable(value, name, one_line(item.get("description"), DESCRIPTION), group)


def _legacy(id: Literal["mode", "model"], current: object, listed: object, key: str) -> Option | None:
    found = (_choice(acp.mapping(item), key) for item in acp.sequence(listed)[:CHOICES])
    choices = tuple(choice for choice in found if choice is not None)
    current = identity(current) or ""
    if not choices and not current:
        return None
    return Option(id=id, name=id.capitalize(), category=id, current=current, choices=choices, source=id)


# What the user wants of a session, looked up in what the agent offers. A beginning never matches: `gpt-5` does not mean
# `gpt-5.5`, and tomorrow's agent offers more. Close names are only suggested.


LISTED = 10  # values or options in one message
TYPED = 40  # characters that a user would type
TRUE, FALSE = ("true", "yes", "on"), ("false", "no", "off")
T = TypeVar("T")


class NotOffered(SessionError):  # noqa: N818 - the name states the fault
    """Raised when the agent does not offer the option or the value."""


def find(options: Options, wanted: str) -> Option:
    """Return the wanted option, as `match`.

    Raises:
        NotOffered: it does not exist; the message lists those that do.
    """
    option = match(options, wanted)
    if option is not None:
        return option
    if not options:
        raise NotOffered("the agent has no options to set", fix="leave it out")
    listed = _list(options, _id)
    if wanted in ("mode", "model"):  # one is not a misspelling of the other
        raise NotOffered(f"the agent offers no {wanted}s to choose from", fix=f"leave it out; it offers {listed}")
    known = [word for option in options for word in (option.id, option.category, option.name)]
    meant = match(options, _nearest(wanted, known))
    suggestion = _did_you_mean([_id(meant)] if meant else [])
    raise NotOffered(f'the agent offers no option "{one_line(wanted)}"{suggestion}', fix=f"use one of {listed}")


def value_of(option: Option, wanted: Value) -> Value:
    """Return the value to send: `wanted` itself, or the value with that name in any case.

    Raises:
        NotOffered: it does not exist, or several have that name; the message lists the values.
    """
    if option.kind == "boolean":
        return _switch(option, wanted)
    words = (TRUE if wanted else FALSE) if isinstance(wanted, bool) else (wanted,)
    for word in words:  # YAML reads a plain `true` as a boolean
        found = _choices_called(option, word)
        if len(found) == 1:
            return found[0].value
        if found:
            raise NotOffered(
                f'"{one_line(word)}" is the name of {len(found)} values of "{_id(option)}"',
                fix=f"use one of {_list(found, _value)}",
            )
    raise _no_value(option, words[0])


def typed_name(option: Option, choice: Choosable) -> str:
    """Return what to write for it: its value, or its name if the value is not typeable (copilot's modes are URLs)."""
    if not 0 < len(choice.value) <= TYPED and _choices_called(option, choice.name) == [choice]:
        return choice.name
    return one_line(choice.value)


def _switch(option: Option, wanted: Value) -> bool:
    word = str(wanted).casefold()
    if word in TRUE or word in FALSE:
        return word in TRUE
    raise NotOffered(f'"{_id(option)}" is either true or false, not "{one_line(wanted)}"', fix="write true or false")


def _choices_called(option: Option, word: str) -> list[Choosable]:
    """Return the choice with exactly that value, else those with it in any case, else those with that name."""
    plain = word.casefold()
    ways: tuple[Callable[[Choosable], bool], ...] = (
        lambda choice: choice.value == word,
        lambda choice: choice.value.casefold() == plain,
        lambda choice: choice.name.casefold() == plain,
    )
    for way in ways:
        if found := {choice.value: choice for choice in option.choices if way(choice)}:
            return list(found.values())
    return []


def _no_value(option: Option, wanted: str) -> NotOffered:
    kind, word = option.category, one_line(wanted)
    known = kind in ("mode", "model")
    message = f'no {kind} "{word}"' if known else f'no value "{word}" for "{_id(option)}"'
    if not option.choices:
        return NotOffered(f"the agent offers {message}", fix="leave it out; it offers nothing to choose from")
    meant = _nearest(wanted, [text for choice in option.choices for text in (choice.value, choice.name)])
    suggested = [
        typed_name(option, choice) for choice in option.choices if meant and meant in (choice.value, choice.name)
    ]
    return NotOffered(
        f"the agent offers {message}{_did_you_mean(suggested)}",
        fix=f"use one of {_list(option.choices, lambda choice: typed_name(option, choice))}",
    )


def _did_you_mean(suggested: Sequence[str]) -> str:
    return f'; did you mean "{suggested[0]}"?' if suggested else ""


def _nearest(word: str, known: Sequence[str]) -> str:
    """Return an item that contains the word, else one that looks like it; empty if there is none."""
    plain = one_line(word).casefold()
    holding = [text for text in known if len(plain) > 1 and plain in text.casefold()]
    by_case = {text.casefold()[:NAME]: text for text in reversed(known) if text}
    return holding[0] if holding else by_case.get(likeliest(plain, by_case), "")


def _list(items: Sequence[T], shown: Callable[[T], str]) -> str:
    more = f" and {len(items) - LISTED} more" if len(items) > LISTED else ""
    return ", ".join(map(shown, items[:LISTED])) + more


def _id(option: Option) -> str:
    return one_line(option.id)


def _value(choice: Choosable) -> str:
    return one_line(choice.value)
