"""The bytes of a file become text, or a Problem. Pure, and free of imports that cost."""

from typing import NamedTuple

from acp_launch.problem import Problem

MAX_SIZE = 256 * 1024  # bytes; a profile of a thousand servers is 200 KiB


class Kind(NamedTuple):
    """What a file is meant to be, for messages: `a profile` that may `begin` so and is `depth` levels deep."""

    noun: str
    begin: str
    depth: int
    may_be_empty: bool = False


PROFILE = Kind("a profile", "version: 1", 5)
OVERLAY = Kind("an overlay", "agent:", 5, may_be_empty=True)
SETTINGS = Kind("a settings file", "max_line: 64MiB", 3, may_be_empty=True)


def decode(content: bytes, file: str, kind: Kind = PROFILE) -> tuple[str | None, list[Problem]]:
    """The text of a file, or why it has none. A byte order mark is dropped by `parse`."""
    if len(content) > MAX_SIZE:
        return None, [too_large(file, kind)]
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return None, [Problem(file, 1, 1, "", "this file is UTF-16, not UTF-8", "save it as UTF-8")]
    try:
        return content.decode(), []
    except UnicodeDecodeError as bad:
        before = content[: bad.start].decode()
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        what = f"the byte 0x{content[bad.start]:02x} is not UTF-8 text"
        return None, [Problem(file, line, column, "", what, "save the file as UTF-8")]


def too_large(file: str, kind: Kind) -> Problem:
    return Problem(file, 0, 0, "", f"this file is larger than {MAX_SIZE // 1024} KiB", f"is it {kind.noun} at all?")
