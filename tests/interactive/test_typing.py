"""History, search and completion on a real terminal."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interactive.screen import STATUS, Terminal, driver, framed

ENTER, ESCAPE, CTRL_C, CTRL_R, UP, DOWN, TAB = "\r", "\x1b", "\x03", "\x12", "\x1b[A", "\x1b[B", "\t"
SHORT = ("/plan topic  Think first", "/probe       Look around")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / "src" / "deep").mkdir(parents=True)
    (project / "src" / "main.py").touch()
    (project / "with blank.txt").touch()
    return project


@pytest.fixture
def terminal(tmp_path: Path, project: Path) -> Iterator[Terminal]:
    with driver("story", str(tmp_path / "history"), cwd=project) as terminal:
        terminal.until(STATUS)
        yield terminal


def test_what_was_entered_is_there_in_the_next_run(tmp_path: Path) -> None:
    history = tmp_path / "state" / "history"
    for _ in range(2):
        with driver("story", str(history)) as terminal:
            terminal.until(STATUS)
            terminal.types(f"say one{ENTER}two\n lines{ENTER} say kept to myself{ENTER}")
            terminal.until("submitted 1 lines 19 characters:  say kept")
            terminal.types(UP, until="❯ two\n   lines")
            terminal.types(UP)
            terminal.types(UP, until="❯ say one")
            terminal.types(f"{CTRL_C}quit{ENTER}")
            assert terminal.ends() == 0
    assert history.stat().st_mode & 0o777 == 0o600
    assert history.read_text() == '"say one"\n"two\\n lines"\n"quit"\n' * 2


def test_ctrl_r_finds_what_was_entered(terminal: Terminal) -> None:
    terminal.types(f"say apple{ENTER}say pear{ENTER}", until="said pear")
    terminal.types(f"{CTRL_R}APP", until="I-search backward: APP")
    terminal.until("❯ say apple")
    terminal.types(ENTER)
    terminal.until_gone("I-search")
    terminal.types(ENTER)
    terminal.until_it(lambda: terminal.shown.count("said apple") == 2, "said again")


def test_the_commands_of_the_agent_are_offered_with_their_hints(terminal: Terminal) -> None:
    terminal.types("/p", until="/plan topic  Think first")
    assert terminal.shown.splitlines() == ["/plan topic  Think first", "/probe       Look around", *framed("/p")]
    terminal.types(TAB, until="❯ /plan")
    terminal.types(ENTER)
    terminal.until_gone("Think first")
    terminal.types(" ")
    terminal.until("❯ /plan topic")  # dim, and not typed
    terminal.types(f"x{ENTER}", until="submitted 1 lines 7 characters: /plan x")


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("columns", "menu"),
    [
        (100, ["/batch <what is to be done to each of the files that are named after it>  Do it to each", *SHORT]),
        (80, ["/batch <what is to be done to each of the files that are named a…  Do it to each", *SHORT]),
        (40, ["/batch <what is to be do…  Do it to each", *SHORT]),
        (30, ["/batch <what i…  Do it to each", *SHORT]),
        (20, ["/batch <what is to …", "/plan topic", "/probe"]),
    ],
)
def test_a_command_with_a_long_hint_takes_no_meaning_from_the_others(
    tmp_path: Path, columns: int, menu: list[str]
) -> None:
    """Claude's first command has a hint of 60 characters."""
    with driver("story", str(tmp_path / "history"), columns=columns) as terminal:
        terminal.until("ready")
        terminal.types("/", until="/probe")
        assert terminal.shown.splitlines()[:3] == menu


def test_our_commands_and_their_values_are_offered(terminal: Terminal) -> None:
    terminal.types(":", until=":mode MODE  how it works")
    terminal.types(f"mode {TAB}", until="careful")
    terminal.types("q")
    terminal.until_gone("careful")
    terminal.types(TAB, until="❯ :mode quick")
    terminal.types(ENTER)
    terminal.types(ENTER, until="submitted 1 lines 11 characters: :mode quick")


def test_the_menu_is_closed_by_escape_and_leaves_no_row_behind(terminal: Terminal) -> None:
    terminal.types("/", until="Look around")
    terminal.types(ESCAPE)
    terminal.until_gone("Look around")
    assert terminal.shown.splitlines() == [*framed("/")]


def test_files_are_offered_after_an_at_sign(terminal: Terminal) -> None:
    terminal.types("look at @s/", until="src/main.py")
    assert terminal.shown.splitlines() == ["src/deep/", "src/main.py", *framed("look at @s/")]
    terminal.types(DOWN)
    terminal.types(DOWN, until="❯ look at @src/main.py")
    terminal.types(f"{ENTER} and @wi", until="with blank.txt")
    terminal.types(f"{TAB}{ENTER}{ENTER}")
    terminal.until('submitted 1 lines 42 characters: look at @src/main.py and @"with blank.txt" ...')
