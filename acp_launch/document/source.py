"""The bytes of a profile become text, or a Problem. Pure, and free of imports that cost."""

from acp_launch.problem import Problem

MAX_SIZE = 1024 * 1024  # bytes; a profile of a thousand servers is 200 KiB


def decode(content: bytes, file: str) -> tuple[str | None, list[Problem]]:
    """The text of a file, or why it has none. A byte order mark is dropped by `parse`."""
    if len(content) > MAX_SIZE:
        return None, [too_large(file)]
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return None, [Problem(file, 1, 1, "", "this file is UTF-16, not UTF-8", "save it as UTF-8")]
    try:
        return content.decode(), []
    except UnicodeDecodeError as bad:
        before = content[: bad.start].decode()
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        what = f"the byte 0x{content[bad.start]:02x} is not UTF-8 text"
        return None, [Problem(file, line, column, "", what, "save the file as UTF-8")]


def too_large(file: str) -> Problem:
    return Problem(file, 0, 0, "", f"this file is larger than {MAX_SIZE // 1024} KiB", "is it a profile at all?")
