"""The table of keys says what the program does, and a key that lacks a row, or does nothing, is found."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import acp_launch
from acp_launch.bridge.relay import is_carried
from acp_launch.console.plans import as_text, plan_json
from acp_launch.console.trust import parts
from acp_launch.document.shape import shapes_in, takes
from acp_launch.errors import LaunchError
from acp_launch.interop.read import Untranslatable
from acp_launch.interop.tools import EXPORTED
from acp_launch.interop.write import ExportContext, export_entries
from acp_launch.plan.model import LaunchPlan, StdioPlan
from acp_launch.plan.resolve import Resolved, resolve
from acp_launch.plan.shared import share_key, shared_server
from acp_launch.profile.discover import Found
from acp_launch.profile.keys import KEYS, KeyRow, nullable, patterns, row_of
from acp_launch.profile.load import Loaded, load
from acp_launch.profile.model import Container, Match, Ssh, StdioServer
from acp_launch.profile.rules import ANSWERS, broken
from tests.patience import PATIENCE
from tests.test_architecture import nodes

PACKAGE = Path(acp_launch.__file__).parent
Pattern = tuple[str, ...]
BASE = {
    "version": 1,
    "agent": {"command": sys.executable},
    "mcp_servers": {"s": {"command": sys.executable}, "r": {"type": "http", "url": "https://one.example.com/mcp"}},
}
PLAIN: tuple[Any, ...] = (
    "7s",
    True,
    False,
    7,
    2.5,
    "x",
    ["x"],
    {"X": "x"},
    {},
)  # values to try, of those that the key's type takes
SAMPLES: Mapping[str, Any] = {  # where the rules want more than the type
    "agent.command": "/bin/cat",
    "agent.inherit_env": ["TERM"],
    "workspace.cwd": "${project}",
    "workspace.additional_directories": ["${project}/.."],
    "permissions.unattended": "deny",
    **{f"permissions.rules.{answer}.kind": "edit" for answer in ANSWERS},
    "runtime.confined.state": ["~/.other"],
    "runtime.confined.read": ["/usr/share"],
    "runtime.confined.write": ["/var/tmp"],
    "runtime.container.engine": "docker",
    "runtime.container.image": "localhost/other:1",
    "runtime.container.mounts": ["/var/tmp:ro"],
    "runtime.ssh.host": "other",
    "runtime.ssh.directory": "/srv/other",
    "mcp_servers.*.type": "sse",
    "mcp_servers.*.command": "/bin/cat",
    "mcp_servers.*.cwd": "${project}",
    "mcp_servers.*.data": ["/var/tmp"],
    "mcp_servers.*.inherit_env": ["TERM"],
    "mcp_servers.*.url": "https://two.example.com/mcp",
    "mcp_servers.*.oauth.issuer": "https://login.example.com",
    "mcp_servers.*.oauth.client_metadata_url": "https://login.example.com/client",
    "mcp_servers.*.oauth.client_secret": "${secret:client}",
    "mcp_servers.*.oauth.callback_port": 8976,
}
BESIDE: Mapping[str, Any] = {  # what else must be written for the key to be accepted, or to have an effect
    **{f"permissions.rules.{answer}.{key}": {"tool": "z"} for answer in ANSWERS for key in Match.__struct_fields__},
    **{f"runtime.container.{key}": {"image": "localhost/agent:1"} for key in Container.__struct_fields__},
    **{f"runtime.ssh.{key}": {"host": "build1", "directory": "/srv/shop"} for key in Ssh.__struct_fields__},
    "mcp_servers.*.oauth.client_secret": {"client_id": "me"},
    "mcp_servers.*.env_headers": {"env": {"A_B": "x"}},
}
SHAREABLE = {*StdioServer.__struct_fields__} - {"share", "bridge", "type", "session_elevation"}  # with `share: user`
UNTRIED = {"version", "extends", "agent.registry"}  # one value only; another file; an agent that is installed
OWN = {"profile", "console", "interop"}  # packages that read and show every key, whatever it does


def row(path: Pattern) -> KeyRow:
    return row_of(".".join(path))


def leaves() -> dict[Pattern, Any]:
    """Each key without keys below it, with its type."""
    return {path: hint for path, hint in patterns() if not [*shapes_in(hint)]}


def choices(hint: Any) -> Iterator[str]:
    for each in getattr(hint, "__args__", ()):
        yield from [each] if isinstance(each, str) else choices(each)


def candidates(path: Pattern, hint: Any) -> list[Any]:
    if (name := ".".join(path)) in SAMPLES:
        return [SAMPLES[name]]
    return [each for each in (*choices(hint), *PLAIN) if takes(hint, each)]


def written(path: Pattern) -> tuple[dict[str, Any], dict[str, Any], str]:
    """A profile without the key, the mapping in it that the key belongs to, and the key's name there."""
    tree = deepcopy(BASE)
    inner: Any = tree
    is_remote = "*" in path and (path[2] not in StdioServer.__struct_fields__ or path[2] == "type")
    for step in path[:-1]:
        if step == "rules":
            inner = inner.setdefault(step, [{}])[0]
        elif step == "*":  # last, so that the other server stays where it was
            server = inner.pop("r" if is_remote else "s")
            inner["r" if is_remote else "s"] = server
            inner = server
        else:
            inner = inner.setdefault(step, {})
    inner.update(BESIDE.get(".".join(path), {}))
    return tree, inner, path[-1]


