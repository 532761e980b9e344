"""`reload`: the servers of a host as its profile says now (docs/up.md)."""

import json
import sys

import msgspec
import pytest

from acp_launch.app.planning import loaded_profile
from acp_launch.errors import NotTrusted, StateError
from acp_launch.served.connect import call
from acp_launch.served.registry import HostNote, content_of
from acp_launch.served.wire import RELOAD
from acp_launch.settings.load import load
from tests.cli.hosted import Host, up
from tests.cli.launcher import SERVERS, Ended, Json, Launcher, scripted_server, upgrade
from tests.patience import PATIENCE


def server(**more: object) -> Json:
    return {"command": sys.executable, "args": ["-I", "-S", str(SERVERS / "polite.py")], "start": "eager", **more}


def written(launch: Launcher, servers: Json, **sections: Json) -> None:
    """Write the profile p with these servers; the user trusts it."""
    file = launch.profile("mcp_client", mcp_servers=servers)
    launch.write({**json.loads(file.read_text()), **sections})
    assert launch("trust", "p", "--yes").code == 0


def called(host: Host, server: str, tool: str, session: str = "work") -> Json:
    """The answer of a tool, called in a session of the host."""
    done = host.run(f"call {server} {tool}", "-s", session, "-o", "quiet")
    assert done.code == 0, done.err
    found: Json = json.loads(json.loads(done.out)["line"])
    return found


def said(answer: Json) -> str:
    """The text of a tool's answer."""
    return str(answer["result"]["content"][0]["text"])


def reloaded(launch: Launcher) -> Ended:
    return launch.forked("reload", "p")


@pytest.mark.promise("reload")
def test_servers_that_have_changed_are_restarted_and_the_rest_stays(launch: Launcher) -> None:
    """In an open session: `same` goes on, `changed` restarts behind it, `gone` answers with errors."""
    launch.env["ACP_LAUNCH_SECRET_TOKEN"] = "a-secret-of-the-test"
    names = ("same", "changed", "gone", "other")
    shared = server(share=True)
    written(launch, {**{name: server() for name in names}, "shared": shared, "lost": shared})
    with up(launch) as host:
        before = {name: said(called(host, name, "pid")) for name in (*names, "shared", "lost")}
        agent = host.methods.count("initialize")
        other = server(tools={"deny": ["env_*"]})
        new = server(env={"TOKEN": "${secret:token}"})
        now = {"same": server(), "changed": server(env={"WORD": "now"}), "other": other, "new": new}
        written(launch, {**now, "shared": server(share=True, env={"WORD": "now"})})
        refused = launch.forked("run", "p", "pids", "-d")
        assert (refused.code, "fix: acp-launch reload p" in refused.err) == (3, True), refused.err
        done = reloaded(launch)
        assert done.code == 0, done.err
        for line in (
            "changed has changed, and is restarted",
            "gone is removed; open sessions get errors",
            "new is added",
        ):
            assert line in done.err
        assert "a-secret-of-the-test" not in done.err
        assert said(called(host, "same", "pid")) == before["same"]
        assert said(called(host, "changed", "pid")) != before["changed"]
        assert "WORD" in said(called(host, "changed", "env_names"))
        assert said(called(host, "shared", "pid")) != before["shared"]
        assert 'MCP server "lost" is no longer in the profile' in called(host, "lost", "pid")["error"]["message"]
        assert 'MCP server "gone" is no longer in the profile' in called(host, "gone", "pid")["error"]["message"]
        assert 'MCP server "other" has changed; a new session' in called(host, "other", "pid")["error"]["message"]
        assert said(called(host, "new", "pid", "later")) != ""
        assert said(called(host, "other", "pid", "later")) != before["other"]
        assert (host.methods.count("initialize"), host.methods.count("session/new")) == (agent, 2)
        again = reloaded(launch)
        assert (again.code, "p has not changed since it was started" in again.err) == (0, True)


