"""
What `doctor` examines: this machine, and one profile on it, whose agent and servers are started at once.

The live checks run independently: the agent gets no server, and each server has acp-launch as its client. A failure of
one does not end the checks of the others. They use the code of a run for comparing servers with the agent's
capabilities, for opening and setting up a session, and for the advice about logins, so that both judge alike. All of it
is imported before anything starts, so that measured times are the programs' own.
"""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from functools import cache, partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from acp_launch import shutdown
from acp_launch.app.context import logging_in
from acp_launch.app.credentials import CredentialFactory, ServerLogin, list_lacking, print_headers, server_logins
from acp_launch.app.operation import VerbProcesses, verb_processes
from acp_launch.app.planning import list_rows, loaded_profile, resolved_from
from acp_launch.app.probe import StartedServer, meet_server
from acp_launch.app.spec import at_home, load_settings, settings_of
from acp_launch.app.start import server_logs, session_of, with_seat
from acp_launch.app.stores import open_store, outcomes, protect_secrets, say_waiting
from acp_launch.bridge import offer
from acp_launch.bridge.toolpolicy import ToolPolicy
from acp_launch.checks import answers, confined, machine
from acp_launch.checks import profile as profile_checks
from acp_launch.checks.check import MACHINE, Check, exit_code, of_error, of_problem, ok
from acp_launch.checks.profile import ProfilePart, StoreCheck, lacking_secrets
from acp_launch.console import doctor as screen
from acp_launch.console.servers import ServerMessages
from acp_launch.console.stderr import DIM, can_ask_user, tell
from acp_launch.console.stream.redacted import RedactedOutput
from acp_launch.console.stream.text import Notices
from acp_launch.console.trust import report
from acp_launch.engine.loop import Interrupts
from acp_launch.engine.prepared import PreparedPlan
from acp_launch.engine.run import SessionRequest, add_advice, open_requested
from acp_launch.engine.servers import LaunchServers, unable, untakeable
from acp_launch.engine.surroundings import explain_place
from acp_launch.errors import AgentError, AgentRefused, LaunchError, ServerError, StateError, Stopped, WaitExpired
from acp_launch.mcp.client import PING_TIMEOUT, ROOTS, Survey, survey
from acp_launch.mcp.http.wire import Credentials
from acp_launch.plan.confinement import prepare_place
from acp_launch.plan.model import InContainer, LaunchPlan, Place, next_command
from acp_launch.process import node
from acp_launch.process.child import Child, attach
from acp_launch.process.foreground import available
from acp_launch.process.program import Running, stop
from acp_launch.process.spawn import Spawned
from acp_launch.profile.discover import discover, here
from acp_launch.profile.load import Loaded, shown
from acp_launch.protocol.acp import Offers
from acp_launch.rpc import connected
from acp_launch.secret.lookup import secrets
from acp_launch.secret.stores import chosen_kind
from acp_launch.secret.value import Outcome, Store
from acp_launch.session.client import AcpSession
from acp_launch.session.connection import Budget, Connection, connect, negotiate
from acp_launch.session.login import point_to_trace, refer_to_log
from acp_launch.session.opening import how_to_continue
from acp_launch.session.permission.gate import Gate
from acp_launch.session.permission.policy import policy
from acp_launch.session.store import Record
from acp_launch.settings.load import FILE
from acp_launch.settings.model import Settings


