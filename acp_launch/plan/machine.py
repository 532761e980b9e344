"""
This machine is asked for the directories and programs a profile names. What it does not have becomes a Problem at its
place; for a server that is not required, a warning.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from acp_launch.document.keypath import KeyPath
from acp_launch.plan.directory import usable
from acp_launch.plan.executable import CannotRun, find
from acp_launch.plan.model import Value
from acp_launch.plan.reach import words
from acp_launch.plan.substitute import Substitution


class Machine(Struct):
    """`required` is False where a session opens without what is missing. `found` is what is there, by its path."""

    substitution: Substitution
    found: dict[KeyPath, Path] = field(default_factory=dict)

    @property
    def environ(self) -> Mapping[str, str]:
        return self.substitution.environ

    @property
    def project(self) -> Path:
        """What relative paths are relative to."""
        return self.substitution.loaded.found.project

    def directory(self, path: KeyPath, written: str, *, required: bool = True) -> Path | None:
        """The directory that the text at `path` names; None when the problem is noted."""
        text = self.substitution.text(path, written)
        return None if text is None else self._had(usable(text, base=self.project), path, required)

    def command(self, path: KeyPath, written: str, *, search: str | None, required: bool = True) -> Path | None:
        """The program that the text at `path` names; `search` is its PATH."""
        text = self.substitution.text(path, written)
        if text is None:
            return None
        return self._had(find(text, project=self.project, path=search), path, required)

    def as_named(
        self, path: KeyPath, program: Path, args: Sequence[Value], *, cwd: Path, required: bool = True
    ) -> Path | None:
        """The same program, unless what lies in `cwd` would be run for what it names."""
        from acp_launch.plan.runners import taken_over

        return self._had(taken_over(words(program, args), cwd) or program, path, required)

    def _had(self, found: Path | CannotRun, path: KeyPath, required: bool) -> Path | None:
        if isinstance(found, Path):
            self.found[path] = found
            return found
        if required:
            self.substitution.refuse(path, found)
            return None
        self.warn(path, f"{found.message}; the session opens without this server", found.fix)
        return None

    def warn(self, path: KeyPath, message: str, fix: str) -> None:
        problem = self.substitution.origin(path).problem(message, fix)
        self.substitution.problems.append(problem._replace(severity="warning"))
