"""The output of `ps` and `reap`: names, pids and numbers. Of processes started by agents, only the program's name."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from msgspec.structs import asdict

from acp_launch.console import stdout
from acp_launch.console.sessions import display_name, tilde
from acp_launch.console.stderr import YELLOW, say, tell
from acp_launch.console.stdout import columns, terminal_width
from acp_launch.process.containers import LaunchContainers, describe_left, shorten
from acp_launch.process.leftovers import ClearedLaunch, LaunchTree, LeftProcess, TreeProcess

HEADINGS = ("NAME", "PID", "AGE", "MEMORY", "RESTARTS", "SESSION", "DIRECTORY", "")
SESSION, DIRECTORY = 5, 6  # the columns that give way when the terminal is narrow
LEFT = "left behind; to stop: acp-launch reap"
SAID = {"ending": "its guard is stopping it", "dead": LEFT, "over": LEFT}
INDENT, OLD_CODE = "  ", "old code"
STEPS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))  # seconds


class SessionRow(NamedTuple):
    """A session that a launch holds. The rest is of a host's: its `state`, for how many seconds it has it, how many
    terminals and other fronts are attached, and how many prompts wait."""

    name: str
    title: str
    state: str = ""
    age: float = 0.0
    fronts: int = 0
    queued: int = 0


class SharedRow(NamedTuple):
    """A process of the server host: `users` are the launches that use it, by their pids."""

    name: str
    pid: int | None
    users: Mapping[int, str]


Sessions = Mapping[int, Sequence[SessionRow]]  # of launches by the pid of the launcher


def show_families(
    families: Sequence[LaunchTree], sessions: Sessions, shared: Sequence[SharedRow] = (), *, home: str, as_json: bool
) -> None:
    """Print all launches of this user as trees."""
    if as_json:
        stdout.put_json({"launches": [_family(family, sessions, shared) for family in families]})
    elif families:
        rows = [HEADINGS, *(row for family in families for row in _rows(family, sessions, shared, home))]
        for line in columns(rows, width=terminal_width(), ends=[SESSION], starts=[DIRECTORY]):
            stdout.line(line)
        for family in families:
            if family.containers.why:
                tell(describe_left(family.containers, family.launch.engine, family.launch.id), style=YELLOW)
    else:
        say("nothing is running")


def show_ended(ended: Sequence[ClearedLaunch], *, as_json: bool) -> None:
    """Print a line for each launch whose processes were stopped."""
    if as_json:
        stdout.put_json({"ended": [_ended_json(each) for each in ended]})
    elif ended:
        for each in ended:
            if each.processes:
                stdout.line(f"{sentence(each)}: {', '.join(map(_process_name, each.processes))}")
            if each.survivors:
                stdout.line(f"could not stop: {', '.join(map(_process_name, each.survivors))}")
            for text in container_sentences(each):
                stdout.line(text)
    else:
        say("nothing was left behind")


def sentence(ended: ClearedLaunch) -> str:
    """Return `stopped 2 processes left behind by a run of PROFILE`."""
    count = len(ended.processes)
    return f"stopped {count} process{'es' if count > 1 else ''} left behind by a {ended.verb} of {ended.profile}"


def container_sentences(ended: ClearedLaunch) -> Iterator[str]:
    """Yield what became of the containers of a launch, if it has left some."""
    if ids := ended.containers.removed:
        s = "s" if len(ids) > 1 else ""
        yield f"removed the container{s} {shorten(ids)}, left behind by a {ended.verb} of {ended.profile}"
    if not ended.containers.is_over:
        what = describe_left(ended.containers, ended.engine, ended.id)
        yield f"after a {ended.verb} of {ended.profile}: {what}"


def age(seconds: float) -> str:
    """Return `5s`, `3m 4s`, `2h 5m` or `3d 4h`."""
    for (unit, name), (smaller, minor) in pairwise(STEPS):
        if seconds >= unit:
            return f"{int(seconds // unit)}{name} {int(seconds % unit // smaller)}{minor}"
    return f"{int(seconds)}s"


def size(memory: int) -> str:
    """Return the size in MiB, since no process is smaller."""
    return f"{memory / (1024 * 1024):.0f} MiB"


def _rows(family: LaunchTree, sessions: Sessions, shared: Sequence[SharedRow], home: str) -> Iterator[tuple[str, ...]]:
    launch = family.launch
    title, directory = f"{launch.profile} ({launch.verb})", tilde(launch.cwd, home)
    if family.root is None:
        yield (title, "", "", "", "", "", directory, SAID[family.state])
    else:
        root = family.root
        held = sessions.get(root.pid, ())
        session = next((display_name(each.name, each.title) for each in held if not each.state), "")
        yield (title, str(root.pid), age(root.age), size(root.memory), "", session, directory, "")
        yield from (_session(each) for each in held if each.state)
    users = {each.pid: describe_users(each.users.values()) for each in shared}
    for member in family.members:
        yield from _branch(member, 1, users)
    for used in _list_used(family, shared):
        yield (INDENT + used.name, "-", "", "", "", f"(shared, pid {used.pid})", "", "")
    for container in family.containers.left:
        yield (f"{INDENT}container {shorten([container])}", "-", "", "", "", "", "", "")
    for each in family.remote:
        yield (INDENT + each.name, "-", age(each.age), "", str(each.restarts or ""), f"(remote, {each.state})", "", "")
    for gone in family.ended:
        yield (INDENT + gone.name, "-", "", "", str(gone.restarts or ""), "(ended)", "", "")


def describe_users(labels: Iterable[str]) -> str:
    """Return `shared by 8 launches: serve claude, run review, up demo`."""
    of = list(labels)
    launches = f"{len(of)} launch{'es' if len(of) > 1 else ''}"
    return f"shared by {launches}: {', '.join(sorted(set(of)))}" if of else "used by no launch"


def _list_used(family: LaunchTree, shared: Sequence[SharedRow]) -> Iterator[SharedRow]:
    return (each for each in shared if family.root is not None and family.root.pid in each.users)


def _session(held: SessionRow) -> tuple[str, ...]:
    attached = f", {held.fronts} attached" if held.fronts else ""
    queued = f", {held.queued} queued" if held.queued else ""
    shown = f"{display_name(held.name, held.title)} ({held.state}{attached}{queued})"
    return (f"{INDENT}session", "-", age(held.age), "", "", shown, "", "")


def _branch(member: TreeProcess, depth: int, users: Mapping[int | None, str]) -> Iterator[tuple[str, ...]]:
    name = INDENT * depth + (member.name or member.command)
    restarts = str(member.restarts or "")
    where = "confined" if member.is_confined else "in a container" if member.is_contained else ""
    said = users.get(member.pid, where)
    said = ", ".join(filter(None, (OLD_CODE if member.has_old_code else "", said)))
    yield (name, str(member.pid), age(member.age), size(member.memory), restarts, said, "", "")
    for child in member.children:
        yield from _branch(child, depth + 1, users)


def _family(family: LaunchTree, sessions: Sessions, shared: Sequence[SharedRow]) -> Mapping[str, object]:
    held = sessions.get(family.root.pid if family.root else 0, ())
    name, title = held[0][:2] if len(held) == 1 else (None, None)
    return {
        "profile": family.launch.profile,
        "verb": family.launch.verb,
        "state": "left behind" if family.root is None and family.state != "ending" else family.state,
        "session": name,
        "title": title,
        "sessions": [each._asdict() | {"age": round(each.age, 2)} for each in held if each.state],
        "directory": family.launch.cwd or None,
        "pid": family.root.pid if family.root else None,
        "age": round(family.root.age, 2) if family.root else None,
        "memory": family.root.memory if family.root else None,
        "processes": [_member(member, shared) for member in family.members],
        "shared": [{"name": each.name, "pid": each.pid} for each in _list_used(family, shared)],
        "ended": [{"name": gone.name, "restarts": gone.restarts} for gone in family.ended],
        "remote": [
            {"name": each.name, "state": each.state, "age": round(each.age, 2), "restarts": each.restarts}
            for each in family.remote
        ],
        **_containers(family.containers),
    }


def _member(member: TreeProcess, shared: Sequence[SharedRow]) -> Mapping[str, object]:
    children = [_member(child, shared) for child in member.children]
    found = asdict(member) | {"name": member.name or None, "age": round(member.age, 2), "children": children}
    marks = {"confined": found.pop("is_confined"), "old_code": found.pop("has_old_code")}
    marks["in_container"] = found.pop("is_contained")
    users = [
        [{"pid": pid, "launch": label} for pid, label in each.users.items()]
        for each in shared
        if each.pid == member.pid
    ]
    return found | {mark: True for mark, is_set in marks.items() if is_set} | ({"shared_by": users[0]} if users else {})


def _ended_json(ended: ClearedLaunch) -> Mapping[str, object]:
    processes, survivors = ([asdict(left) for left in lefts] for lefts in (ended.processes, ended.survivors))
    found = {"profile": ended.profile, "verb": ended.verb, "processes": processes, "survivors": survivors}
    return {**found, **_containers(ended.containers)}


def _containers(found: LaunchContainers) -> Mapping[str, object]:
    if found == LaunchContainers():
        return {}
    return {"containers": {"removed": found.removed, "left": found.left, "problem": found.why or None}}


def _process_name(left: LeftProcess) -> str:
    return f"{left.name} ({left.pid})" if left.name else str(left.pid)
