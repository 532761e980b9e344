"""
The files of a profile in merge order: its parents, itself, and the user's overlay. `gather` reads them.

Parents come before their children, those of one list from left to right. A file that several profiles extend is merged
once, at its first place, so nothing that one parent changes is undone because another extends the same file.

A name is resolved from the directory of the file that contains it, and never means that file itself; `discover` knows
the places. A file of a project cannot lead out of the project, by its path or by a link. Each file is read once: the
text that is checked, cached, and shown for a decision about trust is the text that was read here.
"""

import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, field

from acp_launch.document.nodes import shorten
from acp_launch.problem import Problem, did_you_mean, likeliest
from acp_launch.profile import discover
from acp_launch.profile.discover import Found, Origin, read, shown
from acp_launch.profile.layers import Extends, Layer, LayerSet, ParsedLayer

MAX_DEPTH = 16  # levels of parents
MAX_FILES = 64  # without the overlay
MAX_TEXT = 1024 * 1024  # characters in all files together, which take seconds to parse
MAX_VALUES = 20_000  # in all files together after alias expansion; a profile of a thousand servers has as many
MAX_PROBLEMS = 100  # entries that cannot be followed; after that the walk ends

ParseLayer = Callable[[Layer], ParsedLayer]


def gather(found: Found, parse_layer: ParseLayer) -> LayerSet:
    """Read the profile and all files that belong to it; `parse_layer` parses each text."""
    walk = _Walk(found, parse_layer)
    walk.profile()
    return LayerSet(tuple(walk.parts), tuple(walk.problems), tuple(walk.vacant))


