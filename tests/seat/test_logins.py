"""Logins to remote servers in a run, in the verbs of `mcp` and in doctor: used, missing, and ended."""

import json
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from acp_launch.oauth.grant import STEP_UPS, Logins, OAuthClient
from acp_launch.secret.value import Secret
from tests.cli.launcher import Ended, Launcher
from tests.oauth.endpoint import access, refresh, serving
from tests.remote.children import Tempered, tempered
from tests.remote.logins import log_in, sealed, stored
from tests.seat.stage import Stage, told

Json = dict[str, Any]
ACCESS, REFRESH = "canary-access-3f91ab77c0", "canary-refresh-8d2e44aa19"
METADATA = 'Bearer resource_metadata="https://docs.example.com/.well-known/oauth-protected-resource"'
GONE, REFUSED = ({"do": "status", "status": status} for status in (404, 401))
TOO_FEW = 'Bearer error="insufficient_scope", scope="write"'
OTHER = OAuthClient(issuer="https://a.example", token_endpoint="https://a.example/token", client_id="other")
NOT_LOGGED_IN = 'the MCP server "web" is not logged in'


def remote(server: Tempered | str, **keys: Any) -> Json:
    return {"type": "http", "url": server if isinstance(server, str) else server.url, "oauth": True, **keys}


def sent(server: Tempered) -> set[str | None]:
    """The `Authorization` of its requests."""
    headers = [{name.lower(): value for name, value in each["headers"]} for each in server.requests]
    return {each.get("authorization") for each in headers}


def found(launch: Launcher, text: str) -> list[Path]:
    """Every file with this text that acp-launch could have written."""
    files = [file for root in (Path(launch.env["HOME"]), launch.project) for file in root.rglob("*") if file.is_file()]
    return [file for file in files if text.encode() in file.read_bytes()]


def blind(launch: Launcher, done: Ended, *tokens: str) -> None:
    """Nothing that was printed, written, or told to the agent holds a token."""
    for token in tokens:
        assert token not in done.err + done.out.decode() + json.dumps(done.heard)
        assert found(launch, token) == []


@pytest.mark.promise("login")
def test_a_session_uses_the_login_and_nothing_else_sees_its_tokens(stage: Stage) -> None:
    # Tokens of its own, as other tests may be giving theirs to a server as arguments at this moment.
    access_token, refresh_token = (f"canary-{kind}-{uuid.uuid4().hex}" for kind in ("access", "refresh"))
    with tempered() as server:
        server.do("change", settings={"bearer": access_token})  # not as an argument, as those are looked at
        log_in(stage.launch, server.url, access_token, refresh_token, expires=time.time() + 3600)
        with stage.play(servers={"web": remote(server)}) as play:
            assert play.agent.call("web", "add", a=1, b=2) == 3
            given = json.dumps(play.agent.do("entries")) + json.dumps(play.agent.do("environment"))
            processes = [said for _, said in told()]
            done = play.end()
        assert done.code == 0, done.err
        assert sent(server) == {f"Bearer {access_token}"}
    assert not any(access_token.encode() in each or refresh_token.encode() in each for each in processes)
    assert access_token not in given
    blind(stage.launch, done, access_token, refresh_token)


def test_sessions_that_share_a_connection_have_one_login(stage: Stage) -> None:
    with tempered() as server:
        log_in(stage.launch, server.url, ACCESS, REFRESH, expires=time.time() + 3600)
        server.do("change", settings={"bearer": ACCESS})
        with stage.play(servers={"web": {**remote(server), "share": True}}) as play:
            play.agent.do("open", "web", "second")
            assert [play.agent.call(name, "add", a=1, b=2) for name in ("web", "second")] == [3, 3]
            assert ACCESS not in json.dumps(play.agent.do("entries"))
            assert play.end().code == 0
        sessions = {dict(map(tuple, request["headers"])).get("Mcp-Session-Id") for request in server.requests}
        assert (sent(server), len(sessions - {None})) == ({f"Bearer {ACCESS}"}, 1)


