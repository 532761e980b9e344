"""
Install the published servers of npm, once, in the directory that `ACP_LAUNCH_TEST_SERVERS` names:

    python -m tests.realservers.npm DIRECTORY

It needs nothing but Python and npm. The conformance suite of MCP is there too, in its newest version for the handshake
era and in the only one for 2026-07-28, with the Node.js that both need; and what speaks ACP: the SDK, and acpx as an
editor.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

VERSION = "2026.8.31"  # of both
EVERYTHING = "@modelcontextprotocol/server-everything"
FILESYSTEM = "@modelcontextprotocol/server-filesystem"

NODE = "22.23.3"
ACPX, SDK = "acpx@0.19.1", "@agentclientprotocol/sdk@2.4.0"
SUITES = {"legacy": "0.1.16", "modern": "0.2.0-alpha.12"}


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
