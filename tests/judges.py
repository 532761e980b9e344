"""
Two judges of one value: the models of the `agent-client-protocol` package, and the JSON Schema that stands beside the
checkout in some places (`../shared/data/acp-schema/schema.v1.json`), which is newer and stricter.

Unknown fields are violations: the schema says so where it is there, the models elsewhere.
"""

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import acp.schema as models
import jsonschema
from jsonschema.protocols import Validator
from pydantic import BaseModel, TypeAdapter, ValidationError

Json: TypeAlias = Any

SCHEMA = Path(__file__).resolve().parents[2] / "shared" / "data" / "acp-schema" / "schema.v1.json"

# Where the package has several classes for one definition of the schema.
UNIONS: dict[str, Any] = {
    "SetSessionConfigOptionRequest": (
        models.SetSessionConfigOptionBooleanRequest | models.SetSessionConfigOptionSelectRequest
    ),
}
# Fields the 0.12.1 models (schema 1.19) do not know yet and the stable schema of today does.
NEWER = {"notices", "compaction", "name"}
# Strings of which the schema says that they are, and not empty at most: what differs in them alone is judged once.
FREE = {"text", "messageId", "toolCallId", "title"}
# Fields real agents send and only the unstable schema knows; the models check their shape.
UNSTABLE = {("PromptResponse", "usage")}


def judge(definition: str, value: Json) -> list[str]:
    """What is wrong with a value that should be this definition of the schema (`NewSessionRequest`)."""
    return [*_by_schema(definition, value), *_by_models(definition, value)]


def _by_models(definition: str, value: Json) -> list[str]:
    try:
        found = _adapter(definition).validate_python(value)
    except ValidationError as error:
        return [
            f"{definition} (models): {'.'.join(map(str, problem['loc']))}: {problem['msg']}"
            for problem in error.errors(include_url=False, include_input=False)
        ]
    if SCHEMA.exists() or not isinstance(found, BaseModel):
        return []
    return [
        f"{definition} (models): unknown field {path.removeprefix('.')}"
        for path in _lost(value, found.model_dump(mode="json", by_alias=True, exclude_unset=True), "")
    ]


def _lost(sent: Json, kept: Json, where: str) -> Iterator[str]:
    """Fields of `sent` that the models ignored. What is under `_meta` is free."""
    if isinstance(sent, dict) and isinstance(kept, dict):
        for key, value in sent.items():
            if key in kept:
                yield from _lost(value, kept[key], f"{where}.{key}")
            elif key not in NEWER:
                yield f"{where}.{key}"
    elif isinstance(sent, list) and isinstance(kept, list):
        if len(sent) != len(kept):  # the models skip items they cannot read, without a word
            yield f"{where} (or an item of it that is malformed)"
        for index, (one, other) in enumerate(zip(sent, kept, strict=False)):
            yield from _lost(one, other, f"{where}[{index}]")


@functools.cache
def _adapter(definition: str) -> TypeAdapter[Any]:
    return TypeAdapter(UNIONS.get(definition) or getattr(models, definition))


def _by_schema(definition: str, value: Json) -> list[str]:
    if not SCHEMA.exists():
        return []
    unstable = {field for owner, field in UNSTABLE if owner == definition}
    if unstable and isinstance(value, dict):
        value = {key: item for key, item in value.items() if key not in unstable}
    kind = hash((definition, json.dumps(_kind(value))))
    if kind in _flawless:
        return []
    wrong = [
        f"{definition} (schema): {error.json_path}: {error.message[:200]}"
        for error in _validator(definition).iter_errors(value)
    ]
    if not wrong:
        _flawless.add(kind)
    return wrong


_flawless: set[int] = set()  # kinds of values without a fault; judging one takes milliseconds


def _kind(value: Json) -> Json:
    """The value without what is free in it."""
    if isinstance(value, dict):
        return {
            key: bool(item) if key in FREE and isinstance(item, str) else _kind(item) for key, item in value.items()
        }
    return [_kind(item) for item in value] if isinstance(value, list) else value


@functools.cache
def _validator(definition: str) -> Validator:
    return jsonschema.Draft202012Validator(
        {"$ref": f"#/$defs/{definition}", "unevaluatedProperties": False, "$defs": _closed_definitions()}
    )


@functools.cache
def _closed_definitions() -> dict[str, Json]:
    definitions: dict[str, Json] = json.loads(SCHEMA.read_bytes())["$defs"]
    return {name: _closed(schema) for name, schema in definitions.items()}


def _closed(schema: Json) -> Json:
    """The schema with every value it describes closed to unknown fields.

    Closing happens where a value is *placed* (under `properties` and `items`), not in the definition itself: there
    `allOf` adds fields such as `type` that the definition cannot see.
    """
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: _closed(item) if key not in {"enum", "const", "default"} else item for key, item in schema.items()}
    if isinstance(schema.get("properties"), dict):
        result["properties"] = {name: _shut(_closed(item)) for name, item in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            result[key] = _shut(result[key])
    return result


def _shut(schema: Json) -> Json:
    describes = ("$ref", "allOf", "anyOf", "oneOf", "properties")
    if not isinstance(schema, dict) or not any(key in schema for key in describes):
        return schema
    return {"unevaluatedProperties": False, **schema}
