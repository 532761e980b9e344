"""Ring 3. What an agent sends by mistake, or on purpose, ends no session: every prompt is answered."""

import json
import sys
from functools import partial
from pathlib import Path

from tests.cli.launcher import AGENTS
from tests.cli.test_run_interactive import CTRL_D, ENTER, leaves, sitting
from tests.interactive.screen import Terminal, on_screen

ANSWERS = {
    "half": "party \U0001f389 done",
    "status": "told",
    "deep 900": "told",
    "deep 3000": "told",
    "deep 50000": "told",
    "question 900": "{'outcome': 'selected', 'optionId': 'a'}",
    "option": "came back",
    "none": "{'outcome': 'cancelled'}",
    "file": "-32002",
    "terminal": "-32002",
    "method": "-32601",
}


def torn(directory: Path, **sections: object) -> str:
    """The path of a profile of it."""
    profile = directory / "torn.yaml"
    command = {"command": sys.executable, "args": ["-I", "-S", str(AGENTS / "torn.py")]}
    profile.write_text(json.dumps({"version": 1, "agent": command, **sections}))
    return str(profile)


def is_in(text: str, terminal: Terminal) -> bool:
    return text in "".join(terminal.all)


def test_a_session_goes_on_after_each_of_them(tmp_path: Path) -> None:
    sections = {"client": {"fs": True, "terminal": True}, "permissions": {"default": "allow"}}
    with sitting("--trust", torn(tmp_path, **sections), cwd=tmp_path) as terminal:
        for prompt, answer in ANSWERS.items():
            terminal.until("ready ·")
            terminal.types(prompt + ENTER)
            shown = partial(is_in, answer, terminal)
            terminal.until_it(shown, answer)
        terminal.until("ready ·")
        leaves(terminal)


def test_an_agent_cannot_drive_the_terminal_of_who_sits_before_a_pipe(tmp_path: Path) -> None:
    line = f'"{sys.executable}" -m acp_launch run --trust "{torn(tmp_path)}" | cat'
    with on_screen("sh", "-c", line, cwd=tmp_path) as terminal:
        terminal.until(">")
        terminal.types(f"escape{ENTER}")
        terminal.until(r"A\x1b]0;PWN\x07B")
        assert b"\x1b]0;PWN" not in terminal.raw
        terminal.types(CTRL_D)
        assert terminal.ends() == 0


def test_a_name_with_a_nul_is_no_place_to_export_to(tmp_path: Path) -> None:
    with sitting(cwd=tmp_path) as terminal:
        terminal.until("❯")
        terminal.pastes(":export a\x00b")
        terminal.types(ENTER)
        terminal.until("cannot contain a NUL character")
        leaves(terminal)
