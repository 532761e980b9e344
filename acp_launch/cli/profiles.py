"""
The verbs about profiles: `validate`, `plan`, `list`, `show`, `schema`.

None of them starts anything, and all of them work on every platform. What they need is imported in their bodies,
so that `--help` loads no YAML.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from acp_launch.errors import MachineError, ProblemsError, ProfileError, UsageError

if TYPE_CHECKING:
    from acp_launch.plan.needs import Need
    from acp_launch.plan.resolve import Resolved
    from acp_launch.problem import Problem
    from acp_launch.profile.discover import Found
    from acp_launch.profile.load import Loaded
    from acp_launch.secret.outcome import Outcome
    from acp_launch.settings.model import Settings

Names = Annotated[
    list[str] | None, typer.Argument(metavar="[PROFILE]...", help="Names or paths; all there are when none is given.")
]
Name = Annotated[str, typer.Argument(metavar="PROFILE", help="A profile's name, or the path of its file.")]
Json = Annotated[bool, typer.Option("--json", help="Answer with JSON on stdout.")]
Directory = Annotated[Path | None, typer.Option("--cwd", metavar="DIR", help="The session's directory.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="List inherited variables by name.")]
Strict = Annotated[bool, typer.Option("--strict", help="Fail on warnings too, as a pre-commit hook should.")]
Secrets = Annotated[bool, typer.Option("--secrets", help="Look up whether each secret is there; never its value.")]
Merged = Annotated[
    bool, typer.Option("--merged", help="Print what it makes with all it extends, and where each value is from.")
]
Target = Annotated[Path | None, typer.Option("--write", "-o", metavar="FILE", help="Write it to FILE, not to stdout.")]


def validate(names: Names = None, as_json: Json = False, strict: Strict = False, secrets: Secrets = False) -> None:
    """Check profiles: every problem in one go, each with its line, and every credential written down in one."""
    from acp_launch.console import profiles
    from acp_launch.profile.load import examine

    _, settings = _here()
    reports = [(found, *examine(found, cache=settings.cache)) for found in _chosen(names or [])]
    needed = [need for _, loaded, _ in reports if loaded for need in _needs(loaded)] if secrets else []
    outcomes, unmet = _looked_up(needed, settings)
    if not profiles.show_reports(reports, outcomes, unmet, as_json=as_json, strict=strict):
        raise typer.Exit(ProfileError.exit_code)
    if unmet:
        raise typer.Exit(MachineError.exit_code)


def plan(
    name: Name, as_json: Json = False, cwd: Directory = None, verbose: Verbose = False, secrets: Secrets = False
) -> None:
    """Show exactly what would start, and where each value came from. Secrets stay references."""
    from acp_launch.console import plans, problems

    try:
        resolved = _resolved(name, cwd)
    except ProblemsError as error:
        if not as_json:
            raise
        problems.show(error.problems, as_json=True)
        raise typer.Exit(error.exit_code) from None
    if not secrets:
        plans.show(resolved, as_json=as_json, verbose=verbose)
        return
    from msgspec.structs import replace

    outcomes, unmet = _looked_up(resolved.needs, _here()[1])
    found = replace(resolved, problems=(*resolved.problems, *unmet))
    plans.show(found, as_json=as_json, verbose=verbose, secrets=outcomes)
    if unmet:
        raise typer.Exit(MachineError.exit_code)


def list_(as_json: Json = False) -> None:
    """List the profiles that can be named from here, shadowed and broken ones too."""
    from acp_launch.console import profiles
    from acp_launch.profile.load import inspect

    _, settings = _here()
    profiles.show_list([(found, *inspect(found, cache=settings.cache)) for found in _chosen([])], as_json=as_json)


def show(name: Name, merged: Merged = False) -> None:
    """Print a profile's file as it is; its path goes to stderr."""
    from acp_launch.console import stdout
    from acp_launch.console.stderr import harmless, say
    from acp_launch.profile.load import load, read

    (found,) = _chosen([name])
    if merged:
        from acp_launch.console.merged import as_yaml

        stdout.put(as_yaml(load(found)))
        return
    text, problems = read(found.file)
    if text is None:
        raise ProfileError(problems)
    say(harmless(f"# {found.file}", keep=""))
    stdout.put(text if text.endswith("\n") else f"{text}\n")


def schema(file: Target = None) -> None:
    """Write the JSON Schema of the profile format, for editors."""
    from acp_launch.profile.schema import text

    if file is None:
        typer.echo(text(), nl=False)
        return
    try:
        file.write_text(text(), encoding="utf-8", newline="\n")
    except OSError as fault:
        raise UsageError(f"cannot write {file}: {fault.strerror}", fix="choose another file") from fault


def _looked_up(needs: "Sequence[Need]", settings: "Settings") -> "tuple[dict[str, Outcome], tuple[Problem, ...]]":
    """What became of each secret, and a problem for each place whose secret was not found."""
    if not needs:
        return {}, ()
    from acp_launch.cli.stores import outcomes
    from acp_launch.plan.needs import unmet

    found = outcomes((need.name for need in needs), settings)
    return found, unmet(needs, found)


def _needs(loaded: "Loaded") -> "tuple[Need, ...]":
    from acp_launch.plan.needs import needs

    return needs(loaded)


def _resolved(name: str, cwd: Path | None) -> "Resolved":
    from acp_launch.cli.planning import resolved_profile

    _, settings = _here()
    resolved = resolved_profile(name, settings, cwd=cwd)
    if resolved.plan is None:
        raise MachineError(resolved.problems)
    return resolved


def _chosen(names: list[str]) -> "list[Found]":
    from acp_launch.profile.discover import discover, find

    start, settings = _here()
    if not names:
        return discover(start=start, settings=settings)
    return [find(name, start=start, settings=settings) for name in names]


def _here() -> "tuple[Path, Settings]":
    from acp_launch.cli.planning import here
    from acp_launch.settings.load import load

    return here(), load()
