"""Which profiles need which secrets."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from acp_launch.plan.resolve import Need, needs
from acp_launch.problem import ours
from acp_launch.settings.model import Settings

if TYPE_CHECKING:
    from acp_launch.profile.load import Loaded


class Uses(Struct, frozen=True):
    """Every need, with the name of its profile; in the order of discovery, then of the lines."""

    all: tuple[tuple[str, Need], ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(need.name for _, need in self.all))

    @property
    def needs(self) -> tuple[Need, ...]:
        return tuple(need for _, need in self.all)

    def of(self, secret: str) -> tuple[str, ...]:
        """The profiles that need it."""
        return tuple(dict.fromkeys(profile for profile, need in self.all if need.name == secret))


def uses(settings: Settings, profiles: Sequence[str] = ()) -> Uses:
    """Of the profiles named; of every one that can be named from here when none is. A broken one is passed over then.

    Raises:
        UsageError, ProfileError: a profile that was named is not there, or wrong.
    """
    from acp_launch.cli.planning import here
    from acp_launch.profile.discover import find
    from acp_launch.profile.load import load

    if not profiles:
        return _uses(_usable(settings))
    return _uses([load(find(name, start=here(), settings=settings), cache=settings.cache) for name in profiles])


def _uses(profiles: "Sequence[Loaded]") -> Uses:
    return Uses(tuple((loaded.found.name, need) for loaded in profiles for need in needs(loaded)))


def _usable(settings: Settings) -> "list[Loaded]":
    from acp_launch.cli.planning import here
    from acp_launch.console.stderr import YELLOW, say
    from acp_launch.profile.discover import discover
    from acp_launch.profile.load import inspect, shown

    found = []
    for each in discover(start=here(), settings=settings):
        if each.shadowed_by:
            continue
        loaded, _ = inspect(each, cache=settings.cache)
        if loaded is not None:
            found.append(loaded)
        else:
            file = shown(each.file)
            say(f"acp-launch: {file} has problems and is passed over: {ours('validate', str(file))}", style=YELLOW)
    return found
