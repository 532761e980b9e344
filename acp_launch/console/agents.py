"""
Agents of the registry for users and for scripts: pure functions from entries and installations to text and JSON.

The registry's texts are others', so control and direction characters in them are replaced.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import asdict

from acp_launch.console.sessions import ago
from acp_launch.console.stdout import columns, labelled
from acp_launch.registry.index import Copy, PublishedAgent, pin_line
from acp_launch.registry.installed import Installation
from acp_launch.secret.detect import masked

Installed = Mapping[str, Sequence[Installation]]  # by the agents' ids, the newest version first
DESCRIPTION = 4  # the column that gives way when the terminal is narrow
PACKAGE = 4


def search_table(entries: Sequence[PublishedAgent], installed: Installed, *, width: int | None) -> str:
    rows = [("AGENT", "VERSION", "INSTALLED", "BY", "DESCRIPTION")]
    for each in entries:
        here = ", ".join(made.manifest.version for made in installed.get(each.id, ()))
        about = each.description or each.name
        rows.append((each.id, each.version, here, "/".join(each.distribution.kinds), " ".join(about.split())))
    return "\n".join(columns(rows, width=width, ends=[DESCRIPTION]))


def search_json(entries: Sequence[PublishedAgent], installed: Installed, copy: Copy, fault: str) -> dict[str, Any]:
    return {"agents": [_entry(each, installed) for each in entries], "index": _index(copy, fault)}


def details(entry: PublishedAgent, installed: Sequence[Installation], platform: str) -> str:
    ways, binary = entry.distribution, entry.distribution.binary.get(platform)
    texts = {
        "agent": entry.id,
        "name": entry.name,
        "version": entry.version,
        "installed": ", ".join(each.manifest.version for each in installed),
        "about": " ".join(entry.description.split()),
        "license": entry.license,
        "website": entry.website or entry.repository,
        "npx": _command(ways.npx.package, ways.npx.args) if ways.npx else "",
        "uvx": _command(ways.uvx.package, ways.uvx.args) if ways.uvx else "",
        "profile": masked(pin_line(entry)),
        "binary": ", ".join(sorted(ways.binary)),
        "here": _command(binary.archive, ()) if binary else "",
        "sha256": (binary.sha256 or "not known to the registry") if binary else "",
    }
    return labelled(texts)


def details_json(entry: PublishedAgent, installed: Installed, copy: Copy, fault: str) -> dict[str, Any]:
    ways = {kind: _way(getattr(entry.distribution, kind)) for kind in entry.distribution.kinds}
    about = {"license": entry.license, "website": entry.website, "repository": entry.repository}
    more = {**about, "distribution": ways, "profile": masked(pin_line(entry)) or None}
    return {**_entry(entry, installed), **more, "index": _index(copy, fault)}


def table(installed: Sequence[Installation], newest: Mapping[str, str], *, now: float, width: int | None) -> str:
    """Return the lines for `agents list`. `newest` are the versions of the index, by id."""
    rows = [("AGENT", "VERSION", "NEWEST", "INSTALLED", "PACKAGE")]
    for each in installed:
        said = each.manifest
        package = said.package if said.integrity else f"{said.package} (not verified)"
        since = ago(said.since, now=now)
        rows.append((said.id, said.version, newest.get(said.id, ""), since, f"{said.kind} {masked(package)}"))
    return "\n".join(columns(rows, width=width, ends=[PACKAGE]))


def table_json(installed: Sequence[Installation], copy: Copy | None) -> dict[str, Any]:
    """Return the JSON for `agents list --json`."""
    known = copy.agents if copy else {}
    listed = [
        {**installation_json(each), "newest": known[each.manifest.id].version if each.manifest.id in known else None}
        for each in installed
    ]
    return {"agents": listed, "index": _index(copy, "") if copy else None}


def installation_json(installation: Installation) -> dict[str, Any]:
    """Return an installation as data, without what the registry sets in its environment."""
    said = asdict(installation.manifest)
    said.pop("env")
    return {**said, "package": masked(installation.manifest.package), "program": str(installation.program)}


def _entry(entry: PublishedAgent, installed: Installed) -> dict[str, Any]:
    return {
        "id": entry.id,
        "version": entry.version,
        "name": entry.name,
        "description": entry.description,
        "kinds": list(entry.distribution.kinds),
        "installed": [each.manifest.version for each in installed.get(entry.id, ())],
    }


def _way(way: Any) -> Any:
    """Return a way to install as data; variables only by their names."""
    if isinstance(way, Mapping):
        return {platform: _way(each) for platform, each in way.items()}
    said = asdict(way)
    return {**said, "env": sorted(said["env"])}


def _index(copy: Copy, fault: str) -> dict[str, Any]:
    return {"address": copy.address, "fetched": copy.fetched, "fault": fault or None}


def _command(package: str, args: Sequence[str]) -> str:
    return masked(" ".join([package, *args]))
