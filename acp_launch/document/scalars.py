"""
`Duration` and `Size`: lengths of time (`200ms`, `10s`, `2m`, `1h`) and numbers of bytes (`64MiB`, `512KiB`). Pure.

pydantic is imported only when it asks one of the classes for its schema. Values that do not fit are refused with a
`PydanticCustomError` whose context carries `fix`.
"""

import re
from typing import TYPE_CHECKING, Any, Self

from acp_launch.regex import regex

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = r"^(?=.*[1-9])[0-9]{1,6}(?:\.[0-9]{1,3})?(?:ms|s|m|h)$"


class _Measure:
    """What pydantic asks of a type: its `take` decides, its `fix` says how to write a value."""

    __slots__ = ()
    kind = ""  # of the error

    @classmethod
    def take(cls, value: object) -> Self:
        raise NotImplementedError

    @staticmethod
    def fix(value: object) -> str:
        raise NotImplementedError

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import PydanticCustomError, core_schema

        def validate(value: object) -> object:
            try:
                return cls.take(value)
            except ValueError:
                raise PydanticCustomError(cls.kind, cls.kind, {"fix": cls.fix(value)}) from None

        return core_schema.no_info_plain_validator_function(validate)


class Duration(_Measure, float):
    """A positive length of time in seconds; `str` writes it as a profile does."""

    kind = "bad_duration"

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
    def take(cls, value: object) -> Self:
        """Convert a value of a document.

        Raises:
            ValueError: it is not the text of a duration.
        """
        if not isinstance(value, str):
            raise ValueError(f"expected a duration such as 10s, found {value!r}")
        return cls.parse(value)

    def __str__(self) -> str:
        for unit in ("h", "m", "s"):
            if self >= _SECONDS[unit] and self % _SECONDS[unit] == 0:
                return f"{int(self // _SECONDS[unit])}{unit}"
        return f"{round(self * 1000, 3):.12g}ms"

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: "CoreSchema", handler: "GetJsonSchemaHandler") -> dict[str, Any]:
        return {"type": "string", "pattern": _DURATION, "examples": ["200ms", "10s", "2m", "1h"]}

    @staticmethod
    def fix(value: object) -> str:
        if isinstance(value, str):
            return "write a positive number and its unit: 200ms, 10s, 2m, 1h"
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
        return f"write {value:g}s" if is_number else "write a duration such as 10s"


_BYTES = {"": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_SIZE = regex(r"([0-9]{1,10})(KiB|MiB|GiB|)")
SMALLEST, LARGEST = 4096, 1024**3  # bytes; one message is held in memory, and an answer to `initialize` needs 2 KiB


class Size(_Measure, int):
    """A number of bytes, `SMALLEST` to `LARGEST`."""

    __slots__ = ()
    kind = "bad_size"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text of a size.

        Raises:
            ValueError: it is not a size, or is out of bounds.
        """
        written = _SIZE.fullmatch(text)
        if not written:
            raise ValueError(f"expected a size such as 64MiB, found {text!r}")
        return cls._within_bounds(int(written[1]) * _BYTES[written[2]])

    @classmethod
    def _within_bounds(cls, number: int) -> Self:
        if not SMALLEST <= number <= LARGEST:
            raise ValueError(f"expected {SMALLEST} to {LARGEST} bytes, found {number}")
        return cls(number)

    @classmethod
    def take(cls, value: object) -> Self:
        """Convert a value of a document.

        Raises:
            ValueError: it is neither a number of bytes nor the text of a size, or it is out of bounds.
        """
        if isinstance(value, int) and not isinstance(value, bool):
            return cls._within_bounds(value)
        return cls.parse(value if isinstance(value, str) else "")

    @staticmethod
    def fix(value: object) -> str:
        return "write a number and its unit: 64MiB"
