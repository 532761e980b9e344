"""A command of the user that prints headers for a remote server: in a run, in the verbs of `mcp` and in doctor."""

import json
import shlex
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.cli.launcher import Launcher
from tests.remote.children import Tempered, tempered
from tests.remote.logins import STORE, log_in
from tests.seat.stage import Stage, told
from tests.seat.test_logins import blind, sent

Json = dict[str, Any]
FAILED = 'the MCP server "web" has no headers from its command: mint '
WAY_OUT = "yourself and correct what it reports, or headers_command in config.yaml"


class Mint:
    """The command: a shell script that notes each call, and prints what the test has written for it."""

    def __init__(self, launch: Launcher) -> None:
        self._launch, self._folder = launch, launch.project.parent / "mint"
        self._folder.mkdir()
        self._calls, self._says = self._folder / "calls", self._folder / "says"
        self.noted = shlex.quote(str(self._calls))
        self.program = self._folder / "mint"
        self.does(f"cat {shlex.quote(str(self._says))}")

    def does(self, script: str) -> None:
        self.program.write_text(f'#!/bin/sh\necho "$*" >> {self.noted}\n{script}\n')
        self.program.chmod(0o755)

    def says(self, headers: object) -> None:
        fresh = self._says.with_suffix(".new")  # a call must not read half of it
        fresh.write_text(json.dumps(headers))
        fresh.replace(self._says)

    def gives(self, token: str) -> None:
        self.says({"Authorization": f"Bearer {token}"})

    def serves(self, *addresses: str) -> None:
        """Write the settings."""
        entry = {"command": [str(self.program), "--for", "mcp"], "ttl": "5m"}
        config = Path(self._launch.env["ACP_LAUNCH_CONFIG_DIR"])
        config.mkdir(exist_ok=True)
        settings = {"secrets": {**STORE, "timeout": "2m"}, "headers_command": dict.fromkeys(addresses, entry)}
        (config / "config.yaml").write_text(json.dumps(settings))

    @property
    def calls(self) -> list[str]:
        return self._calls.read_text().splitlines() if self._calls.exists() else []

    def forget(self) -> None:
        """Remove what the test itself wrote with a token in it."""
        self._says.unlink(missing_ok=True)


@pytest.fixture
def mint(launch: Launcher) -> Mint:
    return Mint(launch)


def remote(server: Tempered | str, **keys: Any) -> Json:
    return {"type": "http", "url": server if isinstance(server, str) else server.url, **keys}


def fresh() -> str:
    """A token of its own, as other tests may be giving theirs to a program as arguments at this moment."""
    return f"canary-{uuid.uuid4().hex}"


def test_a_session_sends_what_the_command_prints_and_nothing_else_sees_it(stage: Stage, mint: Mint) -> None:
    """It replaces the profile's header of the same name, and the profile need not know of it."""
    token, tenant = fresh(), fresh()
    with tempered() as server:
        server.do("change", settings={"bearer": token})
        mint.says({"authorization": f"Bearer {token}", "X-Tenant": tenant})
        mint.serves(server.url.removesuffix("/mcp"))
        entry = remote(server, headers={"Authorization": "Bearer other", "X-Own": "own"})
        with stage.play(servers={"web": entry}) as play:
            assert play.agent.call("web", "add", a=1, b=2) == 3
            given = json.dumps(play.agent.do("entries")) + json.dumps(play.agent.do("environment"))
            processes = [said for _, said in told()]
            done = play.end()
        assert done.code == 0, done.err
        assert sent(server) == {f"Bearer {token}"}
        for request in server.requests:
            headers = {name.lower(): value for name, value in request["headers"]}
            assert (headers["x-tenant"], headers["x-own"]) == (tenant, "own")
    assert mint.calls == ["--for mcp"]
    assert not any(secret.encode() in each for each in processes for secret in (token, tenant))
    mint.forget()
    for secret in (token, tenant):
        assert secret not in given
        blind(stage.launch, done, secret)


def test_a_trace_and_a_log_hide_what_the_server_tells_back_also_of_renewed_headers(
    launch: Launcher, mint: Mint
) -> None:
    new = "canary-renewed-51d0c2e8"
    told = {"on": "tools/list", "do": "status", "status": 500, "body": f"bad token {new}, not Bearer {new}"}
    with tempered(bearer=new, faults=[told]) as server:
        # The first call prints a token that is refused.
        mint.does(f"""[ $(wc -l < {mint.noted}) = 1 ] && t=canary-of-the-past || t={new}
echo '{{"Authorization": "Bearer '$t'"}}'""")
        mint.serves(server.url)
        agent = {"command": sys.executable, "args": ["-I", "-m", "acp_launch.demo.agent"]}
        launch.write({"agent": agent, "mcp_servers": {"web": remote(server)}})
        done = launch("run", "p", "call web headers", "--trace", "trace.ndjson", "--verbose", "--session", "s")
        assert sent(server) == {"Bearer canary-of-the-past", f"Bearer {new}"}
    assert done.code == 0, done.err
    assert len(mint.calls) == 2
    trace, log = (launch.project / "trace.ndjson").read_text(), launch("logs", "p", "web").out.decode()
    assert "bad token ***, not ***" in trace
    assert new not in trace + log
    mint.does("")
    blind(launch, done, new)


