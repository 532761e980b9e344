"""
Whether a value is right for a field. Pure but for the clock of `pattern`.

What nothing is wrong with is valid against the schema the agent sent, and can stand in a `content` of ACP v1.
"""

import math
import re
from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime
from urllib.parse import urlsplit

from acp_launch.session.elicitation import pattern
from acp_launch.session.elicitation.form import Field

LONGEST = 100_000  # characters of one answer
INT64 = range(-(2**63), 2**63)  # what ACP carries as an integer

_EMAIL = re.compile(r"[^\s@]+@[^\s@.]+(\.[^\s@.]+)*")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([zZ]|[+-][0-9]{2}:[0-9]{2})")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]+")


def check(field: Field, value: object) -> str:
    """What is wrong with a value, as the end of a sentence about it; empty when it is right."""
    return _CHECKS[field.kind](field, value)


def _check_text(field: Field, value: object) -> str:
    if not isinstance(value, str):
        return "must be text"
    if not _is_unicode(value):
        return "holds half a character"
    if len(value) > LONGEST:
        return f"must have at most {LONGEST:,} characters, not {len(value):,}"
    return _check_size(field, len(value), "character") or _check_format(field, value) or _check_pattern(field, value)


def _check_choice(field: Field, value: object) -> str:
    if not any(option.value == value for option in field.options):
        return "must be one of the choices"
    return _check_text(field, value)


def _check_choices(field: Field, value: object) -> str:
    offered = {option.value for option in field.options}
    if not isinstance(value, list) or not all(_is_one(item, offered) for item in value):
        return "must be some of the choices"
    return _check_size(field, len(value), "choice")


def _is_one(item: object, offered: Collection[str]) -> bool:
    return isinstance(item, str) and item in offered and _is_unicode(item)


def _check_integer(field: Field, value: object) -> str:
    if not isinstance(value, int) or isinstance(value, bool):
        return "must be a whole number"
    return _check_bounds(field, value) if value in INT64 else "has too many digits"


def _check_number(field: Field, value: object) -> str:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return "must be a number"
    is_sendable = value in INT64 if isinstance(value, int) else math.isfinite(value)
    return _check_bounds(field, value) if is_sendable else "is too large"


def _check_boolean(field: Field, value: object) -> str:
    return "" if isinstance(value, bool) else "must be yes or no"


def _check_bounds(field: Field, value: float) -> str:
    if field.least is not None and value < field.least:
        return f"must be at least {field.least}"
    if field.most is not None and value > field.most:
        return f"must be at most {field.most}"
    return ""


def _check_size(field: Field, size: int, unit: str) -> str:
    if field.least is not None and size < field.least:
        return f"must have at least {_counted(field.least, unit)}, not {size}"
    if field.most is not None and size > field.most:
        return f"must have at most {_counted(field.most, unit)}, not {size}"
    return ""


def _counted(count: float, unit: str) -> str:
    return f"{count:g} {unit}{'' if count == 1 else 's'}"


def _check_pattern(field: Field, value: str) -> str:
    if not field.pattern:
        return ""
    try:
        return "" if pattern.matches(field.pattern, value) else f"must match {field.pattern}"
    except pattern.TooSlow:
        return f"takes too long to compare with {field.pattern}"


def _check_format(field: Field, value: str) -> str:
    if not field.format:
        return ""
    is_right, example = _FORMATS[field.format]
    return "" if is_right(value) else f"must be {example}"


def _is_uri(value: str) -> bool:
    if not _URI.fullmatch(value) or not value.isprintable():
        return False
    try:
        urlsplit(value)
    except ValueError:
        return False
    return True


def _is_date(value: str) -> bool:
    if not _DATE.fullmatch(value):
        return False
    try:
        date.fromisoformat(value)
    except ValueError:
        return False
    return True


def _is_moment(value: str) -> bool:
    """RFC 3339: with its offset from UTC, which says when it was."""
    day, between, time = value[:10], value[10:11].upper(), value[11:]
    if between != "T" or not _is_date(day) or not _TIME.fullmatch(time):
        return False
    try:
        datetime.fromisoformat(f"{day}T{time.upper()}")
    except ValueError:
        return False
    return True


def _is_unicode(value: str) -> bool:
    """Half a surrogate pair cannot be sent."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


_FORMATS: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "email": (lambda value: _EMAIL.fullmatch(value) is not None, "an e-mail address, such as me@example.com"),
    "uri": (_is_uri, "a whole address, such as https://example.com"),
    "date": (_is_date, "a date, such as 2026-12-31"),
    "date-time": (_is_moment, "a date and time with its offset, such as 2026-12-31T23:59:00Z"),
}
_CHECKS: Mapping[str, Callable[[Field, object], str]] = {
    "text": _check_text,
    "number": _check_number,
    "integer": _check_integer,
    "boolean": _check_boolean,
    "choice": _check_choice,
    "choices": _check_choices,
}
