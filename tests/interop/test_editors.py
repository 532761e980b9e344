"""The command by which an editor runs a profile: as each editor writes it, and recognised when it comes back."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from acp_launch.interop.drafts import collect_drafts
from acp_launch.interop.formats import parse
from acp_launch.interop.tools import PRINTED, TOOLS, served_profile
from acp_launch.interop.write import compare, export_whole, insert_entries, standalone_text
from tests.patience import PATIENCE

COMMAND = ["/opt/my tools/acp-launch", "serve", "review"]
ODD = "/a'b\\c\"d\u202e\n${x}/p.yaml"


def text(tool: str, profile: str = "review") -> str:
    known = TOOLS | PRINTED
    return standalone_text(export_whole("review", known[tool], ["/opt/acp-launch", "serve", profile]), known[tool])


@pytest.mark.parametrize(
    ("tool", "entry"),
    [
        ("zed", {"type": "custom", "command": COMMAND[0], "args": COMMAND[1:], "env": {}}),
        ("jetbrains", {"command": COMMAND[0], "args": COMMAND[1:], "env": {}}),
        ("acpx", {"argv": COMMAND}),
    ],
)
def test_an_editor_gets_one_agent_and_neither_server_nor_secret(tool: str, entry: dict[str, Any]) -> None:
    found = export_whole("review", TOOLS[tool], COMMAND)
    assert found.agents == {"review": entry}
    assert (found.servers, found.variables, found.inputs, found.notes) == ({}, {}, {}, ())


@pytest.mark.parametrize("tool", ["zed", "jetbrains", "acpx"])
def test_what_was_exported_is_not_taken_for_another_agent(tool: str) -> None:
    found = export_whole("review", TOOLS[tool], COMMAND)
    root = parse(insert_entries(None, TOOLS[tool], compare(found, TOOLS[tool], {}), {}))[0]
    (draft,) = collect_drafts([(TOOLS[tool], root)], "/project").drafts
    assert (draft.kind, draft.unfit) == ("agent", "it is acp-launch itself, which runs the profile review")


@pytest.mark.parametrize(
    ("words", "profile"),
    [
        (COMMAND, "review"),
        (["acp-launch", "serve", "--cwd", "/p", "--trace", "t", "--trust", "a"], "a"),
        (["/usr/bin/python3", "-P", "-m", "acp_launch", "serve", "/p/.acp-launch/a b.yaml"], "/p/.acp-launch/a b.yaml"),
        (["C:\\Tools\\acp-launch.exe", "serve", "a"], "a"),
        (["env", "A=b", "uvx", "acp-launch", "serve", "a"], "a"),
        (["/my tools/acp-launch serve a"], "a"),
        (["acp-launch", "serve"], ""),
        (["acp-launch", "run", "a"], None),
        (["other-agent", "serve", "a"], None),
        (["serve", "a"], None),
        ([], None),
    ],
)
def test_a_command_of_ours_is_known_however_it_is_started(words: list[str], profile: str | None) -> None:
    assert served_profile(words) == profile


def direct(tool: str) -> str:
    """The export of an agent that has a variable."""
    agents = {"review": {"command": "agent", "args": ["--acp"], "env": {"A": 'b "c'}}}
    return standalone_text(replace(export_whole("review", PRINTED[tool], ["x"]), agents=agents), PRINTED[tool])


def test_toad_gets_a_line_for_the_shell_that_names_the_agent() -> None:
    assert text("toad") == "toad acp --title review '/opt/acp-launch serve review' .\n"
    assert all(mark.isprintable() or mark == "\n" for mark in text("toad", ODD))
    plain = "/a'b\\c\"d${x} /p.yaml"
    toad, acp, option, name, command, here = shlex.split(text("toad", plain))
    assert (toad, acp, option, name, here) == ("toad", "acp", "--title", "review", ".")
    assert shlex.split(command) == ["/opt/acp-launch", "serve", plain]


SHELLS = [shell for shell in ("sh", "bash", "dash", "zsh", "ksh") if shutil.which(shell)]
HOSTILE = [
    "$(touch made)`touch made`",
    "a'b\"c;d&e|f#g",
    "-x ~ * ?[a] !1 {a,b} \\",
    "\u202ea\nb\x1b[31m\r\n\ta \xa0\x7f\n",
]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("odd", HOSTILE)
def test_each_posix_shell_reads_the_line_for_toad_as_text(shell: str, odd: str, tmp_path: Path) -> None:
    """A repository chooses the names of a profile and its file. Toad gives its fourth word to a shell again."""
    line = standalone_text(export_whole(odd, PRINTED["toad"], ["/opt/acp-launch", "serve", odd]), PRINTED["toad"])
    assert all(mark.isprintable() or mark == "\n" for mark in line)
    print_words = "for word do printf '%s\\0' \"$word\"; done\n"
    (tmp_path / "toad").write_text(f"#!/bin/sh\n{print_words}eval 'set --' \"$4\"\n{print_words}")
    (tmp_path / "toad").chmod(0o755)
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "LC_ALL": "C"}
    ran = subprocess.run([shell], input=line.encode(), cwd=tmp_path, env=environ, capture_output=True, timeout=PATIENCE)
    given = ran.stdout.decode().split("\0")
    assert (given[:3], given[4:-1]) == (["acp", "--title", odd], [".", "/opt/acp-launch", "serve", odd]), ran
    assert [file.name for file in tmp_path.iterdir()] == ["toad"]


def test_neovim_gets_lua_for_its_three_plugins() -> None:
    lua = text("neovim")
    assert lua.startswith("-- CodeCompanion\n")
    assert 'commands = { default = { "/opt/acp-launch", "serve", "review" } }' in lua
    entry = 'command = "/opt/acp-launch", args = { "serve", "review" }, env = vim.fn.environ() },\n'
    assert '-- avante.nvim\nrequire("avante").setup({\n  provider = "review",\n' in lua
    assert f'["review"] = {{ {entry}' in lua
    assert f'["review"] = {{ name = "review", {entry}' in lua.partition("-- agentic.nvim\n")[2]
    assert '"/a\'b\\\\c\\"d\\u{202e}\\n${x}/p.yaml"' in text("neovim", ODD)


def test_codecompanion_sends_no_login_of_its_own_and_waits_for_the_servers_of_a_profile() -> None:
    """Its preset for goose has no `auth` handler, so it sent `authenticate` to every agent, and gave a start 20 s."""
    lua = text("neovim")
    assert '.extend("opencode", {' in lua
    assert "defaults = { timeout = 120000 }" in lua


def test_a_plugin_that_starts_agents_with_path_alone_passes_the_environment_of_neovim_on() -> None:
    """Its names are not written down, so that a profile may read further variables later; values never are."""
    env = '{ ["A"] = "b \\"c" }'
    assert direct("neovim").count(f'env = vim.tbl_extend("force", vim.fn.environ(), {env}) }},') == 2
    assert f"env = {env},\n" in direct("neovim")


def test_emacs_gets_lisp_for_agent_shell() -> None:
    lisp = text("emacs")
    assert ':command "/opt/acp-launch"\n' in lisp
    assert ':command-params \'("serve" "review")\n' in lisp
    assert ":environment-variables '()\n" in lisp
    assert ':environment-variables \'("A=b \\"c")\n' in direct("emacs")
    assert '"/a\'b\\\\c\\"d\\U0000202e\\n${x}/p.yaml"' in text("emacs", ODD)


def test_a_variable_of_the_agent_goes_to_toad_before_its_command() -> None:
    assert shlex.split(shlex.split(direct("toad"))[4]) == ["env", 'A=b "c', "agent", "--acp"]
