"""
`config.yaml` and the variables become `Choices`, or every Problem at once.

A variable wins over the file. `model` has the shapes, `rules` what shapes cannot say; here all of it gets its place: a
line of the file, or the name of a variable.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from acp_launch.document.faults import UNKNOWN_KEY, Fault, described, placed, unknown_key
from acp_launch.document.nodes import found
from acp_launch.document.shape import Shape, build
from acp_launch.document.source import SETTINGS
from acp_launch.document.tree import Document, parse
from acp_launch.problem import Problem, likeliest
from acp_launch.settings import variables as environment
from acp_launch.settings.model import Choices, FileSettings, KeyringSettings, SecretSettings
from acp_launch.settings.rules import broken

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_SHAPES: Mapping[tuple[str | int, ...], type[Shape]] = {
    (): Choices,
    ("secrets",): SecretSettings,
    ("secrets", "keyring"): KeyringSettings,
    ("secrets", "file"): FileSettings,
}


def choices(text: str | None, file: str, variables: Mapping[str, str]) -> tuple[Choices | None, list[Problem]]:
    """
    What the user chose; no choices when there is a problem.

    `text` is empty without a settings file, and None when there is one that cannot be read: then the variables'
    names are all that can be judged.
    """
    usable, wrong = _usable(variables)
    document, problems = parse(text, file, SETTINGS) if text else (None, [])
    if text is None or (problems and not document):
        return None, [*wrong, *problems]
    chosen, faults = _validated(document.root if document else {}, usable)
    everything = [*wrong, *_located(faults, document, usable), *problems]
    everything.sort(key=lambda problem: (problem.line, problem.column))
    return (None if everything else chosen), everything


def _usable(variables: Mapping[str, str]) -> tuple[dict[str, str], list[Problem]]:
    """The variables that can be looked into, and what is wrong with the others."""
    wrong = {name: problem for name, text in variables.items() if (problem := _unusable(name, text))}
    return {name: text for name, text in variables.items() if name not in wrong}, list(wrong.values())


def _unusable(name: str, text: str) -> Problem | None:
    if name not in environment.NAMES:
        return _unknown(name)  # and not a word of what it holds: it may have been meant for a secret
    if not text.isascii() and text != text.encode(errors="replace").decode():
        return Problem(name, 0, 0, "", "this variable does not hold UTF-8 text", "set it in a UTF-8 locale")
    if name == environment.COMMAND and _listed(text) is None:
        what = f"expected a list in JSON, found {found(text)}"
        return Problem(name, 0, 0, "", what, """write it as '["op", "read", "op://dev/{name}/credential"]'""")
    return None


def _unknown(name: str) -> Problem:
    known = {other.partition(environment.DELIMITER)[2]: other for other in environment.NAMES}
    key = name.removeprefix(environment.NEARLY).lstrip("_").upper()
    if nearest := likeliest(key, known):
        what, fix = f"no setting has this name; did you mean {known[nearest]}?", f"rename it to {known[nearest]}"
        return Problem(name, 0, 0, "", what, fix)
    fix = f"unset {name}; a secret's value is in ACP_LAUNCH_SECRET_{key}"
    return Problem(name, 0, 0, "", "no setting has this name", fix)


def _listed(text: str) -> list[Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list) else None


def _validated(root: dict[str, Any], variables: Mapping[str, str]) -> tuple[Choices | None, list[Fault]]:
    said = _over(root, variables)
    faults = list(broken(said))
    try:
        return build(Choices, said), faults
    except ValueError:
        from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(Choices).validate_python(said), faults
    except ValidationError as invalid:
        return None, [*faults, *map(_fault, invalid.errors(include_url=False))]


def _over(root: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, Any]:
    """What the file and the variables say together: a variable wins."""
    said = dict(root)
    for name, text in variables.items():
        *sections, key = environment.path(name)
        inner = said
        for section in sections:
            there = inner.get(section)
            inner[section] = dict(there) if isinstance(there, dict) else {}
            inner = inner[section]
        inner[key] = _listed(text) if name == environment.COMMAND else text
    return said


def _fault(error: "ErrorDetails") -> Fault:
    path = error["loc"]
    if error["type"] not in UNKNOWN_KEY:
        return described(error, ())
    homes = [(*section, name) for section, shape in _SHAPES.items() for name in shape.__struct_fields__]
    if home := next((home for home in homes if home[-1] == path[-1]), None):  # `store` at the top
        meant = ".".join(map(str, home))
        return Fault(path, f'unknown key "{path[-1]}"; did you mean {meant}?', f"move it to {meant}", at_key=True)
    return unknown_key(path, _SHAPES[path[:-1]].__struct_fields__)


def _located(faults: Iterable[Fault], document: Document | None, variables: Mapping[str, str]) -> Iterator[Problem]:
    for fault in dict.fromkeys(faults):
        if name := environment.setter(fault.path, variables):
            yield Problem(name, 0, 0, "", fault.message, fault.fix)
        else:
            assert document, f"a default is wrong: {fault}"
            yield from placed(document, [fault])
