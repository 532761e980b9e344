"""
A `Size` as people write it: `64MiB`, `512KiB`, or a number of bytes. Pure.

Importing this costs nothing; pydantic asks the class for its schema, and only then is it imported. It refuses with a
`PydanticCustomError` whose context carries `fix`.
"""

import re
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

_BYTES = {"": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_SIZE = re.compile(r"([0-9]{1,10})(KiB|MiB|GiB|)")
_MEANT = re.compile(r"([0-9]{1,10}) ?([KMG])(?:I?B)?", re.IGNORECASE)
SMALLEST, LARGEST = 4096, 1024**3  # bytes; one message is held in memory, and an answer to `initialize` needs 2 KiB
_EXAMPLE = "a number and its unit: 64MiB"


class Size(int):
    """A number of bytes, `SMALLEST` to `LARGEST`."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError when `text` is no size, or one out of bounds."""
        written = _SIZE.fullmatch(text)
        if not written:
            raise ValueError(f"expected a size such as 64MiB, found {text!r}")
        return cls._bounded(int(written[1]) * _BYTES[written[2]])

    @classmethod
    def _bounded(cls, number: int) -> Self:
        if not SMALLEST <= number <= LARGEST:
            raise ValueError(f"expected {SMALLEST} to {LARGEST} bytes, found {number}")
        return cls(number)

    @classmethod
    def take(cls, value: object) -> Self:
        """Raises ValueError when it is neither a number of bytes nor the text of one."""
        if isinstance(value, int) and not isinstance(value, bool):
            return cls._bounded(value)
        return cls.parse(value if isinstance(value, str) else "")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(cls._checked)

    @classmethod
    def _checked(cls, value: object) -> Self:
        from pydantic_core import PydanticCustomError

        try:
            return cls.take(value)
        except ValueError:
            fix = f"write {_meant(value) or _EXAMPLE}"
            raise PydanticCustomError("bad_size", "size", {"fix": fix}) from None


def _meant(value: object) -> str:
    """`64MB` and `64 mib` most likely meant 64MiB."""
    written = _MEANT.fullmatch(value) if isinstance(value, str) else None
    if not written:
        return ""
    unit = f"{written[2].upper()}iB"
    return f"{written[1]}{unit}" if SMALLEST <= int(written[1]) * _BYTES[unit] <= LARGEST else ""
