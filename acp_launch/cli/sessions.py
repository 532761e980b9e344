"""The verbs of `session`, for named sessions."""

import errno
import os
import re
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from msgspec import convert, json
from msgspec.structs import asdict, replace

from acp_launch.app.questions import agrees
from acp_launch.app.sessions import hosted_sessions, list_sessions, refuse_to_choose, session_label
from acp_launch.app.spec import check_session_name, load_settings
from acp_launch.cli.verb import Argument, Group, Json, OnlyProfile, Option, Output, TraceFile, Trust, Yes, read_duration
from acp_launch.console import sessions, stdout
from acp_launch.console.stderr import say, tell
from acp_launch.console.stdout import answer
from acp_launch.document.scalars import Duration
from acp_launch.errors import SessionError, UsageError
from acp_launch.private import Unfit, read_bounded, real
from acp_launch.problem import count, did_you_mean, ours
from acp_launch.process.leftovers import launch_state
from acp_launch.process.records import read_all
from acp_launch.profile.discover import here, project_of
from acp_launch.served.registry import find
from acp_launch.session.history import SessionTurn
from acp_launch.session.hold import SessionHolder, hold, list_held
from acp_launch.session.store import ExportedSession, Record, Registry, hint_at_move, open_registry

AGES = {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}  # seconds
PAGE = 50  # sessions that `list` shows without --all
VERBS = "list, show, history, wait, cancel, rename, move, export, import, close, rm, prune"
EXPORTED = 1  # the version of an exported session
MAX_EXPORT_BYTES = 4 * 1024 * 1024
app = Group(f"Choose a session to resume; {VERBS}.")

Name = Annotated[str, Argument("NAME", "The session's name; without one, its title.")]
Profile = Annotated[str | None, Option("--profile -p", "The session's profile, if several have that name.")]


@app.alone
def choose(context: typer.Context) -> int:
    """Choose a session of this project and resume it."""
    if context.invoked_subcommand is not None:
        return 0
    from acp_launch.app.choose import can_pick, pick_session, resume_record

    project = _project()
    with _registry() as registry:
        records = registry.list(project)
        hint = hint_at_move(registry, project)
    if not records:
        more = "acp-launch run starts one, and session list --all shows those of other projects"
        say(hint or f"no sessions here yet; {more}")
    elif not can_pick():
        refuse_to_choose(records)
    else:
        spec = resume_record(pick_session(records, Path(project)))
        from acp_launch.cli.run import RunRequest, carry_out

        return carry_out(RunRequest(words=(spec.profile,), session=spec.session, cwd=spec.cwd))
    return 0


@app.verb("list")
def list_(
    profile: OnlyProfile = None,
    everything: Annotated[bool, Option("--all -a", "List the sessions of all projects.")] = False,
    agent: Annotated[bool, Option("--agent", "Ask the profile's agent which sessions it knows.")] = False,
    as_json: Json = False,
    trust: Trust = False,
    trace: TraceFile = None,
) -> None:
    """List this project's sessions, the latest first; the latest 50 without --all."""
    if agent:
        from acp_launch.app.session_agent import list_of_agent

        list_of_agent(profile, everything, as_json, trust=trust, trace=trace)
        return
    project = None if everything else _project()
    with _registry() as registry:
        records = registry.list(project, profile, limit=None if everything or as_json else PAGE)
        more = registry.count(project, profile) - len(records) if len(records) == PAGE else 0
        hint = hint_at_move(registry, project) if project else ""
    states = {key: each.state for key, each in hosted_sessions(load_settings().state).items()} if records else {}
    if as_json:
        stdout.put_json(sessions.table_json(records, states))
    elif records:
        list_sessions(records, states)
        if more > 0:
            say(f"{more:,} more {'is' if more == 1 else 'are'} older; --all shows every session")
    else:
        of = f' of profile "{profile}"' if profile else ""
        say(hint or f"no sessions{of} here yet; --all shows those of other projects")


@app.verb()
def show(name: Name, profile: Profile = None, as_json: Json = False) -> None:
    """Show a session's details."""
    record = _find(name, profile)
    answer(asdict(record), sessions.details(record, now=time.time(), home=str(Path.home())), as_json=as_json)


@app.verb()
def history(
    name: Name,
    profile: Profile = None,
    output: Annotated[Literal["text", "json"], Option("--output -o", "The output format.")] = "text",
) -> None:
    """Show what was said in a session, without starting its agent."""
    with _registry() as registry:
        record = _the(registry, name, profile)
        turns = registry.history.turns(record.key)
    if not turns:
        fix = f"the agent may know it: {ours('run', record.profile, '--session', record.name)}"
        raise SessionError(f'nothing is kept of what was said in the session "{record.name}"', fix=fix)
    for turn in turns:
        if output == "json":
            stdout.put_json(sessions.turn_json(turn))
        else:
            stdout.line(sessions.turn_text(turn))


