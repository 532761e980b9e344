"""The README and the pages of docs/ hold together: their shape, their links, and what code and tests cite of them."""

import re
from functools import cache
from pathlib import Path

from acp_launch.cli import help as manual
from tests.test_architecture import ROWS
from tests.test_readme import PAGES, README, ROOT

LARGEST = {README: 12_000}  # bytes
PAGE = 25_000
TOGETHER = 195_000
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]*)\)")
ORDER = ["Install", "60 seconds", "Your project", "The session", "Moving from", "Teams", "Security", "More"]
STATEMENT = re.compile(r"^\| ([CM]-\d+) \| [^|]+ \|$", re.MULTILINE)
CITED = re.compile(r"\b([CM]-\d{1,2})\b(?!\.\d)")
# Documents that are not in this repository, however they are called.
OUTSIDE = re.compile(
    r"\bDESIGN\b|\bHOUSE\.md|\bSTYLE\.md|\bfacts/|\bchecklist \d|\brequirements? [A-Z]\d|\bissue #?\d|\b[A-Z]\d-\d\d\b",
    re.IGNORECASE,
)
DOCUMENT = re.compile(r"\bdocs/[a-z]+\.md(?: \"([^\"]+)\")?")
TEXTS = [
    *(path for folder in ("acp_launch", "tests", "profiles", ".ci") for path in sorted((ROOT / folder).rglob("*"))),
    *PAGES,
    ROOT / "CHANGELOG.md",
    ROOT / "pyproject.toml",
]


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text())


def headings(page: Path) -> list[str]:
    return re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)


def anchor(heading: str) -> str:
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@cache
def texts() -> list[tuple[str, str]]:
    """Everything that is written for people here, but this module."""
    return [
        (str(path.relative_to(ROOT)), path.read_text(encoding="utf-8", errors="replace"))
        for path in TEXTS
        if path.is_file() and path.suffix in ("", ".py", ".md", ".yaml", ".toml", ".txt") and path != Path(__file__)
    ]


def test_all_pages_together_stay_short() -> None:
    assert sum(len(page.read_bytes()) for page in PAGES if page != README) <= TOGETHER


def test_a_page_can_be_read_in_one_go() -> None:
    for page in PAGES:
        assert len(page.read_bytes()) <= LARGEST.get(page, PAGE)
    assert len((ROOT / "CHANGELOG.md").read_text().splitlines()) <= 60


def test_a_page_begins_with_what_it_is_for_and_has_headings() -> None:
    for page in PAGES[1:]:
        assert re.match(r"# [^\n]+\n\nThis page is about [^\n]+\.\n", page.read_text())
        assert len(headings(page)) >= 3
        assert len(set(headings(page))) == len(headings(page)), "a link could lead to two places"


def test_the_readme_has_its_order() -> None:
    found = re.findall(r"^## (.*)$", prose(README), re.MULTILINE)
    assert [heading.startswith(begins) for heading, begins in zip(found, ORDER, strict=True)] == [True] * len(ORDER)
    assert README.read_text().index("<picture>") < README.read_text().index("## Install"), (
        "the first screen has a picture"
    )


def test_the_readme_leads_to_every_page_and_help_shows_them() -> None:
    linked = set(re.findall(r"\(docs/([a-z]+)\.md\)", prose(README)))
    assert linked == {page.stem for page in PAGES[1:]} == set(manual.topics())


def test_every_link_leads_to_a_heading_that_is_there() -> None:
    for page in PAGES:
        wrong = []
        for target in LINK.findall(prose(page)):
            file, _, of = target.partition("#")
            there = (page.parent / file).resolve() if file else page
            if not target.startswith("https://") and not (
                there.is_file() and (not of or of in map(anchor, headings(there)))
            ):
                wrong.append(target)
        assert wrong == []


def test_every_file_that_a_page_names_is_there() -> None:
    named = {name for page in PAGES for name in re.findall(r"\b((?:acp_launch|tests)/[\w./-]*\w)", page.read_text())}
    assert len(named) > 30
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_every_statement_that_is_cited_is_written_down_and_a_test_cites_each() -> None:
    stated = set(STATEMENT.findall((ROOT / "tests" / "statements.md").read_text()))
    assert len(stated) > 100
    python = [(name, set(CITED.findall(text))) for name, text in texts() if name.endswith(".py")]
    assert set().union(*(cited for _, cited in python)) <= stated
    assert stated <= set().union(*(cited for name, cited in python if name.startswith("tests/")))


def test_nothing_cites_a_document_that_is_not_here() -> None:
    found = [f"{name}: {match.group()}" for name, text in texts() for match in OUTSIDE.finditer(text)]
    assert found == []


def test_every_page_and_heading_that_is_cited_is_there() -> None:
    for name, text in texts():
        for match in DOCUMENT.finditer(text):
            page = ROOT / match.group().partition(" ")[0]
            assert page.is_file(), f"{name}: {match.group()}"
            assert match[1] is None or match[1] in headings(page), f"{name}: {match.group()}"


def test_the_table_of_layers_is_the_one_that_is_held() -> None:
    (table,) = re.findall(r"^## Layers\n(.*?)^## ", prose(ROOT / "docs" / "contributing.md"), re.DOTALL | re.MULTILINE)
    first = re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)
    assert [set(re.findall(r"`(\w+)`", cell)) for cell in first] == [
        named for row in ROWS if (named := row - {"__main__", "__init__"})
    ]
