"""Ring 1. Which tools an agent may see and call (docs/profiles.md `tools`), and what it cannot slip past us."""

import json
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.bridge.toolpolicy import ToolPolicy
from acp_launch.profile.model import Tools

POLICY = ToolPolicy("github", Tools(allow=("get_*", "delete_repo", "ünï*"), deny=("delete_*", "*secret*")))
UNCHECKED = '"github" restricts its tools, and this message cannot be checked: '


def call(params: str, method: str = '"tools/call"') -> bytes:
    return f'{{"jsonrpc":"2.0","id":1,"method":{method},"params":{params}}}'.encode()


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        ("get_issue", ""),
        ("ünïcode", ""),
        (
            "delete_repo",
            'the tool "delete_repo" of "github" is not allowed by the profile (tools.deny: delete_*)',
        ),
        (
            "get_secret_x",
            'the tool "get_secret_x" of "github" is not allowed by the profile (tools.deny: *secret*)',
        ),
        ("put_issue", 'the tool "put_issue" of "github" is not allowed by the profile (not in tools.allow)'),
        ("GET_ISSUE", 'the tool "GET_ISSUE" of "github" is not allowed by the profile (not in tools.allow)'),
        (" get_issue", 'the tool " get_issue" of "github" is not allowed by the profile (not in tools.allow)'),
        ("", 'the tool "" of "github" is not allowed by the profile (not in tools.allow)'),
        ("\x1b[2J\n", 'the tool "�[2J�" of "github" is not allowed by the profile (not in tools.allow)'),
        ("x" * 99, f'the tool "{"x" * 57}..." of "github" is not allowed by the profile (not in tools.allow)'),
    ],
)
def test_a_call_passes_when_its_tool_is_allowed_and_not_denied(name: str, refusal: str) -> None:
    assert POLICY.refusal(call(json.dumps({"name": name, "arguments": {"name": "delete_repo"}}))) == refusal
    assert POLICY.allows(name) == (not refusal)


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"delete_repo","Name":1,"name":2}}',
        b'{"jsonrpc":"2.0","method":"notifications/tools/call","params":[]}',
        b'{"jsonrpc":"2.0","id":1,"result":{"method":"tools/call"}}',
        b'\xef\xbb\xbf{"id":1,"method":"tools/call","params":{"name":"get_x","arguments":{"Name":"delete_repo"}}}',
    ],
)
def test_whatever_calls_no_denied_tool_passes(line: bytes) -> None:
    assert POLICY.refusal(line) == ""


@pytest.mark.parametrize(
    "line",
    [
        call(r'{"name":"d\u0065lete_repo"}'),
        call(r'{"\u006eame":"delete_repo"}'),
        call('{"name":"delete_repo"}', method=r'"tools\/call"'),
        call('{"name":"delete_repo"}', method=r'"\u0074ools/call"'),
        b'{"params":{"arguments":{},"name" : "delete_repo"} ,"\\u006dethod": "tools/call", "id":1}',
        call('{"name":"delete_repo"}').replace(b'"id":1,', b""),
        b"\xef\xbb\xbf\t" + call('{"name":"delete_repo"}'),
    ],
)
def test_a_denied_call_is_known_however_it_is_written(line: bytes) -> None:
    assert POLICY.refusal(line) == (
        'the tool "delete_repo" of "github" is not allowed by the profile (tools.deny: delete_*)'
    )


def test_what_two_programs_may_read_differently_is_refused() -> None:
    """Go's encoding/json matches keys whatever their case, the Kelvin sign and the long s included."""
    for line, why in [
        (call('{"name":"get_x","name":"delete_repo"}'), 'it holds "name" 2 times'),
        (call('{"name":"get_x","Name":"delete_repo"}'), 'it holds "name" 2 times'),
        (call('{"name":"get_x","NAME":"delete_repo","n\\u0061me":""}'), 'it holds "name" 3 times'),
        (call('{"Name":"get_x"}'), 'it writes "name" as "Name"'),
        (call('{"name":"get_x"},"params":{"name":"delete_repo"}'), 'it holds "params" 2 times'),
        (call('{"name":"get_x"},"Params":{"name":"delete_repo"}'), 'it holds "params" 2 times'),
        (call('{"name":"get_x"},"param\\u017f":{"name":"delete_repo"}'), 'it holds "params" 2 times'),
        (call('{"name":"delete_repo"},"Method":"tools/call"', '"ping"'), 'it holds "method" 2 times'),
        (call('{"name":"delete_repo"},"method":"tools/call"', '"ping"'), 'it holds "method" 2 times'),
        (b'{"id":1,"Method":"tools/call","params":{"name":"delete_repo"}}', 'it writes "method" as "Method"'),
        (b'{"id":1,"result":{},"METHOD":"tools/call"}', 'it writes "method" as "METHOD"'),
        (b'{"id":1,"method":["tools/call"]}', 'its "method" is not a string'),
        (call('{"name":["get_x"]}'), 'its "name" is not a string'),
        (call('{"name":null}'), 'its "name" is not a string'),
        (call("{}"), "it names no tool"),
        (b'{"id":1,"method":"tools/call"}', "it names no tool"),
        (call('["delete_repo"]'), "it names no tool"),
        (b'[{"method":"tools/call"}]', "it is not a JSON-RPC message (expected an object at byte 0)"),
        (b'{"method":"tools/call"', "it is not a JSON-RPC message (expected a comma at byte 22)"),
    ]:
        assert POLICY.refusal(line) == UNCHECKED + why


