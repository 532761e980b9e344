"""What a fix advises, with real profiles: that each command is one, about what is there, the launcher checks itself."""

import sys

import pytest

from tests.cli.launcher import ROOT, Launcher

CRASHER = ["-I", "-S", f"{ROOT}/tests/servers/crasher.py", "start"]
POLITE = ["-I", "-S", f"{ROOT}/tests/servers/polite.py"]


@pytest.mark.parametrize(
    ("arguments", "server", "fix"),
    [
        (["run", "./a b.yaml", "hi"], CRASHER, "acp-launch logs 'a b.yaml' s shows its log; "),
        (["mcp", "call", "./a b.yaml", "s", "nosuch"], POLITE, "acp-launch mcp tools 'a b.yaml' s"),
        (["mcp", "tools", "./a b.yaml", "nosuch"], POLITE, "acp-launch mcp list './a b.yaml'"),
        (["permission", "forget", "./a b.yaml", "9"], POLITE, "acp-launch permission list 'a b.yaml'"),
    ],
)
def test_a_profile_that_no_name_leads_to_is_named_by_its_path(
    launch: Launcher, arguments: list[str], server: list[str], fix: str
) -> None:
    entry = {"command": sys.executable, "args": server, "env": {"ACP_TEST_TRANSCRIPT": ""}}
    launch.profile("polite", mcp_servers={"s": entry}).rename(launch.project / "a b.yaml")
    done = launch(*arguments)
    assert done.code != 0
    assert done.err.splitlines()[-1].startswith(f"    fix: {fix}")
