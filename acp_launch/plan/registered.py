"""An agent of the registry in a plan: its installation on this machine gives program, arguments and variables."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from acp_launch.plan.executable import CannotRun, find
from acp_launch.plan.model import Origin, Value
from acp_launch.problem import Problem, likeliest
from acp_launch.profile.load import Loaded
from acp_launch.registry.index import kept, pinned
from acp_launch.registry.installed import Lacking, Reference, chosen, home, installations, reference
from acp_launch.settings.load import directory, grounds, lies_in


class Registered(Struct, frozen=True):
    """The program of an installed agent, with what the registry gives it; `reference` is its id and version."""

    program: Path
    args: tuple[Value, ...]
    env: Mapping[str, Value]
    reference: str


def registered(written: str, places: Sequence[Path], search: str | None) -> Registered | CannotRun:
    """Find the installation of the agent that a profile names. `search` is the agent's PATH.

    `places` are the profile's project and the working directory: an installation that lies in a project there is not
    used, because the project could have made it.
    """
    wanted, state = reference(written), directory("STATE")
    assert wanted is not None, "the profile was checked"
    if lies_in(state, [ground for place in places for ground in grounds(place)]):
        what = f"the state directory {state} lies in the project, so the agents in it cannot be trusted"
        return CannotRun(what, "unset ACP_LAUNCH_STATE_DIR, or name a directory outside of the project")
    installation = chosen(state, wanted)
    if isinstance(installation, Lacking):
        return _unknown(wanted, state) or CannotRun(installation.message, _pinned(wanted.id) or installation.fix)
    program = find(str(installation.program), project=home(state), path=search)
    if isinstance(program, CannotRun):
        return program
    said, origin = installation.manifest, Origin(f"registry {installation.reference}")
    args = tuple(Value((text,), origin) for text in said.args)
    env = {name: Value((text,), origin) for name, text in said.env.items()}
    return Registered(program, args, env, str(installation.reference))


def _pinned(agent: str) -> str:
    """Return the fix for an agent that is a package only, which needs no installation."""
    copy = kept(directory("CACHE"))
    entry = copy.agents.get(agent) if copy else None
    line = pinned(entry) if entry and not entry.distribution.binary else ""
    return f"write instead: {line}" if line else ""


def unlisted(loaded: Loaded) -> tuple[Problem, ...]:
    """Warn about a profile's agent whose id neither the copy of the index nor this machine knows. The copy may be old,
    so it is not an error; without one, nothing is known."""
    wanted = reference(loaded.profile.agent.registry or "")
    unknown = _unknown(wanted, directory("STATE"), needs_hint=False) if wanted else None
    if unknown is None:
        return ()
    at = loaded.positions.where(("agent", "registry"))
    return (Problem(at.file, at.line, at.column, "agent.registry", unknown.message, unknown.fix, "warning"),)


def _unknown(wanted: Reference, state: Path, *, needs_hint: bool = True) -> CannotRun | None:
    """Say so if neither the copy of the index nor this machine knows the id. If `needs_hint`, only if another one looks
    like it, because a newer index may list it."""
    copy = kept(directory("CACHE"))
    known = {*copy.agents, *(each.manifest.id for each in installations(state))} if copy else set()
    near = likeliest(wanted.id, known)
    if not known or wanted.id in known or (needs_hint and not near):
        return None
    hint, fix = (f'; did you mean "{near}"?', f"write {near}") if near else ("", "acp-launch agents search lists all")
    return CannotRun(f'the registry has no agent "{wanted.id}"{hint}', fix)
