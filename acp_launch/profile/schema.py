"""
The profile format as JSON Schema (draft 2020-12), for editors. `schema.json` in the repository is its text.

Shapes come from `model`, descriptions from the strings under its fields, and patterns of names from `rules`, so an
editor underlines what `acp-launch validate` refuses. A profile that extends others may lack keys and remove values
with `null`: for it each shape has a twin.
"""

import ast
import inspect
import json
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from msgspec.structs import fields
from pydantic import TypeAdapter

from acp_launch.document.scalars import Duration
from acp_launch.profile import model, rules
from acp_launch.profile.check import ENTRY, MAX_ENTRIES
from acp_launch.profile.values import MAX_SESSION_NAME, SCOPE

# Twins are made from the strict shapes: they require no key and allow `null` for every value. All kinds of servers
# have one twin, because a layer may state only what differs for a server.
_TWIN = "Layer"
_SERVERS = ("StdioServer", "HttpServer", "SseServer")
_REMOTE = ("RemoteRestart", "RemoteBackoff", "RemoteTimeouts")  # their keys are among the keys of other twins
_REFERENCE = "#/$defs/"
_KINDS = {"enum": ["stdio", "http", "sse"], "title": "type", "description": "Implied by `command`."}
_LISTED = ("Rule", "Match")  # in lists only
_NOT_NULLABLE = ("version", "extends")


def layered(root: Mapping[str, Any], shapes: Mapping[str, Any]) -> dict[str, Any]:
    """Build a schema that is `root` for a profile without `extends`; `$defs` holds shapes, `root` and twins."""
    merged = {key: value for name in reversed(_SERVERS) for key, value in shapes[name]["properties"].items()}
    server = {**shapes[_SERVERS[0]], "properties": {**merged, "type": _KINDS}, "title": "Server"}
    strict = (*_SERVERS, *_REMOTE, *_LISTED)
    loose = {name: shape for name, shape in shapes.items() if name not in strict} | {"Server": server}
    twins = {f"{name}{_TWIN}": _loosen(shape) for name, shape in loose.items()}
    whole = {"if": {"not": {"required": ["extends"]}}, "then": {"$ref": f"{_REFERENCE}Profile"}}
    return {**_loosen(root), **whole, "$defs": {**shapes, "Profile": dict(root), **twins}}


def _loosen(shape: Mapping[str, Any]) -> dict[str, Any]:
    twin = {key: value for key, value in shape.items() if key not in ("required", "dependentRequired", "oneOf")}
    keys = shape["properties"].items()
    return {**twin, "properties": {key: value if key in _NOT_NULLABLE else _removable(value) for key, value in keys}}


def _removable(value: dict[str, Any]) -> dict[str, Any]:
    """Allow `null` in place of a value. Titles and descriptions stay outside, where editors look for them."""
    outside: dict[str, Any] = {key: value[key] for key in ("title", "description", "default") if key in value}
    inside = _twin({key: part for key, part in value.items() if key not in outside})
    if isinstance(entries := inside.get("additionalProperties"), dict):
        inside["additionalProperties"] = {"anyOf": [entries, {"type": "null"}]}
    return {**outside, "anyOf": [inside, {"type": "null"}]}


def _twin(part: Any) -> Any:
    """Replace references by those to twins. The items of a list stay strict, since a list is replaced as a whole."""
    if isinstance(part, list):
        twins = [_twin(item) for item in part]
        return [twin for index, twin in enumerate(twins) if twin not in twins[:index]]
    if not isinstance(part, dict) or "items" in part:
        return part
    if "$ref" in part:
        name = part["$ref"].removeprefix(_REFERENCE)
        return {**part, "$ref": f"{_REFERENCE}{'Server' if name in _SERVERS else name}{_TWIN}"}
    return {key: _twin(value) for key, value in part.items()}


DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """Build the schema as data."""
    made = TypeAdapter(model.Profile).json_schema(ref_template="#/$defs/{model}")
    found = {**made.pop("$defs"), "Profile": made}
    documented = _descriptions()
    shapes = {name: _describe(shape, name, documented[name]) for name, shape in found.items()}
    root = shapes.pop("Profile")
    _restrict(root, shapes)
    made = layered(root, shapes)
    return {"$schema": DIALECT, **made, "title": "acp-launch profile", "$defs": dict(sorted(made["$defs"].items()))}


def text() -> str:
    """Return the content of `schema.json`."""
    return json.dumps(schema(), indent=2) + "\n"


def _descriptions() -> dict[str, dict[str, str]]:
    """Collect field descriptions by class: the string constant after each annotated name in the source."""
    module = ast.parse(inspect.getsource(model))
    found = {part.name: part for part in module.body if isinstance(part, ast.ClassDef)}
    return {name: _base_docs(part, found) for name, part in found.items()}


