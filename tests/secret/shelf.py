"""A store in memory, for tests of what stands above stores."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from acp_launch.secret.value import Outcome, Secret, StoreFault


def nothing() -> None:
    """Nothing happens."""


def fault(work: Callable[[], object]) -> tuple[str, str, str]:
    """State, reason and fix of what the store raises."""
    with pytest.raises(StoreFault) as raised:
        work()
    return raised.value.state, raised.value.reason, raised.value.fix


@dataclass
class Shelf:
    """`before` runs at the beginning of every call and may raise or hang; `asked` are the names `read` was given."""

    kept: dict[str, str] = field(default_factory=dict)
    label: str = "shelf"
    before: Callable[[], object] = nothing
    asked: list[str] = field(default_factory=list)
    prepared: int = 0

    def prepare(self, *, writing: bool = False) -> None:
        self.prepared += 1

    def read(self, names: Sequence[str]) -> Mapping[str, Outcome]:
        self.asked += names
        self.before()
        return {
            name: Outcome("found", self.label, Secret(self.kept[name]))
            if name in self.kept
            else Outcome("missing", self.label)
            for name in names
        }

    def write(self, name: str, secret: Secret) -> None:
        self.before()
        self.kept[name] = secret.expose()

    def remove(self, name: str) -> bool:
        self.before()
        return self.kept.pop(name, None) is not None

    def names(self) -> Mapping[str, float | None] | None:
        self.before()
        return dict.fromkeys(self.kept)
