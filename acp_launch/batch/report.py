"""`batch report`: a summary as text or Markdown, JUnit XML, and the page."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

from acp_launch.batch.figures import ItemResult, Summary, add_up, summarize
from acp_launch.batch.page import make_page
from acp_launch.batch.store import explain_faults, open_batch
from acp_launch.console import stdout
from acp_launch.console.stderr import tell
from acp_launch.errors import UsageError
from acp_launch.private import replace
from acp_launch.regex import regex

MOST_LINES = 20  # of a table in the text
MOST_ROWS = 400  # of a table in Markdown: GitHub drops a summary of more than 1 MiB
FAILED = ("failed", "empty", "refused", "limited", "denied")  # by what the agent did; the others are errors
NOT_XML = regex("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
SPECIAL = regex(r"([\\`*_{}\[\]<>#|~!$&])")


@explain_faults()
def make_report(directory: Path, *, html: Path | None, markdown: bool, junit: Path | None) -> int:
    """Write the reports that are asked for; without any, print a summary."""
    batch = open_batch(directory)
    with suppress(OSError):  # one that cannot be written can be reported on
        batch.write_results()
    summary = summarize(batch)
    if html:
        _write(html, make_page(batch, summary))
    if junit:
        _write(junit, make_junit(summary))
    if markdown:
        stdout.put(make_markdown(summary))
    if not (html or junit or markdown):
        stdout.put(make_text(summary, stdout.terminal_width()))
    return 0


def _write(file: Path, text: str) -> None:
    """Write a report that others may read, as a CI that publishes it does."""
    try:
        replace(file, text.encode(errors="replace"), mode=0o644)
    except OSError as fault:
        raise UsageError(f"cannot write {file}: {fault.strerror}", fix="choose another file") from fault
    tell(f"wrote {file}")


def make_text(summary: Summary, width: int | None = None) -> str:
    """Write the summary for a terminal, or a pipe."""
    lines = [f"{summary.batch.name}: {summary.counts}"]
    for title, headings, rows in filter(lambda table: table.rows, summary.tables):
        last = len(headings) - 1
        lines += ["", title, *stdout.columns([headings, *rows[:MOST_LINES]], width=width, ends=(last,))]
        lines += _tell_rest(rows, MOST_LINES)
    return "".join(f"{stdout.plain(line)}\n" for line in lines)


def make_markdown(summary: Summary) -> str:
    """Write the summary as Markdown, of at most as many bytes as a CI shows."""
    lines = [f"## {_escape(summary.batch.name)}", "", _escape(summary.counts)]
    for title, headings, rows in filter(lambda table: table.rows, summary.tables):
        lines += ["", f"### {title}", "", f"| {' | '.join(headings)} |", f"|{'---|' * len(headings)}"]
        lines += [f"| {' | '.join(map(_escape, row))} |" for row in rows[:MOST_ROWS]]
        lines += ["", *_tell_rest(rows, MOST_ROWS)]
    return "".join(f"{line}\n" for line in lines)


def _tell_rest(rows: Sequence[object], most: int) -> list[str]:
    return [f"… and {len(rows) - most:,} more"] if len(rows) > most else []


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
        _add_suite(root, profile, [each for each in summary.results if each.item.profile == profile])
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _add_suite(root: ElementTree.Element, profile: str, results: Sequence[ItemResult]) -> None:
    spent = add_up([each.spent for each in results])
    suite = _add(root, "testsuite", name=profile, tests=str(len(results)), time=f"{spent.seconds:.3f}")
    properties = _add(suite, "properties")
    _add(properties, "property", name="cost", value=spent.write_cost())
    _add(properties, "property", name="tokens", value=spent.write_tokens())
    for each in results:
        _add_case(suite, each)
    for kind, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(attribute, str(len(suite.findall(f"testcase/{kind}"))))


def _add_case(suite: ElementTree.Element, result: ItemResult) -> None:
    item, spent = result.item, result.spent
    case = _add(suite, "testcase", classname=item.profile, name=item.id, time=f"{spent.seconds:.3f}")
    if not result.outcomes:
        _add(case, "skipped", message="no attempt has a record")
        return
    *earlier, last = result.outcomes
    again = "flaky" if result.is_passed else "rerun"
    for outcome in earlier:
        kind = "Failure" if outcome in FAILED else "Error"
        _add(case, again + kind, type=outcome, message="an earlier attempt")
    if not result.is_passed:
        kind = "failure" if last in FAILED else "error"
        _add(case, kind, type=last, message=result.reason or result.outcome)
    figures = f"attempts: {result.way}\ncost: {spent.write_cost()}\ntokens: {spent.write_tokens()}"
    _add(case, "system-out").text = _clean(figures)


def _add(parent: ElementTree.Element, tag: str, **attributes: str) -> ElementTree.Element:
    return ElementTree.SubElement(parent, tag, {name: _clean(value) for name, value in attributes.items()})


def _clean(text: str) -> str:
    """Replace the characters that XML forbids."""
    return NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
