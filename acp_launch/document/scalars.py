"""
`Duration` and `Size`: lengths of time (`200ms`, `10s`, `2m`, `1h`) and numbers of bytes (`64MiB`, `512KiB`). Pure.

Values that do not fit are `Refused`, in the words for the user. pydantic is imported only when it asks one of the
classes for its schema; it keeps that error with its own.
"""

import re
from typing import TYPE_CHECKING, Any, Self

from acp_launch.regex import regex

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = r"^(?=.*[1-9])[0-9]{1,6}(?:\.[0-9]{1,3})?(?:ms|s|m|h)$"


class Refused(ValueError):  # noqa: N818 - it reads as what it is
    """Raised for a value that does not fit; `fix` is the user's next step."""

    offset = 0  # characters into a text

    def __init__(self, expected: str, value: object, fix: str) -> None:
        from acp_launch.document.nodes import found  # `--help` knows Duration and needs no msgspec

        super().__init__(f"expected {expected}, found {found(value)}")
        self.fix = fix


class _Measure:
    """What pydantic asks of a type: its `from_plain` decides."""

    __slots__ = ()

    @classmethod
    def from_plain(cls, value: object) -> Self:
        raise NotImplementedError

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(cls.from_plain)


class Duration(_Measure, float):
    """A positive length of time in seconds; `str` writes it as a profile does."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text of a duration.

        Raises:
            ValueError: it is not a duration.
        """
        if not re.match(_DURATION, text) or text.endswith("\n"):
            raise ValueError(f"expected a duration such as 10s, found {text!r}")
        number = text.rstrip("mhs")
        return cls(round(float(number) * _SECONDS[text[len(number) :]], 6))

    @classmethod
    def from_plain(cls, value: object) -> Self:
        """Convert a value of a document.

        Raises:
            Refused: it is not the text of a duration.
        """
        fix = "write a duration such as 10s"
        if isinstance(value, str):
            try:
                return cls.parse(value)
            except ValueError:
                fix = "write a positive number and its unit: 200ms, 10s, 2m, 1h"
        elif isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            fix = f"write {value:g}s"
        raise Refused("a duration", value, fix)

    def __str__(self) -> str:
        for unit in ("h", "m", "s"):
            if self >= _SECONDS[unit] and self % _SECONDS[unit] == 0:
                return f"{int(self // _SECONDS[unit])}{unit}"
        return f"{round(self * 1000, 3):.12g}ms"

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: "CoreSchema", handler: "GetJsonSchemaHandler") -> dict[str, Any]:
        return {"type": "string", "pattern": _DURATION, "examples": ["200ms", "10s", "2m", "1h"]}


_BYTES = {"": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_SIZE = regex(r"([0-9]{1,10})(KiB|MiB|GiB|)")
SMALLEST, LARGEST = 4096, 1024**3  # bytes; one message is held in memory, and an answer to `initialize` needs 2 KiB


class Size(_Measure, int):
    """A number of bytes, `SMALLEST` to `LARGEST`."""

    __slots__ = ()

    @classmethod
    def from_plain(cls, value: object) -> Self:
        """Convert a number of bytes, or the text of a size.

        Raises:
            Refused: it is neither, or out of bounds.
        """
        written = _SIZE.fullmatch(value) if isinstance(value, str) else None
        number = int(written[1]) * _BYTES[written[2]] if written else value
        if isinstance(number, int) and not isinstance(number, bool) and SMALLEST <= number <= LARGEST:
            return cls(number)
        raise Refused("a number of bytes from 4KiB to 1GiB", value, "write a number and its unit: 64MiB")
