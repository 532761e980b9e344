"""The files a profile is made of, as they were read and understood; `gather` finds them, `merge` makes one of them."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from acp_launch.problem import Problem
from acp_launch.profile.discover import Origin

if TYPE_CHECKING:
    from acp_launch.document.tree import Document

Role = Literal["parent", "profile", "overlay"]


class Layer(Struct, frozen=True, kw_only=True):
    """One file as it was read. `origin` says whose it is; `label` is the file as messages name it."""

    file: Path
    origin: Origin
    role: Role
    label: str
    text: str

    @property
    def digest(self) -> str:
        """SHA-256 of the text, in hex."""
        from hashlib import sha256

        return sha256(self.text.encode()).hexdigest()

    def __repr__(self) -> str:  # a text may hold what nobody should read in a log
        return f"Layer({str(self.file)!r}, origin={self.origin!r}, role={self.role!r})"


class Extends(Struct, frozen=True):
    """One entry under `extends`, and where it stands."""

    entry: str
    line: int = 0
    column: int = 0
    path: str = ""


class Part(Struct, frozen=True):
    """What a layer says. No document when its text is no mapping, is empty, or was understood before."""

    layer: Layer
    extends: tuple[Extends, ...] = ()
    document: "Document | None" = None
    problems: tuple[Problem, ...] = ()


class Gathered(Struct, frozen=True):
    """`parts` in merge order; `problems` are those of the way from one file to the next: with one, some are missing."""

    parts: tuple[Part, ...]
    problems: tuple[Problem, ...]

    @property
    def layers(self) -> tuple[Layer, ...]:
        return tuple(part.layer for part in self.parts)


def ordered(problems: Iterable[Problem], layers: Iterable[Layer]) -> tuple[Problem, ...]:
    """By line, those of the profile itself (and of what is no layer) before those of each further one."""
    rank = {layer.label: index for index, layer in enumerate(layers, 1) if layer.role != "profile"}
    return tuple(sorted(problems, key=lambda each: (rank.get(each.file, 0), each.file, each.line, each.column)))
