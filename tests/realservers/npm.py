"""
The published servers of npm, in the directory that `ACP_LAUNCH_TEST_SERVERS` names; to install them there, once:

    python -m tests.realservers.npm DIRECTORY

Without that variable the tests that need them are skipped; with it everything must be there. No test goes online.
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


def install(directory: Path) -> None:
    """For `node`, and for `npx`, which keeps copies of its own."""
    directory.mkdir(parents=True, exist_ok=True)
    kept = ["--cache", str(directory / "cache")]
    packages = [f"{package}@{VERSION}" for package in (EVERYTHING, FILESYSTEM)]
    quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run(["npm", "install", "--prefix", str(directory), *kept, *quiet, *packages], check=True)
    with TemporaryDirectory() as elsewhere:  # where npx finds none
        for package in packages:
            npx = ["npx", "-y", *kept, "--loglevel=error", "--package", package, "true"]
            subprocess.run(npx, check=True, stdin=subprocess.DEVNULL, cwd=elsewhere)


if __name__ == "__main__":
    install(Path(sys.argv[1]).absolute())
