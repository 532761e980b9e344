"""The verb `doctor`: checks this machine and one profile on it; every fault comes with its fix."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from acp_launch import leave
from acp_launch.cli.trace import TraceFile
from acp_launch.errors import LaunchError, Stopped
from acp_launch.waits import stretch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from acp_launch.checks.check import Check
    from acp_launch.checks.profile import ProfilePart, StoreCheck
    from acp_launch.checks.programs import Runtime
    from acp_launch.cli.credentials import ServerLogin
    from acp_launch.mcp.http.wire import Credentials
    from acp_launch.profile.load import Loaded
    from acp_launch.profile.trust import TrustState
    from acp_launch.secret.value import Outcome, Store
    from acp_launch.session.store import Record
    from acp_launch.settings.model import Settings

NODE_PATIENCE = stretch(5.0)  # seconds for `node --version`
Name = Annotated[
    str | None, typer.Argument(metavar="[PROFILE]", help="A profile's name or path; by default only the machine.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
Directory = Annotated[Path | None, typer.Option("--cwd", metavar="DIR", help="The session's directory.")]
Session = Annotated[
    bool, typer.Option("--session/--no-session", help="Also open a session with the agent, as a run does.")
]
Trust = Annotated[bool, typer.Option("--trust", help="Trust the profile for this run only.")]


def doctor(
    name: Name = None,
    as_json: Json = False,
    cwd: Directory = None,
    session: Session = True,
    trust: Trust = False,
    trace: TraceFile = None,
) -> None:
    """Check this machine and a profile: its agent, servers and secrets. Fit for a bug report."""
    from acp_launch.checks.check import exit_code
    from acp_launch.cli.stores import protect_secrets
    from acp_launch.console import doctor as screen

    protect_secrets()
    checkup = Checkup(name, cwd, opens_session=session, is_waved=trust, trace=trace)
    code = checkup.run()
    screen.show(checkup.found, name, exit_code(checkup.found), as_json=as_json, is_cut_short=code > 0)
    raise typer.Exit(code or exit_code(checkup.found))


class Checkup:
    """One run of `doctor`. `found` grows meanwhile, so that an interrupted run still shows its results."""

    def __init__(
        self, name: str | None, cwd: Path | None, *, opens_session: bool, is_waved: bool, trace: Path | None = None
    ) -> None:
        self.found: list[Check] = []
        self._name, self._cwd, self._trace = name, cwd, trace
        self._opens_session, self._is_waved = opens_session, is_waved
        self._answers: dict[str, list[Check]] = {}  # by part
        self._logins: list[ServerLogin] = []
        self._opened: Callable[[], Store] | None = None
        self._asked: list[ProfilePart] = []

    def run(self) -> int:
        """Run all checks; return 0, or the exit code of the signal that ended them."""
        try:
            self._examine()
        except Stopped as stopped:
            return stopped.exit_code
        except KeyboardInterrupt:
            return leave.code()
        except LaunchError as error:  # the launch itself failed, for instance for want of descriptors
            self._note(_of_error("acp-launch", error))
        finally:
            self._collect()
        return 0

    def _note(self, checks: "Sequence[Check] | Iterator[Check]") -> None:
        for check in checks:  # one by one, as a signal may come in between
            self.found.append(check)

    def _examine(self) -> None:
        from acp_launch.checks.machine import versions

        self._note([versions()])
        settings = self._settings()
        if settings is None:
            return
        self._note(_machine(settings))
        asked = self._store(settings)
        if self._name is None:
            self._note(_profiles(settings))
        elif loaded := self._loaded(self._name, settings):
            self._profile(loaded, settings, asked)

    def _settings(self) -> "Settings | None":
        """Load the settings; None if that fails, and then no further check is possible."""
        from acp_launch.checks.check import ok
        from acp_launch.settings.load import FILE, load

        try:
            settings = load()
        except LaunchError as error:
            self._note(_of_error("settings", error))
            return None
        file = settings.config / FILE
        there = str(file) if file.exists() else f"the defaults; there is no {file}"
        self._note([ok("settings", "", there, file=str(file))])
        return settings

    def _store(self, settings: "Settings") -> "StoreCheck":
        from acp_launch.checks.profile import store
        from acp_launch.cli.stores import open_store, say_waiting

        asked = store(settings, open_store, say_waiting)
        self._note([asked.check])
        return asked

    def _loaded(self, name: str, settings: "Settings") -> "Loaded | None":
        from acp_launch.checks.check import of_problem, ok
        from acp_launch.profile.discover import find, here
        from acp_launch.profile.load import load, shown

        try:
            loaded = load(find(name, start=here(), settings=settings), cache=settings.cache)
        except LaunchError as error:
            self._note(_of_error("profile", error))
            return None
        where = f"{shown(loaded.found.file)} ({loaded.found.origin})"
        self._note([ok("profile", loaded.found.name, where, file=str(loaded.found.file), origin=loaded.found.origin)])
        shared = [each for each in loaded.problems if not each.path.startswith(("agent", "mcp_servers"))]
        self._note([of_problem("profile", loaded.found.name, each, 2) for each in shared])
        return loaded

    def _profile(self, loaded: "Loaded", settings: "Settings", asked: "StoreCheck") -> None:
        from acp_launch.checks.profile import ResolveInputs, faults, parts, trust
        from acp_launch.cli.verb import at_home
        from acp_launch.process.spawn import require_platform
        from acp_launch.profile.discover import here

        trusted = trust(loaded, settings, self._would_run(loaded), is_waved=self._is_waved)
        self._note([trusted])
        inputs = ResolveInputs(cwd=here(), environ=os.environ, override=at_home(self._cwd))
        found = list(parts(loaded, inputs))
        self._note(faults(found))
        self._note(_room(found))
        if trusted.verdict == "problem":
            return
        require_platform()
        self._note(_commands(found))
        outcomes = self._secrets(found, settings, asked)
        record = self._session(found, settings)
        self._start(found, settings, outcomes, loaded, record)

    def _would_run(self, loaded: "Loaded") -> "Callable[[TrustState], Iterator[str]]":
        from acp_launch.cli.planning import resolved_from
        from acp_launch.console.trust import report

        return lambda found: report(loaded.profile, resolved_from(loaded, cwd=self._cwd).found, found)

    def _secrets(
        self, parts: "Sequence[ProfilePart]", settings: "Settings", asked: "StoreCheck"
    ) -> "Mapping[str, Outcome]":
        from acp_launch.checks.profile import secret_checks, secrets, unfit_checks
        from acp_launch.cli.stores import outcomes, say_waiting

        names = list(dict.fromkeys(need.name for part in parts for need in part.needs))
        items = self._items(parts, settings)
        if not names and not items:
            return {}
        is_keyring = settings.secrets.store == "keyring"
        wanted = [*names, *items]
        found = (
            secrets(wanted, settings, asked, say_waiting)
            if is_keyring
            else outcomes(wanted, settings, opening=self._opening(settings))
        )
        self._note(secret_checks({name: found[name] for name in names}))
        self._note(unfit_checks(parts, found))
        return found

    def _opening(self, settings: "Settings") -> "Callable[[], Store]":
        """Return what opens the store for this run, once."""
        if self._opened is None:
            from functools import cache, partial

            from acp_launch.cli.stores import open_store

            self._opened = cache(partial(open_store, settings))
        return self._opened

    def _items(self, parts: "Sequence[ProfilePart]", settings: "Settings") -> list[str]:
        """Find the logins of remote servers; return the names of their items in the secret store."""
        remotes = [part.remote for part in parts if part.remote is not None]
        if remotes:
            from acp_launch.cli.credentials import server_logins

            self._logins = [login for login in server_logins(remotes, settings) if login.is_needed]
        return list(dict.fromkeys(login.item for login in self._logins if login.item))

    def _session(self, parts: "Sequence[ProfilePart]", settings: "Settings") -> "Record | None":
        """Find the session that a run would resume, and hold it for a moment, as a run fails if it is in use."""
        plan = parts[0].plan
        if plan is None or plan.session is None or not (settings.state / "sessions").exists():
            return None
        from contextlib import ExitStack

        from msgspec.structs import replace

        from acp_launch.cli.run import session_of

        try:
            with ExitStack() as stack:
                return session_of(plan, settings, stack, stack)[2]
        except LaunchError as error:
            self._note([replace(each, subject=plan.session) for each in _of_error("session", error)])
            return None

    def _start(
        self,
        parts: "Sequence[ProfilePart]",
        settings: "Settings",
        outcomes: "Mapping[str, Outcome]",
        loaded: "Loaded",
        record: "Record | None",
    ) -> None:
        from acp_launch.checks import answers
        from acp_launch.checks.profile import way_out
        from acp_launch.cli.probes import ProbeNeeds, probe_all
        from acp_launch.secret.lookup import secrets

        known = secrets(outcomes)
        credentials = self._credentials(parts, outcomes, settings, loaded.found.called)
        for part in parts:
            if part.plan is not None and (lacking := _lacking(part, known)):
                self._answers[part.label] = [
                    answers.without_secret(part, lacking, way_out(lacking[0], outcomes[lacking[0]]))
                ]
        self._asked = [part for part in parts if part.plan is not None]
        able = [part for part in self._asked if part.label not in self._answers]
        _say_starting(able)
        needs = ProbeNeeds(
            profile=loaded.found.called,
            settings=settings,
            secrets=known,
            credentials=credentials,
            heard=self._heard,
            remotes=[part for part in parts if part.remote is not None],
            servers=[server for part in parts if (server := part.stdio or part.remote) is not None],
            continued=record,
            opens_session=self._opens_session,
            trace=self._trace,
        )
        probe_all(able, needs)

    def _credentials(
        self, parts: "Sequence[ProfilePart]", outcomes: "Mapping[str, Outcome]", settings: "Settings", called: str
    ) -> "Mapping[str, Credentials]":
        """Return the credentials of remote servers, and report the servers that lack them."""
        if not self._logins:
            return {}
        from acp_launch.checks import answers
        from acp_launch.cli.credentials import Wallet, lacking, print_headers
        from acp_launch.secret.lookup import secrets

        known = secrets(outcomes)
        wallet = Wallet(settings=settings, opening=self._opening(settings), secrets=known, called=called)
        credentials = wallet.credentials(self._logins, outcomes)
        without = print_headers(self._logins, credentials, settings)
        lacks = {lack.server.name: lack for lack in (*lacking(self._logins, outcomes, called), *without)}
        for part in parts:
            if part.plan is not None and (lack := lacks.get(part.server)) is not None:
                self._answers[part.label] = [answers.without_login(part, lack.what, lack.fix)]
        able = {part.server for part in parts if part.server not in lacks and not _lacking(part, known)}
        return {name: each for name, each in credentials.items() if name in able}

    def _heard(self, part: "ProfilePart", check: "Check") -> None:
        """Add a result of a part. What a remote server answers does not matter if the agent does not support it."""
        told = [*self._answers.get(part.label, []), check]
        wrong = [each for each in told if each.verdict == "problem"]
        self._answers[part.label] = wrong if part.remote is not None and wrong else told

    def _collect(self) -> None:
        """Add the answers in the profile's order; a part without an answer was interrupted."""
        from acp_launch.checks import answers

        for part in self._asked:
            self._note(self._answers.get(part.label) or [answers.no_answer(part)])