@app.verb()
def cancel(name: Name, profile: Profile = None) -> None:
    """End the turn that runs in a session, from any shell; the session stays."""
    from acp_launch.served.connect import cancel_turn

    record, state = _find(name, profile), load_settings().state
    note = find(state, record.project, record.profile)
    if note is not None and note.socket and cancel_turn(note, record.name):
        say(f"{record.name}: cancelled")
    elif holder := _interrupt_run(record, state):
        say(f"{record.name}: sent Ctrl-C to process {holder.pid} ({holder.command})")
    else:
        say(f"{record.name}: no turn is running")


def _interrupt_run(record: Record, state: Path) -> SessionHolder | None:
    """Do what Ctrl-C does to the run that is in a session; None if there is none.

    Raises:
        SessionError: an editor is in it, whose other sessions would end, too.
    """
    holder = next((each for each in list_held(state) if each.key == record.key), None)
    running = {each.launcher.pid: each.verb for each in read_all(state) if launch_state(each) == "running"}
    verb = running.get(holder.pid) if holder else None
    if holder is None or verb in (None, "up"):  # a host has been asked already
        return None
    if verb != "run":
        what = f'the session "{record.name}" is in process {holder.pid} ({holder.command})'
        raise SessionError(what, fix="cancel the turn there")
    os.kill(holder.pid, signal.SIGINT)
    return holder


@app.verb()
def move(
    old: Annotated[Path, Argument("OLD", "Where the project was.")],
    new: Annotated[Path | None, Argument("[NEW]", "Where it is; by default this project.")] = None,
) -> None:
    """Take the sessions of a project that has moved along to its new directory."""
    there = str(new.resolve()) if new else _project()
    with _registry() as registry:
        moved = registry.move(os.path.abspath(old), there)  # noqa: PTH100 - links of a path that is gone stay
    if not moved:
        raise SessionError(f"there are no sessions of {old}", fix="acp-launch session list --all shows every session")
    say(f"{count(len(moved), 'session')} moved to {there}; whether an agent finds them there is its own affair")


@app.verb()
def export(name: Name, profile: Profile = None) -> None:
    """Print a session for `session import` on another machine: its record and what was said, not the agent's files."""
    with _registry() as registry:
        record = _the(registry, name, profile)
        turns = registry.history.turns(record.key)
    from acp_launch.plan.resolve import ADHOC

    if record.profile.startswith(ADHOC):
        raise SessionError(f'the session "{record.name}" was made with --agent', fix="export one of a profile")
    cwd = os.path.relpath(record.cwd, record.project) if record.directory else record.cwd
    record = replace(record, project="", cwd=cwd)
    stdout.put_json({"acp_launch_session": EXPORTED, "record": asdict(record), "turns": [*map(asdict, turns)]})


@app.verb("import")
def import_(
    file: Annotated[Path, Argument("FILE", "What `session export` printed; - is stdin.")],
    trust: Trust = False,
    trace: TraceFile = None,
) -> None:
    """Take a session over from another machine, if the agent here knows it."""
    from acp_launch.app.session_agent import require_known

    try:
        content = _read_export(file)
        given = convert(json.decode(content), ExportedSession)
        turns = convert(given.turns, tuple[SessionTurn, ...])
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}", fix="check the path") from None
    except Unfit as unfit:
        raise UsageError(f"{file} {unfit}", fix=ours("session", "export", "NAME")) from None
    except (ValueError, RecursionError):
        raise UsageError(f"{file} is not an exported session", fix=ours("session", "export", "NAME")) from None
    project, cwd = _project(), given.record.cwd
    if given.record.directory:
        cwd = os.path.normpath(Path(project, cwd))
        if not (Path(cwd).is_relative_to(project) and real(Path(cwd)).is_relative_to(real(Path(project)))):
            raise SessionError(f"the session works in {given.record.cwd}, outside of its project", fix="it stays there")
    record = replace(given.record, project=project, cwd=cwd)
    check_session_name(record.name)
    with _registry() as registry:
        if registry.find(*record.key) is not None:
            fix = f"rename that one: {ours('session', 'rename', record.name, 'NEW')}"
            raise SessionError(f'there is already a session "{record.name}" here', fix=fix)
        require_known(record, trust=trust, trace=trace)
        registry.save(record)
        for turn in turns:
            registry.history.add(record.key, turn)
    say(f"{record.name}: imported; {ours('run', record.profile, '--session', record.name)} goes on with it")


def _read_export(file: Path) -> bytes:
    if str(file) == "-":
        return sys.stdin.buffer.read(MAX_EXPORT_BYTES)
    if (found := read_bounded(file, MAX_EXPORT_BYTES)) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file))
    return found[0]


@app.verb()
def wait(
    name: Name,
    profile: Profile = None,
    output: Output = "text",
    timeout: Annotated[
        Duration | None, Option("--timeout", "How long to wait; the turn goes on.", "DURATION", read_duration)
    ] = None,
) -> int:
    """Wait for the latest turn of a session in a host, show it, and exit as it ends."""
    from acp_launch.app.session_agent import wait_for_turn

    return wait_for_turn(_find(name, profile), load_settings(), output=output, timeout=timeout)


