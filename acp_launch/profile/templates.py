"""Every text of a checked profile that may hold references, with its path. Pure."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from acp_launch.document.keypath import KeyPath
from acp_launch.profile.template import Template


def templates(value: object, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Template]]:
    """Depth first, in the order of the model; `value` is a Profile or any part of one, which lies at `path`."""
    if isinstance(value, Template):
        yield path, value
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from templates(entry, (*path, key))
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from templates(item, (*path, index))
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            yield from templates(getattr(value, name), (*path, name))