def test_a_run_whose_command_fails_ends_before_anything_starts(launch: Launcher, mint: Mint) -> None:
    token = fresh()
    with tempered() as server, tempered() as other:
        mint.does(f"echo {token}; echo 'not signed in' >&2; exit 3")
        mint.serves(server.url)
        launch.profile("polite", mcp_servers={"web": remote(server), "docs": remote(other, oauth=True)})
        done = launch("run", "p", "hi", "--output", "json")
        assert (server.requests, other.requests) == ([], [])
    assert (done.code, done.heard) == (6, [])
    assert f"{FAILED}exited with status 3: not signed in" in done.err
    assert WAY_OUT in done.err
    assert 'the MCP server "docs" is not logged in' in done.err, "all of them at once"
    assert "p.yaml:" in done.err
    assert "nothing was started" in done.err
    mint.does("")
    blind(launch, done, token)


def test_the_verbs_of_mcp_use_the_headers(launch: Launcher, mint: Mint) -> None:
    words = ("mcp", "tools", "p", "web")
    verbs = (words, ("mcp", "call", "p", "web", "add", '{"a": 1, "b": 2}'), ("mcp", "inspect", "p", "web"))
    with tempered(bearer="old-token-1") as server:
        mint.gives("old-token-1")
        mint.serves(server.url)
        launch.profile("polite", mcp_servers={"web": remote(server, required=False)})
        for number, verb in enumerate(verbs, 1):
            done = launch(*verb)
            assert done.code == 0, done.err
            assert sent(server) == {"Bearer old-token-1"}
            assert len(mint.calls) == number
        server.do("change", settings={"bearer": "another"})
        refused = launch(*words)
        assert refused.code == 6
        assert 'the MCP server "web" rejects the headers that mint has just printed' in refused.err
        mint.does("exit 3")
        failed = launch(*words)
    assert failed.code == 6, "whether it is required or not"
    assert f"{FAILED}exited with status 3" in failed.err


def test_doctor_knocks_with_them_and_says_where_there_are_none(launch: Launcher, mint: Mint) -> None:
    with tempered(bearer="old-token-1") as server:
        mint.gives("old-token-1")
        mint.serves(server.url)
        launch.profile("polite", mcp_servers={"web": remote(server)})
        done = launch("doctor", "p", "--no-session", "--json")
        checks = {(each["check"], each["subject"]): each for each in json.loads(done.out)["checks"]}
        assert checks["server", "web"]["standing"] == "ok", done.err
        mint.does("exit 3")
        failed = launch("doctor", "p", "--no-session")
    assert failed.code == 6
    assert (
        "it has no headers from its command: mint exited with status 3; nothing was sent to it" in failed.out.decode()
    )


def test_what_only_shows_a_server_says_where_its_headers_come_from_and_calls_nothing(
    launch: Launcher, mint: Mint
) -> None:
    url = "https://mcp.example.com/mcp"
    mint.serves("https://mcp.example.com")
    launch.profile("polite", mcp_servers={"web": remote(url, oauth=True), "other": remote("https://example.com/mcp")})
    for verb in (("mcp", "list", "p"), ("mcp", "status", "p"), ("plan", "p")):
        done = launch(*verb)
        assert done.code == 0, "no login is missing"
        assert "headers from mint" in done.out.decode()
        assert "not logged in" not in done.out.decode()
    (told,) = json.loads(launch("mcp", "status", "p", "--json").out)["servers"]
    assert (told["name"], told["state"], told["program"], told["account"]) == ("web", "headers", "mint", None)
    assert mint.calls == []


def test_a_command_takes_the_place_of_a_login(launch: Launcher, mint: Mint) -> None:
    with tempered(bearer="old-token-1") as server:
        mint.gives("old-token-1")
        mint.serves(server.url)
        settings = (Path(launch.env["ACP_LAUNCH_CONFIG_DIR"]) / "config.yaml").read_text()
        log_in(launch, server.url, "token-of-the-login")
        (Path(launch.env["ACP_LAUNCH_CONFIG_DIR"]) / "config.yaml").write_text(settings)
        launch.profile("polite", mcp_servers={"web": remote(server, oauth=True)})
        assert launch("mcp", "tools", "p", "web").code == 0
        assert sent(server) == {"Bearer old-token-1"}
        one, every = launch("mcp", "login", "p", "web"), launch("mcp", "login", "p", "--all")
    assert one.code == 2
    assert "web needs no login: mint prints headers for it, as your settings say" in one.err
    assert every.code == 0
    assert "web: headers from mint; nothing was done" in every.err


def test_it_is_not_called_for_another_address_or_a_server_that_the_agent_connects_to(
    launch: Launcher, mint: Mint
) -> None:
    """A project chooses its servers, and must not get the headers by that."""
    with tempered() as server, tempered() as other:
        mint.gives("old-token-1")
        mint.serves(f"{server.url}/below", other.url)
        port = other.url.rpartition(":")[2].removesuffix("/mcp")
        disguised = f"http://127.0.0.1:{port}@127.0.0.1:{server.port}/mcp"
        launch.profile("polite", mcp_servers={"web": remote(server)})
        assert launch("mcp", "tools", "p", "web").code == 0
        launch.profile("polite", mcp_servers={"web": remote(disguised)})
        assert launch("mcp", "tools", "p", "web").code != 0
        launch.profile("polite", agent={"mcp": "stdio"}, mcp_servers={"web": remote(other, bridge=False)})
        launch("run", "p", "hi")
        assert sent(server) <= {None}
    assert mint.calls == []
