"""
The place of a confined agent on this machine: what bubblewrap mounts, or every problem that prevents it.

`confine` finds bubblewrap, what the profile names, the installations of the agent and of acp-launch, and the parts of
the system that every program needs. A path that would undo the place is a problem. It changes nothing: missing state
is made by `prepare_place`, when the agent is about to start.
"""

import os
import pwd
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

import acp_launch
from acp_launch.errors import LaunchError, StateError
from acp_launch.plan.executable import CannotRun, find
from acp_launch.plan.exposure import find_stray, keep_apart, list_given
from acp_launch.plan.installation import find_cached, installed_in, list_hops, read_runner
from acp_launch.plan.model import (
    Access,
    Direct,
    LaunchPlan,
    Mount,
    Named,
    Origin,
    Place,
    ProcessPlan,
    Reason,
    StdioPlan,
    Value,
)
from acp_launch.plan.place import arrange, can_change, find_mount, shows
from acp_launch.plan.repository import Doubt, doubt_git, find_git_directory, find_identity, list_alternates
from acp_launch.plan.written import ledger, list_written, note_written, refuse_written
from acp_launch.private import create, follow_links, make_private, real
from acp_launch.problem import Problem
from acp_launch.profile.agents import started
from acp_launch.profile.model import Network
from acp_launch.regex import regex
from acp_launch.settings.load import directory

# ruff: noqa: PTH110, PTH112, PTH113, PTH114 - methods of Path raise in a directory that we may not enter
PLATFORM: str = sys.platform
FILES = (".json", ".jsonc", ".toml", ".yaml", ".yml", ".ini", ".conf", ".worktree")  # suffixes of state that is a file
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc")
RESOLVER = Path("/etc/resolv.conf")  # often a link
# Variables that name a file or directories of certificates to trust, and no key.
CERTIFICATES = regex(
    r"(?:.*_)?(?:SSL_CERT_(?:FILE|DIR)|CA_?(?:BUNDLE|CERTS?(?:_FILE|_PATH)?|CERTIFICATES?|FILE(?:_PATH)?|INFO|PATH)"
    r"|SSL_ROOTS_FILE_PATH)|PIP_CERT|DENO_CERT|PGSSLROOTCERT",
    re.IGNORECASE,
)
GIT = Origin("your git configuration")  # of the variables that say who commits
# What git would write by itself in directories that are only there to be read.
WITHOUT = {"gc.auto": "0", "maintenance.auto": "false", "core.logAllRefUpdates": "false"}
INSTALL = "apt-get install bubblewrap, or dnf install bubblewrap"
# Directories that variables name, which programs expect to exist.
_FOLDERS = ("TMPDIR", "TMP", "TEMP", *(f"XDG_{kind}_HOME" for kind in ("CONFIG", "DATA", "STATE", "CACHE")))


class Wish(Struct, frozen=True, kw_only=True):
    """What a profile says of the place of its agent; `origin` is where it says so."""

    origin: Origin
    state: Sequence[Named] = ()
    read: Sequence[Named] = ()
    write: Sequence[Named] = ()
    network: Network = "shared"


