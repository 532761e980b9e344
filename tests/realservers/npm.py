"""
The published servers of npm, in the directory that `ACP_LAUNCH_TEST_SERVERS` names; to install them there, once:

    python -m tests.realservers.npm DIRECTORY

Without that variable the tests that need them are skipped; with it everything must be there. No test goes online.

The conformance suite of MCP is there too, in its newest version for the handshake era and in the only one for
2026-07-28, with the Node.js that both need; and what speaks ACP: the SDK, and acpx as an editor.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.realservers.seated import Server

VERSION = "2026.8.31"  # of both
EVERYTHING = "@modelcontextprotocol/server-everything"
FILESYSTEM = "@modelcontextprotocol/server-filesystem"

NODE = "22.23.3"
ACPX, SDK = "acpx@0.19.1", "@agentclientprotocol/sdk@2.4.0"
SUITES = {"legacy": "0.1.16", "modern": "0.2.0-alpha.12"}

DIRECTORY = os.environ.get("ACP_LAUNCH_TEST_SERVERS", "")  # read now: tests run without ACP_* variables
needs_npm = pytest.mark.skipif(
    not DIRECTORY,
    reason="set ACP_LAUNCH_TEST_SERVERS to a directory made with: python -m tests.realservers.npm DIRECTORY",
)


def cache() -> Path:
    """npm's, for npx to find there what it starts."""
    return Path(DIRECTORY) / "cache"


def server(package: str, *arguments: str, cwd: Path) -> Server:
    """One of them without npx in between: the process is the server itself."""
    node = shutil.which("node")
    assert node is not None, "ACP_LAUNCH_TEST_SERVERS is set, and there is no node"
    program = Path(DIRECTORY) / "node_modules" / package / "dist" / "index.js"
    assert program.is_file(), f"ACP_LAUNCH_TEST_SERVERS is set, and there is no {program}"
    return Server([node, str(program), *arguments], cwd)


def suite(era: str) -> list[str]:
    """The command that is the conformance suite."""
    packages = Path(DIRECTORY) / "conformance" / "node_modules"
    program = packages / f"conformance-{era}" / "dist" / "index.js"
    assert program.is_file(), f"ACP_LAUNCH_TEST_SERVERS is set, and there is no {program}"
    return [str(packages / ".bin" / "node"), str(program)]


def node() -> str:
    """The Node.js of the conformance suites."""
    return suite("legacy")[0]


def sdk() -> Path:
    """The package of the ACP SDK."""
    return _for_editors("@agentclientprotocol/sdk")


def acpx() -> list[str]:
    """The command that is acpx."""
    return [node(), str(_for_editors("acpx") / "dist" / "cli.js")]


def _for_editors(package: str) -> Path:
    found = Path(DIRECTORY) / "editors" / "node_modules" / package
    assert found.is_dir(), f"ACP_LAUNCH_TEST_SERVERS is set, and there is no {found}"
    return found


def install(directory: Path) -> None:
    """For `node`, and for `npx`, which keeps copies of its own."""
    directory.mkdir(parents=True, exist_ok=True)
    kept = ["--cache", str(directory / "cache")]
    packages = [f"{package}@{VERSION}" for package in (EVERYTHING, FILESYSTEM)]
    quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run(["npm", "install", "--prefix", str(directory), *kept, *quiet, *packages], check=True)
    suites = [f"conformance-{era}@npm:@modelcontextprotocol/conformance@{version}" for era, version in SUITES.items()]
    apart = ["npm", "install", "--prefix", str(directory / "conformance"), *kept, *quiet, f"node@{NODE}", *suites]
    subprocess.run(apart, check=True)
    subprocess.run(["npm", "install", "--prefix", str(directory / "editors"), *kept, *quiet, ACPX, SDK], check=True)
    with TemporaryDirectory() as elsewhere:  # where npx finds none
        for package in packages:
            npx = ["npx", "-y", *kept, "--loglevel=error", "--package", package, "true"]
            subprocess.run(npx, check=True, stdin=subprocess.DEVNULL, cwd=elsewhere)


if __name__ == "__main__":
    install(Path(sys.argv[1]).absolute())
