"""
A `Duration` as people write it: `200ms`, `10s`, `2m`, `1h`. Pure.

Importing this costs nothing; pydantic asks the class for its schema, and only then is it imported. It refuses with a
`PydanticCustomError` whose context carries `fix`.
"""

import re
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = r"^(?=.*[1-9])[0-9]{1,6}(?:\.[0-9]{1,3})?(?:ms|s|m|h)$"


class Duration(float):
    """A positive length of time in seconds; as text it is written the way a profile writes it."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError when `text` is no duration."""
        if not re.match(_DURATION, text) or text.endswith("\n"):
            raise ValueError(f"expected a duration such as 10s, found {text!r}")
        number = text.rstrip("mhs")
        return cls(round(float(number) * _SECONDS[text[len(number) :]], 6))

    @classmethod
    def take(cls, value: object) -> Self:
        """Raises ValueError when it is not the text of a duration."""
        if not isinstance(value, str):
            raise ValueError(f"expected a duration such as 10s, found {value!r}")
        return cls.parse(value)

    def __str__(self) -> str:
        for unit in ("h", "m", "s"):
            if self >= _SECONDS[unit] and self % _SECONDS[unit] == 0:
                return f"{int(self // _SECONDS[unit])}{unit}"
        return f"{round(self * 1000, 3):.12g}ms"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(cls._checked)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: "CoreSchema", handler: "GetJsonSchemaHandler") -> dict[str, Any]:
        return {"type": "string", "pattern": _DURATION, "examples": ["200ms", "10s", "2m", "1h"]}

    @classmethod
    def _checked(cls, value: object) -> Self:
        from pydantic_core import PydanticCustomError

        try:
            return cls.take(value)
        except ValueError:
            raise PydanticCustomError("bad_duration", "duration", {"fix": _fix(value)}) from None


def _fix(value: object) -> str:
    if isinstance(value, str):
        return "write a positive number and its unit: 200ms, 10s, 2m, 1h"
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return f"write {value:g}s" if is_number else "write a duration such as 10s"
