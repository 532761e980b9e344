"""What `session list` and `session show` print."""

import json
import subprocess
import sys
import time
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from acp_launch.console.sessions import ago, details, display_name, table, table_json, tilde
from acp_launch.console.stdout import cells
from acp_launch.session.store import Record
from tests.patience import PATIENCE

HOUR, DAY = 3600.0, 86400.0
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC).timestamp()
HOME = "/home/ada"
FIX = Record(
    project="/home/ada/src/shop",
    profile="review",
    name="fix-42",
    session_id="6f1c",
    agent_name="demo",
    agent_version="1.2",
    agent_command="demo --acp",
    cwd="/home/ada/src/shop",
    title="Fix the rounding of prices",
    created=NOW - 3 * DAY,
    last_used=NOW - 3 * HOUR,
    turns=3,
)
OTHER = replace(FIX, name="default", title="", cwd="/srv/www", last_used=NOW - 70 * DAY, turns=0)


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """Put the process into a time zone: UTC, or the one of the test's parameter."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", getattr(request, "param", "UTC"))
        time.tzset()
        yield
    time.tzset()


def shown(*records: Record, width: int | None = None) -> str:
    return table(records, now=NOW, home=HOME, width=width)


def test_the_table_has_a_line_for_each_session() -> None:
    assert shown(FIX, OTHER) == (
        "NAME     PROFILE  TITLE                       TURNS  LAST USED    DIRECTORY\n"
        "fix-42   review   Fix the rounding of prices  3      3 hours ago  ~/src/shop\n"
        "default  review                                      2026-09-12   /srv/www"
    )


def test_a_narrow_terminal_cuts_titles_at_the_end_and_directories_at_the_front() -> None:
    assert shown(FIX, width=64) == (
        "NAME    PROFILE  TITLE            TURNS  LAST USED    DIRECTORY\n"
        "fix-42  review   Fix the roundi…  3      3 hours ago  ~/src/shop"
    )
    assert shown(FIX, width=57) == (
        "NAME    PROFILE  TITLE      TURNS  LAST USED    DIRECTORY\n"
        "fix-42  review   Fix the …  3      3 hours ago  …src/shop"
    )


def test_a_session_without_a_name_of_the_users_is_called_by_its_title() -> None:
    fresh = replace(FIX, name="20261121-090000-ab12")
    heading, unnamed, untitled = shown(fresh, replace(fresh, title="")).splitlines()
    assert unnamed.split("  ")[0] == ""
    assert "Fix the rounding of prices" in unnamed
    assert untitled.startswith("20261121-090000-ab12  review ")
    assert heading.startswith("NAME ")
    assert display_name(fresh.name, fresh.title) == "Fix the rounding of prices"
    assert display_name(fresh.name, " ") == fresh.name
    assert display_name(FIX.name, FIX.title) == "fix-42"


def test_no_line_is_wider_than_the_terminal() -> None:
    for width in range(58, 97):
        wide = replace(FIX, title="日本語の題名 " * 9, cwd="/" + "très/loin/" * 9)
        for line in shown(wide, FIX, OTHER, width=width).splitlines():
            assert cells(line) <= width


def test_names_are_never_cut_even_when_nothing_fits() -> None:
    long = replace(FIX, name="a-rather-long-name-for-a-session", profile="a-long-profile")
    line = shown(long, width=20).splitlines()[1]
    assert line.startswith("a-rather-long-name-for-a-session  a-long-profile  ")


def test_wide_and_combining_characters_keep_the_columns_straight() -> None:
    heading, *rows = shown(replace(FIX, title="日本語"), replace(FIX, title="e\u0301te\u0301"), FIX).splitlines()
    place = heading.index("LAST USED")
    for row in rows:
        assert cells(row[: row.index("3 hours ago")]) == place


def test_nothing_printed_from_any_field_can_touch_the_terminal() -> None:
    evil = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0), 0x202E, 0x2028]))
    record = Record(evil, evil, evil, evil, evil, evil, evil, evil, evil, created=NOW, last_used=NOW)
    texts = [shown(record), details(record, now=NOW, home=HOME), json.dumps(table_json([record]))]
    for character in "".join(texts).replace("\n", ""):
        assert unicodedata.category(character) not in ("Cc", "Cf", "Zl", "Zp")
    assert len(texts[0].splitlines()) == 2


def test_ages_in_words() -> None:
    for age, words in [
        (-30, "just now"),
        (0, "just now"),
        (59, "just now"),
        (60, "1 minute ago"),
        (HOUR - 1, "59 minutes ago"),
        (HOUR, "1 hour ago"),
        (DAY - 1, "23 hours ago"),
        (DAY, "1 day ago"),
        (13.9 * DAY, "13 days ago"),
        (14 * DAY, "2 weeks ago"),
        (62 * DAY, "8 weeks ago"),
        (63 * DAY, "2026-09-19"),
        (-60, "2026-11-21"),
        (-2 * DAY, "2026-11-23"),
    ]:
        assert ago(NOW - age, now=NOW) == words


@pytest.mark.parametrize("zone", ["TEST-13"], indirect=True)
def test_dates_are_in_the_zone_of_the_machine() -> None:
    assert ago(NOW - 70 * DAY, now=NOW) == "2026-09-13"


@pytest.mark.parametrize(
    ("path", "home", "words"),
    [
        ("/home/ada", "/home/ada", "~"),
        ("/home/ada/x", "/home/ada", "~/x"),
        ("/home/adam", "/home/ada", "/home/adam"),
        ("/srv/home/ada", "/home/ada", "/srv/home/ada"),
        ("/root", "/", "/root"),
        ("/root", "", "/root"),
    ],
)
def test_the_home_directory_is_a_tilde(path: str, home: str, words: str) -> None:
    assert tilde(path, home) == words


def test_the_details_of_one_session() -> None:
    assert details(FIX, now=NOW, home=HOME) == (
        "name:       fix-42\n"
        "profile:    review\n"
        "project:    ~/src/shop\n"
        "title:      Fix the rounding of prices\n"
        "session id: 6f1c\n"
        "turns:      3\n"
        "agent:      demo 1.2\n"
        "command:    demo --acp\n"
        "directory:  ~/src/shop\n"
        "created:    2026-11-18 12:00:00 (3 days ago)\n"
        "last used:  2026-11-21 09:00:00 (3 hours ago)"
    )
    lines = details(replace(FIX, title="", agent_name="", agent_version=""), now=NOW, home=HOME).splitlines()
    known = ("name", "profile", "project", "session id", "turns", "command", "directory", "created", "last used")
    assert tuple(line.partition(":")[0] for line in lines) == known, "what is not known has no line"


def test_json_has_every_field_and_comes_back_whole() -> None:
    several = json.loads(json.dumps(table_json([FIX, OTHER])))
    assert set(several) == {"sessions"}
    assert [Record(**each) for each in several["sessions"]] == [FIX, OTHER]


def test_showing_loads_neither_sqlite_nor_rich() -> None:
    code = (
        "import sys, acp_launch.console.sessions; print({'sqlite3', 'rich', 'asyncio', 'pydantic'} & set(sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert out.stdout == "set()\n"
