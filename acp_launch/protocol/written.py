"""
JSON of whatever a program, or a file's name, may hold: half a surrogate pair goes as the escape it came as.
"""

import msgspec
from msgspec import Raw

_encode = msgspec.json.Encoder().encode


def written(value: object) -> bytes:
    """`value` as JSON. A `Raw` in it stays the bytes it is; in text that no UTF-8 can hold it is written anew."""
    try:
        return bytes(_encode(value))
    except UnicodeEncodeError:
        return _escaped(value)


def _escaped(value: object) -> bytes:
    import json

    if isinstance(value, dict):  # whose members, of a message, may be Raw
        members = (json.dumps(key).encode() + b":" + written(member) for key, member in value.items())
        return b"{" + b",".join(members) + b"}"
    return json.dumps(value, separators=(",", ":"), default=_plain).encode()


def _plain(value: object) -> object:
    import json

    return json.loads(bytes(value)) if isinstance(value, Raw) else msgspec.to_builtins(value)