def test_a_header_of_the_profile_is_sent_in_place_of_a_login_that_it_does_not_name(launch: Launcher) -> None:
    with tempered(bearer="own") as server:
        log_in(launch, server.url, ACCESS)
        entry = {"type": "http", "url": server.url, "headers": {"Authorization": "Bearer ${env:OWN}"}}
        launch.profile("polite", mcp_servers={"web": entry})
        assert launch("run", "p", "hi", OWN="own").code == 0
        assert sent(server) == {"Bearer own"}


def test_a_run_without_a_login_ends_before_anything_starts(launch: Launcher) -> None:
    ways = ("never", "recorded", "expired", "damaged")
    with tempered(bearer=ACCESS) as server:
        sealed(launch)
        urls = {way: f"{server.url}/{way}" for way in ways}
        log_in(launch, urls["recorded"], ACCESS, is_stored=False)
        log_in(launch, urls["expired"], ACCESS, expires=time.time() - 1)
        login = log_in(launch, urls["damaged"], ACCESS)
        sealed(launch).write(login.item, Secret("{}"))
        launch.profile("polite", mcp_servers={way: remote(url) for way, url in urls.items()})
        done = launch("run", "p", "hi", "--output", "json")
        assert server.requests == []
    assert (done.code, done.heard) == (6, [])
    assert done.err.count("is not logged in") == len(ways), "all of them at once"
    assert all(f"acp-launch mcp login p {way}" in done.err for way in ways)
    assert "nothing was started" in done.err
    assert done.event("error")["exitCode"] == 6
    blind(launch, done, ACCESS)


def test_what_else_is_missing_is_told_with_it(launch: Launcher) -> None:
    sealed(launch)
    keyed = {"type": "http", "url": "http://127.0.0.1:9/mcp", "headers": {"X-Key": "${secret:absent}"}}
    launch.profile("polite", mcp_servers={"web": remote("http://127.0.0.1:9/mcp"), "keyed": keyed})
    done = launch("run", "p", "hi")
    assert done.code == 3
    assert 'secret "absent" is not set' in done.err
    assert NOT_LOGGED_IN in done.err


def test_a_store_that_cannot_be_read_is_the_reason(launch: Launcher) -> None:
    login = log_in(launch, "http://127.0.0.1:9/mcp", ACCESS)
    (Path(launch.env["ACP_LAUNCH_CONFIG_DIR"]) / "key").write_bytes(b"x" * 32)
    launch.profile("polite", mcp_servers={"web": remote(login.url)})
    done = launch("run", "p", "hi")
    assert done.code == 6
    assert f"{NOT_LOGGED_IN}: its login cannot be read: " in done.err


def test_the_session_opens_without_a_server_that_is_not_required(launch: Launcher) -> None:
    with tempered(bearer=ACCESS) as server:
        launch.profile("polite", mcp_servers={"web": remote(server, required=False)})
        sealed(launch)
        done = launch("run", "p", "hi")
        assert server.requests == []
    assert done.code == 0, done.err
    assert done.params("session/new")["mcpServers"] == []
    assert f"{NOT_LOGGED_IN}; the session opens without it" in done.err
    assert "acp-launch mcp login p web" in done.err


def test_a_token_that_has_expired_is_renewed_before_the_first_request_and_stored(stage: Stage) -> None:
    with serving() as authority, tempered(bearer=access(2)) as server:
        client, gone = authority.client(), time.time() - 60
        login = log_in(stage.launch, server.url, access(1), refresh(1), client=client, expires=gone)
        with stage.play(servers={"web": remote(server)}) as play:
            assert play.agent.call("web", "add", a=1, b=2) == 3
            done = play.end()
        assert done.code == 0, done.err
        assert sent(server) == {f"Bearer {access(2)}"}
        (posted,) = authority.posted
        assert posted.form["resource"] == server.url
    kept = stored(stage.launch, login)
    assert kept is not None and kept.access == Secret(access(2))
    assert kept.refresh == Secret(refresh(2))
    blind(stage.launch, done, access(1), access(2), refresh(1), refresh(2))


