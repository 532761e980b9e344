"""Ring 2. `batch report`: a summary, Markdown, JUnit XML and a page, made from the records of a batch."""

import base64
import hashlib
import re
import stat
import tracemalloc
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from acp_launch.batch import page, report
from acp_launch.batch.figures import summarize
from acp_launch.batch.model import CheckResult, Cost, ErrorFacts, Patch
from acp_launch.batch.page import make_page
from acp_launch.batch.report import make_junit, make_markdown, make_report, make_text
from acp_launch.batch.store import RESULTS, BatchDirectory, open_batch
from acp_launch.errors import UsageError
from tests.batch.junitrules import find_faults
from tests.batch.reported import OUTCOMES, add_record, make_batch, make_every_outcome, make_item, write_text
from tests.cli.launcher import Launcher

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>`|*_[a](http://x)${IFS}\x1b[31m\u202e\x00]]>&"
PATCH = Patch(files=1, insertions=1, deletions=1, sha256="0" * 64)


@pytest.fixture
def every(tmp_path: Path) -> BatchDirectory:
    return make_every_outcome(tmp_path / "batch")


@pytest.fixture
def sampled(tmp_path: Path) -> BatchDirectory:
    """Two tasks, a profile with two models, three samples: opus passes 3 of 3 and 1 of 3, sonnet 0 and 0."""
    items = [
        make_item(0, task, "claude", matrix={"model": model}, sample=sample)
        for task in ("shop", "mail")
        for model in ("opus", "sonnet")
        for sample in (1, 2, 3)
    ]
    numbered = tuple(make_item(n, i.task, i.profile, matrix=i.matrix, sample=i.sample) for n, i in enumerate(items))
    directory = make_batch(tmp_path / "batch", numbered)
    for item in numbered:
        is_passed = item.matrix["model"] == "opus" and (item.task == "shop" or item.sample == 2)
        cost = Cost(amount=2.0, currency="USD") if item.matrix["model"] == "opus" else None
        add_record(directory, item, "passed" if is_passed else "failed", cost=cost, usage={"totalTokens": 1000})
    return directory


class Reader(HTMLParser):
    """Reads a page as a browser does: its elements with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    handle_startendtag = handle_starttag

    def handle_data(self, data: str) -> None:
        self.text += data

    def find(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def read_page(directory: BatchDirectory) -> Reader:
    return Reader(make_page(directory, summarize(directory)))


# Figures.


@pytest.mark.parametrize(("samples", "passed", "most"), [(5, 2, 3), (4, 0, 2), (4, 4, 4), (3, 1, 1), (6, 1, 5)])
def test_pass_at_k_is_the_share_of_choices_with_one_that_passed(
    tmp_path: Path, samples: int, passed: int, most: int
) -> None:
    items = tuple(make_item(n, "shop", sample=n + 1) for n in range(samples))
    directory = make_batch(tmp_path / "batch", items)
    for item in items:
        add_record(directory, item, "passed" if item.index < passed else "failed")
    (column,) = summarize(directory).columns
    choices = list(combinations(range(samples), most))
    expected = sum(any(each < passed for each in choice) for choice in choices) / len(choices)
    assert column.pass_at(most) == pytest.approx(expected)
    assert column.pass_at(samples + 1) is None


def test_pass_rates_are_told_for_each_profile_and_row_of_the_matrix(sampled: BatchDirectory) -> None:
    opus, sonnet = summarize(sampled).columns
    assert (opus.name, sonnet.name) == ("claude opus", "claude sonnet")
    assert [each.text for each in opus.figures(3, "USD")] == ["4 of 6", "66%", "100%", "12 USD", "6,000", "1 s"]
    assert [each.text for each in sonnet.figures(3, "USD")] == ["0 of 6", "0%", "0%", "unknown", "6,000", "1 s"]


def test_an_item_that_was_cancelled_or_not_run_does_not_lower_a_pass_rate(every: BatchDirectory) -> None:
    summary = summarize(every)
    (column,) = summary.columns
    assert (column.passed, len(column.counted), len(column.results)) == (2, 12, 14)


def test_a_batch_without_records_has_no_figures(tmp_path: Path) -> None:
    directory = make_batch(tmp_path / "batch", (make_item(0, "shop"),))
    summary = summarize(directory)
    (figures,) = summary.figures
    assert [each.text for each in figures] == ["0 of 0", "unknown", "unknown", "unknown", "unknown"]
    assert make_text(summary).startswith("nightly: 0 of 1 items passed · 1 not run\n")
    assert "unknown" in read_page(directory).text
    assert list(find_faults(ElementTree.fromstring(make_junit(summary)))) == []


def test_the_cost_of_all_attempts_counts_and_an_unknown_one_is_named(tmp_path: Path) -> None:
    item = make_item(0, "shop")
    directory = make_batch(tmp_path / "batch", (item,))
    add_record(directory, item, "agent_died", 1, cost=Cost(amount=1.5, currency="USD"))
    add_record(directory, item, "timed_out", 2)
    add_record(directory, item, "setup_failed", 3)  # the agent was not asked: nothing was spent
    add_record(directory, item, "passed", 4, cost=Cost(amount=0.25, currency="EUR"), usage={"inputTokens": 3})
    (column,) = summarize(directory).columns
    assert column.spent.write_cost() == "0.25 EUR + 1.5 USD + 1 unknown"
    assert column.spent.write_tokens() == "3 + 2 unknown"


@pytest.mark.whole
def test_answers_are_not_kept_in_memory(tmp_path: Path) -> None:
    items = tuple(make_item(n, f"task-{n}") for n in range(100))
    directory = make_batch(tmp_path / "batch", items)
    for item in items:
        add_record(directory, item, "passed", answer="x" * 65536)
    directory = open_batch(directory.path)
    tracemalloc.start()
    try:
        summarize(directory)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * 65536


# Text.


def test_the_summary_names_what_did_not_pass_with_its_reason(every: BatchDirectory) -> None:
    assert make_text(summarize(every)) == (
        "nightly: 2 of 14 items passed · 1 failed · 1 empty · 1 refused · 1 limited · 1 unknown · 1 rate limited · "
        "1 denied · 1 agent died · 1 timed out · 1 cancelled · 1 setup failed · 1 not run\n"
        """
Profiles
profile  passed   pass rate  cost                  tokens              time
demo     2 of 12  16%        0.5 USD + 11 unknown  2,470 + 10 unknown  5.5 s

Did not pass
item               outcome       reason
failed.demo        failed        pytest -q ended with 1
empty.demo         empty         the answer is empty
refused.demo       refused       the agent stopped: refusal
limited.demo       limited       the agent stopped: max_tokens
unknown.demo       unknown       the agent does not say whether its turn failed: add a check
rate_limited.demo  rate limited  429 Too Many Requests
denied.demo        denied        denied: Run git push
agent_died.demo    agent died    the agent died
timed_out.demo     timed out     --timeout 30m is over
cancelled.demo     cancelled     cancelled
setup_failed.demo  setup failed  the command claude is missing

Retried
item        attempts
again.demo  agent died, passed

Slowest
item               time
setup_failed.demo  12 s
cancelled.demo     11 s
timed_out.demo     10 s
agent_died.demo    9 s
denied.demo        8 s
rate_limited.demo  7 s
unknown.demo       6 s
limited.demo       5 s
refused.demo       4 s
empty.demo         3 s
"""
    )


def test_a_check_that_passed_its_limit_is_the_reason(tmp_path: Path) -> None:
    item = make_item(0, "shop")
    directory = make_batch(tmp_path / "batch", (item,))
    add_record(directory, item, "failed", check=CheckResult(command=("make", "test"), exit_code=None, seconds=600))
    assert "shop.demo  failed   make test passed its time limit\n" in make_text(summarize(directory))


def test_a_long_list_is_cut_and_says_so(tmp_path: Path) -> None:
    items = tuple(make_item(n, f"task-{n}") for n in range(25))
    directory = make_batch(tmp_path / "batch", items)
    for item in items:
        add_record(directory, item, "empty")
    assert "… and 5 more\n" in make_text(summarize(directory))


# Markdown.


def test_markdown_has_tables_for_a_summary_of_ci(every: BatchDirectory) -> None:
    lines = make_markdown(summarize(every)).splitlines()
    assert lines[0] == "## nightly"
    assert "| demo | 2 of 12 | 16% | 0.5 USD + 11 unknown | 2,470 + 10 unknown | 5.5 s |" in lines
    assert "| agent\\_died.demo | agent died | the agent died |" in lines
    assert "| again.demo | agent died, passed |" in lines


def test_nothing_in_a_cell_acts_as_markdown(tmp_path: Path) -> None:
    item = make_item(0, "shop")
    directory = make_batch(tmp_path / "batch", (item,), name="a|b `c` <b>")
    add_record(directory, item, "agent_died", error=ErrorFacts(exit_code=4, message=HOSTILE))
    text = make_markdown(summarize(directory))
    assert text.startswith("## a\\|b \\`c\\` \\<b\\>\n")
    (row,) = [line for line in text.splitlines() if "script" in line]
    assert re.sub(r"\\.", "", row).count("|") == 4
    assert not set(re.sub(r"\\.", "", row)) & set("`*_[]<>$&")
    assert "\x1b" not in text and "\u202e" not in text