def confine(plan: LaunchPlan, wish: Wish, environ: Mapping[str, str]) -> tuple[LaunchPlan, list[Problem]]:
    """Return the plan with the place of its agent, and the problems; with one the place must not be used."""
    if PLATFORM != "linux":
        what = "a confined agent needs Linux and bubblewrap"
        return plan, [wish.origin.problem(what, "run it on Linux, or without runtime.confined")]
    program = find("bwrap", project=plan.project, path=environ.get("PATH"))
    if isinstance(program, CannotRun):
        what = "bubblewrap, which confines the agent, is not installed"
        return plan, [wish.origin.problem(what, f"install it: {INSTALL}")]
    try:
        written = list_written()
        refuse_written(program)
    except LaunchError as error:
        return plan, [wish.origin.problem(error.message, error.fix or "")]
    survey = PlaceSurvey(plan, environ, real(program), written, wish.origin, tuple(list_private(environ)))
    known = started(str(plan.agent.command), [argument.display() for argument in plan.agent.args])
    own = (Named(text, wish.origin) for text in (known.state if known else ()))
    survey.show_named(replace(wish, state=(*own, *wish.state)))
    survey.show_git()
    survey.show_system()
    direct = survey.show_agent(wish.origin)
    survey.show_ours()
    survey.pin_given()
    if wish.network == "shared" and "abstract=" in environ.get("DBUS_SESSION_BUS_ADDRESS", ""):
        what = "the agent reaches your session bus, and so your keyring: its socket is an abstract one"
        problem = wish.origin.problem(what, "write network: none, or start the bus at a path (unix:path=)")
        survey.problems.append(problem._replace(severity="warning"))
    mounts = arrange(survey.mounts)
    where = Place(
        program=program,
        mounts=mounts,
        links=dict(list_links(survey.spelled, mounts)),
        state=tuple(survey.state),
        network=wish.network,
        direct=direct,
    )
    plan, problems = keep_apart(survey.plan, where, environ, survey.written)
    return replace(plan, place=where), [*survey.problems, *survey.judge(where), *problems]