class Checkup(Struct, kw_only=True):
    """One run of `doctor`. `found` grows, so that an interrupted run still shows its results."""

    name: str | None
    cwd: Path | None
    opens_session: bool
    allow_once: bool
    trace: Path | None
    found: list[Check] = []
    answers: dict[str, list[Check]] = {}  # by part
    started: list[ProfilePart] = []

    def show(self, *, as_json: bool) -> int:
        """Check, and print what was found. Return the exit code."""
        protect_secrets()
        code = self.run()
        screen.show(self.found, self.name, exit_code(self.found), as_json=as_json, is_cut_short=code > 0)
        return code or exit_code(self.found)

    def run(self) -> int:
        """Run all checks; return 0, or the exit code of the signal that ended them."""
        try:
            self._examine()
        except Stopped as stopped:
            return stopped.exit_code
        except KeyboardInterrupt:
            return shutdown.code()
        except LaunchError as error:  # the launch itself failed, for instance for want of descriptors
            self._note(of_error("acp-launch", error))
        finally:  # the answers in the profile's order; a part without an answer was interrupted
            for part in self.started:
                self._note(self.answers.get(part.label) or [answers.no_answer(part)])
        return 0

    def _note(self, checks: Iterable[Check]) -> None:
        for check in checks:  # one by one, as a signal may come in between
            self.found.append(check)

    def _examine(self) -> None:
        self._note([machine.versions()])
        try:
            settings = load_settings()
        except LaunchError as error:  # and then no further check is possible
            self._note(of_error("settings", error))
            return
        file = settings.config / FILE
        there = str(file) if file.exists() else f"the defaults; there is no {file}"
        self._note([ok("settings", "", there, file=str(file))])
        self._note(machine.check_machine(settings))
        store = profile_checks.store(settings, partial(open_store, shows=False), say_waiting)
        self._note([store.check])
        if self.name is None:
            self._note(profile_checks.profiles(discover(start=here(), settings=settings), settings.cache))
        elif loaded := self._load(self.name, settings):
            self._examine_profile(loaded, settings, store)

    def _load(self, name: str, settings: Settings) -> Loaded | None:
        try:
            loaded = loaded_profile(name, settings)
        except LaunchError as error:
            self._note(of_error("profile", error))
            return None
        found = loaded.found
        where = f"{shown(found.file)} ({found.origin})"
        self._note([ok("profile", found.name, where, file=str(found.file), origin=found.origin)])
        shared = [each for each in loaded.problems if not each.path.startswith(("agent", "mcp_servers"))]
        self._note([of_problem("profile", found.name, each, 2) for each in shared])
        return loaded

    def _examine_profile(self, loaded: Loaded, settings: Settings, store: StoreCheck) -> None:
        trusted = profile_checks.trust(
            loaded,
            settings,
            lambda state: report(list_rows(loaded, state, resolved_from(loaded, cwd=self.cwd).found), state),
            allow_once=self.allow_once,
        )
        self._note([trusted])
        parts = list(profile_checks.parts(loaded, cwd=here(), environ=os.environ, override=at_home(self.cwd)))
        self._note(profile_checks.faults(parts))
        if trusted.verdict == "problem":
            return
        plan = parts[0].plan
        if plan is not None and plan.place is not None:
            examined = list(self._examine_place(plan.place))
            if plan.place.elsewhere and any(each.verdict == "problem" for each in examined):
                self.answers[parts[0].label] = examined
            else:
                self._note(examined)
        programs = [(part.label, part.plan) for part in parts if part.plan is not None and part.remote is None]
        paths = [(label, str(plan.agent.command)) for label, plan in programs]
        self._note(ok("command", label, path, path=path) for label, path in paths)
        opening = cache(partial(open_store, settings, shows=False))
        logins = server_logins([part.remote for part in parts if part.remote is not None], settings)
        found = self._look_up(parts, logins, settings, store, opening)
        record = self._find_session(parts[0].plan, settings)
        known = secrets(found)
        factory = CredentialFactory(settings=settings, opening=opening, secrets=known, called=loaded.found.called)
        credentials = self._credentials(parts, logins, found, factory)
        for part in parts:
            if part.plan is not None and (names := lacking_secrets(part, known)):
                fix = next_command(names[0], found[names[0]], has_terminal=can_ask_user())
                self.answers[part.label] = [answers.without_secret(part, names, fix)]
        self.started = [part for part in parts if part.plan is not None]
        able = [part for part in self.started if part.label not in self.answers]
        if able:
            if sys.stderr.isatty():
                tell(f"starting {', '.join(part.server or part.label for part in able)}", style=DIM)
            live = LiveChecks(
                parts=parts,
                factory=factory,
                credentials=credentials,
                continued=record,
                opens_session=self.opens_session,
                trace=self.trace,
                answer=self._answer,
            )
            live.run(able)

    def _examine_place(self, where: Place) -> Iterable[Check]:
        if isinstance(where.elsewhere, InContainer):
            return [confined.ask_engine(where.program, where.elsewhere)]
        if where.elsewhere is not None:
            return []
        found = confined.probe(is_needed=True)
        if found.verdict == "problem":
            return [found]
        prepare_place(where)
        return confined.examine_state(where)

    def _look_up(
        self,
        parts: Sequence[ProfilePart],
        logins: Sequence[ServerLogin],
        settings: Settings,
        store: StoreCheck,
        opening: Callable[[], Store],
    ) -> Mapping[str, Outcome]:
        """Look up the secrets and the tokens of logins, and report the secrets."""
        names = list(dict.fromkeys(need.name for part in parts for need in part.needs))
        items = list(dict.fromkeys(login.item for login in logins if login.item))
        if not names and not items:
            return {}
        if chosen_kind(settings.secrets).is_desktop:
            opening = partial(profile_checks.open_checked, opening, store)
        found = outcomes([*names, *items], settings, opening=opening)
        self._note(profile_checks.secret_checks({name: found[name] for name in names}, has_terminal=can_ask_user()))
        self._note(profile_checks.unfit_checks(parts, found))
        return found

    def _find_session(self, plan: LaunchPlan | None, settings: Settings) -> Record | None:
        """Find the session that a run would resume, and hold it for a moment, as a run fails if it is in use."""
        if plan is None or plan.session is None or not (settings.state / "sessions").exists():
            return None
        try:
            with ExitStack() as stack:
                return session_of(plan, settings, stack, stack)[2]
        except LaunchError as error:
            self._note(replace(each, subject=plan.session) for each in of_error("session", error))
            return None

    def _credentials(
        self,
        parts: Sequence[ProfilePart],
        logins: Sequence[ServerLogin],
        found: Mapping[str, Outcome],
        factory: CredentialFactory,
    ) -> Mapping[str, Credentials]:
        """Return the credentials of remote servers, and report the servers that lack them."""
        credentials = factory.credentials(logins, found)
        without = print_headers(logins, credentials, factory.settings)
        lacks = {lack.server.name: lack for lack in (*list_lacking(logins, found, factory.called), *without)}
        for part in parts:
            if part.plan is not None and (lack := lacks.get(part.server)) is not None:
                self.answers[part.label] = [answers.without_login(part, lack.what, lack.fix)]
        able = {
            part.server for part in parts if part.server not in lacks and not lacking_secrets(part, factory.secrets)
        }
        return {name: each for name, each in credentials.items() if name in able}

    def _answer(self, part: ProfilePart, check: Check) -> None:
        """Add a result of a part. What a remote server answers does not matter if the agent does not support it."""
        checks = [*self.answers.get(part.label, []), check]
        wrong = [each for each in checks if each.verdict == "problem"]
        self.answers[part.label] = wrong if part.remote is not None and wrong else checks