def test_markdown_stays_below_what_ci_shows_and_says_what_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured on twenty rows of the longest."""
    whole = report.MOST_ROWS / 20
    monkeypatch.setattr(report, "MOST_ROWS", 20)
    items = tuple(make_item(n, f"{n}{'_' * 240}") for n in range(27))
    directory = make_batch(tmp_path / "batch", items)
    error = ErrorFacts(exit_code=4, message="\N{HOT BEVERAGE}" * 300)
    for item in items:
        add_record(directory, item, "agent_died", error=error)
    text = make_markdown(summarize(directory))
    assert 400_000 < len(text.encode()) * whole < 1 << 20
    assert text.count("… and 7 more\n") == 1


# JUnit.


def test_junit_is_valid_and_every_outcome_has_its_kind(every: BatchDirectory) -> None:
    root = ElementTree.fromstring(make_junit(summarize(every)))
    assert list(find_faults(root)) == []
    (suite,) = root
    kinds = {str(case.get("name")): [child.tag for child in case] for case in suite.findall("testcase")}
    failures = ("failed", "empty", "refused", "limited", "denied")
    for outcome in set(OUTCOMES) - {"passed"}:
        assert kinds[f"{outcome}.demo"][0] == ("failure" if outcome in failures else "error")
    assert kinds["passed.demo"] == ["system-out"]
    assert kinds["never.demo"] == ["skipped"]
    assert kinds["again.demo"] == ["flakyError", "system-out"]
    assert [suite.get(name) for name in ("name", "tests", "failures", "errors", "skipped")] == [
        *("demo", "14", "5", "6", "1")
    ]
    properties = {each.get("name"): each.get("value") for each in suite.iter("property")}
    assert properties == {"cost": "0.5 USD + 11 unknown", "tokens": "2,470 + 10 unknown"}
    (case,) = [each for each in root.iter("testcase") if each.get("name") == "again.demo"]
    assert (case.get("classname"), case.get("time")) == ("demo", "2.000")
    said = "attempts: agent died, passed\ncost: 0.25 USD + 1 unknown\ntokens: 1,200 + 1 unknown"
    assert case.findtext("system-out") == said


def test_an_item_that_failed_again_has_its_earlier_attempts(tmp_path: Path) -> None:
    item = make_item(0, "shop")
    directory = make_batch(tmp_path / "batch", (item,))
    add_record(directory, item, "failed", 1)
    add_record(directory, item, "timed_out", 2, error=ErrorFacts(exit_code=124, message="too late"))
    root = ElementTree.fromstring(make_junit(summarize(directory)))
    (case,) = root.iter("testcase")
    assert [each.tag for each in case] == ["rerunFailure", "error", "system-out"]
    assert case.find("error").attrib == {"type": "timed_out", "message": "too late"}  # type: ignore[union-attr]


def test_characters_that_xml_forbids_are_replaced(tmp_path: Path) -> None:
    item = make_item(0, "shop")
    directory = make_batch(tmp_path / "batch", (item,), name="a\x00b")
    add_record(directory, item, "agent_died", error=ErrorFacts(exit_code=4, message="\x1b[31m\x00<&\ufffe\"'ü🎈"))
    root = ElementTree.fromstring(make_junit(summarize(directory)))
    assert root.get("name") == "a\ufffdb"
    (error,) = root.iter("error")
    assert error.get("message") == "\ufffd[31m\ufffd<&\ufffd\"'ü🎈"


# The page.


def make_hostile(at: Path) -> BatchDirectory:
    name = HOSTILE.replace("/", "").replace("\0", "")  # of a directory
    item = make_item(0, name, name, prompt=HOSTILE)
    directory = make_batch(at, (item,), name=HOSTILE)
    error = ErrorFacts(exit_code=4, message=HOSTILE, fix=HOSTILE, data={HOSTILE: HOSTILE})
    given: dict[str, Any] = {"error": error, "answer": HOSTILE, "patch": PATCH}
    add_record(directory, item, "agent_died", 1, **given)
    add_record(directory, item, "agent_died", 2, **given)
    for name in ("patch.diff", "check.txt", "answer.md"):
        write_text(directory, item, 2, name, HOSTILE)
    return directory


def test_nothing_that_others_wrote_is_markup_and_nothing_comes_from_elsewhere(tmp_path: Path) -> None:
    found = read_page(make_hostile(tmp_path / "b"))
    assert {tag for tag, _ in found.elements} <= {
        *("html", "head", "meta", "title", "style", "body", "header", "main", "h1", "h2", "p", "div", "table", "thead"),
        *("tbody", "tr", "th", "td", "a", "span", "svg", "rect", "line", "circle", "text", "figure", "figcaption"),
        *("ol", "li", "details", "summary", "pre"),
    }
    for _, attributes in found.elements:
        assert not {"src", "style", "xlink:href"} & set(attributes)
        assert not [name for name in attributes if name.startswith("on")]
        assert str(attributes.get("href", "#")).startswith("#")
    assert "<script>alert(1)</script>" in found.text
    assert not re.search("[\x00\x1b\u202e]", found.text)


def test_the_policy_of_the_page_allows_its_own_style_alone(every: BatchDirectory) -> None:
    html = make_page(every, summarize(every))
    (style,) = re.findall("<style>(.*?)</style>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policies = [each["content"] for each in Reader(html).find("meta") if "http-equiv" in each]
    assert policies == [f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"]
    assert "url(" not in style and "@import" not in style
    assert "prefers-color-scheme:dark" in style


def test_the_page_shows_every_item_and_leads_to_its_texts(every: BatchDirectory) -> None:
    found = read_page(every)
    anchors = {str(each["id"]) for each in found.find("details") if "id" in each}
    linked = {str(each["href"])[1:] for each in found.find("a")}
    assert linked <= anchors and len(anchors) == 13  # all but the one that was not run
    assert all("scope" in each for each in found.find("th"))
    for text in ("– not run", "✗ agent died", "✓ passed", "agent died, passed", "1 failed, 3 passed", "+new", "42"):
        assert text in found.text
    assert "fix: look at its log" in found.text and "data: {'retryAfter': 3}" in found.text


def test_a_cell_of_samples_says_in_words_how_many_passed(sampled: BatchDirectory) -> None:
    found = read_page(sampled)
    for text in ("✓ ✓ ✓ 3 of 3", "✗ ✓ ✗ 1 of 3", "✗ ✗ ✗ 0 of 3", "pass@3"):
        assert text in found.text
    assert "shop.claude.opus.1: passed" in [each["aria-label"] for each in found.find("a")]


def test_an_unknown_cost_is_neither_a_bar_nor_a_point(sampled: BatchDirectory) -> None:
    found = read_page(sampled)
    assert "Not drawn, since the cost is unknown: claude sonnet." in found.text
    assert "claude opus: 12 USD, 66%" in found.text
    assert len(found.find("circle")) == 1
    assert len([each for each in found.find("rect") if each["class"] == "bar"]) == 9  # 2 × 5 figures, one unknown


def test_costs_in_two_currencies_are_not_compared(tmp_path: Path) -> None:
    items = (make_item(0, "shop", "claude"), make_item(1, "shop", "codex"))
    directory = make_batch(tmp_path / "b", items)
    for item, currency in zip(items, ("USD", "EUR"), strict=True):
        add_record(directory, item, "passed", cost=Cost(amount=1, currency=currency))
    found = read_page(directory)
    assert not found.find("circle")
    assert "1 USD" in found.text and "1 EUR" in found.text


def test_a_long_text_is_cut_and_says_how_much_is_left_out(tmp_path: Path) -> None:
    item = make_item(0, "shop")
    directory = make_batch(tmp_path / "b", (item,))
    add_record(directory, item, "passed", answer="ü" * 32768)
    write_text(directory, item, 1, "answer.md", "ü" * 40000)
    write_text(directory, item, 1, "patch.diff", "+new\n" * 20000)
    text = read_page(directory).text
    assert f"{80000 - 65536:,} bytes left out" in text
    assert f"{100000 - 65536:,} bytes left out" in text


def test_texts_on_the_page_are_bounded_and_those_of_what_failed_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = tuple(make_item(n, f"task-{n}") for n in range(30))
    directory = make_batch(tmp_path / "b", items)
    for item in items:
        add_record(directory, item, "failed" if item.index == 29 else "passed")
        write_text(directory, item, 1, "answer.md", f"the answer of {item.index}. " + "x" * 1000)
    monkeypatch.setattr(page, "MAX_TEXT_BYTES", 5000)
    found = read_page(directory)
    assert "the answer of 29." in found.text
    assert found.text.count("the answer of") < 10
    assert "Its texts are left out, since the page is full." in found.text
    assert len([each for each in found.find("details") if "id" in each]) == 30


# The verb.


def test_files_are_readable_by_others_and_are_replaced_as_a_whole(
    every: BatchDirectory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    html, junit = tmp_path / "page.html", tmp_path / "junit.xml"
    html.write_text("old")
    assert make_report(every.path, html=html, markdown=False, junit=junit) == 0
    assert [stat.S_IMODE(each.stat().st_mode) for each in (html, junit)] == [0o644, 0o644]
    assert html.read_text().startswith("<!doctype html>")
    assert ElementTree.fromstring(junit.read_text()).tag == "testsuites"
    assert capsys.readouterr() == ("", f"acp-launch: wrote {html}\nacp-launch: wrote {junit}\n")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["batch", "junit.xml", "page.html"]


def test_a_file_that_cannot_be_written_is_one_message(every: BatchDirectory, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write .*/missing/page\.html: No such file or directory"):
        make_report(every.path, html=tmp_path / "missing" / "page.html", markdown=False, junit=None)


def test_the_projection_is_made_again_unless_the_directory_is_not_ours(
    every: BatchDirectory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_report(every.path, html=None, markdown=False, junit=None)
    assert len((every.path / RESULTS).read_text().splitlines()) == 14
    printed = capsys.readouterr().out

    def refuse(_: BatchDirectory) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(BatchDirectory, "write_results", refuse)
    assert make_report(every.path, html=None, markdown=False, junit=None) == 0
    assert capsys.readouterr().out == printed == make_text(summarize(every))


def test_the_command_prints_a_summary_and_markdown(every: BatchDirectory, launch: Launcher) -> None:
    assert launch("batch", "report", str(every.path)).out.startswith(b"nightly: 2 of 14 items passed")
    assert launch("batch", "report", str(every.path), "--markdown").out.startswith(b"## nightly\n")
    ended = launch("batch", "report", "nothing")
    assert (ended.code, ended.out) == (2, b"")