def _base_docs(shape: ast.ClassDef, known: Mapping[str, ast.ClassDef]) -> dict[str, str]:
    bases = [known[base.id] for base in shape.bases if isinstance(base, ast.Name) and base.id in known]
    above = [_base_docs(base, known) for base in bases]
    return {key: note for docs in (*above, _attribute_docs(shape)) for key, note in docs.items()}


def _attribute_docs(shape: ast.ClassDef) -> dict[str, str]:
    found: dict[str, str] = {}
    for field, note in zip(shape.body, shape.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(note, ast.Expr):
            found[field.target.id] = str(ast.literal_eval(note.value))
    return found


def _describe(shape: dict[str, Any], name: str, described: dict[str, str]) -> dict[str, Any]:
    defaults = {entry.name: entry.default for entry in fields(getattr(model, name))}
    for key, field in shape["properties"].items():
        field["title"] = key
        field["description"] = described[key]
        if isinstance(defaults[key], Duration):
            field["default"] = str(defaults[key])  # as it is written, not in seconds
    return dict(sorted({**shape, "title": name, "additionalProperties": False}.items()))


def _restrict(root: dict[str, Any], shapes: dict[str, Any]) -> None:
    """Add what the types cannot express: patterns of names and minimum lengths."""
    extends, several = root["properties"]["extends"]["anyOf"]
    several["maxItems"] = MAX_ENTRIES
    extends["pattern"] = several["items"]["pattern"] = ENTRY
    root["properties"]["mcp_servers"]["propertyNames"] = {"pattern": rules.SERVER_NAME}
    shapes["Session"]["properties"]["name"].update(maxLength=MAX_SESSION_NAME)
    for program in ("Agent", "StdioServer"):
        shapes[program]["properties"]["env"]["propertyNames"] = {"pattern": rules.ENVIRONMENT_NAME}
        command = shapes[program]["properties"]["command"]
        (command if "type" in command else _text(command))["minLength"] = 1
        choices = shapes[program]["properties"]["inherit_env"]["anyOf"]
        next(choice for choice in choices if choice.get("type") == "array")["items"]["pattern"] = rules.INHERITED_NAME
    shapes["Agent"]["oneOf"] = [{"required": ["command"]}, {"required": ["registry"]}]
    for remote in ("HttpServer", "SseServer"):
        for key in ("headers", "env"):
            shapes[remote]["properties"][key]["propertyNames"] = {"pattern": rules.HEADER_NAME}
    _restrict_login(shapes["OAuth"])
    _add_short(root["properties"]["runtime"], ["confined"])
    for server in _SERVERS:
        _add_short(shapes[server]["properties"]["restart"], get_args(model.RestartPolicy))
    for tools in shapes["Tools"]["properties"].values():
        tools["items"]["pattern"] = r"\S"
    _restrict_rules(shapes)


def _restrict_login(oauth: dict[str, Any]) -> None:
    oauth["dependentRequired"] = {"client_secret": ["client_id"]}
    keys = oauth["properties"]
    one, several = keys["scopes"]["anyOf"]
    one["pattern"] = several["items"]["pattern"] = f"^{SCOPE.pattern}$"
    _text(keys["client_id"])["pattern"] = r"\S"
    _text(keys["client_secret"])["pattern"] = r"^(?:\$\{(?:secret|env):[^}]+\})+$"
    _text(keys["issuer"])["pattern"] = "^[Hh][Tt][Tt][Pp][Ss]?://[^/?#@]+(?:/[^?#]*)?$"
    _text(keys["client_metadata_url"])["pattern"] = "^[Hh][Tt][Tt][Pp][Ss]://[^/?#@]+/[^#]"


def _add_short(key: dict[str, Any], texts: Sequence[str]) -> None:
    """Add the texts that stand for a mapping."""
    key["anyOf"] = [{"enum": [*texts]}, {"$ref": key.pop("$ref")}]


def _text(key: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a key's schema that is about text."""
    found: dict[str, Any] = next(part for part in key["anyOf"] if part.get("type") == "string")
    return found


def _restrict_rules(shapes: dict[str, Any]) -> None:
    """Require exactly one answer for each rule, and forbid a rule that matches everything."""
    rule = shapes["Rule"]
    rule.update(minProperties=1, maxProperties=1)
    for answer in rule["properties"].values():
        answer.pop("default", None)
    match = shapes["Match"]
    match["minProperties"] = 1
    for key in match["properties"].values():
        key.pop("default", None)  # a missing key is not the same as an empty list
        for glob in (key["anyOf"][0], key["anyOf"][1]["items"]):
            glob["minLength"] = 1
    one, several = match["properties"]["kind"]["anyOf"]
    one["pattern"] = several["items"]["pattern"] = rf"^(?:{'|'.join(rules.RULE_KINDS)}|.*[*?\[].*)$"
