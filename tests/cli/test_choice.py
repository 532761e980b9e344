"""`run` without a profile, `--continue`, and `session` without a verb."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from tests.cli.launcher import Launcher, command, names
from tests.cli.terminal import on_terminal, yes_or_no
from tests.interactive.screen import Terminal, on_screen

UP, DOWN, ESCAPE, ENTER = "\x1b[A", "\x1b[B", "\x1b", "\r"
KEYS = "type to filter"


@contextmanager
def choosing(launch: Launcher, *arguments: str, **env: str) -> Iterator[Terminal]:
    """acp-launch on a terminal once it shows a list."""
    with on_screen(*command(*arguments), cwd=launch.project, env={**launch.env, **env}) as terminal:
        terminal.until(KEYS)
        yield terminal


def described(launch: Launcher, **profiles: str) -> None:
    for name, description in profiles.items():
        launch.profile("polite", name=name, **{"description": description})  # type: ignore[arg-type]


def heard_in(launch: Launcher) -> Mapping[str, str]:
    """The sessions by the profile, the title of each."""
    records = json.loads(launch("session", "list", "--json").out)["sessions"]
    return {record["profile"]: record["title"] for record in records}


def test_the_only_profile_of_a_project_is_run_and_named(launch: Launcher) -> None:
    described(launch, only="The only one")
    done = launch("run", stdin=b"hi")
    assert (done.code, done.out) == (0, b"You said: hi\n")
    assert done.err == "acp-launch: running only, the only profile of this project\n"


def test_of_several_profiles_one_is_chosen_by_its_description(launch: Launcher) -> None:
    described(launch, docs="Writes the manual", review="Reads pull requests")
    (launch.project / "prompt").write_text("hi")
    with choosing(launch, "run", "--file", "prompt") as terminal:
        terminal.until("▸ docs    project  Writes the manual")
        terminal.types("pull")
        terminal.until("▸ review  project  Reads pull requests")
        terminal.types(ENTER)
        assert terminal.ends() == 0
    assert heard_in(launch) == {"review": "hi"}


@pytest.mark.parametrize("keys", [ESCAPE, "\x03", "\x04"], ids=["Escape", "Ctrl-C", "Ctrl-D"])
def test_a_list_can_be_left_without_a_choice(launch: Launcher, keys: str) -> None:
    described(launch, docs="Writes the manual", review="Reads pull requests")
    with choosing(launch, "run") as terminal:
        terminal.types("zzz")
        terminal.until("nothing matches")
        terminal.types(f"{ENTER}\x15")  # Ctrl-U removes the filter
        terminal.until("▸ docs")
        terminal.types(keys)
        assert terminal.ends() == 130
        assert terminal.shown == "acp-launch: nothing was chosen", "the list is gone"
    assert names(launch) == []


def test_without_a_terminal_the_profiles_are_listed_with_the_command(launch: Launcher) -> None:
    """Outside of a project those of the user, and those that are built in."""
    done = launch("run", stdin=b"hi")
    assert (done.code, "demo " in done.out.decode()) == (2, True)
    described(launch, docs="Writes the manual", review="Reads pull requests")
    done = launch("run", stdin=b"hi")
    assert done.code == 2
    assert [line.split()[0] for line in done.out.decode().splitlines()] == ["docs", "review"]
    assert done.err == "acp-launch: no profile is given\n    fix: name one: acp-launch run docs PROMPT\n"


@pytest.fixture
def several(launch: Launcher) -> Launcher:
    """Three sessions of two profiles; the last one has a name."""
    described(launch, docs="Writes the manual", review="Reads pull requests")
    for profile in ("review", "docs"):
        launch.profile("replayer", name=profile)
    assert launch("run", "docs", "Explain the parser").code == 0
    assert launch("run", "review", "Look at the lexer").code == 0
    assert launch("run", "review", "Fix the logs", "--session", "fix-42").code == 0
    return launch


def turns(launch: Launcher, title: str) -> int:
    records = json.loads(launch("session", "list", "--json").out)["sessions"]
    (found,) = [record["turns"] for record in records if record["title"] == title]
    return int(found)


def test_session_lets_the_user_choose_by_title_and_resumes_it(several: Launcher) -> None:
    with choosing(several, "session") as terminal:
        terminal.until("▸ fix-42: Fix the logs  just now   1      review")
        terminal.until("  Look at the lexer     just now   1      review")
        terminal.types(DOWN + DOWN)
        terminal.until("▸ Explain the parser    just now   1      docs")
        terminal.types(UP)
        terminal.until("▸ Look at the lexer")
        terminal.types("parser" + ENTER)
        terminal.until(yes_or_no("Trust this profile and continue?"))
        terminal.types("y")
        terminal.until("resumed ")
        terminal.types("\x04")
        assert terminal.ends() == 0


def test_continue_takes_the_latest_session_as_its_help_says(several: Launcher) -> None:
    """Of a profile, of the project, or the only one of a name."""
    done = several("run", "--continue", "--no-replay", stdin=b"more")
    assert done.code == 0
    assert 'resuming the latest session of this project, "fix-42" of profile review' in done.err
    for words in (["docs", "-c", "more"], ["-c"], ["--session", "fix-42", "--no-replay"]):
        assert several("run", *words, stdin=b"more").code == 0
    assert (turns(several, "Fix the logs"), turns(several, "Explain the parser")) == (3, 3)
    assert several("run", "docs", "Another").code == 0
    with on_screen(*command("run", "review", "--continue"), cwd=several.project, env=several.env) as terminal:
        terminal.until("resumed fix-42 (")
        terminal.types("\x04")
        assert terminal.ends() == 0


def test_without_a_terminal_to_choose_on_the_sessions_are_listed_with_the_command(several: Launcher) -> None:
    done = several("session", stdin=b"hi")
    assert done.code == 2
    heading, *rows = done.out.decode().splitlines()
    assert heading.split()[:3] == ["NAME", "PROFILE", "TITLE"]
    assert [row.split()[0] for row in rows] == ["fix-42", "review", "docs"]
    assert done.err == (
        "acp-launch: there are 3 sessions, and no terminal to choose one on\n"
        "    fix: name one: acp-launch run review --session fix-42\n"
    )
    with on_terminal("session", cwd=several.project, env={**several.env, "TERM": "dumb"}) as terminal:
        assert terminal.ends() == 2
    assert "fix: name one: acp-launch run review --session fix-42" in terminal.text


def test_a_session_of_a_command_line_cannot_be_resumed_from_the_list(launch: Launcher) -> None:
    launch.profile("polite")
    command = launch.started().removeprefix("    command: ").strip()
    assert launch("run", "--agent", command, "hello there").code == 0
    with choosing(launch, "session") as terminal:
        terminal.types(ENTER)
        assert terminal.ends() == 3
        assert 'the session "hello there" was made with --agent' in terminal.shown


def test_none_and_the_only_one_need_no_question(launch: Launcher) -> None:
    done = launch("session")
    assert (done.code, done.out) == (0, b"")
    assert "no sessions here yet" in done.err
    none = launch("run", "--continue", stdin=b"hi")
    assert (none.code, "to continue" in none.err) == (3, True)
    launch.profile("replayer")
    assert launch("run", "p", "hello").code == 0
    done = launch("run", "--continue", "--no-replay", stdin=b"more")
    assert (done.code, turns(launch, "hello")) == (0, 2)
    assert 'resuming the only session of this project, "hello" of profile p' in done.err


def test_switch_without_a_name_lets_the_user_choose_another_session(several: Launcher) -> None:
    with on_screen(*command("run", "review", "-s", "fix-42"), cwd=several.project, env=several.env) as terminal:
        terminal.until("resumed fix-42")
        terminal.types(f":switch{ENTER}")
        terminal.until("▸ Look at the lexer")
        assert "fix-42: Fix" not in terminal.shown.partition("Switch to")[2], "it is the current session"
        terminal.types(ESCAPE)
        terminal.until_gone("▸ Look at the lexer")
        terminal.types(f":switch{ENTER}")
        terminal.until("▸ Look at the lexer")
        terminal.types(f"{ENTER}")
        terminal.until_gone("▸ Look at the lexer")
        terminal.types(f"more{ENTER}")
        terminal.until("live 1")
        terminal.types(f":sessions{ENTER}")
        terminal.until("* Look at the lexer  just now  2 turns")
        terminal.types("\x04")
        assert terminal.ends() == 0
