"""The verbs `trust` and `lock`: a project's profile is accepted as it is, and its packages as they are."""

import os
import tempfile
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Annotated

from acp_launch.app.consent import show_claim
from acp_launch.app.planning import list_rows, loaded_profile, require_plan, resolved_from
from acp_launch.app.questions import agrees
from acp_launch.app.spec import load_settings
from acp_launch.app.stores import run_at_home
from acp_launch.checks.confined import find_digest
from acp_launch.cli.verb import Argument, Json, Option, Yes
from acp_launch.console import stdout
from acp_launch.console.stderr import harmless, tell
from acp_launch.console.stdout import answer
from acp_launch.console.trust import ReportRow, table, table_json
from acp_launch.errors import LaunchError, NotTrusted, ProfileError, RegistryError, StateError, UsageError
from acp_launch.interop.merge import refuse_escaping_link
from acp_launch.plan.locked import Used, inexact, used
from acp_launch.plan.model import Place
from acp_launch.problem import ours
from acp_launch.process.guard_client import start_guards
from acp_launch.profile.discover import here, project_of
from acp_launch.profile.lockfile import Locked, place, write
from acp_launch.profile.trust import Claim, TrustState, accepted, claim_profile, keep, revoke, trust_state
from acp_launch.regex import regex
from acp_launch.settings.model import Settings

HASHES_TIMEOUT = 120.0  # for a package manager to tell them
_NPM = regex(r"sha\d{3}-[A-Za-z0-9+/=]+")
_PYPI = regex(r"--hash=(sha256:[0-9a-f]{64})")


def trust(
    profile: Annotated[str | None, Argument("[PROFILE]", "The profile, or the batch's file, to trust.")] = None,
    yes: Yes = False,
    list_: Annotated[bool, Option("--list", "List the trusted profiles.")] = False,
    revoke: Annotated[bool, Option("--revoke", "Stop trusting it.")] = False,
    as_json: Annotated[bool, Option("--json", "Print the list as JSON.")] = False,
) -> None:
    """Trust a project's profile, or a batch, until it changes."""
    settings = load_settings()
    if list_ and (profile or revoke or yes):
        raise UsageError("--list takes no other arguments", fix="acp-launch trust --list")
    if list_:
        found = accepted(settings)
        text = table(found) if found else ""
        answer(table_json(found), text, "no profile of a project is trusted yet", as_json=as_json)
    elif as_json:
        raise UsageError("--json goes with --list", fix="acp-launch trust --list --json")
    elif profile is None:
        raise UsageError("no profile is given", fix="acp-launch trust PROFILE; --list shows the trusted ones")
    elif revoke:
        _revoke(profile, settings)
    else:
        _accept(profile, settings, is_sure=yes)


def _accept(named: str, settings: Settings, *, is_sure: bool) -> None:
    is_path = os.sep in named or Path(named).suffix != ""
    is_file = is_path and os.path.isfile(named)  # noqa: PTH113 - Path raises for a name too long
    if is_file and (batch := _read_batch(Path(named), settings)):
        claim, found, rows = batch
    else:
        loaded = loaded_profile(named, settings)
        claim, found = claim_profile(loaded), trust_state(loaded, settings)
        rows = () if found.is_trusted else list_rows(loaded, found)
    if found.is_trusted:
        why = "it is your own, or built in" if found.how == "own" else "it has not changed since you trusted it"
        tell(f"{named} is trusted already: {why}")
        return
    show_claim(claim, found, rows)
    if not is_sure and not agrees(f"Trust this {claim.noun}?"):
        raise NotTrusted(f"the {claim.noun} was not trusted", fix="run it on a terminal to be asked, or give --yes")
    keep(claim, settings)
    tell(f"trusted; you will be asked again if it changes: {claim.label}")


def _read_batch(path: Path, settings: Settings) -> tuple[Claim, TrustState, Iterable[ReportRow]] | None:
    """Read what a batch wants to be trusted with; None if the file is not one."""
    # By name, as all verbs of batches are found: this package knows nothing of them.
    found: tuple[Claim, TrustState, Iterable[ReportRow]] | None
    found = import_module("acp_launch.batch.freeze").read_claim(path, settings)
    return found


