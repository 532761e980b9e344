"""
Servers of a profile that change while its host is up: the host reads the profile anew, and restarts just those.

The command `reload` asks everything on its terminal first. It passes no secret to the host, and nothing that the host
would run: only which content the user has seen. The host reads the profile itself, requires trust, and looks up the
secrets that it does not know yet, without asking.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import asdict, replace

from acp_launch import __version__
from acp_launch.app.credentials import CredentialFactory, server_logins
from acp_launch.app.planning import loaded_profile, require_plan, resolved_from
from acp_launch.app.start import Launched, with_workdirs
from acp_launch.app.stores import open_store, open_unasked, outcomes
from acp_launch.engine.prepared import PreparedPlan
from acp_launch.errors import MachineError, NotTrusted, ProblemsError, StateError
from acp_launch.mcp.http.wire import Credentials
from acp_launch.plan.model import LaunchPlan, OverSsh, RemotePlan, ServerPlan, unfit, unmet
from acp_launch.plan.resolve import Resolved
from acp_launch.problem import ours
from acp_launch.profile.load import Loaded
from acp_launch.profile.trust import trust_state
from acp_launch.secret.detect import masked
from acp_launch.secret.lookup import secrets
from acp_launch.secret.stores import chosen_kind
from acp_launch.secret.value import Secret, Store, StoreFault
from acp_launch.served.registry import Content, FrontPlan, HostNote, content_of
from acp_launch.served.registry import digest as digest_of_file
from acp_launch.served.wire import Reloaded
from acp_launch.session.events import show_note
from acp_launch.session.files import run_in_thread

if TYPE_CHECKING:
    from acp_launch.engine.run import Launch

SETTINGS = (("session", "mode"), ("session", "config"))  # in a profile
SPARE_SECONDS = 10.0  # on top of `secrets.timeout` to read the profile


def front_plan(loaded: Loaded, plan: LaunchPlan) -> FrontPlan | None:
    """Return what fronts need of the plan; None if it depends on where a command is typed, and in which environment."""
    workspace = loaded.profile.workspace
    written = [text.replace("${project}", "") for text in (workspace.cwd or "", *workspace.additional_directories)]
    if any("${" in text for text in written):
        return None
    files = {layer.label: str(layer.file) for layer in loaded.layers}
    there = plan.place.elsewhere if plan.place else None
    places = {path: origin for path, origin in plan.origins.items() if path[:2] in SETTINGS}
    return FrontPlan(
        file=str(loaded.found.file),
        files={str(layer.file): digest_of_file(layer.text) for layer in loaded.layers},
        absent_paths=tuple(map(str, loaded.absent_paths)),
        names_cwd=workspace.cwd is not None,
        additional_directories=tuple(map(str, plan.additional_directories)),
        agent=(str(plan.agent.command), *(masked(argument.display()) for argument in plan.agent.args)),
        is_built_in=plan.is_built_in,
        timeouts={wait: float(limit) for wait, limit in asdict(plan.timeouts).items()},
        session=loaded.profile.session.name,
        mode=plan.mode,
        config=plan.config,
        origins=tuple(
            (tuple(map(str, path)), files[origin.source], origin.line, origin.column) for path, origin in places.items()
        ),
        there=(there.host, str(there.directory)) if isinstance(there, OverSsh) else None,
    )


class _Reread(NamedTuple):
    """What the profile says now. `fresh` are the plans of servers that are new or have changed, without directories."""

    content: Content
    ready: "PreparedPlan"
    of_fronts: FrontPlan | None
    servers: Mapping[str, object]  # as they are written
    fresh: Mapping[str, ServerPlan]


class Reloading:
    """The profile of a host, as it was read last, with the secrets and credentials of its servers."""

    def __init__(
        self,
        profile: str,
        cwd: Path | None,
        started: Launched,
        loaded: Loaded,
        write: Callable[[HostNote], None],
        later: ExitStack,
        here: str,
    ) -> None:
        """Prepare it. `write` replaces the note of the host; `here` is the directory in which `up` was typed.

        `later` ends with the host, after its servers; it gets the directories of servers to come.
        """
        self._write, self._later = write, later
        self._profile, self._cwd, self._settings, self._ready = profile, cwd, started.settings, started.prepared
        self._servers = _servers(loaded)
        content, plan = content_of(loaded), started.plan
        self._note = HostNote(
            pid=os.getpid(),
            since=time.time(),
            version=__version__,
            project=str(plan.project),
            profile=plan.profile,
            called=plan.called,
            cwd=str(plan.cwd),
            here=here,
            digest=content.digest,
            others=content.others,
            lines=content.lines,
            plan=front_plan(loaded, plan),
        )

    def announce(self, socket: Path) -> None:
        """Write what fronts find the host by."""
        self._note = replace(self._note, socket=str(socket))
        self._write(self._note)

    async def __call__(self, launch: "Launch", digest: str) -> "Reloaded":
        """Take the servers of the profile, if its content has this digest.

        Raises:
            StateError: it has another one by now, or the host cannot run it; nothing has changed.
            NotTrusted: the user does not trust it; nothing has changed.
            ServerError: a required server has failed; the others are as the profile says.
        """
        limit = self._settings.secrets.timeout + SPARE_SECONDS
        try:
            read = await run_in_thread(partial(self._read, digest), name="reload", limit=limit)
        except TimeoutError:
            raise self._unfit([f"its secrets were not available within {limit:g} s"]) from None
        except ProblemsError as error:
            raise self._unfit([line for each in error.problems for line in str(each).splitlines()]) from None
        before = {server.name: server for server in self._ready.plan.servers}
        self._take(read, before)
        for each in read.ready.credentials.values():
            each.note = partial(show_note, launch.observer)
        content = read.content
        self._note = replace(self._note, digest=content.digest, lines=content.lines, plan=read.of_fronts)
        self._write(self._note)
        added = tuple(name for name in read.fresh if name not in before)
        changed = tuple(name for name in read.fresh if name in before)
        removed = tuple(name for name in before if name not in {server.name for server in self._ready.plan.servers})
        show_note(launch.observer, "; ".join(sentences(Reloaded(added=added, changed=changed, removed=removed))))
        await launch.reload(self._ready)
        servers = tuple(launch.servers.standings())
        return Reloaded(added=added, changed=changed, removed=removed, servers=servers)

    def _take(self, read: _Reread, before: Mapping[str, ServerPlan]) -> None:
        """Run the new plan from now on; servers that have not changed keep theirs, the same objects."""
        plan, secrets, credentials, _ = read.ready
        fresh = replace(plan, servers=tuple(read.fresh.values()))
        given = {
            server.name: server for server in self._later.enter_context(with_workdirs(self._settings, fresh)).servers
        }
        names = [server.name for server in plan.servers if server.name in {*given, *before}]
        servers = tuple(given.get(name) or before[name] for name in names)
        known = self._ready
        kept = {name: each for name, each in known.credentials.items() if name in names and name not in given}
        plan = replace(known.plan, servers=servers, origins=plan.origins)
        self._ready = known._replace(plan=plan, secrets=secrets, credentials={**kept, **credentials})
        self._servers = read.servers

    def _unfit(self, why: Sequence[str]) -> StateError:
        called = self._ready.plan.called
        what = f"the host of {called} cannot use what the profile says now; nothing has changed"
        return StateError(what, fix=ours("up", called, "--replace"), detail=why)

    def _read(self, digest: str) -> _Reread:
        """Read the profile; in a thread, as a store may be slow."""
        settings, called = self._settings, self._ready.plan.called
        loaded = loaded_profile(self._profile, settings)
        content = content_of(loaded)
        if content.digest != digest or content.others != self._note.others:
            raise StateError(f"{called} has changed again meanwhile", fix=ours("reload", called))
        if not trust_state(loaded, settings).is_trusted:
            raise NotTrusted(f"this profile is not trusted: {loaded.label}", fix=ours("trust", called))
        resolved = resolved_from(loaded, cwd=self._cwd)
        plan = require_plan(resolved)
        servers = _servers(loaded)
        secrets = {**self._ready.secrets, **self._looked_up(resolved)}
        changed = {name for name, written in servers.items() if self._servers.get(name) != written}
        fresh = {server.name: server for server in plan.servers if server.name in changed}
        absent, credentials = self._proofs(list(fresh.values()), secrets)
        fresh = {name: server for name, server in fresh.items() if name not in absent}
        return _Reread(content, PreparedPlan(plan, secrets, credentials), front_plan(loaded, plan), servers, fresh)

    def _looked_up(self, resolved: Resolved) -> dict[str, Secret]:
        settings = self._settings
        needs = [need for need in resolved.needs if need.name not in self._ready.secrets]
        if not needs:
            return {}
        opening: Callable[[], Store] = partial(open_store, settings, asks=False)
        if chosen_kind(settings.secrets).argv:
            opening = _refuse_store
        found = outcomes((need.name for need in needs), settings, lambda *waited: None, opening)
        values = secrets(found)
        if missing := (*unmet(needs, found), *unfit(resolved.plan, {**self._ready.secrets, **values})):
            raise MachineError(missing)
        return values

    def _proofs(
        self, fresh: Sequence[ServerPlan], secrets: Mapping[str, Secret]
    ) -> tuple[frozenset[str], Mapping[str, Credentials]]:
        """Return the names of optional servers that lack a login, and the credentials of the others."""
        if not any(isinstance(server, RemotePlan) for server in fresh):
            return frozenset(), {}

        settings = self._settings
        logins = server_logins(fresh, settings)
        lacking = [login for login in logins if login.is_needed and not (login.item or login.headers_command)]
        absent = frozenset(login.server.name for login in lacking if not login.server.required)
        factory = CredentialFactory(
            settings=settings,
            opening=cache(partial(open_unasked, settings)),
            secrets=secrets,
            called=self._ready.plan.called,
        )
        return absent, factory.credentials(logins, {})


def _servers(loaded: Loaded) -> Mapping[str, object]:
    """Return the servers of a profile as they are written."""
    written = loaded.merged.get("mcp_servers")
    return written if isinstance(written, dict) else {}


def _refuse_store() -> Store:
    raise StoreFault("unavailable", "a host runs the command of secrets.store only at its start")


def sentences(reloaded: "Reloaded") -> list[str]:
    """Say what has become of the servers."""
    return [
        *(f"mcp server {name} is added; sessions opened from now on have it" for name in reloaded.added),
        *(f"mcp server {name} has changed, and is restarted" for name in reloaded.changed),
        *(f"mcp server {name} is removed; open sessions get errors from it" for name in reloaded.removed),
    ]
