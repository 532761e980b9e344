"""
A `Template`: text in which references are allowed. Pure.

Importing this costs nothing; pydantic asks the class for its schema, and only then is it imported. It refuses with a
`PydanticCustomError` whose context carries `message`, `fix` and `offset`.
"""

from typing import TYPE_CHECKING, Any, Self

from acp_launch.secret.reference import PATTERN, BadReference, parse

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema


class Template(str):
    """Text in which references are allowed; one that passed validation parses."""

    __slots__ = ()

    @classmethod
    def take(cls, value: object) -> Self:
        """Raises ValueError when it is not text, BadReference when a reference in it is wrong."""
        if not isinstance(value, str):
            raise ValueError(f"expected text, found {value!r}")
        parse(value)
        return cls(value)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(cls._checked, core_schema.str_schema(strict=True))

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: "CoreSchema", handler: "GetJsonSchemaHandler") -> dict[str, Any]:
        return {"type": "string", "pattern": PATTERN}

    @classmethod
    def _checked(cls, value: str) -> Self:
        from pydantic_core import PydanticCustomError

        try:
            return cls.take(value)
        except BadReference as bad:
            # The message must not be a format string: what the person wrote may hold braces.
            context = {"message": str(bad), "offset": bad.offset, "fix": bad.fix}
            raise PydanticCustomError("bad_reference", "reference", context) from None
