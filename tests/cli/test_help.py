"""`help`: the documentation in the terminal, a page or where a word is in it."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from acp_launch.cli import help as manual
from acp_launch.cli.verb import HEADINGS, MORE, VERBS
from tests.cli.launcher import Launcher
from tests.cli.terminal import on_terminal
from tests.cli.verbs import commands
from tests.test_architecture import HEAVY, loaded
from tests.test_readme import ROOT

STYLE, COLOUR = re.compile(r"\x1b\[[0-9;]*m"), re.compile(r"\x1b\[[0-9;]*3[0-7]")
PAGER = "import os, sys; text = sys.stdin.read(); print('PAGED', os.environ.get('LESS'), text.count('\\n'), text[:999])"


def asked(launch: Launcher, *words: str) -> str:
    """The answer in a pipe, which has nothing in it that only a terminal understands."""
    ended = launch("help", *words)
    text = ended.out.decode()
    assert ended.code == 0
    assert text.replace("\n", "").isprintable()
    return text


def test_without_a_topic_each_page_of_docs_has_its_line(launch: Launcher) -> None:
    lines = asked(launch).splitlines()
    names = [line.split()[0] for line in lines]
    assert sorted(names) == sorted(path.stem for path in (ROOT / "docs").glob("*.md"))
    assert names[:3] == ["profiles", "session", "mcp"], "those for users first"
    assert set(names[-3:]) == {"acp", "internals", "contributing"}
    assert all(line.split(maxsplit=1)[1] and len(line) <= 80 for line in lines)


def test_a_page_is_read_without_the_marks_of_markdown(launch: Launcher) -> None:
    for topic in manual.topics():
        shown = asked(launch, topic)
        (title,) = re.findall("^# (.*)", (ROOT / "docs" / f"{topic}.md").read_text())
        assert shown.splitlines()[0] == title
        assert f"This page is about {manual.about(topic)}." in shown
        assert not re.search(r"^#|<!--|\([a-z]+\.md[)#]|!\[|<picture|^\|", shown, re.MULTILINE), topic
        assert max(map(len, shown.splitlines())) <= 80, topic


def test_every_section_of_a_page_is_in_what_is_shown(launch: Launcher) -> None:
    """A heading in a block of code begins none."""
    shown = asked(launch, "trust").splitlines()
    headings = [heading for heading, _ in manual.sections("trust")]
    assert headings[1:] == [line for line in shown if line in headings]
    assert "review, merged from" not in [heading for heading, _ in manual.sections("profiles")]


def test_another_word_shows_the_sections_that_have_it_headings_first(launch: Launcher) -> None:
    shown = asked(launch, "PASSPHRASE").splitlines()
    assert "secrets: Machines without a keyring" in shown
    at = shown.index("settings: Environment")
    assert "passphrase" in shown[at + 1].casefold()
    first, *_ = asked(launch, "exit", "codes").splitlines()
    assert first == "scripting: Exit codes"
    topics = [line.partition(":")[0] for line in asked(launch, "oauth").splitlines() if not line.startswith(" ")]
    assert topics[0] == "login"
    assert topics == sorted(topics, key=lambda topic: topic in manual.LAST)


def test_a_word_that_is_nowhere_gets_the_nearest(launch: Launcher) -> None:
    """A section needs all the words, and what was typed drives no terminal."""
    for words, said in (
        (["secrts"], 'no topic is named "secrts", and no page has that text; did you mean "secrets"?'),
        (["passphrase", "subreaper"], 'no topic is named "passphrase subreaper", and no page has that text'),
        (["\x1b]0;owned\x07"], 'no topic is named "\\x1b]0;owned\\x07", and no page has that text'),
    ):
        ended = launch("help", *words)
        assert (ended.code, ended.err) == (2, f"acp-launch: {said}\n    fix: acp-launch help lists the topics\n")


def test_a_page_is_in_the_users_pager_on_a_terminal_in_colours(launch: Launcher, tmp_path: Path) -> None:
    """The pager is the same process: its exit code is the answer."""
    pager = tmp_path / "my pager.py"
    pager.write_text(f"{PAGER}\nprint('secret' if 'ACP_LAUNCH_SECRET_X' in os.environ else 'blind')\nsys.exit(3)\n")
    command = shlex.join([sys.executable, str(pager)])
    env = {**launch.env, "PAGER": command, "TERM": "xterm", "ACP_LAUNCH_SECRET_X": "not-real-1"}
    for name in ("LESS", "NO_COLOR"):
        env.pop(name, None)
    with on_terminal("help", "trust", cwd=launch.project, env=env) as terminal:
        assert terminal.ends() == 3
    lines = (ROOT / "docs" / "trust.md").read_text().count("\n")
    (told,) = re.findall(r"PAGED -FX -R (\d+) ", terminal.text)
    assert int(told) > lines / 2
    assert COLOUR.search(terminal.raw.decode()), "blocks of code have colours"
    assert "blind" in terminal.text, "no child inherits a secret's variable"


@pytest.mark.parametrize(
    "env",
    [
        {"PAGER": "no-such-pager-at-all"},
        {"PAGER": "'unbalanced"},
        {"PAGER": "cat", "NO_COLOR": "1"},
        {"PAGER": "", "TERM": "dumb"},
    ],
    ids=str,
)
def test_the_page_is_shown_all_the_same_without_a_pager_or_colours(launch: Launcher, env: dict[str, str]) -> None:
    with on_terminal("help", "trust", cwd=launch.project, env={**launch.env, "TERM": "xterm", **env}) as terminal:
        assert terminal.ends() == 0
    assert "What it protects, and what it does not" in terminal.text
    assert not (STYLE if "TERM" in env else COLOUR).search(terminal.raw.decode())


def helped(launch: Launcher, *words: str, columns: int) -> str:
    ended = launch(*words, "--help", COLUMNS=str(columns))
    assert (ended.code, ended.err) == (0, "")
    return ended.out.decode()


@pytest.mark.parametrize("columns", [60, 132])
def test_help_lists_every_command_with_a_whole_sentence_in_the_width_of_the_terminal(
    columns: int, launch: Launcher
) -> None:
    verbs = {name: verb for name, verb in commands().items() if name and name not in HEADINGS[MORE]}
    for group in ("", "profile", "secret", "session", "mcp", "permission"):
        shown = helped(launch, *group.split(), columns=columns)
        assert max(map(len, shown.splitlines())) <= columns
        assert "..." not in re.sub(r"\[ARGS\]\.\.\.", "", shown)
        flat = "".join(shown.split())  # a line may end after a hyphen
        below = {name: verb for name, verb in verbs.items() if " ".join(name.split()[:-1]) == group}
        assert below
        for name, command in below.items():
            sentence, stop, _ = str(command.help).partition("\n")[0].partition(". ")
            assert "".join(f"{name.split()[-1]}{sentence}{stop}".split()) in flat


def test_the_commands_stand_under_headings_every_one_once(launch: Launcher) -> None:
    shown = helped(launch, columns=80)
    found = re.findall(r"^(\w[\w ]*):$", shown, re.MULTILINE)
    assert found == ["Options", "Run", "Set up", "Look", "More"]
    assert sum(map(len, HEADINGS.values())) == len(VERBS)
    assert sum(len(verbs) for heading, verbs in HEADINGS.items() if heading != MORE) <= 22
    named = " ".join(shown.partition("More:")[2].partition(": acp-launch help commands")[0].split())
    assert named == ", ".join(HEADINGS[MORE])


def test_the_list_and_a_search_import_nothing_heavy() -> None:
    assert not (HEAVY | {"markdown_it"}) & loaded("help")
    assert not (HEAVY | {"markdown_it"}) & loaded("help", "keyring")