def loaded(directory: Path, plain: object) -> Loaded:
    (directory / "p.yaml").write_text(json.dumps(plain))
    return load(Found("p", directory / "p.yaml", directory, "project"))


PLACE = re.compile(r"p\.yaml:\d+(:\d+)?")


def planned(profile: Loaded, directory: Path) -> tuple[LaunchPlan, Resolved]:
    programs = directory.parent / f"{directory.name}-bin"  # outside of the project
    if not programs.exists():
        programs.mkdir()
        for name in ("podman", "docker", "ssh"):
            (programs / name).write_text("#!/bin/sh\n")
            (programs / name).chmod(0o755)
    environ = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(directory), "TERM": "xterm"}
    resolved = resolve(profile, cwd=directory / "elsewhere", environ=environ)
    plan = resolved.plan or resolved.draft
    assert plan is not None, resolved.problems
    return replace(plan, origins={}), resolved


def screens(profile: Loaded, directory: Path) -> dict[str, object]:
    """What the user is shown, without the places of keys, since each key has one."""
    plan, resolved = planned(profile, directory)
    return {
        "plan": PLACE.sub("", as_text(plan, verbose=True)),
        "plan --json": PLACE.sub("", json.dumps(plan_json(plan))),
        "trust": [*map(str, parts(profile.profile, resolved.found, ()))],
    }


def shown(directory: Path, path: Pattern, hint: Any) -> set[str] | None:
    """The screens that tell the key's values apart, three where it has them; None if there is no value to try."""
    tree, inner, key = written(path)
    seen: list[dict[str, object]] = []
    profiles = set[str]()
    for value in (None, *candidates(path, hint)):
        if value is not None:
            inner[key] = value
        try:
            profile = loaded(directory, tree)
            seen.append(screens(profile, directory))
            profiles.add(repr(profile.profile))
        except LaunchError:
            continue
    if len(seen) < 2:
        return None
    wanted = min(3, max(2, len(profiles)))
    return {name for name in seen[0] if len({str(each[name]) for each in seen}) >= wanted}


@cache
def read_names() -> frozenset[str]:
    """Names of attributes, and texts, in the modules that do something with a profile."""
    found: set[str] = set()
    for file in PACKAGE.rglob("*.py"):
        if file.relative_to(PACKAGE).parts[0] in OWN or file == PACKAGE / "plan/model.py":
            continue
        for node in nodes(file):
            if isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return frozenset(found)


def find_faults(directory: Path, names: Collection[str] = ()) -> list[str]:
    """What is wrong with the keys of the profile, or those of these names, and their rows."""
    (directory / "elsewhere").mkdir()
    wanted = {path: hint for path, hint in leaves().items() if not names or path[-1] in names}
    return [f"{'.'.join(path)}: {fault}" for path, hint in wanted.items() for fault in faults_of(directory, path, hint)]


def faults_of(directory: Path, path: Pattern, hint: Any) -> Iterator[str]:
    key = row(path)
    if path[-1] not in read_names():
        yield "nothing reads it"
    if ".".join(path) in UNTRIED:
        return
    if path[0] == "mcp_servers" and path[2] in SHAREABLE and tells_servers_apart(directory, path) != key.is_compared:
        yield f"launches {'share a server whatever it is' if key.is_compared else 'do not share a server'}"
    found = shown(directory, path, hint)
    if found is None:
        yield "no value of it was accepted; add one to SAMPLES"
        return
    expected = {"plan": key.is_planned, "plan --json": key.is_planned, "trust": key.is_trusted}
    for name, is_expected in expected.items():
        if (name in found) != is_expected:
            yield f"{name} {'does not show' if is_expected else 'shows'} it"


def test_each_key_has_a_row_and_a_reader_and_is_shown_as_its_row_says(tmp_path: Path) -> None:
    assert find_faults(tmp_path) == []


def test_each_row_is_of_a_key_and_its_words_are_of_those_below_it() -> None:
    known = {".".join(path) for path, _ in patterns()}
    assert {*KEYS, *(f"{name}.{below}" for name, row in KEYS.items() for below in row.worded)} <= known


DECLARED = {  # in which class of the model each is declared that nothing else knows of, and where users would write it
    "umask_of_all": ("Workspace(Shape", "workspace"),
    "umask_of_servers": ("StdioOptions(Server", "mcp_servers.*"),
    "umask_of_logins": ("LoginOptions(Shape", "mcp_servers.*.oauth"),
    "umask_of_time": ("Timeouts(Shape", "agent.timeouts"),
    "umask_of_rules": ("Match(Shape", *(f"permissions.rules.{answer}" for answer in ANSWERS)),
    "umask_of_references": ("StdioServer(StdioOptions", "mcp_servers.*"),  # which a plan has to name
}