class PlaceSurvey(Struct):
    """Collects what a place shows, the paths that lead there, and the problems. `program` is bubblewrap, `written` what
    other confined agents can write, `private` what no place holds."""

    plan: LaunchPlan
    environ: Mapping[str, str]
    program: Path
    written: Sequence[Path]
    origin: Origin
    private: Sequence[tuple[Path, str]]
    key: str = ""  # of the profile's paths, if that is one
    named: list[tuple[Origin, Path]] = field(default_factory=list)
    needed: dict[Path, Problem] = field(default_factory=dict)  # if the place does not show these paths
    mounts: list[Mount] = field(default_factory=list)
    spelled: list[Path] = field(default_factory=list)
    state: list[Path] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return Path(self.environ.get("HOME") or "/")

    def show(self, path: Path, access: Access, reason: Reason) -> None:
        self.spelled.append(path)
        self.mounts.append(Mount(real(path), access, reason))

    def show_named(self, wish: Wish) -> None:
        """Show what the profile names, first what can only be read: there it counts more than what can be written."""
        plan = self.plan
        for named in wish.read:
            self._show_path(named, "read", "read")
        for index, path in enumerate((plan.cwd, *plan.additional_directories)):
            key = ("additional_directories", index - 1) if index else ("cwd",)
            origin = plan.origins.get(("workspace", *key), plan.origins.get(("workspace", *key[:1]), Origin("")))
            self._show_path(Named(str(path), origin), "write", "session")
        for named in wish.write:
            self._show_path(named, "write", "write")
        for named in wish.state:
            self._show_path(named, "write", "state")

    def _show_path(self, named: Named, access: Access, reason: Reason) -> None:
        path = self.find_path(named.text)
        self.named.append((named.origin, path))
        if reason == "state":
            if not path.is_relative_to(self.home):
                what = f"{path} is state, but does not lie in your home"
                self.problems.append(named.origin.problem(what, "write it under runtime.confined.write"))
            self.state.append(real(path))
        elif not os.path.exists(path):
            fix = f"create it, or remove it from {self.key or f'runtime.confined.{reason}'}"
            self.problems.append(named.origin.problem(f"{path} does not exist", fix))
            return
        if why := self._undoing(real(path), access):
            fix = "work in a directory below it, or another one" if reason == "session" else "name what the agent needs"
            self.problems.append(named.origin.problem(f"{path} would undo the agent's place: {why}", fix))
        self.show(path, access, reason)

    def find_path(self, text: str) -> Path:
        """Return the path that a profile names."""
        is_home = text == "~" or text.startswith("~/")
        return Path(os.path.normpath(self.home / text[2:] if is_home else self.plan.project / text))

    def pin_given(self) -> None:
        """Mount the directories that servers are given below what the agent writes, so that it cannot replace them."""
        shown = {mount.path: mount for mount in self.mounts}
        for server in self.plan.servers:
            for _, path in list_given(self.plan, server) if isinstance(server, StdioPlan) and server.bridge else ():
                target, above = real(path), find_mount(real(path), shown)
                if above is not None and above.access == "write" and os.path.isdir(target):
                    self.mounts.append(Mount(target, "write", "between"))

    def judge(self, where: Place) -> Iterator[Problem]:
        """Yield a problem for each path of the profile that leads elsewhere than its name says, and for each that is
        not shown although something needs it."""
        for origin, path in self.named:
            if why := find_stray(path, self.plan, where, self.written):
                yield origin.problem(f"{why}; it would be mounted", f"name {real(path)} itself, or remove it")
        yield from (problem for path, problem in self.needed.items() if not shows(where, path))

    def need(self, path: Path, problem: Problem) -> None:
        """Note the problem that there is if the place does not show a path."""
        self.needed.setdefault(path, problem)

    def warn(self, doubt: Doubt) -> None:
        self.need(doubt.path, self.origin.problem(doubt.what, doubt.fix)._replace(severity="warning"))

    def _undoing(self, path: Path, access: Access) -> str:
        """Say why showing a path would undo the place; empty if it would not."""
        for place, what in self.private:
            if place.is_relative_to(path):
                return f"it holds {what}" if place != path else f"it is {what}"
        trees = real(directory("STATE")) / "batches"
        is_tree = path.is_relative_to(trees) and path.relative_to(trees).parts[1:2] == ("trees",)  # of an item
        for place, what in (*_list_own(), (Path("/proc"), "the processes"), (Path("/dev"), "the devices")):
            if path.is_relative_to(place) and not is_tree:
                return f"it lies in {what}"
        for place in self._list_code() if access == "write" else ():
            if place.is_relative_to(path) or path.is_relative_to(place):
                return f"it lies in {place}" if path.is_relative_to(place) else f"it holds {place}"
        return ""

    def _list_code(self) -> Iterator[Path]:
        """Yield what acp-launch runs itself: it has the secrets, and starts the agent."""
        yield from (real(Path(module.__file__ or "").parent) for module in (acp_launch, os, msgspec))
        yield from (self.program, real(Path(sys.executable)), Path("/etc"))
        if self.key:  # a container has its own system: nothing of this one is needed there to be written
            yield from (real(Path(each)) for each in (*SYSTEM, "/boot", "/sys", "/var/lib") if os.path.exists(each))

    def show_agent(self, origin: Origin) -> Direct | None:
        """Show the agent's installation, and the programs of servers that the agent starts itself. Return what starts
        the agent directly, if a package runner does."""
        agent, direct = self.plan.agent, None
        words = [argument.display() for argument in agent.args]
        runner = read_runner(agent.command, words)
        if runner is not None:
            found = find_cached(runner, self.environ, self.plan.cwd)
            if isinstance(found, CannotRun):
                what = f"{found.message}, and a confined agent cannot fetch it"
                at = self.plan.origins.get(("agent", "args"), origin)
                self.problems.append(at.problem(what, found.fix))
            else:
                direct = Direct(found, runner.skipped)
        at = self.plan.origins.get(("agent", "command"), origin)
        self._show_program(direct.command if direct else agent.command, agent, at)
        for word in words[runner.skipped if runner else 0 :]:
            if word.startswith("/") and os.path.isfile(word):
                self._show_installed(Path(word), "agent", at)
        for server in self.plan.servers:
            if isinstance(server, StdioPlan) and not server.bridge:
                at = self.plan.origins.get(("mcp_servers", server.name, "command"), origin)
                self._show_program(server.command, agent, at)
        return direct

    def _show_program(self, program: Path, agent: ProcessPlan, origin: Origin) -> None:
        search = agent.env["PATH"].display() if "PATH" in agent.env else None
        self.spelled.append(program)
        last = None  # a file of the agent's: it chooses what that leads to
        for hop in list_hops(program, search):
            if last is None:
                self._show_installed(hop, "agent", origin)
            else:
                self._need_named(real(hop), last, origin)
            if hop.parent.name == "shims" or hop.name == "volta-shim":
                self._need_manager(hop.parent.parent, program if hop.name == "volta-shim" else hop, origin)
            last = hop if self._is_agents(hop) else last

    def _need_named(self, target: Path, file: Path, origin: Origin) -> None:
        """Need the profile to show what a file leads to that the agent can change."""
        what = f"the agent can change {file}, which leads to {target}, and that is not shown"
        fix = f"add {installed_in(target, self._is_broad)} to runtime.confined.read"
        self.need(target, origin.problem(what, fix))

    def _need_manager(self, top: Path, shim: Path, origin: Origin) -> None:
        """Need the directory of a version manager, whose shim finds the program there."""
        what = f"{shim} is a shim, which finds the program itself in {top}, and that is not shown"
        which = f"name the program that `{top.name.lstrip('.')} which {shim.name}` prints"
        self.need(top, origin.problem(what, f"{which}, or add {top} to runtime.confined.read"))

    def _is_agents(self, path: Path) -> bool:
        """Tell whether a confined agent can write a path, in this launch or in another."""
        named = {mount.path: mount for mount in reversed(self.mounts) if mount.reason not in ("agent", "system")}
        return can_change(path, named, self.written)

    def _show_installed(self, file: Path, reason: Reason, origin: Origin | None = None) -> None:
        """Show the directory that a program or script is installed in, and the way to it. `origin` names the program
        of an agent."""
        target, links = follow_links(file)
        if origin and (theirs := next(filter(self._is_agents, links), None)):
            self._need_named(target, theirs, origin)
            return
        place = real(file.parent) / file.name
        self.show(installed_in(place, self._is_broad), "read", reason)
        self.show(file, "read", reason)
        if os.path.islink(place):
            self.spelled.append(place.parent / place.readlink())

    def _is_broad(self, path: Path) -> bool:
        """Tell whether a directory holds more than one installation."""
        if len(path.parts) <= 2 or path == real(self.home) / ".local":
            return True
        return any(place.is_relative_to(path) for place, _ in self.private)

    def show_ours(self) -> None:
        """Show what the shim needs: Python, and our package."""
        for path in (sys.prefix, sys.base_prefix, Path(acp_launch.__file__).parent):
            self.show(Path(path), "read", "acp-launch")
        for hop in list_hops(Path(sys.executable), None):
            self._show_installed(hop, "acp-launch")

    def show_git(self) -> None:
        """Show the git directories of work trees where they lie elsewhere, and tell git who commits."""
        settings, named = dict[str, str](), {mount.path: mount for mount in arrange(self.mounts)}
        for tree in named.values():
            if not os.path.lexists(tree.path / ".git"):
                continue
            git, doubt = find_git_directory(tree.path)
            above = find_mount(git.common, named)
            is_shown = doubt is not None or (above is not None and above.access == "write")
            mounts = [] if is_shown else [Mount(*each, "git") for each in git.list_mounts(tree.path, tree.access)]
            if mounts and (why := self._undoing(git.common, tree.access)):
                doubt, mounts = doubt_git(git.common, f"{git.common} would undo the place: {why}", "move it"), []
            self.mounts += mounts
            self.state += git.list_missing() if mounts else ()
            for each in [doubt] if doubt else list_alternates(git):
                self.warn(each)
            settings = {**find_identity(git, self.home, self.environ), **(WITHOUT if mounts else {}), **settings}
        self._set_git(settings)

    def _set_git(self, settings: Mapping[str, str]) -> None:
        """Give the agent git's settings as variables, behind those that it has."""
        agent = self.plan.agent
        given = agent.env["GIT_CONFIG_COUNT"].display() if "GIT_CONFIG_COUNT" in agent.env else "0"
        first = int(given) if given.isdecimal() else 0
        made = {"GIT_CONFIG_COUNT": str(first + len(settings))} if settings else {}
        for number, (key, value) in enumerate(settings.items(), first):
            made |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        env = {**agent.env, **{name: Value((text,), GIT) for name, text in made.items()}}
        self.plan = replace(self.plan, agent=replace(agent, env=env))

    def show_system(self) -> None:
        for text in SYSTEM:
            if os.path.exists(text):
                self.show(Path(text), "read", "system")
        if os.path.exists(RESOLVER):
            self.show(RESOLVER, "read", "system")
        self._show_certificates()
        for path in map(real, (Path("/run"), Path("/tmp"), self.home)):
            if path != Path("/"):
                self.mounts.append(Mount(path, "empty", "system"))
                self.spelled.append(path)
        for name in _FOLDERS:
            path = Path(self.environ.get(name) or "/")
            above = find_mount(real(path), {mount.path: mount for mount in self.mounts})
            if path.is_absolute() and path != Path("/") and above is None:
                self.show(path, "empty", "system")

    def _show_certificates(self) -> None:
        """Show what variables of the agent name: programs that obey them trust no server without it."""
        named = {name: value for name, value in self.plan.agent.env.items() if CERTIFICATES.fullmatch(name)}
        texts = {text: name for name, value in named.items() for text in "".join(map(str, value.parts)).split(":")}
        for path, name in ((Path(text), name) for text, name in texts.items()):
            if not path.is_absolute() or not os.path.exists(path):
                continue
            if why := self._undoing(real(path), "read"):
                self.warn(Doubt(real(path), f"{path}, which {name} names, is not shown: {why}", "name another"))
                continue
            self.named.append((self.origin, path))
            self.show(path, "read", "system")


