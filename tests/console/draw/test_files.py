"""Ring 1 and 2. Names of files: links lead to files of the project, and to nothing else."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
from rich.style import Style

from acp_launch.console.draw.theme import ProjectFiles, can_link
from acp_launch.session.events import FileEvent
from tests.console.drawn import Screen
from tests.console.updates import end, tool

LINK = re.compile(r"\x1b\]8;id=\d+;([^\x1b]*)\x1b\\")
ABLE = {"TERM": "xterm-256color"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a b.py").write_text("")
    (tmp_path / "outside").write_text("")
    (root / "out").symlink_to(tmp_path / "outside")
    return root


def link(project: Path, path: str) -> str | None:
    return ProjectFiles([project], ABLE).style(path).link


def test_an_existing_file_of_the_project_is_a_link_with_host_and_absolute_path(project: Path) -> None:
    found = link(project, f"{project}/a b.py")
    assert found is not None
    assert re.fullmatch(rf"file://[^/]+{re.escape(str(project.resolve()))}/a%20b\.py", found)


@pytest.mark.parametrize(
    "path",
    [
        "{root}/missing",
        "{root}",
        "{root}/out",
        "{root}/../outside",
        "/etc/passwd",
        "a b.py",
        "https://example.com",
        "file:///etc/passwd",
        "{root}/a b.py\x1b\\",
        "{root}/a b.py\0",
        "/" + "x" * 5000,
        "",
    ],
)
def test_nothing_else_is_a_link(project: Path, path: str) -> None:
    """A directory, a link out of the project, a path that leaves it, an address, a path with an escape."""
    assert link(project, path.replace("{root}", str(project))) is None


@pytest.mark.parametrize(
    ("env", "is_able"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "tmux-256color"}, True),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "Apple_Terminal"}, False),
        ({"TERM": "xterm-256color", "INSIDE_EMACS": "29"}, False),
        ({"TERM": "screen"}, False),
        ({"TERM": "linux"}, False),
        ({"TERM": "dumb"}, False),
        ({}, False),
    ],
)
def test_a_terminal_that_is_known_to_lack_links_gets_none(project: Path, env: dict[str, str], is_able: bool) -> None:
    assert can_link(env) is is_able
    assert (ProjectFiles([project], env).style(f"{project}/a b.py") != Style()) is is_able


def drawn(project: Path, monkeypatch: pytest.MonkeyPatch, *, colours: Any = "standard", has_links: bool = True) -> str:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("TERM_PROGRAM", "INSIDE_EMACS"):
        monkeypatch.delenv(name, raising=False)
    screen = Screen(200, roots=[project], colours=colours, has_links=has_links)
    screen.console.no_color = "NO_COLOR" in os.environ
    path = f"{project}/a b.py"
    screen.hears(tool("1", "completed", title=f"Read {path}", kind="read", locations=[{"path": path, "line": 7}]))
    screen.hears(tool("2", "completed", title="Read https://example.com", kind="fetch"))
    screen.hears(tool("3", "completed", title="Read /etc/passwd", kind="read"))
    screen.live.show(FileEvent(path=path, how="write", outcome="done", old="a\n", new="b\n"))
    screen.live.show(end())
    assert "✓ read a b.py:7" in screen.text
    assert "✓ edit a b.py  +1 -1" in screen.text
    return screen.file.getvalue()


def test_the_names_of_calls_and_of_written_files_are_links_to_them(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = {target for target in LINK.findall(drawn(project, monkeypatch)) if target}
    assert links == {link(project, f"{project}/a b.py")}


def test_a_user_who_wants_no_colours_keeps_the_links(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    written = drawn(project, monkeypatch)
    assert LINK.search(written)
    assert not re.search(r"\x1b\[(?:\d+;)*[349]\d(?:;\d+)*m", written)


@pytest.mark.parametrize("more", [{"has_links": False}, {"colours": None}], ids=["plain", "without colours"])
def test_a_plain_run_and_a_terminal_without_colours_have_no_links(
    project: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    assert "\x1b]8" not in drawn(project, monkeypatch, **more)
