"""Client scenarios: our HTTP client, with the SDK's client as the agent behind a shim (M-60)."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.launcher import ROOT
from tests.realservers.published import needs_npm, suite

pytestmark = [needs_npm, pytest.mark.timeout(120)]
MODERN = "2026-07-28"
# Each with the version it is run at; None if the suite chooses. Those of OAuth are in test_auth.py.
SCENARIOS: list[tuple[str, str, str | None]] = [
    ("legacy", "initialize", None),
    ("legacy", "tools_call", None),
    ("legacy", "elicitation-sep1034-client-defaults", None),
    ("legacy", "sse-retry", None),
    ("modern", "tools_call", "2025-11-25"),
    ("modern", "tools_call", MODERN),
    ("modern", "request-metadata", MODERN),
    ("modern", "sep-2322-client-request-state", MODERN),
    ("modern", "http-standard-headers", MODERN),
    ("modern", "json-schema-ref-no-deref", MODERN),
    ("modern", "json-schema-2020-12-preservation", "2025-11-25"),
    ("modern", "json-schema-2020-12-preservation", MODERN),
]


@pytest.mark.sample(0, 4)
@pytest.mark.parametrize(("era", "scenario", "version"), SCENARIOS)
def test_an_agent_behind_a_shim_passes_as_a_client(
    era: str, scenario: str, version: str | None, tmp_path: Path
) -> None:
    assert_passes(era, scenario, version, tmp_path)


# The mock servers of the others answer a handshake with a version that has none.
@pytest.mark.parametrize("scenario", ["tools_call", "sep-2322-client-request-state"])
def test_an_agent_of_the_handshake_era_passes_with_a_server_that_knows_no_handshake(
    scenario: str, tmp_path: Path
) -> None:
    """M-13."""
    assert_passes("modern", scenario, MODERN, tmp_path, AGENT="legacy")


def assert_passes(
    era: str, scenario: str, version: str | None, cwd: Path, *, client: str = "tests.conformance.client", **env: str
) -> str:
    """Run a scenario; return what the suite said."""
    command = shlex.join([sys.executable, "-W", "ignore", "-m", client])
    chosen = ["--spec-version", version] if version else []
    patience = ["--timeout", "60000"]
    done = subprocess.run(
        [*suite(era), "client", "--command", command, "--scenario", scenario, *chosen, *patience],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        capture_output=True,
        text=True,
        timeout=100,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert "Passed: 0/0" not in done.stdout + done.stderr
    return done.stdout + done.stderr
