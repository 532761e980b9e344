"""
Node.js on this machine, for `doctor` and before a package of npm is installed: its version, and where npm installs.
"""

import os
import shutil
from pathlib import Path
from typing import NamedTuple

from acp_launch.checks.check import Check, ok, warning
from acp_launch.errors import LaunchError
from acp_launch.plan.executable import inherited
from acp_launch.process.capture import capture
from acp_launch.process.node import parse_version, satisfies
from acp_launch.profile.agents import AGENTS
from acp_launch.waits import stretch

MAX_WAIT = stretch(15.0)  # seconds for npm to ask its registry
NEWER = "install a newer Node.js: https://nodejs.org, or a version manager such as nvm"
OWN = ".local"  # of the home: the prefix of a user who may not write npm's own


class NodeMismatch(NamedTuple):
    """The Node.js that a package wants, and the one that is here."""

    engines: str
    version: str


def check() -> Check:
    """Report the version of node; a warning if a known agent that is installed wants another."""
    version = _ask("node", "--version")
    if not version:
        return ok("node", "", "not installed; npx and agents from npm need it")
    wants = {agent.command: agent.node for agent in AGENTS.values() if agent.node and shutil.which(agent.command)}
    old = [f"{name} ({node})" for name, node in wants.items() if not satisfies(parse_version(version), node)]
    text = f"{version} ({shutil.which('node')})"
    if old:
        return warning("node", "", f"{text} is too old for {', '.join(old)}", NEWER, version=version)
    own = own_prefix()
    return ok("node", "", f"{text}; npm install -g needs --prefix {own} here" if own else text, version=version)


def find_mismatch(package: str) -> NodeMismatch | None:
    """Compare node with what the newest version of a package wants, by npm's registry or, without it, as far as known.

    None if they fit, and without node.
    """
    version = _ask("node", "--version")
    known = {agent.install.rpartition(" ")[2]: agent.node for agent in AGENTS.values()}
    engines = version and (_ask("npm", "view", package, "engines.node") or known.get(package, ""))
    return NodeMismatch(engines, version) if engines and not satisfies(parse_version(version), engines) else None


def own_prefix() -> Path | None:
    """Return the prefix to give to npm, if this user may not write where it installs programs; else None."""
    found = _ask("node", "--version") and _ask("npm", "prefix", "-g")
    if not found or not os.path.isabs(found):  # noqa: PTH117 - an empty text is not a path
        return None
    places = [Path(found, "lib", "node_modules"), Path(found, "bin")]
    there = [next(each for each in (place, *place.parents) if each.exists()) for place in places]
    return None if all(os.access(each, os.W_OK | os.X_OK) for each in there) else Path.home() / OWN


def _ask(*argv: str) -> str:
    """Return what a program prints; empty if it is missing, fails, or does not answer."""
    try:
        done = capture(argv, MAX_WAIT, env=inherited(os.environ, "all"), cwd=Path.home())
    except LaunchError:
        return ""
    return done.out.decode(errors="replace").strip() if done.ending.status == 0 else ""