class _Walk(Struct):
    """A depth-first walk. `trail` holds the files from the profile to the present one: real paths and labels."""

    found: Found
    parse_layer: ParseLayer
    parts: list[ParsedLayer] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    vacant: list[Path] = field(default_factory=list)
    trail: dict[str, str] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    files: int = 0
    characters: int = 0
    values: int = 0
    full: bool = False

    def profile(self) -> None:
        file = self.found.file
        text, problems = read(file)
        self.problems += problems
        if text is None:
            return
        origin = discover.origin_of(file, self.found.origin, user=self.found.user)
        self._visit(Layer(file=file, origin=origin, role="profile", label=shown(file), text=text))
        if origin != "built-in":
            self._overlay(origin)

    def _overlay(self, origin: Origin) -> None:
        """Read the overlay. One that exists must be readable, since the user would not notice that it was skipped."""
        file = self.found.file
        for suffix in discover.SUFFIXES:
            overlay = file.with_name(f"{file.stem}{discover.OVERLAY}{suffix}")
            if not os.path.lexists(overlay):
                self.vacant.append(overlay)
                continue
            outside = _outside(overlay, file) if _is_bounded(origin) else None
            text, problems = (None, [Problem(shown(overlay), 0, 0, "", *outside)]) if outside else read(overlay)
            self.problems += problems
            if text is not None:
                layer = Layer(file=overlay, origin=origin, role="overlay", label=shown(overlay), text=text)
                self.parts.append(self.parse_layer(layer))

    def _visit(self, layer: Layer) -> None:
        part = self.parse_layer(layer)
        self.files += 1
        self.characters += len(layer.text)
        self.values += part.document.tree.size if part.document else 0
        if part.extends:
            real = os.path.realpath(layer.file)
            self.done.add(real)
            self.trail[real] = layer.label
            for extends in part.extends:
                if not self.full:
                    self._follow(layer, extends)
            del self.trail[real]
        self.parts.append(part)

    def _follow(self, child: Layer, extends: Extends) -> None:
        target = self._target(child, extends)
        if target is None:
            return
        file, origin = target
        real = os.path.realpath(file)
        if real in self.trail:
            chain = self._chain(self.trail[real])
            self._refuse(child, extends, f"this profile extends itself: {chain}", "remove one of these entries")
        elif real not in self.done and not self._is_too_much(child, extends):
            self._parent(child, extends, real, file, origin)

    def _parent(self, child: Layer, extends: Extends, real: str, file: Path, origin: Origin) -> None:
        text, problems = read(file)
        for problem in problems:
            if problem.line:
                self.problems.append(problem)
            else:
                self._refuse(child, extends, f"{problem.file}: {problem.message}", problem.fix)
        if text is not None:
            self.done.add(real)
            self._visit(Layer(file=file, origin=origin, role="parent", label=shown(file), text=text))

    def _is_too_much(self, child: Layer, extends: Extends) -> bool:
        """Whether a limit is reached. Too long a chain skips this parent; too many or too large files end the walk."""
        if len(self.trail) > MAX_DEPTH:
            what = f"more than {MAX_DEPTH} profiles extend each other: {self._chain(extends.entry)}"
            self._refuse(child, extends, what, "merge some of them")
            return True
        self.full = self.files >= MAX_FILES or self.characters > MAX_TEXT or self.values > MAX_VALUES
        if self.full:
            most = f"{MAX_FILES} files, {MAX_TEXT // 1024} KiB and {MAX_VALUES:,} values"
            what = f"this profile extends too much: at most {most} are allowed in all"
            self._refuse(child, extends, what, "extend fewer or smaller files")
        return self.full

    def _target(self, child: Layer, extends: Extends) -> tuple[Path, Origin] | None:
        """Return the file that an entry means; None if there is a problem, which is recorded."""
        if extends.entry.startswith("."):
            return self._at_path(child, extends)
        for file, origin in discover.reachable(extends.entry, child.file, user=self.found.user):
            if not _is_bounded(origin) or not (outside := _outside(file, file)):
                self.vacant += discover.nearer(extends.entry, child.file, file, user=self.found.user)
                return file, origin
            self._refuse(child, extends, *outside)
            return None
        self._refuse(child, extends, *self._unknown(child, extends.entry))
        return None

    def _at_path(self, child: Layer, extends: Extends) -> tuple[Path, Origin] | None:
        file = Path(os.path.normpath(child.file.parent / extends.entry))
        outside = _outside(file, child.file) if _is_bounded(child.origin) else None
        if outside or not os.path.lexists(file):
            self._refuse(child, extends, *(outside or self._no_file(extends.entry, file)))
            return None
        otherwise: Origin = "project" if child.origin == "project" else "path"
        return file, discover.origin_of(file, otherwise, user=self.found.user)

    def _no_file(self, entry: str, file: Path) -> tuple[str, str]:
        suffix = next((suffix for suffix in discover.SUFFIXES if os.path.lexists(f"{file}{suffix}")), "")
        fix = f"write {entry}{suffix}" if suffix else "correct the path; it begins where this file lies"
        return f'cannot find the file "{shorten(entry)}" to extend{self._way(entry)}', fix

    def _unknown(self, child: Layer, name: str) -> tuple[str, str]:
        names = discover.names_within_reach(child.file, user=self.found.user)
        nearest = likeliest(name, names)
        known = f"use one of {', '.join(names)}; or ./NAME.yaml for a file beside this one"
        fix = f"write {nearest}" if nearest else known
        return f'no profile named "{shorten(name)}" to extend{did_you_mean(name, names)}{self._way(name)}', fix

    def _way(self, last: str) -> str:
        """Describe the chain of files to this one, if the problem's own file does not show it."""
        return f" ({self._chain(last)})" if len(self.trail) > 1 else ""

    def _chain(self, last: str) -> str:
        return " → ".join([*self.trail.values(), shorten(last)])

    def _refuse(self, child: Layer, extends: Extends, message: str, fix: str) -> None:
        self.problems.append(Problem(child.label, extends.line, extends.column, extends.path, message, fix))
        self.full = self.full or len(self.problems) >= MAX_PROBLEMS


def _is_bounded(origin: Origin) -> bool:
    """Whether files of this origin must stay in their project. They are untrusted; the user's own may lead anywhere."""
    return origin in ("project", "path")


def _outside(file: Path, start: Path) -> tuple[str, str] | None:
    """Say why `file` cannot be used; None if it lies in the project of `start`."""
    project, real = os.path.realpath(discover.boundary(start)), os.path.realpath(file)
    if Path(real).is_relative_to(project):
        return None
    return f"{shown(file)} leads out of the project: {real} is not below {project}", "copy it into the project"