def test_a_login_that_is_done_meanwhile_serves_the_next_call(stage: Stage) -> None:
    """Whether it has the item of the old one, or another because the client was registered anew."""
    with serving() as authority, tempered(bearer=ACCESS) as server:
        log_in(stage.launch, server.url, ACCESS)
        with stage.play(servers={"web": remote(server)}) as play:
            assert play.agent.call("web", "add", a=1, b=2) == 3
            for token, client_id in (("again-7f0c1d22", "acp-launch"), ("anew-99b2e4a0", "another")):
                server.do("change", settings={"bearer": token})
                refused = play.agent.refused("web", "add", a=1, b=2)["message"]
                assert refused.startswith('MCP server "web" is not logged in any more: ')
                assert refused.endswith("; acp-launch mcp login p web")
                log_in(stage.launch, server.url, token, client=authority.client(client_id=client_id))
                assert play.agent.call("web", "add", a=3, b=4) == 7
            done = play.end()
    assert done.code == 0
    states = [event["state"] for event in done.events if event["type"] == "server"]
    assert states == ["starting", "ready"], "it was not restarted"
    blind(stage.launch, done, ACCESS)


def test_scopes_that_a_call_lacks_are_kept_for_the_next_login(stage: Stage) -> None:
    few = {"do": "status", "status": 403, "headers": {"WWW-Authenticate": TOO_FEW}, "times": 5}
    with tempered(bearer=ACCESS, faults=[{"on": "tools/call", **few}]) as server:
        login = log_in(stage.launch, server.url, ACCESS)
        logins = Logins(Path(stage.launch.env["ACP_LAUNCH_STATE_DIR"]))
        with stage.play(servers={"web": remote(server)}) as play:
            for number in range(STEP_UPS + 1):
                said = play.agent.refused("web", "add", a=1, b=2)["message"]
                if number:
                    break
                assert said.endswith("it wants the scopes write; acp-launch mcp login p web")
                for _ in range(STEP_UPS):
                    kept = logins.find(login.url)
                    assert kept is not None
                    assert kept.demanded == ("write",)
                    logins.put(login.after(kept).demand(["write"]))
            assert play.end().code == 0
    assert said.endswith(
        "it wants the scopes write; 3 logins in a row did not grant them: ask its operator which "
        "scopes your account may have"
    )


def test_a_login_that_the_server_refuses_from_the_first_ends_a_run_that_needs_it(launch: Launcher) -> None:
    with tempered(bearer="another") as server:
        log_in(launch, server.url, ACCESS)
        launch.profile("polite", mcp_servers={"web": remote(server)})
        done = launch("run", "p", "hi", "--output", "json")
    assert done.code == 6
    assert done.event("error")["message"].startswith('the MCP server "web" failed: is not logged in any more: ')
    assert done.event("error")["fix"].startswith("acp-launch mcp login p web")
    blind(launch, done, ACCESS)


def test_a_server_whose_login_has_ended_comes_back_for_the_call_after_another(stage: Stage) -> None:
    """The user has logged in elsewhere. Until then nothing is asked of the server."""
    with tempered(bearer=ACCESS) as server:
        log_in(stage.launch, server.url, ACCESS)
        with stage.play(servers={"web": remote(server)}) as play:
            assert play.agent.call("web", "add", a=1, b=2) == 3
            server.do("change", faults=[{"on": "tools/call", **GONE}, {"on": "initialize", **REFUSED}])
            assert "is not logged in any more" in play.agent.refused("web", "add", a=1, b=2)["message"]
            before = len(server.requests)
            assert "is not logged in any more" in play.agent.refused("web", "add", a=1, b=2)["message"]
            assert len(server.requests) == before
            server.do("change", settings={"bearer": "another"})
            log_in(stage.launch, server.url, "another", client=OTHER)
            assert play.agent.call("web", "add", a=1, b=2) == 3
            done = play.end()
    assert done.code == 0, done.err
    blind(stage.launch, done, ACCESS)


