"""Values written on one line of YAML, and the words of a command line. Pure."""

import json
import math
import re
import shlex
from collections.abc import Mapping

from acp_launch.document.nodes import Plain, scalar
from acp_launch.regex import regex

_PLAIN = regex(r"(?:[^\W\d_]|[\w./$~+(;<^]|-+(?=[^\s-]))[^\n]*")
_OLD_WORDS = {"yes", "no", "on", "off", "y", "n"}  # truth values to readers of YAML 1.1
_OLD_NUMBER = regex(r"\+?[0-9][0-9_,.:-]*")  # numbers and dates to them: `1_000`, `12:30`, `2026-01-31`
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}

_BARE = regex(r"'[^']*'|\"(?:\\.|[^\"\\$`])*\"|\\.", re.DOTALL)  # what a shell takes literally
_SHELL = regex(r"[;&|<>()$`*?'\"]|\A\s*\w+=")  # what only a shell understands: operators, variables, patterns


def needs_shell(command_line: str) -> bool:
    return _SHELL.search(_BARE.sub("_", command_line)) is not None


def words(text: str) -> list[str]:
    """Split a text into words as a shell does; at every space if a quote in it is not closed."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def command_words(command_line: str) -> list[str]:
    """Return the program and its arguments; one that needs a shell becomes an argument of `sh -c`."""
    return ["sh", "-c", command_line] if needs_shell(command_line) else words(command_line)


def inline(value: Plain, *, in_flow: bool = False, quote: str = "") -> str:
    """Write a value on one line. `in_flow`: between brackets. `quote`: the quotes of the text that it replaces."""
    if isinstance(value, str):
        return _text(str.__str__(value), in_flow, quote)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name(key)}: {inline(entry, in_flow=True)}" for key, entry in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(inline(item, in_flow=True) for item in value) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"

    return json.dumps(value)


def name(key: str) -> str:
    """Write a key, quoted if needed."""
    return _quote(key) if key == "<<" else _text(key, True, "")


def _text(text: str, in_flow: bool, quote: str) -> str:
    if not quote or quote not in "\"'":
        return text if _is_plain(text, in_flow) else _quote(text)
    single = quote == "'" and text.isprintable()
    return "'" + text.replace("'", "''") + "'" if single else _quote(text, always_double=quote == '"')


def _is_plain(text: str, in_flow: bool) -> bool:
    """Whether a text needs no quotes, for readers of YAML 1.1 too."""
    if not text.isprintable() or text != text.strip() or not _PLAIN.fullmatch(text):
        return False
    if ": " in text or " #" in text or text.endswith(":") or text.startswith(("---", "...")):
        return False
    if in_flow and re.search(r"[,\[\]{}]|:(?=[\"'])", text):
        return False
    return isinstance(scalar(text), str) and text.lower() not in _OLD_WORDS and not _OLD_NUMBER.fullmatch(text)


def _quote(text: str, *, always_double: bool = False) -> str:
    if not always_double and text.isprintable() and re.search(r'["\\]', text) and "'" not in text:
        return f"'{text}'"
    return '"' + "".join(_ESCAPES.get(mark) or (mark if mark.isprintable() else _escape(mark)) for mark in text) + '"'


def _escape(mark: str) -> str:
    code = ord(mark)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
