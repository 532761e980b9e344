"""`batch report`: a summary as text or Markdown, JUnit XML, the page, and traces."""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

from acp_launch.batch.figures import Result, Summary, add_up, summarize, write_way
from acp_launch.batch.store import open_batch
from acp_launch.console import stdout
from acp_launch.console.stderr import tell
from acp_launch.errors import UsageError
from acp_launch.private import replace
from acp_launch.problem import count
from acp_launch.waits import seconds

MOST_LINES = 20  # of a list in the text
MOST_MARKDOWN = 1_000_000  # bytes; GitHub drops a summary of more than 1 MiB
FAILED = ("failed", "empty", "refused", "limited", "denied")  # by what the agent did; the others are errors
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!$&])")


def make_report(directory: Path, *, html: Path | None, markdown: bool, junit: Path | None, otlp: str | None) -> int:
    """Write the reports that are asked for; without any, print a summary."""
    batch = open_batch(directory)
    with suppress(OSError):  # a batch that only others may write can be reported on
        batch.write_results()
    summary = summarize(batch)
    if html:
        from acp_launch.batch.page import make_page

        _write(html, make_page(batch, summary))
    if junit:
        _write(junit, make_junit(summary))
    if markdown:
        stdout.put(make_markdown(summary))
    if otlp:
        from acp_launch.batch.traces import send_traces

        tell(f"sent {count(send_traces(batch, otlp), 'span')} to {otlp}")
    if not (html or junit or markdown or otlp):
        stdout.put(make_text(summary, stdout.terminal_width()))
    return 0


def _write(file: Path, text: str) -> None:
    """Write a report that others may read, as a CI that publishes it does."""
    try:
        replace(file, text.encode(errors="replace"), mode=0o644)
    except OSError as fault:
        raise UsageError(f"cannot write {file}: {fault.strerror}", fix="choose another file") from fault
    tell(f"wrote {file}")


# Text.


def make_text(summary: Summary, width: int | None = None) -> str:
    """Write the summary for a terminal, or a pipe."""
    rows = [summary.headings, *([each.name, *each.cells(summary.samples)] for each in summary.columns)]
    failed = [(each.item.id, each.outcome, each.reason) for each in summary.failed]
    slowest = [(each.item.id, seconds(each.seconds)) for each in summary.slowest[:5]]
    retried = [(each.item.id, write_way(each)) for each in summary.retried]
    lists = (("Did not pass", failed, (2,)), ("Retried", retried, ()), ("Slowest", slowest, ()))
    lines = [f"{summary.batch.name}: {summary.counts}", "", *stdout.columns(rows)]
    for title, found, ends in lists:
        if found:
            lines += ["", title, *stdout.columns(found[:MOST_LINES], width=width, ends=ends)]
            lines += [f"… and {len(found) - MOST_LINES:,} more"] if len(found) > MOST_LINES else []
    return "".join(f"{stdout.plain(line)}\n" for line in lines)


# Markdown.


def make_markdown(summary: Summary) -> str:
    """Write the summary as Markdown, of at most as many bytes as a CI shows."""
    head = [f"## {_escape(summary.batch.name)}", "", _escape(summary.counts), ""]
    rows: Iterable[Sequence[str]] = ([each.name, *each.cells(summary.samples)] for each in summary.columns)
    failed = ((each.item.id, each.outcome, str(len(each.outcomes)), each.reason) for each in summary.failed)
    retried = ((each.item.id, write_way(each)) for each in summary.retried)
    slowest = ((each.item.id, seconds(each.seconds)) for each in summary.slowest)
    lines = "".join(f"{line}\n" for line in head)
    for title, headings, found in (
        ("", summary.headings, rows),
        ("Did not pass", ("item", "outcome", "attempts", "reason"), failed),
        ("Retried", ("item", "outcomes"), retried),
        ("Slowest", ("item", "time"), slowest),
    ):
        lines += _tabulate(title, headings, list(found), MOST_MARKDOWN - len(lines.encode()))
    return lines


def _tabulate(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], room: int) -> str:
    """Write a table of at most `room` bytes, and say how many rows do not fit."""
    if not rows:
        return ""
    begins = f"### {title}\n\n" if title else ""
    text = [f"{begins}| {' | '.join(headings)} |\n|{'---|' * len(headings)}\n"]
    room -= 300  # for this, the end, and what follows a table that is full
    for index, row in enumerate(rows):
        line = f"| {' | '.join(map(_escape, row))} |\n"
        room -= len(line.encode())
        if room < 0:
            text.append(f"\n{count(len(rows) - index, 'row')} left out: a summary has room for 1 MiB.\n")
            break
        text.append(line)
    return "".join(text) + "\n"


def _escape(text: str) -> str:
    """Return text on one line that no Markdown acts on."""
    return SPECIAL.sub(r"\\\1", stdout.plain(text))


# JUnit.


def make_junit(summary: Summary) -> str:
    """Write JUnit XML that the schema of Jenkins allows: a suite for each profile, a case for each item.

    That schema gives properties to suites only, so the figures of a case are in its output.
    """
    root = ElementTree.Element("testsuites", {"name": _clean(summary.batch.name)})
    for profile in dict.fromkeys(each.item.profile for each in summary.results):
        root.append(_make_suite(profile, [each for each in summary.results if each.item.profile == profile]))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _make_suite(profile: str, results: Sequence[Result]) -> ElementTree.Element:
    cases = [_make_case(each) for each in results]
    spent = add_up(each.spent for each in results)
    counts = {
        f"{kind}{'' if kind == 'skipped' else 's'}": str(sum(case.find(kind) is not None for case in cases))
        for kind in ("failure", "error", "skipped")
    }
    suite = ElementTree.Element(
        "testsuite", {"name": _clean(profile), "tests": str(len(cases)), **counts, "time": f"{spent.seconds:.3f}"}
    )
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in (("cost", spent.write_cost()), ("tokens", spent.write_tokens())):
        ElementTree.SubElement(properties, "property", {"name": name, "value": _clean(value)})
    suite.extend(cases)
    return suite


def _make_case(result: Result) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase",
        {
            "classname": _clean(result.item.profile),
            "name": _clean(result.item.id),
            "time": f"{result.spent.seconds:.3f}",
        },
    )
    if not result.outcomes:
        ElementTree.SubElement(case, "skipped", {"message": "no attempt has a record"})
        return case
    for outcome in result.outcomes[:-1]:
        again = "flaky" if result.is_passed else "rerun"
        kind = f"{again}{'Failure' if outcome in FAILED else 'Error'}"
        ElementTree.SubElement(case, kind, {"type": outcome, "message": "an earlier attempt"})
    if not result.is_passed:
        kind = "failure" if result.outcomes[-1] in FAILED else "error"
        told = {"type": result.outcomes[-1], "message": _clean(result.reason or result.outcome)}
        ElementTree.SubElement(case, kind, told)
    said = ElementTree.SubElement(case, "system-out")
    figures = (f"attempts: {write_way(result)}", f"cost: {result.spent.write_cost()}")
    said.text = _clean("\n".join([*figures, f"tokens: {result.spent.write_tokens()}"]))
    return case


def _clean(text: str) -> str:
    """Replace the characters that XML forbids."""
    return NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
