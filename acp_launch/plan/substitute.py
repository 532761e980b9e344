"""
References become text, one value of a profile at a time; secrets stay references. What cannot be resolved becomes
a Problem at its place in the file, and the walk goes on, so that all of them are reported at once.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from acp_launch.document.keypath import KeyPath, dotted
from acp_launch.document.nodes import Plain
from acp_launch.plan.executable import CannotRun
from acp_launch.plan.model import Inherited, Origin, Value
from acp_launch.problem import Problem
from acp_launch.profile.load import Loaded
from acp_launch.secret.reference import (
    EnvironmentReference,
    Part,
    SecretReference,
    VariableReference,
    parse,
    place,
)


class Substitution(Struct):
    """One walk over one profile. `variables` are what `${project}` and its like stand for."""

    loaded: Loaded
    environ: Mapping[str, str]
    variables: Mapping[str, str]
    problems: list[Problem] = field(default_factory=list)

    def origin(self, path: KeyPath, *, offset: int = 0) -> Origin:
        at = self.loaded.positions.where(path, offset=offset)
        return Origin(at.file, at.line, at.column, dotted(path))

    def origins(self) -> dict[KeyPath, Origin]:
        """Where each value is written that the profile's files come to; a list is one."""
        return {path: self.origin(path) for path in _leaves(self.loaded.merged, ())}

    def value(self, path: KeyPath, template: str) -> Value | None:
        """None when something in it is unresolved; the problem is noted."""
        value, complete = self._substituted(path, template)
        return value if complete else None

    def values(self, path: KeyPath, templates: Mapping[str, str]) -> dict[str, Value]:
        found = {name: self.value((*path, name), template) for name, template in templates.items()}
        return {name: value for name, value in found.items() if value is not None}

    def sequence(self, path: KeyPath, templates: tuple[str, ...]) -> tuple[Value, ...]:
        found = (self.value((*path, index), template) for index, template in enumerate(templates))
        return tuple(value for value in found if value is not None)

    def text(self, path: KeyPath, template: str) -> str | None:
        """For what this machine is asked about now: a checked profile has no secret there."""
        value, complete = self._substituted(path, template)
        return value.reveal({}) if complete else None

    def problem(self, path: KeyPath, message: str, fix: str) -> None:
        self.problems.append(self.origin(path).problem(message, fix))

    def refuse(self, path: KeyPath, reason: CannotRun) -> None:
        self.problem(path, reason.message, reason.fix)

    def _substituted(self, path: KeyPath, template: str) -> tuple[Value, bool]:
        """What is known of a value, and whether that is all of it."""
        parts = [self._resolved(path, template, part) for part in parse(template)]
        known = tuple(part for part in parts if part is not None)
        return Value(known, self.origin(path)), len(known) == len(parts)

    def _resolved(self, path: KeyPath, template: str, part: Part) -> str | SecretReference | None:
        if isinstance(part, VariableReference):
            return self._variable(path, template, part)
        if isinstance(part, EnvironmentReference):
            return self._environment(path, template, part)
        return part

    def _variable(self, path: KeyPath, template: str, part: VariableReference) -> str | None:
        if text := self.variables.get(part.name):
            return text
        where = self.origin(path, offset=place(template, part))
        self.problems.append(where.problem(f"{part} is not known on this machine", "write the path instead"))
        return None

    def _environment(self, path: KeyPath, template: str, part: EnvironmentReference) -> str | None:
        if (found := self.environ.get(part.name)) and "\0" not in found:
            return Inherited(found, part)
        if part.default is not None:
            return part.default
        if part.name in self.environ:  # set on purpose to nothing
            return ""
        where = self.origin(path, offset=place(template, part))
        if found:
            self.problems.append(where.problem(f"{part.name} holds a NUL character", "set it to text"))
            return None
        fix = f"export {part.name}=..., or write ${{env:{part.name}:-default}}"
        self.problems.append(where.problem(f"the environment variable {part.name} is not set", fix))
        return None


def _leaves(value: Plain, path: KeyPath) -> Iterator[KeyPath]:
    if not isinstance(value, Mapping) or (not value and path):
        yield path
        return
    for key, inner in value.items():
        yield from _leaves(inner, (*path, key))
