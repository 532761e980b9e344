"""
The verbs about profiles: `validate`, `plan`, `list`, `show` and `schema`.

They start nothing and work on every platform. Their imports stand in function bodies, so that `--help` loads no YAML.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec.structs import replace

from acp_launch import private
from acp_launch.app.spec import find_profile, load_settings
from acp_launch.cli.verb import Argument, Directory, Json, Option, ProfileName
from acp_launch.console import profiles, stdout
from acp_launch.console.profiles import Entry, as_yaml
from acp_launch.console.stderr import can_ask_user, harmless, say
from acp_launch.errors import MachineError, ProblemsError, ProfileError, UsageError
from acp_launch.plan.model import Need, RemotePlan, needs, unmet
from acp_launch.problem import Problem
from acp_launch.profile.discover import Found, discover, here, parents
from acp_launch.profile.load import Loaded, examine, inspect_all, load, read
from acp_launch.secret.value import Outcome
from acp_launch.settings.model import Settings

if TYPE_CHECKING:
    from acp_launch.console.logins import State
    from acp_launch.console.plans import SharedNow
    from acp_launch.plan.resolve import Resolved

Secrets = Annotated[bool, Option("--secrets", "Check that each secret can be found; values are not shown.")]


def validate(
    names: Annotated[tuple[str, ...], Argument("[PROFILE]...", "Names or paths; by default all profiles.")] = (),
    as_json: Json = False,
    strict: Annotated[bool, Option("--strict", "Fail on warnings too, as a pre-commit hook should.")] = False,
    secrets: Secrets = False,
    locked: Annotated[bool, Option("--locked", "Fail if packages differ from the project's lock file.")] = False,
) -> int:
    """Check profiles: report every problem with its line, and every credential written in a file."""
    settings = load_settings()
    reports: list[Entry] = [(found, *examine(found, cache=settings.cache)) for found in _find(names)]
    if not names:
        reports += _broken_parents(reports, settings)
    reports = [(found, loaded, (*problems, *_registry(loaded, locked))) for found, loaded, problems in reports]
    needed = [need for _, loaded, _ in reports if loaded for need in needs(loaded)] if secrets else []
    outcomes, unmet = _look_up(needed, settings)
    if not profiles.show_reports(reports, outcomes, unmet, as_json=as_json, strict=strict):
        return ProfileError.exit_code
    return MachineError.exit_code if unmet else 0


def _registry(loaded: Loaded | None, locked: bool) -> Iterator[Problem]:
    """Yield how a profile of a project differs from the project's lock file, if it is to be `locked`."""
    if loaded and locked and loaded.found.origin in ("path", "project"):
        from acp_launch.app.planning import compare_lock, resolved_from

        yield from compare_lock(loaded, resolved_from(loaded))[0]


def plan(
    name: ProfileName,
    as_json: Json = False,
    cwd: Directory = None,
    verbose: Annotated[bool, Option("--verbose -v", "List inherited variables by name.")] = False,
    secrets: Secrets = False,
) -> int:
    """Show what would start and where each value comes from. Secrets stay references."""
    from acp_launch.app.planning import loaded_profile, resolved_from
    from acp_launch.console import plans, problems

    settings = load_settings()
    try:
        loaded = loaded_profile(name, settings)
        resolved = resolved_from(loaded, cwd=cwd)
        if resolved.plan is None and resolved.draft is None:
            raise MachineError(resolved.problems)
    except ProblemsError as error:
        if not as_json:
            raise
        problems.show(error.problems, as_json=True)
        return error.exit_code

    outcomes, unmet = _look_up(resolved.needs, settings) if secrets else (None, ())
    found, logins = replace(resolved, problems=(*resolved.problems, *unmet)), _logins(resolved, settings)
    shared: Sequence[SharedNow] = ()
    if verbose and not as_json:
        from acp_launch.app.shared_now import compare_shared_now

        shared = compare_shared_now(loaded, resolved, settings, outcomes or {})
    plans.show(found, as_json=as_json, verbose=verbose, secrets=outcomes, logins=logins, shared=shared)
    return MachineError.exit_code if unmet or resolved.plan is None else 0


def _logins(resolved: "Resolved", settings: Settings) -> "Mapping[str, State]":
    """Return the state of the logins that the servers of a plan ask for, and of headers in their place."""
    plan = resolved.draft or resolved.plan
    remotes = [server for server in plan.servers if isinstance(server, RemotePlan)] if plan is not None else []
    if plan is None or (not settings.headers_command and not any(server.oauth for server in remotes)):
        return {}
    from acp_launch.app.mcplogin import login_states

    return login_states(plan, settings)


def list_(as_json: Json = False) -> None:
    """List the profiles available here, shadowed and broken ones too."""
    profiles.show_list(inspect_all(_find(()), cache=load_settings().cache), as_json=as_json)


def show(
    name: ProfileName,
    merged: Annotated[
        bool, Option("--merged", "Print it merged with all it extends, and where each value comes from.")
    ] = False,
) -> None:
    """Print a profile's file as it is; its path goes to stderr."""
    found = find_profile(name)
    if merged:
        stdout.put(as_yaml(load(found)))
        return
    text, problems = read(found.file)
    if text is None:
        raise ProfileError(problems)
    say(harmless(f"# {found.file}", keep=""))
    stdout.put(text if text.endswith("\n") else f"{text}\n")


def schema(
    file: Annotated[Path | None, Option("--write -o", "Write it to FILE, not to stdout.", "FILE")] = None,
    events: Annotated[bool, Option("--events", "The schema of a line of `-o json`, for scripts.")] = False,
) -> None:
    """Write the JSON Schema of the profile format, for editors."""
    if events:
        from acp_launch.session.events import write_schema as write
    else:
        from acp_launch.profile.schema import text as write
    if file is None:
        stdout.put(write())
        return
    try:
        private.replace(file, write().encode(), mode=None)
    except OSError as fault:
        raise UsageError(f"cannot write {file}: {fault.strerror}", fix="choose another file") from fault


def _broken_parents(reports: Sequence[Entry], settings: Settings) -> list[Entry]:
    """Examine the files that are only parents of others; return those with a problem that no report has yet."""
    known = {problem for *_, problems in reports for problem in problems}
    found = [(each, *examine(each, cache=settings.cache)) for each in parents(start=here(), settings=settings)]
    return [each for each in found if not known.issuperset(each[2])]


def _look_up(needs: Sequence[Need], settings: Settings) -> tuple[dict[str, Outcome], tuple[Problem, ...]]:
    """Look up the secrets; return the outcome of each, and a problem for each that was not found."""
    if not needs:
        return {}, ()
    from acp_launch.app.stores import outcomes

    found = outcomes((need.name for need in needs), settings)
    return found, unmet(needs, found, has_terminal=can_ask_user())


def _find(names: Sequence[str]) -> list[Found]:
    return [find_profile(name) for name in names] or discover(start=here(), settings=load_settings())
