"""The sessions of a project and profile that a person can go to and come from: each held while somebody is in it."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack

from acp_launch.errors import SessionError
from acp_launch.opened import Wanted
from acp_launch.plan.model import LaunchPlan
from acp_launch.session.options.configure import Wish
from acp_launch.session.store.choice import continued, fresh_name
from acp_launch.session.store.keep import Keeper
from acp_launch.session.store.registry import Record, Registry


class Room:
    """A session that is held by us."""

    def __init__(self, registry: Registry, plan: LaunchPlan, name: str, record: Record | None, held: ExitStack) -> None:
        """Leaving it closes `held`."""
        self.name = name
        self._registry, self._plan = registry, plan
        self._keeper = Keeper(registry, plan, record, "")
        self._record = record
        self._held = held

    def wanted(self, wishes: Sequence[Wish], *, replay: bool) -> Wanted:
        """How it is opened now: anew the first time, continued afterwards."""
        return Wanted(name=self.name, continued=self._record, replay=replay, wishes=wishes, opened=self._keeper.opened)

    def opened(self) -> None:
        """It is open, and on record: from here on it is continued."""
        self._record = self._registry.find(str(self._plan.project), self._plan.profile, self.name)

    def used(self, title: str) -> None:
        """A turn is over. `title` as the agent names the session, or its first prompt; empty keeps the one there is."""
        self._keeper.ended(title)

    def leave(self) -> None:
        """Let others in."""
        self._held.close()


class Rooms:
    def __init__(
        self,
        registry: Registry,
        plan: LaunchPlan,
        hold: Callable[[str], AbstractContextManager[None]],
        *,
        check: Callable[[str], object] = lambda name: None,
    ) -> None:
        """`hold` is held while we are in the session of that name; `check` refuses what cannot be a name."""
        self._registry, self._plan = registry, plan
        self._hold, self._check = hold, check
        self._known: tuple[tuple[str, str], ...] = ()

    def enter(self, name: str, *, is_new: bool) -> Room:
        """Go to the session of that name, or with `is_new` open it.

        Raises:
            SessionError: somebody else is in it, it works in another directory, there is none (or one, with `is_new`).
            UsageError: this is no name.
        """
        self._check(name)
        holding = ExitStack()
        holding.enter_context(self._hold(name))
        try:
            record = continued(self._registry, self._plan, name, latest=False)
            if is_new and record is not None:
                raise SessionError(f'there is a session "{name}" already', fix=f":switch {name} goes there")
            if not is_new and record is None:
                raise SessionError(f'there is no session "{name}"', fix=f":new {name} opens one; :sessions lists them")
        except BaseException:
            holding.close()
            raise
        return Room(self._registry, self._plan, name, record, holding)

    def first(self, name: str, record: Record | None, held: ExitStack) -> Room:
        """The one that the command line chose; `held` holds it already."""
        return Room(self._registry, self._plan, name, record, held)

    def fresh(self) -> Room:
        return self.enter(fresh_name(), is_new=True)

    def known(self) -> tuple[tuple[str, str], ...]:
        """Names and titles, as they were when they were last read; a file is not asked at every keystroke."""
        return self._known

    def records(self) -> Sequence[Record]:
        """Those of this project and profile, the latest first."""
        records = self._registry.list(str(self._plan.project), self._plan.profile)
        self._known = tuple((record.name, record.title) for record in records)
        return records


def ago(moment: float, *, now: float | None = None) -> str:
    """`5 min ago`."""
    passed = max(0.0, (time.time() if now is None else now) - moment)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if passed >= size:
            return f"{passed / size:.0f} {unit} ago"
    return "just now"
