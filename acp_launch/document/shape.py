"""
A `Shape`: what a mapping of a document may hold, as a frozen struct. Pure.

`build` makes the struct from plain values by msgspec, or declines with ValueError. pydantic derives its schema from
the same annotations; it is imported only to say everything that is wrong with values that `build` declined. A type of
ours has a `from_plain`, which makes it of a plain value or raises ValueError. An annotation for values that have a
shorter notation has an `unfold`, which makes them long.
"""

import typing
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import NODEFAULT, Struct, convert, structs

from acp_launch.document.flow import command_words, words
from acp_launch.document.nodes import Plain
from acp_launch.problem import KeyPath

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema, ErrorDetails
    from pydantic_core.core_schema import DataclassField

S = TypeVar("S", bound="Shape")


class Shape(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of all shapes. The fields are the allowed keys; any other key is refused."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        hints = hints_of(cls)
        fields = [_field(field, handler.generate_schema(hints[field.name])) for field in structs.fields(cls)]
        keys = core_schema.dataclass_args_schema(cls.__name__, fields, extra_behavior="forbid")
        reference = f"{cls.__module__}.{cls.__qualname__}:{id(cls)}"
        return core_schema.no_info_after_validator_function(lambda found: cls(**found[0]), keys, ref=reference)


def _field(field: structs.FieldInfo, schema: "CoreSchema") -> "DataclassField":
    from pydantic_core import core_schema

    if field.default is not NODEFAULT:
        schema = core_schema.with_default_schema(schema, default=field.default)
    elif field.default_factory is not NODEFAULT:
        schema = core_schema.with_default_schema(schema, default_factory=field.default_factory)
    return core_schema.dataclass_field(field.name, schema, kw_only=True)


def build(shape: type[S], plain: Plain) -> S:
    """
    Build the struct from plain values.

    Raises:
        ValueError: they do not fit. pydantic says what exactly is wrong.
    """
    built: S = _convert(shape, plain)
    return built


def _convert(hint: Any, plain: Plain) -> Any:
    return convert(_unfold(hint, plain), hint, dec_hook=lambda kind, value: kind.from_plain(value))


def _unfold(hint: Any, plain: Plain) -> Plain:
    """Make the short notations in a value long, and numbers that know their notation plain."""
    unfolds, kind, inner = _parts(hint)
    for unfold in unfolds:
        plain = unfold(plain)
    if isinstance(plain, dict) and is_shape(hint):
        hints = hints_of(hint)
        return {key: _unfold(hints.get(key), value) for key, value in plain.items()}
    if isinstance(plain, dict) and kind is Mapping:
        return {key: _unfold(inner[1], value) for key, value in plain.items()}
    if isinstance(plain, list) and kind is tuple:
        return [_unfold(inner[0], value) for value in plain]
    for member in () if kind in (Mapping, tuple) else inner:  # of a union; no value fits two
        plain = _unfold(member, plain)
    return float(plain) if isinstance(plain, float) else plain


@cache
def _parts(hint: Any) -> tuple[list[Callable[[Plain], Plain]], Any, tuple[Any, ...]]:
    """Return what unfolds a value, the generic type and its arguments; a list of profiles reads each hint often."""
    notes = (getattr(note, "unfold", None) for note in getattr(hint, "__metadata__", ()))
    return [unfold for unfold in notes if unfold], typing.get_origin(hint), typing.get_args(hint)


def validate(shape: type[S], plain: Plain, report: "Callable[[ErrorDetails], object]") -> S | None:
    """Build the struct, or report each thing that is wrong, in the words of pydantic, and return None."""
    try:
        return build(shape, plain)
    except ValueError:
        from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(shape).validate_python(plain)
    except ValidationError as invalid:
        for error in invalid.errors(include_url=False):
            report(error)
        return None


@cache
def hints_of(shape: type) -> dict[str, Any]:
    """Return the type hints of a shape. They are cached, since reading them takes longer than building the shape."""
    return typing.get_type_hints(shape, include_extras=True)


def mapping_meant(shape: type[Shape], value: Plain) -> dict[str, Plain]:
    """Return the mapping for which a value most likely stands: with the first key that takes it, or the one that it
    names; empty if there is neither. A list is a program and its arguments, or names keys."""
    listed = [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
    if listed and listed == value and {"command", "args"} <= {*shape.__struct_fields__}:
        return {"command": listed[0], **({"args": listed[1:]} if listed[1:] else {})}
    hints = {key: hints_of(shape)[key] for key in shape.__struct_fields__}
    if listed and listed == value and all(item in hints and takes(hints[item], True) for item in listed):
        return dict.fromkeys(listed, True)
    for key, hint in hints.items():
        for meant in (value, *_as_list(key, value)):
            if takes(hint, meant):
                return {key: meant}
    if isinstance(value, str) and value in hints:
        inner = next(shapes_in(hints[value]), None)
        return {value: mapping_meant(inner, "...") if inner and not takes(hints[value], True) else True}
    return {}


def list_meant(hint: Any, value: Mapping[str, Plain]) -> list[Plain] | None:
    """Return the list for which a mapping most likely stands: of it, of its entries, or of those by their id."""
    apart = [{key: entry} for key, entry in value.items()]
    called = [{"id": key, **entry} for key, entry in value.items() if isinstance(entry, dict)]
    likely = (apart, [value], called) if next(shapes_in(hint), None) else ([value],)
    return next((listed for listed in likely if listed and takes(hint, listed)), None)


def hint_at(shape: type[Shape], path: KeyPath) -> Any:
    """Return the type of the value at `path` below one of `shape`; `path` ends with a key."""
    return hints_of(shape_at(shape, path[:-1])).get(str(path[-1]))


def _as_list(key: str, value: Plain) -> Iterator[list[str]]:
    if isinstance(value, str):
        yield command_words(value) if key == "command" else words(value)


def takes(hint: Any, plain: Plain) -> bool:
    """Whether a value of this type may be written so."""
    try:
        _convert(hint, plain)
    except ValueError:
        return False
    return True


def shape_at(shape: type[Shape], path: KeyPath) -> type[Shape]:
    """Return the shape of the mapping at `path` below one of `shape`; of the one above it if there is none."""
    for step in path:
        hint = None if isinstance(step, int) else hints_of(shape).get(step)
        shape = next(shapes_in(hint), shape)
    return shape


def shapes_in(hint: Any) -> Iterator[type[Shape]]:
    if is_shape(hint):
        yield hint
    for part in (*typing.get_args(hint), *(() if is_shape(hint) else getattr(hint, "__orig_bases__", ()))):
        yield from shapes_in(part)


def is_shape(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Shape)
