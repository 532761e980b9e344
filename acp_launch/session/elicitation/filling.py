"""What somebody types into a form becomes a value."""

import re
from collections.abc import Callable, Mapping

from acp_launch.session.elicitation.check import INT64, check
from acp_launch.session.elicitation.form import Field, Form, Value

LEAVE_OUT = "-"
EMPTY = '""'

_INTEGER = re.compile(r"[+-]?[0-9]{1,30}")
_NUMBER = re.compile(r"[+-]?([0-9]{1,400}(\.[0-9]{0,400})?|\.[0-9]{1,400})([eE][+-]?[0-9]{1,4})?")
_YES = frozenset({"y", "yes", "true", "on", "1"})
_NO = frozenset({"n", "no", "false", "off", "0"})


def whole(form: Form, content: Mapping[str, Value]) -> str:
    """What is wrong with all of the answers together: the first thing found."""
    if form.missing:
        return f"{form.missing[0]} cannot be given"
    for field in form.fields:
        if field.name not in content:
            problem = "is required" if field.is_required else ""
        else:
            problem = check(field, content[field.name])
        if problem:
            return f"{field.label} {problem}"
    return ""


def typed(field: Field, text: str) -> tuple[Value | None, str]:
    """The value somebody typed, None for none at all, and what is wrong with it.

    Nothing, or `-`, leaves an optional field out; `-` chooses none of the choices of a required one, and `""` is the
    empty text.
    """
    bare = text.strip()
    if not bare or bare == LEAVE_OUT:
        if field.kind == "choices" and bare and field.is_required:
            return [], check(field, [])
        if not field.is_required:
            return None, ""
        if not bare:
            return None, f"is required{_how_empty(field)}"
    value, problem = _READERS[field.kind](field, text)
    return value, problem or check(field, value)


def _how_empty(field: Field) -> str:
    if field.kind == "text" and not check(field, ""):
        return f"; {EMPTY} is the empty text"
    return "; - is none of them" if field.kind == "choices" and not check(field, []) else ""


def _read_text(field: Field, text: str) -> tuple[Value | None, str]:
    return "" if text.strip() == EMPTY else text, ""


def _read_integer(field: Field, text: str) -> tuple[Value | None, str]:
    bare = text.strip()
    return (int(bare), "") if _INTEGER.fullmatch(bare) else (None, "must be a whole number, such as 42")


def _read_number(field: Field, text: str) -> tuple[Value | None, str]:
    bare = text.strip()
    if _INTEGER.fullmatch(bare) and int(bare) in INT64:
        return int(bare), ""
    return (float(bare), "") if _NUMBER.fullmatch(bare) else (None, "must be a number, such as 4.2")


def _read_boolean(field: Field, text: str) -> tuple[Value | None, str]:
    bare = text.strip().lower()
    return (bare in _YES, "") if bare in _YES | _NO else (None, "must be yes or no")


def _read_choice(field: Field, text: str) -> tuple[Value | None, str]:
    chosen = _chosen(field, text)
    return chosen, "" if chosen is not None else f"must be a number from 1 to {len(field.options)}, or a name above"


def _read_choices(field: Field, text: str) -> tuple[Value | None, str]:
    if (one := _chosen(field, text)) is not None:  # a name may hold a comma
        return [one], ""
    chosen = []
    for part in text.split(","):
        if (one := _chosen(field, part)) is None:
            return None, f"must be numbers from 1 to {len(field.options)}, or names above, with commas between"
        chosen.append(one)
    return list(dict.fromkeys(chosen)), ""


def _chosen(field: Field, text: str) -> str | None:
    """By its number in the list, its title or its value, in this order."""
    bare = text.strip()
    if _INTEGER.fullmatch(bare) and 0 < int(bare) <= len(field.options):
        return field.options[int(bare) - 1].value
    exact = [option.value for option in field.options if bare in (option.title, option.value)]
    folded = bare.casefold()
    alike = [option.value for option in field.options if folded in (option.title.casefold(), option.value.casefold())]
    found = exact or alike
    return found[0] if len(found) == 1 else None


_READERS: Mapping[str, Callable[[Field, str], tuple[Value | None, str]]] = {
    "text": _read_text,
    "number": _read_number,
    "integer": _read_integer,
    "boolean": _read_boolean,
    "choice": _read_choice,
    "choices": _read_choices,
}
