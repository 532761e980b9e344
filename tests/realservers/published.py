"""
The published servers and suites of npm, in the directory that `ACP_LAUNCH_TEST_SERVERS` names (tests.realservers.npm).

Without that variable the tests that need them are skipped; with it everything must be there. No test goes online.
"""

import os
import shutil
from pathlib import Path

import pytest

from tests.realservers.seated import Server

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