def test_what_is_more_than_servers_needs_another_host(launch: Launcher) -> None:
    written(launch, {"one": server()})
    with up(launch) as host:
        written(launch, {"one": server(env={"A": "b"})}, permissions={"default": "deny"})
        done = reloaded(launch)
        assert (done.code, "fix: acp-launch up p --replace" in done.err) == (3, True)
        assert "more than the servers of p has changed since it was started" in done.err
        assert "permissions.default" in done.err
        assert [each.server for each in host.status.servers] == ["one"]
    none = reloaded(launch)
    assert (none.code, "p is not up" in none.err) == (3, True)


def test_the_host_looks_secrets_up_itself_and_says_which_it_cannot(launch: Launcher) -> None:
    """It has the environment of `up`; that of `reload` stays where it is."""
    written(launch, {"one": server()})
    with up(launch) as host:
        written(launch, {"one": server(), "two": server(env={"TOKEN": "${secret:token}"})})
        done = launch.forked("reload", "p", ACP_LAUNCH_SECRET_TOKEN="one")
        assert done.code == 3, done.err
        assert "the host of p cannot use what the profile says now; nothing has changed" in done.err
        assert "token" in done.err
        assert "fix: acp-launch up p --replace" in done.err
        assert [each.server for each in host.status.servers] == ["one"]


def test_a_required_server_that_does_not_come_up_is_said_and_can_be_mended(launch: Launcher) -> None:
    written(launch, {"one": server()})
    with up(launch) as host:
        called(host, "one", "pid")
        written(launch, {"one": server(args=["-c", "raise SystemExit(3)"], restart={"policy": "never"})})
        done = reloaded(launch)
        assert (done.code, 'the MCP server "one" failed' in done.err) == (8, True), done.err
        written(launch, {"one": server(env={"A": "b"}, restart={"policy": "never"})})
        assert reloaded(launch).code == 0
        assert said(called(host, "one", "pid")) != ""


def test_a_profile_that_is_not_trusted_is_not_taken(launch: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever reaches its socket cannot make it run what the user has not trusted."""
    written(launch, {"one": server()})
    with up(launch) as host:
        launch.profile("mcp_client", mcp_servers={"two": server()})
        done = reloaded(launch)
        assert (done.code, "this profile has changed since you trusted it" in done.err) == (7, True)
        monkeypatch.chdir(launch.project)
        digest = content_of(loaded_profile("p", load())).digest
        note = msgspec.convert(host.note, HostNote)
        with pytest.raises(NotTrusted):
            call(note, RELOAD, {"digest": digest}, within=PATIENCE)
        with pytest.raises(StateError, match="p has changed again meanwhile"):
            call(note, RELOAD, {"digest": "another"}, within=PATIENCE)
        assert [each.server for each in host.status.servers] == ["one"]


def test_servers_with_old_code_are_shown_and_restarted(launch: Launcher) -> None:
    """`ps` and a second `up` say it, of this server alone; `reload` restarts it behind its sessions."""
    entry = scripted_server(launch.project, server())
    written(launch, {"polite": entry, "same": server()})
    with up(launch) as host:
        old, same = said(called(host, "polite", "pid")), said(called(host, "same", "pid"))
        assert "nor has what its servers run" in reloaded(launch).err
        upgrade(entry)
        (family,) = json.loads(launch("ps", "--json").out)["launches"]
        assert {each["name"] for each in family["processes"] if each.get("old_code")} == {"polite"}
        assert [line.split()[0] for line in launch("ps").out.decode().splitlines() if "old code" in line] == ["polite"]
        assert "old code" in launch.forked("up", "p").err
        done = reloaded(launch)
        assert (done.code, "mcp server polite has old code" in done.err, "same" in done.err) == (0, True, False)
        assert said(called(host, "polite", "pid")) != old
        assert said(called(host, "same", "pid")) == same
        assert "old code" not in launch("ps").out.decode()


def test_a_server_that_waits_for_its_session_has_no_old_code(launch: Launcher) -> None:
    entry = scripted_server(launch.project, server())
    written(launch, {"polite": entry})
    with up(launch) as host:
        (family,) = json.loads(launch("ps", "--json").out)["launches"]
        (waiting,) = [each["pid"] for each in family["processes"] if each["name"] == "polite"]
        upgrade(entry)
        assert said(called(host, "polite", "pid")) != str(waiting)
