"""The verb `lock`: writes the packages of a profile, with their hashes, into the project's lock file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from acp_launch.console.stderr import harmless, say
from acp_launch.errors import MachineError, ProfileError, RegistryError, StateError, UsageError
from acp_launch.regex import regex

if TYPE_CHECKING:
    from acp_launch.plan.locked import Used
    from acp_launch.profile.load import Loaded

LIMIT = 120.0  # seconds for a package manager to tell hashes
_NPM = regex(r"sha\d{3}-[A-Za-z0-9+/=]+")
_PYPI = regex(r"--hash=(sha256:[0-9a-f]{64})")


def lock(
    profile: Annotated[str, typer.Argument(metavar="PROFILE", help="The name of a project's profile, or its file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Write the packages of a profile, with versions and hashes, into .acp-launch/lock.yaml."""
    import json

    from acp_launch.cli.planning import loaded_profile, resolved_from
    from acp_launch.console import stdout
    from acp_launch.plan.locked import inexact, used
    from acp_launch.profile.lockfile import Locked, write
    from acp_launch.settings.load import load

    loaded = loaded_profile(profile, load())
    if loaded.found.origin not in ("project", "path"):
        fix = "name a profile in .acp-launch of a project"
        raise UsageError(f"{profile} is not a profile of a project, so there is no lock file for it", fix=fix)
    resolved = resolved_from(loaded, cwd=None)
    if resolved.plan is None:
        raise MachineError(resolved.problems)
    packages = used(loaded, resolved.plan)
    if unpinned := [problem for each in packages if (problem := inexact(each))]:
        raise ProfileError(unpinned)
    entries = {each.key: Locked(package=each.package, integrity=_integrity(each)) for each in packages}
    try:
        file = write(loaded.found, entries)
    except (OSError, ValueError) as error:
        raise StateError(f"cannot write the lock file: {error}", fix="restore or remove it") from None
    if as_json:
        listed = [{"path": key, "package": each.package, "integrity": each.integrity} for key, each in entries.items()]
        stdout.put_json(json.dumps({"file": str(file), "packages": listed}, indent=2))
        return
    for key, each in entries.items():
        say(harmless(f"acp-launch: {key} is locked to {each.package}", keep=""))
    say(harmless(f"acp-launch: {len(entries)} packages of {profile} are in {file}{_again(loaded)}", keep=""))


def _again(loaded: "Loaded") -> str:
    from acp_launch.problem import ours

    return f"; a changed lock is trusted anew: {ours('trust', loaded.found.called)}"


def _integrity(each: "Used") -> tuple[str, ...]:
    """Return the hashes of a package: of what is installed, else as its registry tells them."""
    if each.integrity:
        return (each.integrity,)
    source, _, spec = each.package.partition(":")
    if source == "binary":
        raise RegistryError(f"{spec} was installed unverified, so it has no hash to lock", fix="choose another agent")
    found = _of_npm(spec) if source == "npm" else _of_pypi(spec)
    if not found:
        raise RegistryError(f"the registry of {source} tells no hash of {spec}", fix="check its name and version")
    return found


def _of_npm(spec: str) -> tuple[str, ...]:
    return tuple(_NPM.findall(_told(["npm", "view", spec, "dist.integrity"], Path.home())))


def _of_pypi(spec: str) -> tuple[str, ...]:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="acp-launch-") as directory:
        (Path(directory) / "requirements.in").write_text(f"{spec}\n")
        argv = ["uv", "pip", "compile", "--no-deps", "--generate-hashes", "--quiet", "requirements.in"]
        return tuple(sorted(set(_PYPI.findall(_told(argv, Path(directory))))))


def _told(argv: list[str], cwd: Path) -> str:
    """Return what a package manager prints. It runs outside of the project, which must not choose its settings."""
    import os

    from acp_launch.plan.environment import inherited
    from acp_launch.process.capture import capture
    from acp_launch.process.guard import start_guards

    start_guards()
    done = capture(argv, LIMIT, env=inherited(os.environ, "all"), cwd=cwd)
    if done.timed_out or done.ending.status != 0:
        how = f"did not end within {LIMIT:g} s" if done.timed_out else str(done.ending)
        detail = [harmless(line, keep="") for line in done.err[-20:]]
        raise RegistryError(f"{' '.join(argv[:3])} {how}", fix="correct what it reports, and try again", detail=detail)
    return done.out.decode(errors="replace")
