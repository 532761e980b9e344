"""
What is launched, whichever front asks for it (`run`, `up`, `serve`, a batch); and what a command names, found from
here: the settings, a profile, a directory, a session.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, field

from acp_launch.document.scalars import Duration
from acp_launch.errors import UsageError
from acp_launch.plan.model import LaunchPlan
from acp_launch.problem import KeyPath, ours
from acp_launch.profile.discover import Found, discover, find, here, project_of
from acp_launch.profile.values import SESSION_NAME_FIX, session_name_fault
from acp_launch.settings.load import load
from acp_launch.settings.model import Settings

if TYPE_CHECKING:
    from acp_launch.engine.run import Prompt
    from acp_launch.protocol.acp import Capabilities
    from acp_launch.session.events import Answer, Ask, Person, ToolQuestion
    from acp_launch.session.opening import Setting
    from acp_launch.session.store import Record


class RunSpec(Struct, frozen=True, kw_only=True):
    """Which agent runs, in which session, with which permissions. `options` are of the agent, as "model=opus".

    `timeout` is in seconds, for all of it; `limits` are of named waits. With `latest` the session is the one that was
    used last; with `is_new` the one of this name begins anew. `keep` and `detach` are about a host.
    """

    profile: str = ""  # its name or file; empty with `agent`
    agent: str | None = None  # a command line, without a profile
    is_confined: bool = False  # the agent of such a command line
    session: str | None = None
    latest: bool = False
    is_new: bool = False
    replay: bool = True  # whether the history is shown
    cwd: Path | None = None
    approve: Literal["all", "reads", "none"] | None = None
    timeout: float | None = None
    limits: Mapping[str, Duration] = field(default_factory=dict)
    options: Sequence[str] = ()
    attach: Sequence[Path] = ()
    trust: bool = False
    locked: bool = False
    is_verbose: bool = False  # shows the agent's stderr as it comes
    trace: Path | None = None
    has_links: bool = True
    detach: bool = False
    keep: float | None = None
    outlives: bool = True  # a turn in a host goes on without the terminal that drives it

    @property
    def may_be_hosted(self) -> bool:
        """Whether a host can carry it out: it has an agent of its profile, and traces what it was told to trace."""
        return bool(self.profile) and self.trace is None and not self.locked

    @property
    def wants_host(self) -> bool:
        """Whether a host is brought up if there is none."""
        return self.detach or self.keep is not None

    def prompt(self, plan: "LaunchPlan", name: str, record: "Record | None", text: str) -> "Prompt":
        """Return the prompt `text` in the session of this name; `record` is for a session to resume."""
        from acp_launch.engine.run import Prompt, SessionRequest

        wanted_options = settings_of(plan, self.options)
        session = SessionRequest(name=name, continued=record, replay=self.replay, wanted_options=wanted_options)
        return Prompt(request=session, blocks=self._blocks(plan, text), timeout=self.timeout)

    def _blocks(self, plan: "LaunchPlan", text: str) -> "Callable[[Capabilities], list[dict[str, Any]]]":
        """Return what makes the prompt's blocks, one for each `--attach`, in a form that the agent supports."""

        def make(able: "Capabilities") -> "list[dict[str, Any]]":
            said: dict[str, Any] = {"type": "text", "text": text}
            if not self.attach:
                return [said]
            from acp_launch.session.attachments import attach

            roots = (plan.cwd, *plan.additional_directories)
            return [said, *(attach(path, able, roots=roots, machine=plan.machine) for path in self.attach)]

        return make

    def asker(self, person: "Person", plan: "LaunchPlan") -> "Ask":
        """Return what asks the user about a tool call."""

        async def ask(question: "ToolQuestion") -> "Answer":
            from acp_launch.console.ask.permission import permission_asker

            if self.agent is None:
                listing = ours("permission", "list", self.profile)
            else:
                is_here = plan.project == project_of(Path.cwd())
                listing = ours("permission", "list", "--", plan.profile)
                listing = listing if is_here else f"cd {quote(str(plan.project))}; {listing}"
            return await permission_asker(person, listing, str(plan.directory))(question)

        return ask


def settings_of(plan: "LaunchPlan", sets: Sequence[str] = ()) -> "list[Setting]":
    """Collect the mode and options of the profile and of `--set`."""
    from acp_launch.session.opening import wanted_options

    def place(path: KeyPath) -> str:
        origin = plan.origins[path]
        return f"{origin} {origin.path}"

    return wanted_options(plan.mode, plan.config, sets, place=place)


def silence(*descriptors: int) -> None:
    """Let these descriptors lead nowhere."""
    null = os.open(os.devnull, os.O_RDWR)
    for each in descriptors:
        os.dup2(null, each)
    os.close(null)


def check_session_name(session: str | None) -> str | None:
    """Check a session's name from the command line.

    Raises:
        UsageError: it is not a valid name.
    """
    if session is not None and (fault := session_name_fault(session)):
        raise UsageError(fault, fix=SESSION_NAME_FIX)
    return session


def at_home(directory: Path | None) -> Path | None:
    """Expand `~` in a directory, because shells leave it in `--cwd=~/x`: they expand it only at a word's beginning."""
    try:
        return directory.expanduser() if directory else None
    except RuntimeError:
        raise UsageError(f"--cwd: no home directory is known for {directory}", fix="give an absolute path") from None


def load_settings() -> Settings:
    """Load the user's settings; `--help` imports none of that."""
    return load()


def find_profile(name: str, settings: Settings | None = None) -> Found:
    """Find a profile by its name or path from here; raise UsageError if there is none."""
    return find(name, start=here(), settings=settings or load_settings())


def usable_profiles(settings: Settings) -> list[Found]:
    """List the profiles that can be named from here."""
    return [found for found in discover(start=here(), settings=settings) if not found.shadowed_by]