def _of_error(name: str, error: LaunchError) -> "list[Check]":
    from acp_launch.checks.check import of_error

    return of_error(name, error)


def _machine(settings: "Settings") -> "Iterator[Check]":
    from acp_launch.checks import machine
    from acp_launch.checks.machine import IS_WINDOWS, control_group, shims

    yield machine.directory("config", settings.config)
    yield machine.directory("state", settings.state)
    yield machine.directory("cache", settings.cache)
    yield machine.disk("state", settings.state)
    yield machine.disk("cache", settings.cache)
    if IS_WINDOWS:
        return
    from acp_launch.checks.machine import leftovers

    yield machine.runtime()
    yield machine.descriptors()
    yield machine.processes()
    yield shims()
    yield control_group()
    yield from leftovers(settings.state)


def _profiles(settings: "Settings") -> "Iterator[Check]":
    from acp_launch.checks.profile import profiles
    from acp_launch.profile.discover import discover, here

    return profiles(discover(start=here(), settings=settings), settings.cache)


def _room(parts: "Sequence[ProfilePart]") -> "Iterator[Check]":
    from acp_launch.checks.machine import IS_WINDOWS, servers

    ours = sum(1 for part in parts if part.stdio is not None and part.stdio.bridge)
    return iter(()) if IS_WINDOWS else servers(ours)


