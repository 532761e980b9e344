"""`edit PROFILE` and `config edit`: the user's own editor, and a check of what it saved."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.launcher import Launcher
from tests.cli.terminal import Terminal, on_terminal

GOOD = "# mine\nversion: 1  # the format\nextends: demo\ndescription: mended\n"
BAD = "# mine\nversion: 1\nextends: demo\ndescripton: broken\n"
# An editor that saves the next of the texts, and notes what it was given.
EDITOR = """
import pathlib, sys
file, folder = pathlib.Path(sys.argv[1]), pathlib.Path(__file__).parent
number = len(list(folder.glob("given-*")))
(folder / f"given-{number}").write_bytes(file.read_bytes())
text = (folder / f"text-{number}").read_bytes()
if text == b"FAIL":
    sys.exit(3)
if text != b"SAME":
    file.write_bytes(text)
print("EDITED", number, file.name, "ACP_LAUNCH_SECRET_X" in __import__("os").environ)
"""


class Editing:
    """A folder with an editor's texts."""

    def __init__(self, folder: Path, launch: Launcher) -> None:
        self.folder, self.launch = folder, launch
        (folder / "an editor.py").write_text(EDITOR)

    @property
    def env(self) -> dict[str, str]:
        command = shlex.join([sys.executable, "-I", "-S", str(self.folder / "an editor.py")])
        env = {**self.launch.env, "EDITOR": command, "TERM": "xterm", "ACP_LAUNCH_SECRET_X": "not-real-1"}
        env.pop("VISUAL", None)
        return env

    def given(self, number: int) -> str:
        return (self.folder / f"given-{number}").read_text()

    @contextmanager
    def __call__(self, *words: str, saving: list[str]) -> Iterator[Terminal]:
        for number, text in enumerate(saving):
            (self.folder / f"text-{number}").write_bytes(text.encode())
        with on_terminal(*words, cwd=self.launch.project, env=self.env) as terminal:
            yield terminal


@pytest.fixture
def editing(tmp_path: Path, launch: Launcher) -> Editing:
    folder = tmp_path / "editor"
    folder.mkdir()
    return Editing(folder, launch)


@pytest.fixture
def mine(launch: Launcher) -> Path:
    file = launch.project / ".acp-launch" / "mine.yaml"
    file.write_text("version: 1\nextends: demo\n")
    return file


def test_a_profile_is_saved_as_the_user_wrote_it_comments_included(editing: Editing, mine: Path) -> None:
    """One that was trusted stays so."""
    assert editing.launch("trust", "mine", "--yes").code == 0
    with editing("edit", "mine", saving=[GOOD]) as terminal:
        assert terminal.ends() == 0
    assert mine.read_text() == GOOD
    assert "EDITED 0 mine.yaml False" in terminal.text, "the editor inherits no secret"
    assert editing.given(0) == "version: 1\nextends: demo\n"
    assert "trust it again" not in terminal.text
    assert "is trusted already" in editing.launch("trust", "mine").err


def test_a_mistake_is_shown_with_its_line_and_the_same_text_is_offered_again(editing: Editing, mine: Path) -> None:
    with editing("edit", "mine", saving=[BAD, GOOD]) as terminal:
        terminal.until("[E/s/d]: ")
        assert '.acp-launch/mine.yaml:4:1: descripton: unknown key "descripton"; did you mean' in terminal.text
        assert "1 problem; the file is not saved yet" in terminal.text
        assert mine.read_text() == "version: 1\nextends: demo\n"
        terminal.types("\n")
        assert terminal.ends() == 0
    assert editing.given(1) == BAD
    assert mine.read_text() == GOOD


@pytest.mark.parametrize(("answer", "left"), [("s\n", BAD), ("\x04", None), ("x\nd\n", None)])
def test_a_text_with_mistakes_can_be_saved_or_discarded(
    editing: Editing, mine: Path, answer: str, left: str | None
) -> None:
    before = mine.read_text()
    with editing("edit", "mine", saving=[BAD]) as terminal:
        terminal.until("[E/s/d]: ")
        terminal.types(answer)
        assert terminal.ends() == 0
    assert mine.read_text() == (left or before)
    assert ("the profile has other problems: acp-launch validate mine" in terminal.text) is bool(left)


@pytest.mark.parametrize(("saved", "code", "said"), [("SAME", 0, "nothing was changed"), ("FAIL", 2, "status 3")])
def test_an_editor_that_saves_nothing_changes_nothing(
    editing: Editing, mine: Path, saved: str, code: int, said: str
) -> None:
    before = mine.read_text()
    with editing("edit", "mine", saving=[saved]) as terminal:
        assert terminal.ends() == code
    assert said in terminal.text
    assert mine.read_text() == before


def test_without_a_terminal_it_names_the_file(launch: Launcher, mine: Path) -> None:
    done = launch("edit", "mine", EDITOR="true")
    assert (done.code, done.out) == (2, b"")
    assert done.err == f"acp-launch: an editor needs a terminal\n    fix: edit the file itself: {mine}\n"


@pytest.mark.parametrize(
    ("name", "editor", "said"),
    [
        ("mine", "no-such-editor-at-all", "fix: set EDITOR to its command"),
        ("mine", "'unbalanced", "fix: set EDITOR to its command"),
        ("demo", "true", "create a profile that extends it: acp-launch init my-demo --extends demo"),
    ],
)
def test_what_cannot_be_edited_is_said_in_one_message(
    editing: Editing, mine: Path, name: str, editor: str, said: str
) -> None:
    env = {**editing.env, "EDITOR": editor}
    with on_terminal("edit", name, cwd=editing.launch.project, env=env) as terminal:
        assert terminal.ends() == 2
    assert said in terminal.text
    assert "Traceback" not in terminal.text


def test_the_settings_are_edited_and_checked_likewise(editing: Editing) -> None:
    file = editing.launch.config / "config.yaml"
    good = "# how long\nsecrets: {timeout: 20s}\n"
    with editing("config", "edit", saving=["secrets: {timeout: soon}\n", good]) as terminal:
        terminal.until("[E/d]: ")
        assert f"{file}:1:20: secrets.timeout: expected a duration" in terminal.text
        terminal.types("s\n")
        terminal.types("e\n")
        assert terminal.ends() == 0
    assert editing.given(0).startswith("# Your settings of acp-launch.")
    assert file.read_text() == good
    assert file.stat().st_mode & 0o777 == 0o600
