"""The verbs of `agents`, and profiles that start what they have installed."""

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.launcher import AGENTS, DEMO_SERVER, ROOT, Launcher
from tests.cli.serving import serving
from tests.cli.terminal import on_terminal, yes_or_no
from tests.confined import needs_box
from tests.registry.published import PROGRAM, Web, binary, entry, written
from tests.registry.published import serving as publishing

NPX = {"package": "@scope/npx-agent@1.0.0", "args": [], "env": {"FROM_INDEX": "1"}}
UVX = {"package": "uvx-agent==2.0.0"}


@pytest.fixture
def web() -> Iterator[Web]:
    with publishing() as web:
        yield web


@pytest.fixture
def agents(launch: Launcher, web: Web) -> Launcher:
    """A project, and the index of the server."""
    launch.env["ACP_LAUNCH_REGISTRY"] = web.address
    content = PROGRAM.encode()
    web.index(
        entry("npx-agent", npx=NPX),
        entry("uvx-agent", "2.0.0", uvx=UVX),
        entry("an-agent", binary=binary(web.put("/agent", content), content, env={"FROM_INDEX": "1"})),
        entry("unverified", binary=binary(web.put("/other", content), None)),
    )
    return launch


def answer(launch: Launcher, *words: str) -> Any:
    done = launch("agents", *words, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_an_agent_is_installed_and_a_profile_starts_it(agents: Launcher, web: Web) -> None:
    agents.write({"agent": {"registry": "an-agent"}})
    before = agents("run", "p", "hello")
    assert (before.code, before.out) == (3, b"")
    assert "agent.registry: the registry's agent an-agent is not installed" in before.err
    assert "fix: acp-launch agents install an-agent" in before.err
    assert agents("agents", "install", "an-agent").code == 0
    asked = len(web.asked)
    done = agents("run", "p", "hello", "--output", "json")
    assert done.code == 0, done.err
    assert done.events[-1]["type"] == "result"
    assert len(web.asked) == asked, "nothing but the verbs of agents asks the registry"


def test_a_package_is_shown_as_a_profile_starts_it(agents: Launcher) -> None:
    npx = '{"command": "npx", "args": ["-y", "@scope/npx-agent@1.0.0"], "env": {"FROM_INDEX": "1"}}'
    for agent, line in (
        ("npx-agent", f"agent: {npx}"),
        ("uvx-agent", 'agent: {"command": "uvx", "args": ["uvx-agent@2.0.0"]}'),
    ):
        assert f"profile:   {line}\n" in agents("agents", "show", agent).out.decode()
        done = agents("agents", "install", agent)
        assert (done.code, f"{agent} needs no installation\n" in done.err) == (3, True)
        assert f"fix: write into the profile: {line}\n" in done.err
        agents.write({"agent": {"registry": agent}})
        assert f"fix: write instead: {line}" in agents("plan", "p").err
        (agents.project / ".acp-launch" / "p.yaml").write_text(f"version: 1\n{line}\n")
        assert agents("validate", "p").err == ""


def test_search_show_and_list_tell_what_there_is(agents: Launcher, web: Web) -> None:
    """Without the network those of the copy, whose age is said."""
    found = answer(agents, "search")
    assert [each["id"] for each in found["agents"]] == ["an-agent", "npx-agent", "unverified", "uvx-agent"]
    assert found["index"]["fault"] is None
    assert [each["id"] for each in answer(agents, "search", "NPX", "about")["agents"]] == ["npx-agent"]
    nothing = agents("agents", "search", "no-such-word")
    assert (nothing.code, nothing.out) == (0, b"")
    shown = answer(agents, "show", "npx-agent")
    assert shown["distribution"]["npx"] == {**NPX, "env": ["FROM_INDEX"]}
    assert "npx:       @scope/npx-agent@1.0.0" in agents("agents", "show", "npx-agent").out.decode()
    assert answer(agents, "list")["agents"] == []
    made = answer(agents, "install", "an-agent")
    assert (made["is_new"], made["integrity"][:7], made["kind"]) == (True, "sha256:", "binary")
    assert answer(agents, "install", "an-agent")["is_new"] is False
    (listed,) = answer(agents, "list")["agents"]
    assert listed == {**{key: value for key, value in made.items() if key != "is_new"}, "newest": "1.0.0"}
    web.files.pop("/registry.json")
    done = agents("agents", "search")
    (row,) = [line for line in done.out.decode().splitlines() if line.startswith("an-agent")]
    assert (done.code, row.split()) == (0, ["an-agent", "1.0.0", "1.0.0", "binary", "About", "an-agent"])
    assert "answered 404; this is the copy of just now" in done.err
    agents.write({"agent": {"registry": "npx-agnt"}})
    refused = agents("run", "p", "hello")
    assert (refused.code, "fix: write npx-agent" in refused.err) == (3, True)
    done = agents("agents", "search", ACP_LAUNCH_REGISTRY=f"{web.url}/other.json")
    assert (done.code, "acp-launch config set registry ADDRESS" in done.err) == (3, True)


def test_the_plan_and_the_trust_screen_name_the_version(agents: Launcher) -> None:
    agents.write({"agent": {"registry": "an-agent", "args": ["--more"], "env": {"OWN": "1"}}})
    unready = agents("trust", "p", "--yes")
    assert "agent        the registry's agent an-agent, with: --more" in unready.err
    assert "not installed" in unready.err
    assert agents("trust", "p", "--revoke").code == 0
    answer(agents, "install", "an-agent")
    plan = json.loads(agents("plan", "p", "--json").out)["agent"]
    program = str(agents.state / "agents/an-agent/1.0.0/files/agent")
    assert (plan["registry"], plan["command"], plan["args"]) == ("an-agent@1.0.0", program, ["--more"])
    assert plan["env"]["FROM_INDEX"]["origin"] == "registry an-agent@1.0.0"
    assert "  registry   an-agent@1.0.0  " in agents("plan", "p").out.decode()
    asked = agents("trust", "p", "--yes").err
    assert f"agent        {program} --more" in asked
    assert "an-agent of the registry, the newest version installed: 1.0.0 (binary " in asked
    assert 'sets FROM_INDEX: "1"' in asked
    agents.write({"agent": {"registry": "an-agent@1.0.0", "args": ["--more"], "env": {"OWN": "1"}}})
    assert '+ agent.registry: "an-agent@1.0.0"' in agents("trust", "p", "--yes").err


def test_a_newer_version_is_installed_beside_the_one_before(agents: Launcher, web: Web) -> None:
    answer(agents, "install", "an-agent")
    content = PROGRAM.encode()
    web.index(entry("an-agent", "1.1.0", binary=binary(web.put("/agent", content), content)))
    assert answer(agents, "install", "an-agent")["version"] == "1.1.0"
    for wanted, version in (("an-agent", "1.1.0"), ("an-agent@1.0.0", "1.0.0")):
        agents.write({"agent": {"registry": wanted}})
        assert json.loads(agents("plan", "p", "--json").out)["agent"]["registry"] == f"an-agent@{version}"
    assert agents("agents", "rm", "an-agent@1.0.0", "--yes").err == "acp-launch: removed an-agent@1.0.0\n"
    gone = agents("run", "p", "hello")
    assert (gone.code, "an-agent@1.0.0 is not installed; installed: 1.1.0" in gone.err) == (3, True)
    assert agents("agents", "rm", "an-agent").code == 0
    assert answer(agents, "list")["agents"] == []
    assert agents("agents", "rm", "an-agent").code == 3


def test_a_version_that_a_profile_names_is_removed_only_by_a_yes(agents: Launcher) -> None:
    answer(agents, "install", "an-agent")
    agents.write({"agent": {"registry": "an-agent"}})
    alone = agents("agents", "rm", "an-agent@1.0.0")
    assert (alone.code, alone.err) == (
        2,
        "acp-launch: profile p starts an-agent\n"
        "acp-launch: there is no terminal to ask on; nothing was removed\n"
        "    fix: --yes removes it anyway\n",
    )
    for key, code, left in (("n", 2, 1), ("y", 0, 0)):
        with on_terminal("agents", "rm", "an-agent", cwd=agents.project, env=agents.env) as terminal:
            terminal.until(yes_or_no("Remove it?"))
            terminal.types(key)
            assert terminal.ends() == code
        assert len(answer(agents, "list")["agents"]) == left


def test_what_cannot_be_installed_says_why_and_leaves_nothing(agents: Launcher, web: Web) -> None:
    unverified = agents("agents", "install", "unverified")
    assert (unverified.code, "has no sha256 of unverified" in unverified.err) == (3, True)
    assert "fix: acp-launch agents install unverified --allow-unverified" in unverified.err
    unknown = agents("agents", "install", "npx-agnt")
    assert (unknown.code, 'did you mean "npx-agent"?' in unknown.err) == (3, True)
    assert agents("agents", "install", "Bad/Id").code == 2
    assert answer(agents, "list")["agents"] == []
    assert answer(agents, "install", "unverified", "--allow-unverified")["integrity"] == ""
    assert "(not verified)" in agents("agents", "list").out.decode()


def test_a_wrong_reference_is_a_problem_of_the_profile(launch: Launcher) -> None:
    agent: Any
    for agent, said in (
        ({"registry": "x", "command": "y"}, "an agent has a command, or an id in the registry, not both"),
        ({"registry": "Not An Id"}, "expected an agent of the registry, as ID or ID@VERSION"),
        ({"registry": None}, "agent.registry: this key is required"),
    ):
        launch.write({"agent": agent})
        done = launch("validate", "p")
        assert (done.code, said in done.err) == (2, True), done.err


def test_a_profile_may_replace_the_command_of_another_by_the_registry(agents: Launcher) -> None:
    agents.write({"agent": {"command": "no-such-program", "args": ["a"]}}, name="base")
    agents.write({"extends": "base", "agent": {"command": None, "registry": "an-agent"}})
    answer(agents, "install", "an-agent")
    plan = json.loads(agents("plan", "p", "--json").out)["agent"]
    assert (plan["registry"], plan["args"]) == ("an-agent@1.0.0", ["a"])


def publish(web: Web, temper: str, *words: str, **more: Any) -> None:
    """An index whose only agent is one of tests/agents."""
    program = shlex.join([sys.executable, "-I", "-S", str(AGENTS / f"{temper}.py"), *words])
    content = f'#!/bin/sh\nexec {program} "$@"\n'.encode()
    web.index(entry("an-agent", binary=binary(web.put("/agent", content), content, **more)))


def test_what_the_index_says_of_an_agent_is_text_and_no_reference(agents: Launcher, web: Web) -> None:
    """Its publisher cannot ask for a secret of the user; the profile gives it one."""
    publish(web, "spy", env={"OF_INDEX": "${secret:bank}", "OF_USER": "of the index"})
    answer(agents, "install", "an-agent")
    agents.write({"agent": {"registry": "an-agent", "env": {"OF_USER": "${secret:mine}"}}})
    for variable in ("BANK", "MINE"):
        agents.env[f"ACP_LAUNCH_SECRET_{variable}"] = f"canary-{variable}-5d1c"
    done = agents("run", "p", "[os.environ['OF_INDEX'], len(os.environ['OF_USER'])]\nstr(sorted(os.environ))")
    given, names = map(json.loads, done.out.splitlines())
    assert given == ["${secret:bank}", len("canary-MINE-5d1c")]
    assert "ACP_LAUNCH_SECRET" not in names
    assert json.loads(agents("secret", "check", "p", "--json").out)["secrets"][0]["name"] == "mine"


def test_a_confined_agent_of_the_registry_sees_its_program_and_its_seat_alone(agents: Launcher, web: Web) -> None:
    needs_box()
    publish(web, "spy")
    for version in ("1.0.0", "2.0.0"):
        (agents.state / "agents" / "other" / version).mkdir(parents=True)
    answer(agents, "install", "an-agent")
    confined = {"confined": {"read": [str(ROOT)]}}
    agents.write({"agent": {"registry": "an-agent"}, "runtime": confined, "mcp_servers": {"sums": DEMO_SERVER}})
    place = agents.state / "agents" / "an-agent" / "1.0.0"
    program, manifest = str(place / "files" / "agent"), (place / "install.json").read_bytes()
    done = agents(
        *("run", "p"),
        f"[each for each in tree({str(agents.state)!r}) if os.path.isfile(each)]\n"
        f"[write({program!r}), write({program + '-2'!r}), write({str(place / 'install.json')!r})]\n"
        "call('sums', 'add', a=2, b=3)",
    )
    assert done.code == 0, done.err
    seen, wrote, summed = map(json.loads, done.out.splitlines())
    assert seen == [program]
    assert wrote[:2] == ["Read-only file system"] * 2
    assert "'text': '5'" in summed
    assert (place / "install.json").read_bytes() == manifest


def test_an_agent_of_the_registry_is_served_to_an_editor(agents: Launcher, web: Web) -> None:
    publish(web, "spy")
    agents.write({"agent": {"registry": "an-agent"}})
    with serving(agents) as editor:
        assert "fix: acp-launch agents install an-agent" in editor.refused()
        assert editor.end() == 3
    answer(agents, "install", "an-agent")
    with serving(agents) as editor:
        editor.begin()
        editor.prompt(editor.open(), "sys.argv[0]")
        assert json.loads(editor.said()) == str(AGENTS / "spy.py")


def test_a_login_starts_the_agent_that_is_installed(agents: Launcher, web: Web) -> None:
    account = agents.project / "account"
    publish(web, "login", str(account), "agent")
    agents.write({"agent": {"registry": "an-agent"}})
    missing = agents("login", "p")
    assert (missing.code, "fix: acp-launch agents install an-agent" in missing.err) == (3, True)
    answer(agents, "install", "an-agent")
    done = agents("login", "p")
    assert (done.code, account.exists()) == (0, True), done.err


def test_an_installation_in_the_project_is_not_used(agents: Launcher) -> None:
    agents.env["ACP_LAUNCH_STATE_DIR"] = str(agents.project / "state")
    answer(agents, "install", "an-agent")
    agents.write({"agent": {"registry": "an-agent"}})
    done = agents("plan", "p")
    assert (done.code, "lies in the project, so the agents in it cannot be trusted" in done.err) == (3, True)


def test_the_index_is_at_an_https_address_or_in_a_file_that_the_settings_choose(
    launch: Launcher, tmp_path: Path
) -> None:
    for registry, said in (
        ("http://example.com/index.json", "others on the way could choose what is installed"),
        ("index.json", "expected an https address or the full path of a file"),
        ("ftp://example.com/x", "expected an address that begins with https://"),
    ):
        done = launch("agents", "search", ACP_LAUNCH_REGISTRY=registry)
        assert (done.code, said in done.err) == (2, True), done.err
    file = tmp_path / "index.json"
    file.write_bytes(written(entry("local", npx=NPX)))
    assert launch("config", "set", "registry", str(file)).code == 0
    assert [each["id"] for each in answer(launch, "search")["agents"]] == ["local"]