def test_a_policy_that_allows_everything_looks_at_nothing() -> None:
    policy = ToolPolicy("s", Tools())
    assert policy.is_open
    assert policy.refusal(call('{"name":"x","name":"y"}')) == ""
    assert policy.allows("delete_repo")
    assert not ToolPolicy("s", Tools(allow=("get_*",))).is_open
    assert not ToolPolicy("s", Tools(deny=("x",))).is_open
    assert not ToolPolicy("s", Tools(allow=())).is_open


GLOBS = st.lists(st.text("ab*?[!]-", max_size=6), max_size=3)


@given(GLOBS, GLOBS, st.text("ab-]\n", max_size=6))
def test_globs_match_as_fnmatchcase_and_deny_wins(allow: list[str], deny: list[str], name: str) -> None:
    expected = any(fnmatchcase(name, glob) for glob in allow) and not any(fnmatchcase(name, glob) for glob in deny)
    policy = ToolPolicy("s", Tools(allow=tuple(allow), deny=tuple(deny)))
    assert policy.allows(name) == expected
    assert (policy.refusal(call(json.dumps({"name": name}))) == "") == expected


def test_a_list_loses_denied_tools_and_nothing_else() -> None:
    line = (
        b'{ "jsonrpc":"2.0",\t"result":{"_meta":{"n":1.0},"tools": [{"name":"delete_repo","inputSchema":{}}, '
        b'{"inputSchema":{"x":[1e400,"]"]},"name":"get_\\u0061"}, {"name":"put"}],"nextCursor":"\xc3\xa9"},"id":7 }'
    )
    left, count = POLICY.filtered(line)
    assert left == (
        b'{ "jsonrpc":"2.0",\t"result":{"_meta":{"n":1.0},"tools": ['
        b'{"inputSchema":{"x":[1e400,"]"]},"name":"get_\\u0061"}],"nextCursor":"\xc3\xa9"},"id":7 }'
    )
    assert count == 1


def test_a_list_of_allowed_tools_is_the_very_same_line() -> None:
    line = b'{"id":1,"result":{"tools":[{"name":"get_a"},{"name":"get_b"}]}}'
    left, count = POLICY.filtered(line)
    assert left is line
    assert count == 2


@given(st.lists(st.sampled_from(["get_a", "get_b", "delete_repo", "put", "ünï", "a secret"])), st.booleans())
def test_what_is_left_is_exactly_what_is_allowed(names: list[str], is_ascii: bool) -> None:
    tools = [{"title": name, "name": name, "inputSchema": {"type": "object"}} for name in names]
    line = json.dumps({"id": 1, "result": {"tools": tools, "x": [tools]}}, ensure_ascii=is_ascii).encode()
    left, count = POLICY.filtered(line)
    kept = [tool for tool in tools if POLICY.allows(tool["name"])]  # type: ignore[arg-type]
    assert json.loads(left) == {"id": 1, "result": {"tools": kept, "x": [tools]}}
    assert count == len(kept)


@pytest.mark.parametrize(
    "line",
    [
        b'{"id":1,"error":{"code":1,"message":"tools"}}',
        b'{"id":1,"result":null}',
        b'{"id":1,"result":{"tools":{"name":"delete_repo"}}}',
        b'{"id":1,"result":{"tools":null}}',
        b'{"id":1,"result":{}}',
        b'{"id":1,"result":{"tools":[{"name":"delete_repo"}',
        b"no message",
    ],
)
def test_an_answer_without_a_list_of_tools_stays_as_it_is(line: bytes) -> None:
    """Calls are checked anyway."""
    assert POLICY.filtered(line) == (line, 0)


@pytest.mark.parametrize(
    ("tools", "kept"),
    [
        (["delete_repo", {"name": "delete_x"}, 7], ["delete_repo", 7]),
        ([{"title": "nameless"}, {"name": 5}], [{"title": "nameless"}, {"name": 5}]),
    ],
)
def test_what_is_no_tool_is_left_to_the_agent(tools: list[Any], kept: list[Any]) -> None:
    left, count = POLICY.filtered(json.dumps({"id": 1, "result": {"tools": tools}}).encode())
    assert json.loads(left)["result"]["tools"] == kept
    assert count == len(kept)


def test_a_tool_with_two_names_is_shown_only_if_both_are_allowed() -> None:
    line = b'{"id":1,"result":{"tools":[{"name":"delete_repo","name":"get_x"},{"name":"get_y"}]}}'
    assert POLICY.filtered(line) == (b'{"id":1,"result":{"tools":[{"name":"get_y"}]}}', 1)
