"""What the client said in `initialize` that it serves. Nothing else is asked of it (ACP v1 "initialization")."""

from typing import NamedTuple


class Offered(NamedTuple):
    read_files: bool = False
    write_files: bool = False
    terminal: bool = False
    forms: bool = False
    urls: bool = False
    booleans: bool = False  # config options that are on or off
    notices: bool = False
    compaction: bool = False
    terminal_login: bool = False


def read(capabilities: object) -> Offered:
    """Omitted, null and malformed are all the same: not offered."""
    return Offered(
        read_files=_at(capabilities, "fs", "readTextFile") is True,
        write_files=_at(capabilities, "fs", "writeTextFile") is True,
        terminal=_at(capabilities, "terminal") is True,
        forms=isinstance(_at(capabilities, "elicitation", "form"), dict),
        urls=isinstance(_at(capabilities, "elicitation", "url"), dict),
        booleans=isinstance(_at(capabilities, "session", "configOptions", "boolean"), dict),
        notices=isinstance(_at(capabilities, "session", "notices"), dict),
        compaction=isinstance(_at(capabilities, "session", "compaction"), dict),
        terminal_login=_at(capabilities, "auth", "terminal") is True,
    )


def _at(value: object, *path: str) -> object:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value