def list_private(environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Yield what no place holds: there are the user's files, keys and sockets."""
    yield real(Path(environ.get("HOME") or "/")), "your home"
    with suppress(KeyError):
        yield real(Path(pwd.getpwuid(os.getuid()).pw_dir)), "your home"
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        yield real(Path(runtime)), "the runtime directory, with the sockets of your session"
    yield from _list_own()
    yield Path("/run"), "the sockets of this machine"
    yield Path("/run/user"), "the sockets of all users' sessions"
    yield real(Path("/tmp")), "the sockets of other programs"


def _list_own() -> Iterator[tuple[Path, str]]:
    """Yield acp-launch's own directories."""
    for kind in ("CONFIG", "STATE", "CACHE"):
        yield real(directory(kind)), f"acp-launch's own files ({directory(kind)})"
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        yield real(Path(runtime)) / "acp-launch", "the sockets of acp-launch"


def list_links(spelled: Sequence[Path], mounts: Sequence[Mount]) -> Iterator[tuple[Path, Path]]:
    """Yield the symbolic links to mounted paths that no mount shows, each with its target."""
    shown = {mount.path: mount for mount in mounts}
    for path in spelled:
        for link in follow_links(path)[1]:
            above = find_mount(link.parent, shown)
            if above is None or above.access == "empty":
                yield link, real(link)


def prepare_place(where: Place) -> None:
    """Make the state that is missing: a directory, or an empty file for a file's name, as `.claude.json`. Note
    what the agent can write, for later launches.

    Raises:
        StateError: it cannot be made, or a path has become a link since it was judged.
    """
    for mount in where.mounts:
        if real(mount.path) != mount.path:
            what = f"{mount.path} has become a link, to {real(mount.path)}"
            raise StateError(what, fix="see which program replaced it, then start again")
    for path in where.state:
        try:
            if path.exists():
                continue
            make_private(path.parent if path.suffix in FILES else path)
            if path.suffix in FILES:
                create(path, b"{}\n" if path.suffix == ".json" else b"")
        except OSError as error:
            fix = "make room for it, or correct runtime.confined.state"
            raise StateError(f"cannot make the agent's state {path}: {error.strerror}", fix=fix) from error
    try:
        note_written(where)
    except OSError as error:
        fix = f"check the owner, the mode and the free space of {ledger().parent}"
        raise StateError(f"cannot note in {ledger()} what the agent writes: {error}", fix=fix) from error
