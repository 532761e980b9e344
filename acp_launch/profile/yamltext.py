"""Values as YAML text, the way people write profiles: plain where that is possible, short lists on one line. Pure."""

import json
import math
import re
from collections.abc import Iterator, Mapping

from acp_launch.document.nodes import Plain, scalar

WIDTH = 100  # columns; a list or a small mapping that is longer gets lines of its own
STEP = 2  # columns of indentation
_PLAIN = re.compile(r"(?:[^\W\d_]|[\w./$~+(;<^]|-+(?=[^\s-]))[^\n]*")
_OLD_WORDS = {"yes", "no", "on", "off", "y", "n"}  # truth values to readers of YAML 1.1
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def inline(value: Plain, *, in_flow: bool = False, quote: str = "") -> str:
    """On one line. `in_flow`: between brackets. `quote`: how the text that it replaces was quoted."""
    if isinstance(value, str):
        return _text(str.__str__(value), in_flow, quote)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name(key)}: {inline(entry, in_flow=True)}" for key, entry in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(inline(item, in_flow=True) for item in value) + "]"
    return _number(value)


def lines(key: str, value: Plain, *, column: int, level: int, step: int = STEP) -> Iterator[str]:
    """An entry of a mapping whose keys stand at `column`, `level` levels deep in its profile (from 1)."""
    head = f"{' ' * column}{name(key)}:"
    short = f"{head} {inline(value)}"
    if is_inline(value, level=level) and (len(short) <= WIDTH or not isinstance(value, Mapping | list | tuple)):
        yield short
        return
    yield head
    yield from below(value, column=column + step, level=level + 1, step=step)


def below(value: Plain, *, column: int, level: int, step: int = STEP) -> Iterator[str]:
    """The entries of a mapping, or the items of a list, each on lines of its own."""
    if isinstance(value, Mapping):
        for key, entry in value.items():
            yield from lines(key, entry, column=column, level=level, step=step)
    else:
        yield from (f"{' ' * column}- {inline(item)}" for item in value)


def is_inline(value: Plain, *, level: int) -> bool:
    """Whether people would write it on one line, if there is room."""
    if not value or not isinstance(value, Mapping):
        return True
    is_section = level == 1 or not value.keys().isdisjoint(("command", "url"))  # of a profile; or a program
    return not is_section and not any(isinstance(entry, Mapping | list | tuple) for entry in value.values())


def name(key: str) -> str:
    """As it can stand before a colon."""
    return _quoted(key) if key == "<<" else _text(key, True, "")


def _text(text: str, in_flow: bool, quote: str) -> str:
    if not quote or quote not in "\"'":
        return text if _is_plain(text, in_flow) else _quoted(text)
    single = quote == "'" and text.isprintable()
    return "'" + text.replace("'", "''") + "'" if single else _quoted(text, always_double=quote == '"')


def _is_plain(text: str, in_flow: bool) -> bool:
    """Whether it means itself without quotes, to readers of YAML 1.1 too."""
    if not text.isprintable() or text != text.strip() or not _PLAIN.fullmatch(text):
        return False
    if ": " in text or " #" in text or text.endswith(":") or text.startswith(("---", "...")):
        return False
    if in_flow and re.search(r"[,\[\]{}]|:(?=[\"'])", text):
        return False
    return isinstance(scalar(text), str) and text.lower() not in _OLD_WORDS and not _is_old_number(text)


def _is_old_number(text: str) -> bool:
    """What YAML 1.1 reads as a number or a date: `1_000`, `12:30`, `2026-01-31`."""
    return re.fullmatch(r"[-+]?[0-9][0-9_,.:-]*", text) is not None and not text.startswith("-")


def _quoted(text: str, *, always_double: bool = False) -> str:
    if not always_double and text.isprintable() and re.search(r'["\\]', text) and "'" not in text:
        return f"'{text}'"
    return '"' + "".join(_ESCAPES.get(mark) or (mark if mark.isprintable() else _escaped(mark)) for mark in text) + '"'


def _escaped(mark: str) -> str:
    code = ord(mark)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _number(value: Plain) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    return json.dumps(value)