@app.verb()
def rename(name: Name, new: Annotated[str, Argument("NEW")], profile: Profile = None) -> None:
    """Rename a session."""
    check_session_name(new)
    with _registry() as registry:
        record = _the(registry, name, profile)
        with _hold(record, "session rename"):
            registry.rename(record.key, new)


@app.verb()
def close(name: Name, profile: Profile = None, trust: Trust = False, trace: TraceFile = None) -> None:
    """Tell the agent to free a session's resources; the session stays."""
    from acp_launch.app.session_agent import agent_name, end

    record = _find(name, profile)
    with _hold(record, "session close"):
        if not end("close", record, trust=trust, trace=trace):
            tell(f"{agent_name(record)} cannot close sessions; nothing was changed")


@app.verb()
def rm(
    names: Annotated[tuple[str, ...], Argument("NAME...", "The sessions' names.")],
    profile: Profile = None,
    local: Annotated[bool, Option("--local", "Delete it only here, without starting the agent.")] = False,
    trust: Trust = False,
    trace: TraceFile = None,
) -> None:
    """Delete sessions, in the agent too if it can."""
    from acp_launch.app.session_agent import agent_name, end

    if trace is not None and len(names) > 1:
        raise UsageError("--trace is for one session", fix="name one")
    with _registry() as registry:
        for record in [_the(registry, name, profile) for name in dict.fromkeys(names)]:
            with _hold(record, "session rm"):
                if not local and not end("delete", record, trust=trust, trace=trace):
                    who = agent_name(record)
                    tell(f"{who} cannot delete sessions; deleted here, but the agent may still have it")
                registry.remove(record.key)


@app.verb()
def prune(
    older_than: Annotated[str, Option("--older-than", "Since its last use: 30d, 12h, 8w.", "AGE")],
    profile: OnlyProfile = None,
    everything: Annotated[bool, Option("--all -a", "Those of all projects.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Delete the records of old sessions that are not in use. Agents keep what they have stored."""
    latest = time.time() - _age(older_than)
    with _registry() as registry:
        listed = registry.list(None if everything else _project(), profile)
        old = [record for record in listed if record.last_used < latest]
        if old and not as_json:
            list_sessions(old)
        gone = _prune(registry, old) if old and _may_prune(old, is_sure=yes) else []
    if as_json:
        stdout.put_json(sessions.table_json(gone))
    elif not old:
        say(f"no session was last used more than {older_than} ago")
    elif gone:
        say(f"deleted {count(len(gone), 'session')}; the agents still have what they stored")


def _prune(registry: Registry, records: Sequence[Record]) -> list[Record]:
    gone = []
    for record in records:
        try:
            with _hold(record, "session prune"):
                registry.remove(record.key)
                gone.append(record)
        except SessionError as error:
            tell(f"{error.message}; it was not deleted")
    return gone


def _may_prune(records: Sequence[Record], *, is_sure: bool) -> bool:
    if is_sure or agrees(f"Delete {count(len(records), 'session')}?"):
        return True
    if sys.stdin.isatty():
        say("nothing was deleted")
        return False
    what = f"{count(len(records), 'session')} would be deleted; nothing was changed"
    raise UsageError(what, fix="to delete without a question: --yes")


def _age(text: str) -> float:
    """Parse an age such as 30d; return seconds."""
    found = re.fullmatch(r"(\d{1,6})([hdw])", text, re.ASCII)
    if found is None:
        raise UsageError(f'--older-than: expected an age, found "{text}"', fix="write it as 12h, 30d or 8w")
    return int(found[1]) * AGES[found[2]]


def _find(name: str, profile: str | None) -> Record:
    with _registry() as registry:
        return _the(registry, name, profile)


def _the(registry: Registry, name: str, profile: str | None) -> Record:
    """Find the session of this project by its name, or by the title or its beginning if the user gave it no name."""
    here = registry.list(_project(), profile)
    found = [record for record in here if record.name == name] or _find_by_title(here, name)
    if len(found) == 1:
        return found[0]
    if found and found[0].name != name:
        names = ", ".join(record.name for record in found)
        raise SessionError(f'several sessions have a title that begins with "{name}"', fix=f"say which: {names}")
    if found:
        profiles = ", ".join(record.profile for record in found)
        raise SessionError(f'"{name}" is a session of several profiles: {profiles}', fix="say which: --profile NAME")

    hint = did_you_mean(name, [record.name for record in here])
    moved = hint_at_move(registry, _project())
    raise SessionError(
        f'there is no session "{name}" here{hint}', fix=moved or "acp-launch session list --all shows every session"
    )


def _find_by_title(records: Sequence[Record], title: str) -> list[Record]:
    wanted = " ".join(title.split()).casefold()
    titles = [(session_label(record).casefold(), record) for record in records if session_label(record) != record.name]
    same = [record for said, record in titles if said == wanted]
    return same or [record for said, record in titles if wanted and said.startswith(wanted)]


def _hold(record: Record, verb: str) -> Any:
    return hold(load_settings().state, record.key, verb=verb)


def _registry() -> Registry:
    return open_registry(load_settings().state)


def _project() -> str:
    return str(project_of(here()))
