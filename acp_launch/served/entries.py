"""The MCP servers that an editor sends with a session: as plans, to run behind the seat with the profile's."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from acp_launch.plan.executable import environment, find
from acp_launch.plan.model import Origin, RemotePlan, ServerPlan, StdioPlan, Value
from acp_launch.profile.values import free_name, url_fault
from acp_launch.protocol import acp
from acp_launch.secret.detect import noun
from acp_launch.secret.redact import redactor
from acp_launch.secret.value import Secret

EDITOR = Origin("the editor")


class EditorServers(Struct, frozen=True):
    """The servers of an editor. `untouched` are entries that we cannot run, for the agent; `renamed` are pairs of the
    name that an entry has and the name that it gets."""

    plans: tuple[ServerPlan, ...]
    untouched: tuple[Any, ...]
    renamed: tuple[tuple[str, str], ...]


def plan_servers(
    entries: Sequence[Any], names: Collection[str], cwd: Path, *, is_confined: bool = False
) -> EditorServers:
    """Plan the editor's servers for a session in `cwd`. `names` are the profile's servers, which keep theirs.

    Local ones are left to an agent that `is_confined`: it might have written what they run.
    None of them is required: without us the agent would open the session without a server that fails.
    """
    plans: list[ServerPlan] = []
    untouched: list[Any] = []
    renamed: list[tuple[str, str]] = []
    for entry in entries:
        said = acp.mapping(entry)
        own = acp.text(said.get("name"))
        name = free_name(own, {*names, *(plan.name for plan in plans)})
        is_left = is_confined and said.get("type", "stdio") == "stdio"
        plan = _plan(said, name, cwd) if own.isprintable() and own and not is_left else None
        if plan is None:
            untouched.append(entry)
            continue
        plans.append(plan)
        if name != own:
            renamed.append((own, name))
    return EditorServers(tuple(plans), tuple(untouched), tuple(renamed))


def _plan(said: Mapping[str, Any], name: str, cwd: Path) -> ServerPlan | None:
    """Return the plan of an entry; None for one of another type, or one that is malformed."""
    match said.get("type", "stdio"):
        case "stdio":
            return _stdio(said, name, cwd)
        case "http" | "sse" as type:
            return _remote(said, name, type)
    return None


def _stdio(said: Mapping[str, Any], name: str, cwd: Path) -> StdioPlan | None:
    command, args, env = said.get("command"), said.get("args") or [], _pairs(said.get("env"))
    if not isinstance(command, str) or not command or "\0" in command or env is None:
        return None
    if not isinstance(args, list) or not all(isinstance(argument, str) for argument in args):
        return None
    whole = environment(os.environ, "all", env)
    found = find(command, project=cwd, path=whole["PATH"].reveal({}) if "PATH" in whole else None)
    return StdioPlan(
        name=name,
        command=found if isinstance(found, Path) else Path(command),  # its start fails, and says so
        args=tuple(Value((argument,), EDITOR) for argument in args),
        env=whole,
        cwd=cwd,
        required=False,
    )


def _remote(said: Mapping[str, Any], name: str, type: str) -> RemotePlan | None:
    url, headers = said.get("url"), _pairs(said.get("headers"), are_secret=True)
    if not isinstance(url, str) or url_fault(url) or headers is None:
        return None
    return RemotePlan(name=name, type=type, url=Value((url,), EDITOR), headers=headers, insecure=True, required=False)


def _pairs(listed: object, *, are_secret: bool = False) -> dict[str, Value] | None:
    """Read variables or headers; None if they are malformed. Those that are credentials are never shown."""
    found = dict(_read(listed))
    if len(found) != len(acp.sequence(listed)) or (listed is not None and not isinstance(listed, list)):
        return None
    redactor.register(*(Secret(value) for name, value in found.items() if are_secret or noun(name)))
    return {name: Value((value,), EDITOR) for name, value in found.items()}


def _read(listed: object) -> Iterator[tuple[str, str]]:
    for pair in map(acp.mapping, acp.sequence(listed)):
        name, value = pair.get("name"), pair.get("value")
        if isinstance(name, str) and name and isinstance(value, str) and "\0" not in name + value and "=" not in name:
            yield name, value
