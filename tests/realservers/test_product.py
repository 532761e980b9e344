"""acp-launch itself with the published servers, started by npx with the small environment servers have by default."""

import json
import re

import pytest

from tests.cli.conftest import launch
from tests.cli.launcher import MARK, Launcher
from tests.realservers import filesystem
from tests.realservers.npm import EVERYTHING, FILESYSTEM, VERSION
from tests.realservers.published import cache, needs_npm
from tests.realservers.recorder import Json

__all__ = ["launch"]  # a fixture

pytestmark = needs_npm


@pytest.fixture(autouse=True)
def nothing_is_downloaded(launch: Launcher) -> None:
    """Where npx keeps what it has, and that it is to do with that: two of the names servers inherit by default."""
    launch.env |= {"NPM_CONFIG_CACHE": str(cache()), "NPM_CONFIG_OFFLINE": "true"}


def npx(package: str, *arguments: str, **keys: object) -> Json:
    return {"command": "npx", "args": ["-y", f"{package}@{VERSION}", *arguments], **keys}


def profile(launch: Launcher, **sections: object) -> None:
    servers = {"everything": npx(EVERYTHING), "files": npx(FILESYSTEM, "${cwd}"), "roots": npx(FILESYSTEM)}
    agent = {"command": "${python}", "args": ["-I", "-m", "acp_launch.demo.agent"]}
    launch.write({"agent": agent, "mcp_servers": servers, **sections})


def told(err: str) -> str:
    """What was said of anything but time: npx takes its own."""
    words = ("is downloading", "has not answered within", "still waiting for", "the prompt waits for")
    return "\n".join(line for line in err.splitlines() if not any(word in line for word in words))


def shown(launch: Launcher, *arguments: str) -> str:
    """What a verb about servers prints; it has nothing to complain of."""
    done = launch("mcp", *arguments)
    assert (done.code, told(done.err)) == (0, "")
    return done.out.decode()


def test_a_call_of_the_agent_reaches_one_of_three_servers_in_the_sessions_directory(launch: Launcher) -> None:
    profile(launch)
    (launch.project / "ä.txt").write_text("words in a file\n")
    arguments = json.dumps({"path": str(launch.project / "ä.txt")})
    done = launch("run", "p", f"call files read_text_file {arguments}")
    assert (done.code, done.out.decode().strip()) == (0, "words in a file")
    servers = "acp-launch: mcp servers: everything ready in # s, 13 tools; files ready in # s, 14 tools; "
    assert f"{servers}roots ready in # s, 14 tools" in re.sub(r"[\d.]+ s\b", "# s", told(done.err))


def test_the_small_environment_is_enough_for_npx_and_holds_nothing_else(launch: Launcher) -> None:
    profile(launch)
    launch.env |= {"SOME_TOKEN": "t", "UNRELATED": "u", "NODE_OPTIONS": "--no-such-option"}
    env = json.loads(shown(launch, "call", "p", "everything", "get-env"))
    assert env["NPM_CONFIG_CACHE"] == str(cache())
    assert env["PWD"] == str(launch.project)
    assert not {"SOME_TOKEN", "UNRELATED", "NODE_OPTIONS", MARK} & env.keys()


def test_the_roots_a_server_is_told_are_the_sessions_directories(launch: Launcher) -> None:
    """M-47: the one the session is in comes first."""
    for name in ("one", "more ä%"):
        (launch.project / name).mkdir()
    profile(launch, workspace={"additional_directories": [str(launch.project / "more ä%")]})
    for options, first in (((), launch.project), (("--cwd", str(launch.project / "one")), launch.project / "one")):
        found = json.loads(shown(launch, "inspect", "p", "roots", "--json", *options))
        assert found["roots_asked"] == 1
        assert found["client_info"]["roots"] == [
            {"uri": first.as_uri(), "name": first.name},
            {"uri": f"{launch.project.as_uri()}/more%20%C3%A4%25", "name": "more ä%"},
        ]


def test_tools_are_listed_and_called_and_a_failure_has_its_exit_code(launch: Launcher) -> None:
    profile(launch)
    tools = json.loads(shown(launch, "tools", "p", "files", "--json"))["tools"]
    known = {tool for tool, _ in filesystem.calls(launch.project)} - {"no_such_tool"}
    assert {tool["name"] for tool in tools} == known
    assert shown(launch, "call", "p", "everything", "get-sum", "a=1", "b=2.5") == "The sum of 1 and 2.5 is 3.5.\n"
    refused = launch("mcp", "call", "p", "files", "read_text_file", "path=/etc/hostname")
    said = f"Access denied - path outside allowed directories: /etc/hostname not in {launch.project}"
    assert (refused.code, (refused.out.decode() + told(refused.err)).strip()) == (9, said)