def test_a_server_that_has_turned_out_to_want_a_login_uses_one_that_is_done_since(stage: Stage) -> None:
    """For an agent that opens it again."""
    sealed(stage.launch)
    with tempered(bearer=ACCESS, challenge=METADATA) as server:
        entry = {"type": "http", "url": server.url, "required": False}
        with stage.play(servers={"web": entry}) as play:
            refused = play.agent.opened("web")["error"]["message"]
            assert refused.startswith('MCP server "web" failed: answered 401 Unauthorized')
            log_in(stage.launch, server.url, ACCESS)
            hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
            assert "result" in play.agent.ask("web", "initialize", **hello)
            assert play.agent.call("web", "add", a=1, b=2) == 3
            done = play.end()
        assert sent(server) == {None, f"Bearer {ACCESS}"}
    assert done.code == 0, done.err
    blind(stage.launch, done, ACCESS)


def test_the_verbs_of_mcp_use_the_login(launch: Launcher) -> None:
    words = ("mcp", "tools", "p", "web")
    with tempered(bearer=ACCESS) as server:
        launch.profile("polite", mcp_servers={"web": remote(server, required=False)})
        sealed(launch)
        without = launch(*words)
        assert (without.code, server.requests) == (6, []), "whether it is required or not"
        assert NOT_LOGGED_IN in without.err
        assert "acp-launch mcp login p web" in without.err
        log_in(launch, server.url, ACCESS)
        for verb in (words, ("mcp", "call", "p", "web", "add", '{"a": 1, "b": 2}'), ("mcp", "inspect", "p", "web")):
            done = launch(*verb)
            assert done.code == 0, done.err
            assert sent(server) == {f"Bearer {ACCESS}"}
            blind(launch, done, ACCESS)
        server.do("change", settings={"bearer": "another"})
        ended = launch(*words)
        assert ended.code == 6
        assert f"{NOT_LOGGED_IN} any more: " in ended.err
        assert "acp-launch mcp login p web" in ended.err


def test_a_server_that_wants_a_login_says_how_where_the_profile_does_not(launch: Launcher) -> None:
    with tempered(bearer=ACCESS, challenge=METADATA) as server:
        launch.profile("polite", mcp_servers={"web": {"type": "http", "url": server.url}})
        listed, run = launch("mcp", "tools", "p", "web"), launch("run", "p", "hi")
    for done in (listed, run):
        assert done.code == 6
        assert "answered 401 Unauthorized: it wants a login" in done.err
        assert "acp-launch mcp login p web" in done.err


@pytest.mark.parametrize("required", [True, False])
def test_doctor_says_which_servers_are_not_logged_in(launch: Launcher, required: bool) -> None:
    with tempered(bearer=ACCESS) as server:
        launch.profile("polite", mcp_servers={"web": remote(server, required=required)})
        sealed(launch)
        without = launch("doctor", "p", "--no-session")
        assert (without.code, server.requests) == (6 if required else 0, [])
        assert "it is not logged in" in without.out.decode()
        assert "acp-launch mcp login p web" in without.out.decode()
        log_in(launch, server.url, ACCESS)
        done = launch("doctor", "p", "--no-session", "--json")
        checks = {(each["check"], each["subject"]): each for each in json.loads(done.out)["checks"]}
        assert checks["server", "web"]["standing"] == "ok", done.err
        assert not any(name == "secret" for name, _ in checks), "a login is not a secret of the profile"
        blind(launch, done, ACCESS)
