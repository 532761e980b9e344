"""The sessions of a served profile, each with its own plan. Imported once the agent starts."""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from acp_launch.app.context import gates, sharing
from acp_launch.app.planning import compare_lock, prepare_plan, require_plan, require_trust
from acp_launch.app.serve import ServedLaunch, lend_streams, name_place
from acp_launch.app.spec import settings_of
from acp_launch.app.start import agent_log, server_logs, spawn_agent, with_workdirs
from acp_launch.console.stream.redacted import RedactedOutput
from acp_launch.engine.context import LaunchContext
from acp_launch.engine.loop import Interrupts, supervise
from acp_launch.engine.prepared import PreparedPlan
from acp_launch.engine.run import Launch
from acp_launch.engine.servers import LaunchServers
from acp_launch.engine.surroundings import AgentLaunch
from acp_launch.errors import AgentError, LaunchError, ProfileError, SessionError
from acp_launch.plan.model import OverSsh
from acp_launch.plan.place import shows
from acp_launch.plan.resolve import resolve
from acp_launch.private import real
from acp_launch.problem import ours
from acp_launch.process.child import HASTY_GRACE_SECONDS
from acp_launch.process.flow import Lent
from acp_launch.profile.discover import find
from acp_launch.profile.load import load
from acp_launch.served.client import HostAsAgent, enter_from_editor
from acp_launch.served.editor import EditorConnection, EditorNotices
from acp_launch.served.editorsession import SessionPlan
from acp_launch.served.registry import HostNote
from acp_launch.session.events import show_note
from acp_launch.session.hold import Key, hold, list_held
from acp_launch.session.store import open_registry

MakeLaunch = Callable[[LaunchContext, RedactedOutput, Interrupts, LaunchServers], Launch]


class ServedProfile:
    """A profile whose agent was started."""

    def __init__(self, launch: ServedLaunch) -> None:
        self.launched = launch
        self.request, self.settings, self.loaded = launch.request, launch.settings, launch.loaded
        self.ready, self.plan, self.guard, self.trace = launch.ready, launch.plan, launch.guard, launch.trace

    def run(self, source: int, sink: int) -> int:
        feed = EditorNotices(is_verbose=self.request.is_verbose)
        self.observer = RedactedOutput(feed)
        self.note = partial(show_note, self.observer)
        with self._context() as context:
            return asyncio.run(self._serve(context, feed, *lend_streams(source, sink)))

    @contextmanager
    def _context(self) -> "Iterator[LaunchContext]":
        settings, plan, trace, note = self.settings, self.plan, self.trace, self.note
        if trace is not None:
            trace.note = note
        for each in self.ready.credentials.values():
            each.note = note
        with closing(agent_log(settings, plan)) as log, closing(server_logs(settings, plan)) as logs:
            log.begin()
            yield LaunchContext(
                prepared=PreparedPlan(plan),
                guard=self.guard,
                max_line=settings.max_line,
                log=log,
                grace=HASTY_GRACE_SECONDS,
                respawn=lambda: spawn_agent(self.ready),
                server_logs=logs,
                cache=settings.cache,
                trace=trace,
                share=sharing(settings, plan, "serve"),
            )

    async def _serve(self, context: "LaunchContext", feed: "EditorNotices", source: Lent, sink: Lent | int) -> int:
        plan, observer = self.plan, self.observer
        async with supervise(self.guard) as interrupts:
            servers = LaunchServers(plan, observer, interrupts.budget, context.server_logs)  # none: sessions have them
            launch = self.make_launch(context, observer, interrupts, servers)
            plan_session, deleting = self.plan_session, self.hold_deleted
            face = EditorConnection(launch, feed, source, sink, observer, plan_session=plan_session, deleting=deleting)
            try:
                await face.run()
            except LaunchError as error:
                if error is not face.told:
                    raise
                return error.exit_code
            interrupts.check()
            return 0

    @property
    def make_launch(self) -> MakeLaunch:
        return partial(AgentLaunch, spawned=self.launched.spawned)

    @contextmanager
    def plan_session(self, cwd: Path) -> "Iterator[SessionPlan]":
        """Plan a session for its directory."""
        prepared = self._for(cwd)
        plan = prepared.plan
        state = self.settings.state
        with (
            with_workdirs(self.settings, plan) as given,
            gates(given, self.settings, self.note) as gate,
            open_registry(state) as registry,
        ):
            yield SessionPlan(
                prepared=prepared._replace(plan=given),
                wanted_options=settings_of(given),
                gate=gate(),
                registry=registry,
                hold=lambda name, id: _hold(state, (str(plan.project), plan.profile, name), id),
            )

    @contextmanager
    def hold_deleted(self, session_id: str, is_open: bool) -> "Iterator[Callable[[], None]]":
        """Hold a session while it is deleted, unless it `is_open` here; give what removes it from the store.

        Raises:
            SessionError: another process has it open.
        """
        if is_open:
            yield lambda: self.forget(session_id)
            return
        state, key = self.settings.state, (str(self.plan.project), self.plan.profile)
        with open_registry(state) as registry:
            stored = [each.key for each in registry.list(*key) if each.session_id == session_id]
        held = [each.key for each in list_held(state) if (each.session_id, each.key[:2]) == (session_id, key)]
        with ExitStack() as stack:
            for each in dict.fromkeys((*stored, *held)):
                stack.enter_context(_hold(state, each, fix="close it there first"))
            yield lambda: self.forget(session_id)

    def forget(self, session_id: str) -> None:
        """Remove a session from the store that the agent has deleted."""
        key = str(self.plan.project), self.plan.profile
        try:
            with open_registry(self.settings.state) as registry:
                for record in [each for each in registry.list(*key) if each.session_id == session_id]:
                    registry.remove(record.key)
        except LaunchError as error:
            self.note(f"the session stays in the list: {error.message}")

    def _for(self, cwd: Path) -> "PreparedPlan":
        """Plan the profile of this name as it is found from a directory; trust is judged there."""
        if self.loaded.found.origin == "path":
            found = self.loaded.found
        else:
            found = find(self.request.profile, start=cwd, settings=self.settings)
        loaded = load(found, cache=self.settings.cache)
        resolved = resolve(loaded, cwd=cwd, environ=os.environ, cwd_override=cwd)
        # The editor gave this directory, and no option.
        problems = tuple(each._replace(file="cwd") if each.file == "--cwd" else each for each in resolved.problems)
        resolved = replace(resolved, problems=problems)
        with name_place(cwd):
            require_trust(loaded, self.settings, allow_once=self.request.trust, found=resolved.found)
        if self.request.locked and (different := compare_lock(loaded, resolved)[0]):
            raise ProfileError(different)
        running = self.ready.plan
        if resolved.plan is not None and not (
            loaded.profile.agent == self.loaded.profile.agent
            and loaded.profile.runtime == self.loaded.profile.runtime
            and resolved.plan.agent.command == running.agent.command
        ):
            what = f"the agent of {loaded.label} is not the one that runs for {self.loaded.label}"
            raise SessionError(what, fix="start the agent again in the editor, in the directory of this session")
        if resolved.plan is not None and running.place is not None:
            is_there = isinstance(running.place.elsewhere, OverSsh)  # where each session has one directory
            directories = (resolved.plan.cwd, *resolved.plan.additional_directories)
            if hidden := [each for each in directories if not (is_there or shows(running.place, real(each)))]:
                key = "runtime.container.mounts" if running.place.elsewhere else "runtime.confined.write"
                fix = f"start the agent again in the editor, in this directory; or name it in {key}"
                raise SessionError(f"the agent is {running.place.words}, and does not see {hidden[0]}", fix=fix)
            resolved = replace(resolved, plan=replace(resolved.plan, place=running.place))
        if loaded.merged != self.loaded.merged:
            return prepare_plan(resolved, self.settings)
        plan = require_plan(resolved)
        names = {server.name for server in running.servers}  # without those that lack a login
        servers = tuple(server for server in plan.servers if server.name in names)
        return PreparedPlan(replace(plan, servers=servers), self.ready.secrets, self.ready.credentials)