class LiveChecks(Struct, frozen=True, kw_only=True):
    """The checks of agent and servers. `answer` receives each result as soon as it is known.

    `parts` are all of the profile; `credentials` are of servers that need a login, by their names; `continued` is
    the session that a run would resume; `trace` is the file of `--trace`.
    """

    parts: Sequence[ProfilePart]
    factory: CredentialFactory
    credentials: Mapping[str, Credentials]
    continued: Record | None
    opens_session: bool
    trace: Path | None
    answer: Callable[[ProfilePart, Check], None]

    def run(self, able: Sequence[ProfilePart]) -> None:
        """Check the parts that can be started.

        Raises:
            Stopped: a signal came; earlier results have been passed to `answer`.
        """
        first, settings = able[0], self.factory.settings
        bridged = [each.server for each in self.parts if each.planned is not None and offer.is_bridged(each.planned)]
        assert first.plan is not None
        ready = PreparedPlan(first.plan, self.factory.secrets)
        seated = nullcontext(ready) if first.server else with_seat(ready, settings, is_fixed=not bridged)
        with verb_processes(settings, first.plan, "doctor", self.trace) as processes, seated as ready:
            first = replace(first, plan=ready.plan)
            spawned, begun = None if first.server else self._spawn(first, processes), time.monotonic()

            async def check_all(interrupts: Interrupts) -> None:
                async with asyncio.TaskGroup() as tasks:
                    if spawned is not None:
                        tasks.create_task(self._check_agent(first, spawned, begun, processes, interrupts.hurry))
                    for part in able:
                        if part.server:
                            tasks.create_task(self._check_server(part, processes, interrupts.hurry))

            processes.run(lambda interrupts: interrupts.watch(check_all(interrupts)))

    def _spawn(self, part: ProfilePart, processes: VerbProcesses) -> Spawned | None:
        assert part.plan is not None
        try:
            return processes.agent(PreparedPlan(part.plan, self.factory.secrets))
        except (AgentError, StateError) as error:
            self.answer(part, answers.failure(part, error, self.factory.called, has_log=False))
            return None

    async def _check_agent(
        self, part: ProfilePart, spawned: Spawned, begun: float, processes: VerbProcesses, hurry: asyncio.Event
    ) -> None:
        """Check the agent and stop its process; the result is reported before the stop, which may take long."""
        plan, max_line = part.plan, self.factory.settings.max_line
        assert plan is not None
        async with attach(spawned, log=processes.log) as child:
            with connected(child, processes.trace) as transport:
                output, command = RedactedOutput(Notices()), plan.agent.display
                try:
                    async with connect(transport, output, max_line=max_line, command=command) as connection:
                        await self._ask_agent(part, plan, connection, child, begun)
                except LaunchError as error:
                    is_said = isinstance(error, AgentRefused)  # by the agent itself, which is there
                    if plan.place is not None and isinstance(error, AgentError) and not is_said:
                        explain_place(error, plan.place, child)
                    self._fail(part, error, child)
                finally:
                    await stop(child, hurry=hurry)

    async def _ask_agent(
        self, part: ProfilePart, plan: LaunchPlan, connection: Connection, child: Child, begun: float
    ) -> None:
        connection.explain = partial(add_advice, plan, trace=str(self.trace or ""))
        limit, called = plan.timeouts.initialize, self.factory.called
        agent = await negotiate(connection, limit=limit, offers=Offers(terminal_login=available()))
        after = time.monotonic() - begun
        servers = [server for each in self.parts if (server := each.planned) is not None]
        over = offer.transport(plan, agent.capabilities) if any(map(offer.is_bridged, servers)) else ""
        self.answer(
            part, answers.agent(answers.Handshake(agent, after, limit, over, plan.place.words if plan.place else ""))
        )
        for problem in unable(plan, servers, agent):
            self.answer(part, of_problem("agent", "", problem, MACHINE))
        for each in self.parts:
            for problem in untakeable([each.remote], agent, plan.agent.name) if each.remote is not None else ():
                self.answer(each, of_problem("server", each.server, problem, MACHINE))
        if not self.opens_session:
            self.answer(part, answers.session_skipped(called))
            return
        where = plan.place if over == "stdio" else None
        if where is None or where.seat is None:
            self.answer(part, await self._open_session(plan, connection, child))
            return
        async with confined.offer_shim(where) as (entry, opened):
            check = await self._open_session(plan, connection, child, [entry])
            self.answer(part, check)
            if check.verdict == "ok":
                self.answer(part, await confined.await_shim(opened, where))

    async def _open_session(
        self, plan: LaunchPlan, connection: Connection, child: Child, servers: Sequence[object] = ()
    ) -> Check:
        """Check that a session can be opened and set up as the profile says; delete or close it if the agent can."""
        able, moments = connection.agent.capabilities, [time.monotonic()]
        request = SessionRequest(
            name="doctor",
            continued=None,
            replay=False,
            wanted_options=settings_of(plan),
            servers=servers,
            opened=lambda ready, agent: moments.append(time.monotonic()),
        )
        client = AcpSession(connection, name=request.name, gate=Gate(policy(plan, approve="none")))
        prepared = PreparedPlan(plan, self.factory.secrets)
        log_in = logging_in(prepared, None)
        try:
            if self.continued is not None:
                how_to_continue(able, replay=True, name=self.continued.name)
            none = LaunchServers(plan, connection.observer, Budget(), server_logs(self.factory.settings, plan))
            opened = await open_requested(prepared, request, connection, client, none, log_in)
            if able.delete or able.close:
                end = connection.conversation.end("delete" if able.delete else "close", opened.ready.session_id)
                what = "answer about the end of a session from the agent"
                with suppress(AgentRefused):  # the check is about opening, which has worked
                    await connection.call(end, what=what, limit=plan.timeouts.session)
        except LaunchError as error:
            self._advise(error, child)
            return answers.no_session(error, self.factory.called, has_log=bool(child.stderr_tail()))
        return answers.session(moments[-1] - moments[0])

    async def _check_server(self, part: ProfilePart, processes: VerbProcesses, hurry: asyncio.Event) -> None:
        server, plan = part.planned, part.plan
        assert server is not None and plan is not None
        telling = ServerMessages(server.name, verbose=False)
        called, settings = self.factory.called, self.factory.settings
        try:
            async with processes.server(PreparedPlan(plan, self.factory.secrets, self.credentials), hurry) as program:
                try:
                    async with meet_server(program, plan, telling, settings) as started:
                        found = await _survey(started)
                        policy = ToolPolicy(server.name, server.tools)
                        hidden = sum(not policy.allows(name) for name in found.tool_names)
                        has_log = bool(program.running.stderr_tail())
                        check = answers.server(
                            part,
                            found,
                            called,
                            hidden=hidden,
                            after=started.after,
                            fetched=started.was_fetched,
                            has_log=has_log,
                            remote=started.remote,
                        )
                        self.answer(part, check)
                except LaunchError as error:
                    self._fail(part, program.explained(error), program.running)
        except (ServerError, StateError) as error:
            self.answer(part, answers.failure(part, error, called, has_log=False))

    def _fail(self, part: ProfilePart, error: LaunchError, running: Running) -> None:
        has_words = isinstance(error, AgentError) and not isinstance(error, AgentRefused)
        if not has_words and running.pid is not None:
            error.detail = (*error.detail, *running.stderr_tail())
        error.fix = node.advice(error.detail) or error.fix
        self._advise(error, running)
        self.answer(part, answers.failure(part, error, self.factory.called, has_log=bool(running.stderr_tail())))

    def _advise(self, error: LaunchError, running: Running) -> None:
        trace = str(self.trace or "")
        point_to_trace(error, trace)
        refer_to_log(error, self.factory.called, trace, has_log=bool(running.stderr_tail()))


async def _survey(started: StartedServer) -> Survey:
    """Survey a server within its limit for all lists, beyond those for a ping and for roots."""
    connection, limit = started.connection, started.limit
    try:
        async with asyncio.timeout(limit + PING_TIMEOUT + ROOTS):
            return await survey(connection, started.server, limit=limit)
    except TimeoutError:
        raise WaitExpired(f"{connection.label} did not finish its lists within {limit:g} s") from None
