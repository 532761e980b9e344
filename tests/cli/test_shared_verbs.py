"""What users see of servers that all their launches share: `ps`, `logs`, `plan -v`, `down --servers`."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.hosted import up
from tests.cli.launcher import Json, Launcher
from tests.cli.serving import serving

SERVERS = Path(__file__).parent.parent / "servers"
TOKEN = "canary-3f1c9a7e5b"


def server(**keys: Any) -> Json:
    command: Json = {"command": sys.executable, "args": ["-I", "-S", str(SERVERS / "polite.py")]}
    return {**command, "share": "user", "idle": "1h", **keys}


@pytest.fixture
def sharing(launch: Launcher) -> Iterator[Launcher]:
    """Profiles p and q with the same server, which is shared; nothing is left of it afterwards."""
    for name in ("p", "q"):
        launch.profile("mcp_client", name=name, mcp_servers={"polite": server()})
    yield launch
    launch("down", "--servers", "--force")


def families(launch: Launcher) -> dict[str, Json]:
    done = launch("ps", "--json")
    return {each["profile"]: each for each in json.loads(done.out)["launches"]}


def users(launch: Launcher) -> list[str]:
    processes = families(launch)["shared servers"]["processes"]
    (process,) = [each for each in processes if "shared_by" in each]
    assert process["name"] == "polite"
    return sorted(user["launch"] for user in process["shared_by"])


def test_ps_says_which_launches_share_a_process(sharing: Launcher) -> None:
    with up(sharing, name="p", is_killed=True) as host:  # the record of the server host stays
        assert sharing.apart("run", "q", 'call polite add {"a": 1, "b": 2}').code == 0
        found = families(sharing)
        (process,) = [each for each in found["shared servers"]["processes"] if each["name"] == "polite"]
        assert process["shared_by"] == [{"pid": host.pid, "launch": "up p"}]
        assert found["p"]["shared"] == [{"name": "polite", "pid": process["pid"]}]
        assert [each for each in found["p"]["processes"] if each["name"] == "polite"] == []
        lines = sharing("ps").out.decode().splitlines()
        assert any(re.search(r"^  polite +\d+ .* shared by 1 launch: up p", line) for line in lines)
        assert any(re.search(rf"^  polite +- +\(shared, pid {process['pid']}\)", line) for line in lines)
    assert any("used by no launch" in line for line in sharing("ps").out.decode().splitlines())


def test_shared_servers_in_use_are_ended_by_force_only(sharing: Launcher) -> None:
    with up(sharing, name="p", is_killed=True) as host:  # the record of the server host stays
        refused = sharing("down", "--servers")
        assert refused.code == 3
        assert refused.err == (
            f"acp-launch: the shared servers are in use: up p ({host.pid})\n"
            "    fix: end these first; or acp-launch down --servers --force, and their next calls start them again\n"
        )
        assert users(sharing) == ["up p"]
        before = families(sharing)["p"]["shared"]
        assert sharing("down", "--servers", "--force").err == "acp-launch: the shared servers are down\n"
        assert host.run('call polite add {"a": 1, "b": 2}').code == 0
        assert families(sharing)["p"]["shared"] != before
    assert sharing("down", "--servers").err == "acp-launch: the shared servers are down\n"
    assert list(families(sharing)) == []
    gone = sharing("down", "--servers")
    assert (gone.code, gone.err) == (3, "acp-launch: launches share no servers at the moment\n")


@pytest.mark.parametrize("words", [("p", "--servers"), ("--all", "--servers"), ("--force",)])
def test_what_down_does_not_take_together(launch: Launcher, words: tuple[str, ...]) -> None:
    assert launch("down", *words).code == 2


def test_logs_show_what_a_shared_server_said_since_the_launch_joined(sharing: Launcher) -> None:
    assert sharing.apart("run", "p", 'call polite complain {"text": "of the first"}').code == 0
    assert sharing.apart("run", "q", 'call polite complain {"text": "of the second"}').code == 0
    assert b"of the first" in sharing("logs", "p").out
    (line,) = [line for line in sharing("logs", "q").out.splitlines() if b"of the" in line]
    assert line.endswith(b"of the second")
    assert [json.loads(line)["line"] for line in sharing("logs", "q", "polite", "--json").out.splitlines()].count(
        "of the second"
    ) == 1
    kept = [file for file in (sharing.state / "log").rglob("*.log") if b"of the second" in file.read_bytes()]
    assert len(kept) == 1


def test_an_editor_shares_the_process_of_a_host(sharing: Launcher) -> None:
    call = "call polite pid {}"
    with up(sharing, name="p", is_killed=True) as host, serving(sharing, name="q") as editor:
        editor.begin()
        editor.prompt(editor.open(), call)
        assert '"line"' in editor.said()
        assert host.run(call).out.decode().strip() == editor.said().strip(), "another process"
        assert len(users(sharing)) == 2
    assert "the shared servers are down" in sharing("down", "--servers", "--force").err


def test_plan_says_what_keeps_a_server_apart(sharing: Launcher) -> None:
    secret = {"TOKEN": "${secret:token}"}
    sharing.profile("mcp_client", mcp_servers={"polite": server(env=secret)})
    sharing.profile("mcp_client", name="q", mcp_servers={"polite": server(env=secret, protocol="legacy")})
    assert sharing.apart("run", "p", "pids", ACP_LAUNCH_SECRET_TOKEN=TOKEN).code == 0

    def now(name: str, *words: str, token: str = TOKEN) -> str:
        done = sharing("plan", "-v", name, *words, ACP_LAUNCH_SECRET_TOKEN=token)
        assert (done.code, TOKEN.encode() in done.out) == (0, False)
        lines = [line for line in done.out.decode().splitlines() if line.startswith("shared now")]
        return re.sub(r"process \d+", "process N", "\n".join(lines))

    assert now("p") == "", "an untrusted profile learns nothing"
    assert [sharing("trust", name, "--yes").code for name in ("p", "q")] == [0, 0]
    said = "shared now   polite: process N, used by no launch, is "
    assert now("p") == f"{said}the same; --secrets compares variable TOKEN, too"
    assert now("p", "--secrets") == f"{said}the same"
    assert now("p", "--secrets", token=f"{TOKEN}-2") == f"{said}another: variable TOKEN"
    assert now("q") == f"{said}another: protocol (here legacy, there auto)"
    (sharing.project / "sub").mkdir()
    assert now("p", "--cwd", "sub", "--secrets") == (
        f"{said}another: directory (here {sharing.project}/sub, there {sharing.project})"
    )