class HostedProfile(ServedProfile):
    """A profile whose agent is its host, which decides about tool calls, and keeps the sessions."""

    @property
    def make_launch(self) -> MakeLaunch:
        return partial(HostAsAgent, find=self._find_host)

    def _find_host(self) -> HostNote:
        """Find the host, also after its end."""
        note = self.launched.find_running_host(self.plan)
        if note is None:
            raise AgentError(f"the host of {self.plan.called} has ended", fix=ours("up", self.plan.called))
        return note

    @contextmanager
    def plan_session(self, cwd: Path) -> "Iterator[SessionPlan]":
        if os.path.realpath(cwd) != os.path.realpath(self.plan.cwd):
            what = f"{self.plan.called} is up in {self.plan.cwd}, and its sessions work only there"
            down = ours("down", self.plan.called)
            raise SessionError(what, fix=f"for a session in {cwd}: {down}, and start the agent again in the editor")
        with open_registry(self.settings.state) as registry:
            yield SessionPlan(
                prepared=PreparedPlan(self.plan),
                wanted_options=settings_of(self.plan),
                gate=None,
                registry=registry,
                stores=False,
                hold=lambda name, id: nullcontext(),
                enters=enter_from_editor,
            )

    @contextmanager
    def hold_deleted(self, session_id: str, is_open: bool) -> "Iterator[Callable[[], None]]":
        yield lambda: self.forget(session_id)  # the host knows its fronts


@contextmanager
def _hold(
    state: Path, key: Key, session_id: str = "", *, fix: str = "close it there, or open another session"
) -> "Iterator[None]":
    """Lock a session; an editor cannot choose another name for it."""
    with ExitStack() as stack:
        try:
            stack.enter_context(hold(state, key, verb="serve", session_id=session_id))
        except SessionError as error:
            error.fix = fix
            raise
        yield
