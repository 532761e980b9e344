"""Ring 1. What a tool call says it is about (ours; the calls are as real agents write them)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.session.permission.subject import UNKNOWN, subject


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ({"locations": [{"path": "/a", "line": 3}, {"path": "/b"}, {"path": "/a"}]}, ("/a", "/b")),
        ({"content": [{"type": "diff", "path": "/a", "newText": ""}, {"type": "content", "path": "/b"}]}, ("/a",)),
        ({"rawInput": {"file_path": "src/x"}}, ("/p/src/x",)),
        ({"rawInput": {"filePath": "/p/../etc/./passwd"}}, ("/etc/passwd",)),
        ({"rawInput": {"abs_path": "//a"}}, ("/a",)),
        ({"rawInput": {"uri": "file:///a/b%20c/%2e%2e/d"}}, ("/a/d",)),
        ({"rawInput": {"uri": "file://localhost/a"}}, ("/a",)),
        ({"rawInput": {"uri": "file://elsewhere/a"}}, (UNKNOWN,)),
        ({"rawInput": {"uri": "https://x/a"}}, (UNKNOWN,)),
        ({"rawInput": {"path": "~/x"}}, ("/home/me/x",)),
        ({"rawInput": {"path": "~you/x"}}, (UNKNOWN,)),
        ({"rawInput": {"path": ""}}, ("/p",)),
        ({"rawInput": {"paths": ["a", "b"], "recursive": True}}, ("/p/a", "/p/b")),
        ({"rawInput": {"path": 5}}, (UNKNOWN,)),
        ({"rawInput": {"path": ["a", None, 5]}}, ("/p/a", UNKNOWN)),
        ({"rawInput": {"path": None}}, ()),
        ({"rawInput": {"edits": [{"path": "a"}, {"file": {"path": "b"}}]}}, ("/p/a", "/p/b")),
        ({"rawInput": {"changes": {"/a": {"update": {"move_path": "/b"}}}}}, ("/a", "/b")),
        ({"rawInput": {"source": "a", "destination": "b"}}, ("/p/a", "/p/b")),
        ({"rawInput": {"pattern": "x", "text": "/etc/passwd"}}, ()),
        ({"rawInput": "path"}, ()),
        ({"locations": {"path": "/a"}, "content": "x"}, ()),
        ({"locations": [{"path": 5}, 7, None]}, (UNKNOWN,)),
        ({}, ()),
    ],
)
def test_every_file_a_call_names_is_known_wherever_it_names_it(call: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert subject(call, cwd="/p", home="/home/me").paths == expected


def test_without_a_home_a_tilde_is_unknown() -> None:
    assert subject({"rawInput": {"path": "~/x"}}, cwd="/p").paths == (UNKNOWN,)


def test_what_is_nested_too_deep_to_be_looked_through_names_a_path_that_cannot_be_told() -> None:
    value: Any = {"path": "/a"}
    for _ in range(50):
        value = {"x": value}
    assert subject({"rawInput": value}).paths == (UNKNOWN,)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"command": " git status\n"}, (("git status",),)),
        ({"cmd": ["git", "commit", "-m", "a; b"]}, (("git commit -m 'a; b'",),)),
        ({"command": ["bash", "-lc", "git status"]}, (("bash -lc 'git status'", "git status"),)),
        ({"command": "git", "args": ["push", "a b"]}, (("git push 'a b'",),)),
        ({"command": "bash", "args": ["-c", "ls"]}, (("bash -c ls", "ls"),)),
        ({"command": "git", "args": "push"}, (("git push",),)),
        ({"command": "x", "args": []}, (("x",),)),
        ({"command": "x", "args": [5]}, ((),)),
        ({"command": 5}, ((),)),
        ({"command": []}, ((),)),
        ({"command": {"a": 1}}, ((),)),
        ({"command": None}, ()),
        ({"steps": [{"cmd": "a"}, {"cmd": "b"}]}, (("a",), ("b",))),
        ({"text": "rm x"}, ()),
        ({"command": "make", "env": {"A": "b c"}}, (("A='b c' make",),)),
        ({"command": ["sh", "-c", "x"], "env": [{"name": "A", "value": "b"}]}, (("A=b sh -c x", "A=b x"),)),
        ({"command": "make", "env": []}, (("make",),)),
        ({"command": "make", "env": "A=b"}, ((),)),
        ({"command": "make", "env": {"A": 5}}, ((),)),
        ({"command": "make", "env": [5]}, ((),)),
    ],
)
def test_a_command_is_known_as_text_and_as_words(given: object, expected: tuple[tuple[str, ...], ...]) -> None:
    assert subject({"rawInput": given}).commands == expected


def test_a_command_for_people_is_what_runs() -> None:
    assert subject({"rawInput": {"command": ["bash", "-lc", "ls"]}}).command == "bash -lc ls"
    assert subject({"rawInput": {"command": 5}}).command == subject({}).command == ""


def test_where_a_command_is_run_is_no_file_it_names() -> None:
    about = subject(
        {"rawInput": {"command": "ls", "cwd": "sub", "steps": [{"workdir": "/x/../y"}, {"cwd": 5}]}}, cwd="/p"
    )
    assert (about.directories, about.paths) == (("/p/sub", "/y", UNKNOWN), ())


def test_kind_tool_title_and_addresses_are_taken_as_they_are() -> None:
    call = {"kind": "fetch", "name": "Web", "title": "Fetch x", "rawInput": {"url": "https://x", "urls": ["https://y"]}}
    about = subject(call)
    assert (about.kind, about.tool, about.title, about.addresses) == (
        "fetch",
        "Web",
        "Fetch x",
        ("https://x", "https://y"),
    )
    assert subject({"kind": 5, "name": [], "title": None}).kind == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["path", "command", "args", "uri", "changes", "x"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["kind", "name", "title", "locations", "content", "rawInput"]), JSON))
def test_no_call_is_too_strange(call: dict[str, Any]) -> None:
    about = subject(call, cwd="/p")
    assert all(path == UNKNOWN or (path.startswith("/") and "/../" not in f"{path}/") for path in about.paths)
    assert all(isinstance(reading, str) for readings in about.commands for reading in readings)