def _revoke(profile: str, settings: Settings) -> None:
    path, project = Path(os.path.normpath(here() / profile)), str(project_of(here()))
    file = str(Path(os.path.realpath(path.parent)) / path.name)
    found = [
        each for each in accepted(settings) if each.file == file or (each.profile, each.project) == (profile, project)
    ]
    if len(found) != 1:
        what = "is trusted in several files" if found else "is not trusted here"
        raise UsageError(f'"{profile}" {what}', fix="give the file's path; acp-launch trust --list shows all of them")
    revoke(found[0], settings)
    tell(f"no longer trusted: {found[0].file}")


# The lock file.


def lock(
    profile: Annotated[str, Argument("PROFILE", "The name of a project's profile, or its file.")],
    as_json: Json = False,
) -> None:
    """Write the packages of a profile, and its image, with versions and hashes, into .acp-launch/lock.yaml."""

    loaded = loaded_profile(profile, load_settings())
    if loaded.found.origin not in ("project", "path"):
        fix = "name a profile in .acp-launch of a project"
        raise UsageError(f"{profile} is not a profile of a project, so there is no lock file for it", fix=fix)
    refuse_escaping_link(place(loaded.found.project))
    plan = require_plan(resolved_from(loaded))
    packages = used(loaded, plan)
    if unpinned := [problem for each in packages if (problem := inexact(each))]:
        raise ProfileError(unpinned)
    entries = {each.key: Locked(package=each.package, integrity=_integrity(each, plan.place)) for each in packages}
    try:
        file = write(loaded.found, entries)
    except (OSError, ValueError) as error:
        raise StateError(f"cannot write the lock file: {error}", fix="restore or remove it") from None
    if as_json:
        listed = [{"path": key, "package": each.package, "integrity": each.integrity} for key, each in entries.items()]
        stdout.put_json({"file": str(file), "packages": listed})
        return
    for key, each in entries.items():
        tell(f"{key} is locked to {each.package}")
    again = f"a changed lock must be trusted again: {ours('trust', loaded.found.called)}"
    tell(f"{len(entries)} packages of {profile} are in {file}; {again}")


def _integrity(each: Used, where: Place | None) -> tuple[str, ...]:
    """Return the hashes of a package: the installed one's, else as its registry, or an image's engine, tells them."""
    if each.integrity:
        return (each.integrity,)
    source, _, spec = each.package.partition(":")
    if source == "image" and where is not None:
        start_guards()
        try:
            return (find_digest(where.program, spec),)
        except LaunchError as error:
            what = f"{where.program.name} does not tell the digest of {spec}: {error.message}"
            raise RegistryError(what, fix=f"fetch it: {where.program.name} pull {spec}") from None
    if source == "binary":
        raise RegistryError(f"{spec} was installed unverified, so it has no hash to lock", fix="choose another agent")
    if source == "npm":
        found = tuple(_NPM.findall(_ask_manager(["npm", "view", spec, "dist.integrity"])))
    else:
        found = _of_pypi(spec)
    if not found:
        raise RegistryError(f"the registry of {source} has no hash of {spec}", fix="check its name and version")
    return found


def _of_pypi(spec: str) -> tuple[str, ...]:
    with tempfile.TemporaryDirectory(prefix="acp-launch-") as directory:
        (Path(directory) / "requirements.in").write_text(f"{spec}\n")
        argv = ["uv", "pip", "compile", "--no-deps", "--generate-hashes", "--quiet", "requirements.in"]
        return tuple(sorted(set(_PYPI.findall(_ask_manager(argv, Path(directory))))))


def _ask_manager(argv: list[str], cwd: Path | None = None) -> str:
    """Return what a package manager prints. It runs outside of the project, which must not choose its settings."""
    start_guards()
    done = run_at_home(argv, HASHES_TIMEOUT, cwd)
    if done.timed_out or done.ending.status != 0:
        how = f"did not end within {HASHES_TIMEOUT:g} s" if done.timed_out else str(done.ending)
        detail = [harmless(line, keep="") for line in done.err[-20:]]
        raise RegistryError(f"{' '.join(argv[:3])} {how}", fix="correct what it reports, and try again", detail=detail)
    return done.out.decode(errors="replace")
