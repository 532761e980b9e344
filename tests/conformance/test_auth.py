"""The auth scenarios of the suite: our login, and requests with the token that it gave."""

import subprocess
from pathlib import Path

import pytest

from tests.conformance.test_clients import MODERN, assert_passes
from tests.patience import PATIENCE
from tests.realservers.published import needs_npm, suite

pytestmark = [needs_npm, pytest.mark.timeout(120)]
FALLBACK = ["2025-03-26-oauth-metadata-backcompat"]
USUAL = ["metadata-default", "basic-cimd", "token-endpoint-auth-basic", "scope-step-up"]
METADATA = ["metadata-var1", "metadata-var2", "metadata-var3", "resource-mismatch"]
CLIENTS = ["pre-registration", "token-endpoint-auth-post", "token-endpoint-auth-none"]
SCOPES = ["from-www-authenticate", "from-scopes-supported", "omitted-when-undefined", "retry-limit"]
OFFLINE = ["offline-access-scope", "offline-access-not-supported"]
OLDER = [*USUAL, *METADATA, *CLIENTS, *(f"scope-{each}" for each in SCOPES), *OFFLINE]
ISSUERS = ["not-advertised", "supported-missing", "unexpected", "normalized"]
NEWER = ["iss-supported", "iss-wrong-issuer", "authorization-server-migration", "metadata-issuer-mismatch"]
# Most of these want a program without a user, or keys of its own: acp-launch logs a user in, with bearer tokens.
BEYOND = {
    "client-credentials-jwt": "a program logs in as itself, by a signed assertion",
    "client-credentials-basic": "a program logs in as itself",
    "cross-app-access-complete-flow": "a company's identity provider vouches for the user",
    "enterprise-managed-authorization": "the same in its newer form",
    "wif-jwt-bearer": "a workload in a cloud logs in by its identity",
    "2025-03-26-oauth-endpoint-fallback": "an authorization server of MCP 2025-03-26 without metadata",
    "dpop": "tokens that are bound to a key",
    "dpop-nonce": "tokens that are bound to a key",
}


def scenarios(era: str) -> list[tuple[str, str, str | None]]:
    """Each with the version it is run at; None if the suite chooses."""
    if era == "legacy":
        return [("legacy", name, None) for name in [*OLDER, *FALLBACK]]
    newest = [("modern", name, MODERN) for name in [*NEWER, *OLDER, *(f"iss-{each}" for each in ISSUERS)]]
    return [*newest, *(("modern", name, "2025-03-26") for name in FALLBACK)]


@pytest.mark.sample(0, 8)
@pytest.mark.parametrize(("era", "name", "version"), [*scenarios("modern"), *scenarios("legacy")])
def test_a_login_passes(era: str, name: str, version: str | None, tmp_path: Path) -> None:
    said = assert_passes(era, f"auth/{name}", version, tmp_path, client="tests.conformance.authclient")
    assert ", 0 warnings" in said


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_each_auth_scenario_is_run_or_said_to_be_beyond_us(era: str) -> None:
    listed = subprocess.run([*suite(era), "list"], capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
    found = {line.split()[1].removeprefix("auth/") for line in listed.splitlines() if "- auth/" in line}
    assert found - BEYOND.keys() == {name for _, name, _ in scenarios(era)}
