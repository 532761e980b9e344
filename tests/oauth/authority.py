"""tests/servers/authority.py as a process, and a browser whose user consents at once."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from urllib.request import urlopen

import httpx2

from tests.cli import forkserver
from tests.cli.launcher import ROOT
from tests.patience import PATIENCE

Json = dict[str, Any]


@dataclass(frozen=True)
class Authority:
    """An MCP server at `url`, and its authorization server at `issuer`."""

    mcp: str
    issuer: str

    @property
    def url(self) -> str:
        return f"{self.mcp}/mcp"

    @property
    def log(self) -> list[Json]:
        """Every request to either so far."""
        with urlopen(f"{self.issuer}/log", timeout=PATIENCE) as answer:
            found: list[Json] = json.load(answer)
        return found

    def asked(self, place: str) -> list[Json]:
        """The requests to a place: `as /token`."""
        role, path = place.split()
        return [each for each in self.log if (each["to"], each["path"]) == (role, path)]


@contextmanager
def authority(**temper: Any) -> Iterator[Authority]:
    process = forkserver.begin(ROOT / "tests/servers/authority.py", json.dumps(temper))
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        try:
            site = json.loads(process.stdout.readline())
            yield Authority(site["mcp"], site["as"])
        finally:
            process.stdin.close()
            try:
                process.wait(PATIENCE)
            finally:
                process.kill()


@dataclass
class Browser:
    """A user who consents at once; `addresses` are the pages that were opened."""

    redirect_uri: str = "http://127.0.0.1:8765/callback"
    addresses: list[str] = field(default_factory=list)

    async def answer(self, address: str, state: str) -> dict[str, str]:
        assert f"state={state}" in address
        self.addresses.append(address)
        async with httpx2.AsyncClient(timeout=PATIENCE) as client:
            answer = await client.get(address)
        assert answer.status_code == 302, answer.text
        return dict(parse_qsl(urlsplit(answer.headers["location"]).query, keep_blank_values=True))
