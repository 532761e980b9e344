"""The pictures of the README and of docs/ are what the program shows: a command makes each, with its words."""

import re
from html import unescape
from pathlib import Path

import pytest

from tests.interactive import shots

ROOT = Path(__file__).parents[2]
KEPT = Path(__file__).parent / "shots"
LARGEST = 60_000  # bytes
SHOTS = r"(?:\.\./)?tests/interactive/shots/"
SHOTS_LINE = "tests/interactive/shots/"
IMAGE = re.compile(
    rf'<picture><source media="\(prefers-color-scheme: light\)" srcset="{SHOTS}([^"]*)-light\.svg">'
    rf'<img alt="([^"]*)" src="{SHOTS}([^"]*)\.svg"></picture>'
)
TEXT = re.compile(r'<text class="[^"]*" x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>')


def words(svg: str) -> str:
    """The rows of a picture, without what only divides its colours."""
    rows: dict[float, list[tuple[float, str]]] = {}
    for x, y, text in TEXT.findall(svg):
        rows.setdefault(float(y), []).append((float(x), unescape(text).replace("\xa0", " ")))
    return "\n".join("".join(text for _, text in sorted(rows[y])) for y in sorted(rows))


def lasting(svg: str) -> list[str]:
    """The rows in no order: a server is ready when it is, and up or down after a crash. That a file was read is told
    before a question or after it, as frames fall; a command takes the rows that this machine's Python needs; and what
    took its time says so."""
    passing = re.compile(r"\s*✓ read |\s*command: |.*acp_launch\.demo\.agent$")
    rows = (re.sub(r" · \d+ s$", "", row) for row in words(svg).replace("1 server down", "1 server up").splitlines())
    return sorted(row for row in rows if not passing.match(row))


@pytest.fixture(params=["", "-light"])
def end(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", shots.SCENES)
def test_a_scene_still_looks_as_it_is_kept(name: str) -> None:
    drawn = shots.picture(name, shots.SCENES[name])
    for end, theme in drawn.items():
        kept = (KEPT / f"{name}{end}.svg").read_text(encoding="utf-8")
        assert lasting(theme) == lasting(kept), (
            f"if it is meant to: python -m tests.interactive.shots {KEPT.relative_to(ROOT)}"
        )


@pytest.mark.parametrize("name", shots.SCENES)
def test_a_picture_says_what_it_is_of_and_nothing_of_the_machine(name: str, end: str) -> None:
    svg = (KEPT / f"{name}{end}.svg").read_text(encoding="utf-8")
    for expected in shots.SCENES[name].says:
        assert expected in words(svg)
    assert len(svg.encode()) < LARGEST
    assert re.findall(r"(?:/tmp|/home|/root|/Users|/var)/\S*", svg) == []
    assert "url(http" not in svg, "nothing is loaded from elsewhere"


def test_there_is_a_picture_of_every_scene_for_dark_and_light_and_of_no_other() -> None:
    names = (f"{name}{end}.svg" for name in shots.SCENES for end in shots.THEMES)
    assert sorted(path.name for path in KEPT.iterdir()) == sorted(names)


def test_every_picture_that_is_shown_is_there_and_every_one_that_is_there_is_shown() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = [found for page in pages for found in IMAGE.findall(page.read_text(encoding="utf-8"))]
    assert {dark for _, _, dark in shown} == set(shots.SCENES)
    assert all(alt and light == dark for light, alt, dark in shown)
    assert all(SHOTS_LINE not in IMAGE.sub("", page.read_text(encoding="utf-8")) for page in pages), "each in both"
