"""A login to a server of the published `mcp` package, whose authorization server is the package's own."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest

from acp_launch.oauth.exchange import Refused, ask, revoke
from acp_launch.oauth.flow import LoginFlow, Wanted
from acp_launch.oauth.grant import Grant
from acp_launch.secret.value import Secret
from tests.cli.launcher import ROOT
from tests.oauth.authority import Browser
from tests.patience import PATIENCE

PING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


@contextmanager
def sdk(*scopes: str) -> Iterator[str]:
    argv = [sys.executable, "-m", "tests.servers.http_sdk_login", *scopes]
    process = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def status(url: str, token: Secret) -> int:
    headers = {"Authorization": f"Bearer {token.expose()}", "Accept": "application/json, text/event-stream"}
    return httpx2.post(url, json=PING, headers=headers, timeout=PATIENCE).status_code


async def logged_in(url: str, browser: Browser, registered: Grant | None = None) -> Grant:
    grant, _ = await LoginFlow(Wanted(name="sdk", url=url), browser).log_in(registered=registered)
    return grant


@pytest.mark.whole
@pytest.mark.sample(1, 1)
def test_a_server_of_the_sdk_is_logged_in_to_used_renewed_and_left() -> None:
    async def live(url: str) -> None:
        first = await logged_in(url, Browser())
        assert (first.scopes, first.resource) == (("read", "write"), url)
        assert await asyncio.to_thread(status, url, first.access) != 401
        assert first.refresh is not None
        form: dict[str, str | Secret] = {
            "grant_type": "refresh_token",
            "refresh_token": first.refresh,
            "resource": first.resource,
        }
        tokens = await ask(first.client, first.client_secret, form, limit=PATIENCE)
        with pytest.raises(Refused) as caught:  # it rotates
            await ask(first.client, first.client_secret, form, limit=PATIENCE)
        assert caught.value.is_final
        assert await asyncio.to_thread(status, url, tokens.access) != 401
        assert await revoke(first.client, first.client_secret, tokens.access, hint="access_token", limit=PATIENCE)
        assert await asyncio.to_thread(status, url, tokens.access) == 401

    with sdk("read", "write") as url:
        asyncio.run(live(url))
