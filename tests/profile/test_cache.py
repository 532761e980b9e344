"""A profile kept is the profile checked: to the last value and the last column, and only for the very same text."""

import json
import os
import stat
from pathlib import Path

import pytest

from acp_launch.document.yaml import parse
from acp_launch.profile import load as cache
from acp_launch.profile.discover import Found
from acp_launch.profile.load import inspect, load

EVERYTHING = """
version: 1
description: everything a profile can say
agent:
  command: agent
  args: [--flag, "${project}/x"]
  env: {TOKEN: "${secret:token}", PLAIN: 'a b'}
  inherit_env: [PATH, LC_*]
  timeouts: {initialize: 2m, session: 200ms, silence: 1h}
workspace:
  cwd: ${project}
  additional_directories: [../lib]
session: {name: default, mode: plan, config: {model: opus, fast: true}}
permissions:
  default: deny
  rules:
    - allow: {kind: read, path: ["src/**", "${home}/x"]}
    - deny: {command: "rm *", tool: Bash, title: [a, b]}
    - ask: {kind: [edit, "s*"]}
client: {fs: read, terminal: true}
mcp_servers:
  files: {command: server, args: [a], env: {X: y}}
  notes:
    command: server
    cwd: ../notes
    inherit_env: [PATH, AWS_*]
    required: false
    restart: {policy: always, max: 0x0, backoff: {initial: 1s, max: 1m, factor: 1.50}, min_uptime: 1h}
    timeouts: {start: 2m, call: 500ms}
    tools: {allow: ["get_*"], deny: [get_secret]}
  plain: {command: server, inherit_env: all, restart: {backoff: {factor: 3}}}
  theirs: {command: server, bridge: false}
  docs: {type: http, url: "https://x/mcp", headers: {A: "Bearer ${secret:docs}"}}
  old: {type: sse, url: "https://x/sse"}
"""
SMALLEST = "version: 1\nagent: {command: agent}\n"
MINIMAL = "version: 1\nagent: {command: agent, inherit_env: minimal}\nworkspace: {}\nclient: {fs: true}\n"


def found(file: Path) -> Found:
    return Found(file.stem, file, file.parent, "path")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The smallest profile, which the cache has."""
    made = tmp_path / "p.yaml"
    made.write_text(SMALLEST)
    load(found(made), cache=tmp_path / "cache")
    return made


@pytest.mark.parametrize("text", [EVERYTHING, SMALLEST, MINIMAL])
def test_what_is_recalled_equals_what_was_checked(tmp_path: Path, text: str) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(text)
    first = load(found(file), cache=tmp_path / "cache")
    again = load(found(file), cache=tmp_path / "cache")
    assert cache.read_cache(tmp_path / "cache", found(file)) is not None
    assert again.profile == first.profile
    assert repr(again.profile) == repr(first.profile)  # the types too: Duration, Template, tuple


def test_every_place_is_recalled_and_so_is_the_nearest_parent(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(EVERYTHING)
    document, _ = parse(EVERYTHING, str(file))
    assert document is not None
    load(found(file), cache=tmp_path)
    seen = cache.read_cache(tmp_path, found(file))
    assert seen is not None and seen.loaded is not None
    recalled = seen.loaded
    assert recalled.merged == document.root
    paths = [
        *document.positions.table,
        ("agent", "nothing"),
        ("mcp_servers", "gone", "url"),
        ("agent", "args", 9),
        ("x",),
    ]
    for path in paths:
        for key in (False, True):
            for offset in (0, 3):
                expected = document.where(path, key=key, offset=offset)
                assert recalled.positions.where(path, key=key, offset=offset) == expected, (path, key, offset)


def test_another_text_is_checked_anew(file: Path, tmp_path: Path) -> None:
    before = file.stat()
    file.write_text(SMALLEST.replace("agent}", "other}"))  # as long as before
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert load(found(file), cache=tmp_path / "cache").profile.agent.command == "other"


def test_a_profile_with_a_warning_is_not_kept(tmp_path: Path) -> None:
    """So a warning is given every time."""
    file = tmp_path / "p.yaml"
    file.write_text('version: 1\nagent: {command: agent, args: ["${secret:x}"]}\n')
    for _ in range(2):
        assert len(inspect(found(file), cache=tmp_path / "cache")[1]) == 1
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"key":1}', b"\xff", b'{"key":"","stamp":[]}'])
def test_an_entry_that_is_damaged_counts_as_none(file: Path, tmp_path: Path, content: bytes) -> None:
    (entry,) = (tmp_path / "cache" / "profiles").iterdir()
    entry.write_bytes(content)
    assert load(found(file), cache=tmp_path / "cache").profile.agent.command == "agent"


@pytest.mark.parametrize("member", ["parts", "profile", "merged", "places", "leaks"])
def test_an_entry_of_another_shape_counts_as_none(file: Path, tmp_path: Path, member: str) -> None:
    (entry,) = (tmp_path / "cache" / "profiles").iterdir()
    content = json.loads(entry.read_text())
    content["answer"][member] = {"unknown": 1}
    entry.write_text(json.dumps(content))
    assert load(found(file), cache=tmp_path / "cache").profile.agent.command == "agent"


def test_another_version_of_the_code_checks_anew(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_launch.document.cache.JsonCache._stamp", lambda entries: ["another"])
    assert cache.read_cache(tmp_path / "cache", found(file)) is None


def test_a_directory_that_cannot_be_written_is_no_fault(tmp_path: Path) -> None:
    file, blocked = tmp_path / "p.yaml", tmp_path / "blocked"
    file.write_text(SMALLEST)
    blocked.write_text("a file where the directory should be")
    assert load(found(file), cache=blocked).profile.agent.command == "agent"
    assert load(found(file), cache=blocked / "deeper").profile.agent.command == "agent"


def test_entries_are_for_the_user_alone(file: Path, tmp_path: Path) -> None:
    (entry,) = (tmp_path / "cache" / "profiles").iterdir()
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600
    assert stat.S_IMODE(entry.parent.stat().st_mode) == 0o700
