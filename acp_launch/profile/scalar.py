"""
Numbers and truth values of a profile, taken as they stand: YAML's `"5"` is text and `1` is no truth value. Pure.

Used as `Annotated[int, COUNT]`; with `Annotated[tuple[str, ...], LISTED]` a text stands for a list of one. Importing
this costs nothing; pydantic asks the note for its schema, and only then is it imported. It refuses with a
`PydanticCustomError` that says what is expected and whose context carries `fix`.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

MOST = 100  # of a factor: what is more was meant to be something else


class Scalar(Struct, frozen=True):
    """What one kind of value must be; `accepts` decides, `schema` is the same for editors."""

    expected: str
    fix: str
    accepts: Callable[[Any], bool]
    schema: Mapping[str, Any]

    def take(self, value: Any, build: Callable[[Any], Any]) -> Any:
        """Raises ValueError when it is not accepted."""
        if not self.accepts(value):
            raise ValueError(self.expected)
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(self._checked)

    def __get_pydantic_json_schema__(self, schema: "CoreSchema", handler: "GetJsonSchemaHandler") -> dict[str, Any]:
        return dict(self.schema)

    def _checked(self, value: Any) -> Any:
        from pydantic_core import PydanticCustomError

        if self.accepts(value):
            return value
        raise PydanticCustomError("bad_scalar", "{expected}", {"expected": self.expected, "fix": self.fix})


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_factor(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= MOST


TRUTH = Scalar("true or false", "write true or false", lambda value: isinstance(value, bool), {"type": "boolean"})
COUNT = Scalar(
    "a whole number from 0 up", "write a number such as 5, or 0 for none", _is_count, {"type": "integer", "minimum": 0}
)
FACTOR = Scalar(
    f"a number from 1 to {MOST}",
    "write a number such as 2, or 1 for equal pauses",
    _is_factor,
    {"type": "number", "minimum": 1, "maximum": MOST},
)
SETTING = Scalar(
    "text, true or false",
    "write text, true or false",
    lambda value: isinstance(value, str | bool),
    {"type": ["string", "boolean"]},
)
FILES = Scalar(
    "true, false or read",
    "write true, false or read",
    lambda value: isinstance(value, bool) or value == "read",
    {"enum": [True, False, "read"]},
)


class Listed:
    """One item may stand for a list of one; an empty list is refused by whoever knows what it would mean."""

    def take(self, value: Any, build: Callable[[Any], Any]) -> Any:
        """Raises ValueError when the list is declined."""
        return build(_listed(value))

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(_listed, handler(source))

    def __get_pydantic_json_schema__(self, schema: "CoreSchema", handler: "GetJsonSchemaHandler") -> dict[str, Any]:
        listed = handler(schema)
        return {"anyOf": [listed["items"], {**listed, "minItems": 1}]}


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


LISTED = Listed()