def _commands(parts: "Sequence[ProfilePart]") -> "Iterator[Check]":
    from acp_launch.checks.programs import command

    for part in parts:
        if part.plan is not None and part.remote is None:
            yield command(part.label, part.plan.agent.command, _runtime(part))


def _runtime(part: "ProfilePart") -> "Runtime | None":
    """Find the Node.js that runs the agent's program, in the environment and directory that it will have."""
    from acp_launch.checks.programs import runtime
    from acp_launch.cli.start import open_env

    assert part.plan is not None
    env, process = open_env(part.plan), part.plan.agent

    def run(node: Path) -> str:
        from acp_launch.process.capture import capture

        try:
            said = capture([str(node), "--version"], NODE_PATIENCE, env=env, cwd=process.cwd)
        except LaunchError:
            return ""
        return said.out.decode(errors="replace")

    return runtime(process.command, path=env.get("PATH"), cwd=process.cwd, run=run)


def _lacking(part: "ProfilePart", known: "Mapping[str, object]") -> list[str]:
    """List the secrets that a part needs and that were not found."""
    return list(dict.fromkeys(need.name for need in part.needs if need.name not in known))


def _say_starting(parts: "Sequence[ProfilePart]") -> None:
    import sys

    from acp_launch.console.stderr import DIM, say

    if parts and sys.stderr.isatty():
        say(f"acp-launch: starting {', '.join(part.server or part.label for part in parts)}", style=DIM)