def test_a_key_that_does_nothing_is_found_and_shown_all_the_same(tmp_path: Path) -> None:
    """On a copy of the package in which keys are declared and nothing else is done."""
    shutil.copytree(PACKAGE, tmp_path / "acp_launch", ignore=shutil.ignore_patterns("__pycache__"))
    model = tmp_path / "acp_launch/profile/model.py"
    text = model.read_text()
    for key, (name, *_) in DECLARED.items():
        opening = f"class {name}, frozen=True, kw_only=True):\n"
        assert text.count(opening) == 1
        field = "Duration = Duration(22)" if key == "umask_of_time" else 'str = "022"'
        text = text.replace(opening, f"{opening}    {key}: {field}\n")
    model.write_text(text)
    code = (
        f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(PACKAGE.parent)!r}]\n"
        "from pathlib import Path\nfrom tests.profile import test_keys\n"
        f"assert test_keys.PACKAGE == Path({str(tmp_path / 'acp_launch')!r})\n"
        f"print(*test_keys.find_faults(Path({str(tmp_path)!r}), {{*test_keys.DECLARED}}), sep='\\n')"
    )
    words, environ = [sys.executable, "-c", code], {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 0, ended.stderr
    reference = "mcp_servers.*.umask_of_references"
    assert {*ended.stdout.splitlines()} == {
        *(f"{above}.{key}: nothing reads it" for key, (_, *places) in DECLARED.items() for above in places),
        f"{reference}: plan does not show it",
        f"{reference}: plan --json does not show it",
        f"{reference}: launches share a server whatever it is",
    }


def server_rows() -> list[str]:
    return [name for name in KEYS if name.startswith("mcp_servers.*.") and name.count(".") == 2]


def variants(directory: Path, name: str, **beside: str) -> Iterator[tuple[Pattern, Loaded, Loaded]]:
    """The profile without a key of a server, and with each of its values, and of those of the keys in it."""
    (directory / "elsewhere").mkdir(exist_ok=True)
    for path, hint in leaves().items():
        if f"{'.'.join(path)}.".startswith(f"{name}."):
            tree, inner, key = written(path)
            tree["mcp_servers"]["s"].update(beside)
            before = loaded(directory, tree)
            for value in candidates(path, hint):
                inner[key] = value
                with suppress(LaunchError):
                    yield path, before, loaded(directory, tree)


@pytest.mark.parametrize("name", server_rows())
def test_an_export_tells_what_it_leaves_out_and_writes_the_rest(tmp_path: Path, name: str) -> None:
    around, key = ExportContext("/project", "/home/me", "work", "/usr/bin/python3"), name.rpartition(".")[2]
    is_told = is_written = False
    for _, before, after in variants(tmp_path, name):
        for tool in EXPORTED.values():
            try:
                first, second = (export_entries(each.profile, tool, around) for each in (before, after))
            except Untranslatable:
                continue
            is_told |= any(key in note and "only acp-launch does that" in note for note in second.notes)
            is_written |= first.servers != second.servers
    assert (is_told, is_written) == (KEYS[name].is_ours, not KEYS[name].is_ours)


@pytest.mark.parametrize("name", server_rows())
def test_a_reload_keeps_conversations_as_the_row_says(tmp_path: Path, name: str) -> None:
    seen = set()
    for _, *pair in variants(tmp_path, name):
        before, now = (planned(each, tmp_path)[0] for each in pair)
        for old, new in zip(before.servers, now.servers, strict=True):
            if old != new:
                seen.add(is_carried(old, new))
    assert seen == {KEYS[name].is_carried}


def tells_servers_apart(directory: Path, path: Pattern) -> bool:
    """Whether launches with another value of the key have another server."""
    return any(
        share_key(first) != share_key(second)
        for _, *pair in variants(directory, ".".join(path), share="user")
        for first, second in [[shared_server(server_of(each, directory), {}, [directory]) for each in pair]]
    )


def server_of(profile: Loaded, directory: Path) -> StdioPlan:
    found = next(each for each in planned(profile, directory)[0].servers if each.name == "s")
    assert isinstance(found, StdioPlan)
    return found


@pytest.mark.parametrize("name", server_rows())
def test_a_key_without_effect_for_a_server_of_the_agent_is_reported(name: str) -> None:
    key = name.rpartition(".")[2]
    path, hint = next((path, hint) for path, hint in patterns() if ".".join(path) == name)
    value: Any = next(iter(candidates(path, hint)), {})
    faults = broken({"mcp_servers": {"s": {"command": "x", "bridge": False, key: value}}})
    assert any("(bridge: false)" in fault.message for fault in faults) == KEYS[name].is_idle


def test_null_is_a_value_where_the_type_has_it() -> None:
    expected = {"agent.command", "runtime.confined", "mcp_servers.*.restart.max", "mcp_servers.*.oauth.issuer"}
    assert {tuple(name.split(".")) for name in expected} <= nullable()
    assert not {("agent",), ("agent", "args"), ("session", "config"), ("mcp_servers", "*", "url")} & nullable()
