"""Files that an untrusted repository may hold: nothing hangs, nothing is guessed at, and nothing secret is repeated."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.errors import ProfileError, UsageError
from acp_launch.interop import merge
from acp_launch.interop.drafts import DraftSet, collect_drafts, fill
from acp_launch.interop.read import survey
from acp_launch.interop.tools import MAX_CONFIG_BYTES, MAX_JSON_BYTES, TOOLS, Host, read, sources
from acp_launch.secret.detect import issued
from tests.interop.test_readers import entries, left, unfit

TOKEN = "ghp_Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0Uv1Wx2"


def claude(servers: Any) -> DraftSet:
    return collect_drafts([(TOOLS["claude"], {"mcpServers": servers})], "/project")


def faults(found: DraftSet) -> dict[str, str]:
    return {one.original: one.unfit for one in merge.mark_unfit(found.drafts) if one.unfit}


@pytest.mark.parametrize("root", [None, [], "x", 1, {"mcpServers": None}, {"mcpServers": 1}, {"projects": [1]}])
def test_a_file_of_another_shape_holds_nothing(root: Any) -> None:
    assert collect_drafts([(TOOLS["claude"], root)], "/project").drafts == ()


@pytest.mark.parametrize(
    ("server", "why"),
    [
        (None, "it must be a mapping"),
        ([], "it must be a mapping"),
        ({}, "it has neither a command nor a url"),
        ({"command": ["x", {}]}, "its command is not a string"),
        ({"command": {"a": 1}}, "its command is not a string"),
        ({"command": "x", "args": "-y"}, "its args is not a list of strings"),
        ({"command": "x", "args": [None]}, "its args is not a string"),
        ({"command": "x", "args": ["\0"]}, "its args holds characters that no program can receive"),
        ({"command": "x", "args": ["\ud800"]}, "its args holds characters that no program can receive"),
        ({"command": "x", "url": "https://x"}, "it has both a command and a url"),
        ({"url": "https://x", "type": "websocket"}, "its type is not one that acp-launch knows"),
        ({"url": ["https://x"]}, "its url is not a string"),
        ({"command": "run 'it"}, "its command has a quote that is not closed"),
        ({"command": f"run={TOKEN}"}, "its command contains a credential, but a command cannot come from a secret"),
    ],
)
def test_a_server_of_the_wrong_shape_is_not_taken_and_says_why(server: Any, why: str) -> None:
    assert unfit(claude({"s": server})) == {"s": why}


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ({"url": "ftp://x"}, 'mcp_servers.s.url: expected an http or https url, found "ftp://x"'),
        ({"url": "https://x", "headers": {"a b": "c"}}, 'mcp_servers.s.headers."a b": "a b" is not a header\'s name'),
        ({"command": "x", "env": {"A=B": "c"}}, 'mcp_servers.s.env."A=B": "A=B" is not a variable\'s name'),
    ],
)
def test_what_a_profile_would_have_against_it_is_said_before_anything_is_written(server: Any, why: str) -> None:
    assert faults(claude({"s": server})) == {"s": why}


def test_wrong_values_beside_good_ones_are_left_out_and_spoken_of() -> None:
    found = claude({"s": {"command": "x", "env": {"A": {}, "B": 1.5, "C": True, "D": None}, "timeout": "soon"}})
    assert entries(found) == {"s": {"command": "x", "env": {"B": "1.5", "C": "true"}}}
    assert left(found) == {
        "s": (("env.A", "is not a string"), ("env.D", "is not a string"), ("timeout", "is not a length of time"))
    }


def test_names_that_are_none_of_ours_become_some_and_none_comes_twice() -> None:
    names = ["my server!", "my server?", "../../etc", "", "---", "\x1b[31mred", "g\u0456thub", "a" * 500]
    found = claude({name: {"command": "x"} for name in names})
    assert [one.name for one in found.drafts] == [
        "my-server",
        "my-server-2",
        "etc",
        "server",
        "server-2",
        "31mred",
        "g-thub",
        "a" * 100,
    ]


def test_a_credential_in_the_place_of_a_name_is_nowhere_afterwards() -> None:
    found = claude({TOKEN: {"command": "x", "env": {TOKEN: "y"}}, "s": {"command": "x", "env": {"KEY": TOKEN}}})
    assert entries(found) == {"server": {"command": "x"}, "s": {"command": "x", "env": {"KEY": "${secret:s}"}}}
    assert TOKEN not in repr(found)


@pytest.mark.parametrize("value", ["correct-horse-battery", "q7Rk29fLmZt4"])
def test_a_credential_is_moved_from_every_place_it_stands_in(value: str) -> None:
    found = claude(
        {
            "a": {"command": "x", "env": {"PASSWORD": value}},
            "b": {"command": "x", "args": [f"--prefix={value};suffix", value]},
            "c": {"url": f"https://x/{value}"},
        }
    )
    assert value not in json.dumps(entries(found))
    assert entries(found)["b"]["args"] == ["--prefix=${secret:a};suffix", "${secret:a}"]


def test_a_restriction_that_cannot_be_read_is_not_dropped() -> None:
    found = collect_drafts([(TOOLS["gemini"], {"mcpServers": {"s": {"command": "x", "includeTools": "only"}}})], "/p")
    assert unfit(found) == {"s": "its includeTools must be a list of names"}


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    for name, size in (("mcp.json", MAX_JSON_BYTES), ("config.toml", MAX_CONFIG_BYTES)):
        file = tmp_path / name
        with file.open("wb") as stream:
            stream.truncate(size + 1)
        with pytest.raises(ProfileError) as error:
            read(file)
        assert error.value.problems[0].message == f"this file is larger than {size} bytes"


def test_a_pipe_a_directory_and_a_link_to_itself_are_refused_without_a_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "loop.json").symlink_to("loop.json")
    said = []
    for name in ("pipe.json", "folder.json", "loop.json"):
        with pytest.raises(ProfileError) as error:
            read(tmp_path / name, TOOLS["claude"])
        said.append(error.value.problems[0].message)
    assert said == [
        "this file is not a regular file",
        "cannot be read: is a directory",
        "cannot be read: too many levels of symbolic links",
    ]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("mcp.json", b'{"a": "\xff"}', "this file is not UTF-8 text"),
        ("mcp.json", b'{"a": ', "not valid JSON: expecting value"),
        ("config.toml", b"a = ", "not valid TOML (at end of document)"),
        ("config.toml", f"a = {TOKEN}".encode(), "not valid TOML (at line 1, column 5)"),
        ("config.toml", b"a = " + b"[" * 5000, "not valid TOML: nested too deep"),
        ("config.yaml", b"a: &a [*a]", '"*a" contains itself'),
    ],
)
def test_what_is_wrong_with_a_file_is_said_without_its_content(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(ProfileError) as error:
        read(file)
    assert error.value.problems[0].message == said
    assert TOKEN not in str(error.value)


@pytest.mark.parametrize(
    "arguments", [["x" * 600_000], [f"--token=s3cret-{number}-{number:x}zq" for number in range(900)]]
)
def test_too_large_a_configuration_is_refused_and_does_not_take_long(arguments: list[str]) -> None:
    begin = time.process_time()
    with pytest.raises(UsageError) as error:
        claude({"s": {"command": "x", "args": arguments}})
    assert error.value.message == "the servers there hold more than 512 KiB of text, or 500 credentials"
    assert time.process_time() - begin < 20  # seconds


def test_a_file_of_an_unknown_tool_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text("{}")
    with pytest.raises(UsageError) as error:
        read(file)
    assert error.value.message.endswith("x.json: this is not a configuration that acp-launch knows")


@pytest.mark.parametrize(
    ("name", "content", "tool"),
    [
        (".mcp.json", "{}", "claude"),
        (".vscode/mcp.json", "{}", "vscode"),
        (".cursor/mcp.json", "{}", "cursor"),
        ("x.json", '{"servers": {}}', "vscode"),
        ("x.json", '{"mcpServers": {}}', "claude"),
        ("x.json", '{"agent_servers": {}}', "zed"),
        ("x.json", '{"mcp": {}}', "opencode"),
        ("crush.json", '{"mcp": {}}', "crush"),
        ("x.json", '{"mcp": {"servers": {"a": {"command": "x"}}}}', "vscode"),
        ("x.json", '{"mcp": {"servers": {"type": "local", "command": ["x"]}}}', "opencode"),
        ("settings.json", '{"mcp.servers": {}}', "vscode"),
        ("x.json", '{"a": {"command": "x"}}', "claude"),
        (".roo/mcp.json", "{}", "roo"),
        (".kiro/settings/mcp.json", "{}", "kiro"),
        (".copilot/mcp-config.json", "{}", "copilot"),
        ("cline_mcp_settings.json", "{}", "cline"),
        ("windsurf/mcp_config.json", "{}", "windsurf"),
        (".qwen/settings.json", "{}", "qwen"),
        ("x.toml", "[mcp_servers.a]", "codex"),
        ("x.yaml", "extensions: {}", "goose"),
    ],
)
def test_a_file_is_known_by_its_name_or_by_what_it_holds(tmp_path: Path, name: str, content: str, tool: str) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text(content)
    assert read(file).tool.name == tool


def test_what_is_neither_a_tool_nor_a_file_is_told_what_there_is(tmp_path: Path) -> None:
    machine = Host(tmp_path, {}, "linux")
    with pytest.raises(UsageError) as error:
        sources("clade", machine, tmp_path, tmp_path)
    assert error.value.message == '"clade" is neither a tool nor a file'
    with pytest.raises(UsageError) as error:
        sources("jetbrains", machine, tmp_path, tmp_path)
    assert (error.value.message, error.value.detail) == (
        "JetBrains is not configured here",
        (f"looked for {tmp_path}/.jetbrains/acp.json",),
    )


def test_a_survey_goes_on_past_a_file_that_is_wrong(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    (home / ".gemini").mkdir(parents=True)
    (home / ".gemini" / "settings.json").write_text("{")
    project.mkdir()
    (project / ".mcp.json").write_text('{"mcpServers": {"a": {"command": "x"}, "b": 1}}')
    found = list(survey(Host(home, {}, "linux"), project))
    assert [(one.tool.name, one.servers, bool(one.fault)) for one in found] == [
        ("claude", ("a",), False),
        ("gemini", (), True),
    ]


WORDS = """command args env url headers type cmd uri envs env_keys environment httpUrl enabled config timeout mcpServers
servers inputs agent_servers context_servers mcp extensions agents argv"""
KEYS = WORDS.split()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(TOKEN),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS) | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@pytest.mark.whole
@given(st.sampled_from(sorted(TOOLS)), JSON)
def test_whatever_a_file_says_nothing_raises_and_no_token_is_left(tool: str, value: Any) -> None:
    holder = TOOLS[tool].servers or TOOLS[tool].agents
    found = collect_drafts([(TOOLS[tool], {holder: {"s": value, "t": {"command": "x", "env": value}}})], "/project")
    names = ["name"] * len(found.tokens)
    for one in merge.mark_unfit(found.drafts):
        if not one.unfit:
            step = merge.steps({}, [one], names)
            text = merge.apply_steps("version: 1\nagent: {command: x}\n", step)
            assert issued(text) == ()
            assert TOKEN not in json.dumps(fill(one.shape, names))
