"""Published servers that the launches of two agents share: one process each, and what each is asked for itself."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import launch
from tests.cli.hosted import up
from tests.cli.launcher import DEMO, Launcher
from tests.realservers import sdk_server
from tests.realservers.npm import EVERYTHING, FILESYSTEM
from tests.realservers.published import needs_npm
from tests.realservers.published import server as npm_server
from tests.realservers.recorder import Json

__all__ = ["launch"]  # a fixture

pytestmark = needs_npm

CALLS = [
    ("everything", "get-sum", {"a": 1.5, "b": 2}, "The sum of 1.5 and 2 is 3.5."),
    ("everything", "echo", {"message": "sämple"}, "Echo: sämple"),
    ("files", "read_text_file", {"path": "ä.txt"}, "words in a file\n"),
    ("sdk", "forecast", {"city": "Chicago"}, "Chicago"),
]


@pytest.fixture
def sharing(launch: Launcher) -> Iterator[Launcher]:
    """Profile p is of the demo agent, and q of another; `other` lets the file server see another directory."""
    (launch.project / "ä.txt").write_text("words in a file\n")
    (launch.project / "sub").mkdir()
    everything = npm_server(EVERYTHING, cwd=launch.project).argv
    sdk = [sys.executable, str(Path(sdk_server.__file__))]

    def servers(directory: Path) -> Json:
        files = npm_server(FILESYSTEM, str(directory), cwd=launch.project).argv
        named = {"everything": everything, "files": files, "sdk": sdk}
        shared = {"share": "user", "idle": "1h", "cwd": "${project}"}
        return {name: {"command": argv[0], "args": argv[1:], **shared} for name, argv in named.items()}

    launch.write({"agent": DEMO, "mcp_servers": servers(launch.project)})
    launch.profile("mcp_client", name="q", mcp_servers=servers(launch.project))
    launch.profile("mcp_client", name="other", mcp_servers=servers(launch.project / "sub"))
    yield launch
    launch("down", "--servers", "--force")


def processes(launch: Launcher) -> dict[str, list[str]]:
    """The launches that use each process, by the server's name."""
    families = json.loads(launch("ps", "--json").out)["launches"]
    (host,) = [each for each in families if each["profile"] == "shared servers"]
    return {
        each["name"]: sorted(user["launch"] for user in each["shared_by"])
        for each in host["processes"]
        if "shared_by" in each
    }


@pytest.mark.timeout(180)
def test_two_agents_have_one_process_of_each_and_their_own_answers(sharing: Launcher) -> None:
    with up(sharing, name="p", is_killed=True) as host:  # the record of the server host stays
        for server, tool, arguments, expected in CALLS:
            line = json.dumps(arguments).replace('"ä.txt"', json.dumps(str(sharing.project / "ä.txt")))
            assert expected in host.run(f"call {server} {tool} {line}", "-o", "quiet").out.decode()
            said = sharing("run", "q", f"call {server} {tool} {line}", "-o", "quiet").out.decode()
            assert expected in json.loads(json.loads(said)["line"])["result"]["content"][0]["text"]
        assert processes(sharing) == {name: ["up p"] for name in ("everything", "files", "sdk")}
        outside = json.dumps({"path": str(sharing.project / "ä.txt")})
        refused = sharing("run", "other", f"call files read_text_file {outside}", "-o", "quiet").out.decode()
        assert "outside allowed directories" in refused
        assert processes(sharing) == {"everything": ["up p"], "files": ["up p"], "files#2": [], "sdk": ["up p"]}
