"""The page of a batch: one HTML file that loads nothing and runs nothing, whatever agents and tasks wrote."""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from html import escape
from itertools import islice
from pathlib import Path

from acp_launch.batch.figures import NO_RECORD, UNKNOWN, Column, Result, Summary, name_column, write_rate, write_way
from acp_launch.batch.model import Record
from acp_launch.batch.store import BatchDirectory
from acp_launch.console.stderr import harmless
from acp_launch.problem import count
from acp_launch.waits import seconds

MOST = 4 << 20  # bytes of texts of items
PART = 64 << 10  # bytes of one text
ROWS = 1000  # of a list

STYLE = """
:root{color-scheme:light dark;--back:#fff;--text:#1f2328;--dim:#59636e;--line:#d1d9e0;--box:#f6f8fa;--bar:#0969da;
--good:#116329;--bad:#b3131f;--mild:#7d4e00}
@media(prefers-color-scheme:dark){:root{--back:#0d1117;--text:#e6edf3;--dim:#9198a1;--line:#3d444d;--box:#151b23;
--bar:#4493f8;--good:#3fb950;--bad:#ff7b72;--mild:#d29922}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:75rem;padding:1rem;background:var(--back);color:var(--text);
font:1rem/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.5rem;margin:0}h2{font-size:1.15rem;margin:2rem 0 .5rem}p{margin:.3rem 0}.dim{color:var(--dim)}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem;overflow-wrap:normal}
th,td{padding:.3rem .7rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top;white-space:nowrap}
td.long,tbody th{white-space:normal;min-width:9rem;max-width:22rem;overflow-wrap:anywhere}
thead th{background:var(--box)}
td svg{display:block;width:100%;min-width:5rem;height:.3rem;margin-top:.2rem}svg .bar{fill:var(--bar)}
svg .track{fill:var(--line)}figure{margin:0;max-width:40rem}figure svg{width:100%;height:auto}
svg text{fill:var(--text);font-size:14px}svg line{stroke:var(--line)}svg circle{fill:var(--bar)}
svg .on{fill:var(--back);font-size:12px;font-weight:700}
a{color:inherit}.good{color:var(--good)}.bad{color:var(--bad)}.mild{color:var(--mild)}
details{border:1px solid var(--line);border-radius:.4rem;margin:.4rem 0;padding:.4rem .7rem}
details details{background:var(--box)}details:target{border-color:var(--bar)}summary{cursor:pointer}
pre{overflow:auto;max-height:34rem;margin:.4rem 0;font:.8rem/1.45 ui-monospace,monospace;white-space:pre-wrap}
pre.diff{white-space:pre}
"""
POLICY = f"default-src 'none'; style-src 'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'"


def make_page(directory: BatchDirectory, summary: Summary) -> str:
    """Write the page. Texts of items that did not pass come first, since its size is bounded."""
    batch = summary.batch
    shown = sorted((each for each in summary.results if each.outcomes), key=lambda each: each.is_passed)[:ROWS]
    linked = {each.item.id for each in shown}
    parts = [
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f"<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}; base-uri 'none'; form-action 'none'\">\n"
        f'<meta name="viewport" content="width=device-width,initial-scale=1">\n<title>{_text(batch.name)}</title>\n'
        f"<style>{STYLE}</style></head>\n<body>\n<header><h1>{_text(batch.name)}</h1>\n"
        f'<p>{_text(summary.counts)}</p><p class="dim">{_text(batch.created)} · acp-launch {_text(batch.acp_launch)}'
        f"</p></header>\n<main>\n",
        _draw_columns(summary),
        _draw_scatter(summary.columns),
        _draw_matrix(summary, linked),
        _list("Slowest", summary.slowest, linked),
        _list("Retries", summary.retried, linked),
        "<h2>Items</h2>\n",
        *_draw_items(directory, shown),
    ]
    left = sum(bool(each.outcomes) for each in summary.results) - len(shown)
    parts.append(f"<p>{count(left, 'item')} left out here: the directory has their records.</p>\n" if left else "")
    return "".join([*parts, "</main>\n</body></html>\n"])


def _text(text: str) -> str:
    """Write foreign text: it is neither markup, nor can it change the direction of what follows."""
    return escape(harmless(text))


def _anchor(result: Result) -> str:
    return f"i{result.item.index}"


def _mark(result: Result) -> tuple[str, str]:
    """Return the sign of an item's outcome, and the class of its colour."""
    if result.is_passed:
        return "✓", "good"
    return ("–", "dim") if result.outcome == NO_RECORD else ("✗", "bad") if result.is_counted else ("○", "mild")


def _link(result: Result, text: str, linked: set[str]) -> str:
    """Write what leads to the texts of an item, if the page has them."""
    _, colour = _mark(result)
    if result.item.id not in linked:
        return f'<span class="{colour}">{_text(text)}</span>'
    label = _text(f"{result.item.id}: {result.outcome}")
    return f'<a class="{colour}" href="#{_anchor(result)}" aria-label="{label}" title="{label}">{_text(text)}</a>'


def _draw_table(headings: Sequence[str], rows: Sequence[Sequence[str]], label: str) -> str:
    """Draw a table of cells of HTML; the first of each row is its heading."""
    head = "".join(f'<th scope="col">{_text(each)}</th>' for each in headings)
    body = "".join(f'<tr><th scope="row">{row[0]}</th>{"".join(row[1:])}</tr>\n' for row in rows)
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{_text(label)}"><table>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>\n"
    )


# Figures of profiles.


def _draw_columns(summary: Summary) -> str:
    """Draw the figures of the profiles, with a bar below each that can be compared."""
    currency = _find_currency(summary.columns)
    measured = [_measure(each, summary.samples, currency) for each in summary.columns]
    largest = [max(number or 0.0 for number in found) for found in zip(*measured, strict=True)]
    largest[:-3] = [1.0] * len(largest[:-3])  # of the rates
    rows = []
    for each, numbers in zip(summary.columns, measured, strict=True):
        first, *cells = each.cells(summary.samples)
        figures = zip(cells, numbers, largest, strict=True)
        drawn = [f"<td>{_text(cell)}{_draw_bar(number, most)}</td>" for cell, number, most in figures]
        rows.append([_text(each.name), f"<td>{first}</td>", *drawn])
    note = '<p class="dim">A pass rate leaves out what was cancelled or not run; the time is a median.</p>\n'
    return f"<h2>Profiles</h2>\n{_draw_table(summary.headings, rows, 'Profiles')}{note}"


def _measure(column: Column, samples: int, currency: str) -> list[float | None]:
    """Return the numbers of a profile's figures: rates, cost, tokens, seconds."""
    rates = [column.rate, *([column.pass_at(samples)] if samples > 1 else [])]
    return [*rates, column.spent.costs.get(currency), column.spent.tokens or None, column.seconds]


def _find_currency(columns: Sequence[Column]) -> str:
    """Return the only currency in which costs are known; else costs cannot be compared."""
    known = {currency for each in columns for currency in each.spent.costs}
    return known.pop() if len(known) == 1 else ""


def _draw_bar(value: float | None, largest: float) -> str:
    if value is None:
        return ""
    width = 100 * min(1.0, max(0.0, value / largest)) if largest > 0 else 0
    return (
        '<svg viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="100" '
        f'height="4"/><rect class="bar" width="{width:.1f}" height="4"/></svg>'
    )


def _draw_scatter(columns: Sequence[Column]) -> str:
    """Draw cost against pass rate, for the profiles of which both are known; the list below it has the figures."""
    currency = _find_currency(columns)
    points = [
        (each.spent.costs[currency], each.rate, f"{each.name}: {each.spent.write_cost()}, {write_rate(each.rate)}")
        for each in columns
        if each.rate is not None and currency in each.spent.costs
    ]
    names = [each.name for each in columns if currency not in each.spent.costs]
    left_out = f"<p>Not drawn, since the cost is {UNKNOWN}: {_text(', '.join(names))}.</p>" if names else ""
    if not points:
        return f"<h2>Cost and pass rate</h2>\n{left_out}\n"
    most = max(cost for cost, *_ in points) or 1.0
    drawn = "".join(
        f'<line x1="50" x2="470" y1="{y}" y2="{y}"/><text x="42" y="{y + 5}" text-anchor="end">{label}</text>'
        for y, label in ((20, "100%"), (115, "50%"), (210, "0%"))
    )
    for number, (cost, rate, _) in enumerate(points, 1):
        x, y = 60 + 390 * max(0.0, cost) / most, 210 - 190 * rate
        drawn += f'<circle cx="{x:.1f}" cy="{y:.1f}" r="10"/>'
        drawn += f'<text class="on" x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle">{number}</text>'
    legend = "".join(f"<li>{_text(said)}</li>" for *_, said in points)
    return (
        '<h2>Cost and pass rate</h2>\n<figure><svg viewBox="0 0 480 255" role="img" aria-label="Cost and pass rate">'
        f'{drawn}<text x="60" y="245">0</text><text x="460" y="245" text-anchor="end">{most:,.4g} {_text(currency)}'
        f"</text></svg><figcaption><ol>{legend}</ol>{left_out}</figcaption></figure>\n"
    )


def _draw_matrix(summary: Summary, linked: set[str]) -> str:
    """Draw tasks × profiles; a cell has a sign for each sample."""
    cells: dict[str, dict[str, list[Result]]] = {}
    for each in summary.results:
        cells.setdefault(each.item.task, {}).setdefault(name_column(each.item), []).append(each)
    names = [each.name for each in summary.columns]
    most = max(1, min(ROWS, 5 * ROWS * len(cells) // max(1, len(summary.results))))
    rows = [
        [_text(task), *(f"<td>{_draw_cell(found.get(name, []), linked)}</td>" for name in names)]
        for task, found in islice(cells.items(), most)
    ]
    more = f"<p>{count(len(cells) - most, 'task')} left out.</p>\n" if len(cells) > most else ""
    return f"<h2>Tasks</h2>\n{_draw_table(['task', *names], rows, 'Tasks and profiles')}{more}"


def _draw_cell(results: Sequence[Result], linked: set[str]) -> str:
    if len(results) < 2:
        return "".join(_link(each, f"{_mark(each)[0]} {each.outcome}", linked) for each in results)
    signs = " ".join(_link(each, _mark(each)[0], linked) for each in results)
    return f"{signs} {sum(each.is_passed for each in results)} of {len(results)}"


def _list(title: str, results: Sequence[Result], linked: set[str]) -> str:
    rows = [
        [
            _link(each, each.item.id, linked),
            f"<td>{seconds(each.seconds)}</td>",
            f'<td class="long">{_text(write_way(each))}</td>',
        ]
        for each in results[:ROWS]
    ]
    more = f"<p>{count(len(results) - ROWS, 'item')} left out.</p>\n" if len(results) > ROWS else ""
    return f"<h2>{title}</h2>\n{_draw_table(('item', 'time', 'attempts'), rows, title)}{more}" if rows else ""


# The texts of items.


def _draw_items(directory: BatchDirectory, results: Sequence[Result]) -> Iterator[str]:
    """Yield each item, folded; when their texts have used up the room of the page, without them."""
    room = MOST
    for each in results:
        sign, colour = _mark(each)
        reason = f": {_text(each.reason)}" if each.reason else ""
        head = f'<span class="{colour}">{sign} {_text(each.outcome)}</span> {_text(each.item.id)}{reason}'
        texts = _draw_texts(directory, each) if room > 0 else "<p>Its texts are left out, since the page is full.</p>"
        room -= len(texts.encode(errors="replace"))
        facts = (write_way(each), seconds(each.seconds), each.spent.write_cost(), f"{each.spent.write_tokens()} tokens")
        where = f'<p class="dim">{_text(" · ".join((*facts, f"items/{each.item.id}/{each.attempt}")))}</p>'
        yield f'<details id="{_anchor(each)}"><summary>{head}</summary>\n{where}{texts}</details>\n'


def _draw_texts(directory: BatchDirectory, result: Result) -> str:
    """Draw the texts of the last attempt of an item."""
    record = directory.read_record(result.item.id, result.attempt)
    place = directory.directory_of(result.item.id, result.attempt)
    answer = _size(place / "answer.md")
    parts = [
        _fold("prompt", *_cut(result.item.prompt)),
        _fold("error", *_cut(_write_error(record))),
        _fold("check", *_read_start(place / "check.txt")),
        _fold("answer", *_cut(record.answer, answer)),
        _fold("patch", *_read_start(place / record.patch.path), is_diff=True) if record.patch else "",
    ]
    return "".join(parts)


def _write_error(record: Record) -> str:
    error = record.error
    if error is None:
        return ""
    data = "" if error.data is None else f"data: {error.data}"
    return "\n".join(filter(None, [error.message, error.fix and f"fix: {error.fix}", data]))


def _size(file: Path) -> int:
    return file.stat().st_size if file.is_file() else 0


def _cut(text: str, size: int = 0) -> tuple[str, int]:
    """Return the beginning of a text, and how many bytes of the whole are left out."""
    data = text.encode(errors="replace")
    kept = data[:PART].decode(errors="ignore")
    return kept, max(size, len(data)) - len(kept.encode())


def _read_start(file: Path) -> tuple[str, int]:
    if not file.is_file():
        return "", 0
    with file.open("rb") as opened:
        return _cut(opened.read(PART + 1).decode(errors="replace"), _size(file))


def _fold(title: str, text: str, left: int, *, is_diff: bool = False) -> str:
    if not text.strip():
        return ""
    body = "\n".join(map(_draw_change, text.split("\n"))) if is_diff else _text(text)
    more = f"<p>{count(left, 'byte')} left out.</p>" if left > 0 else ""
    lines = count(text.rstrip("\n").count("\n") + 1, "line")
    shape = ' class="diff"' if is_diff else ""
    return f"<details><summary>{title} ({lines})</summary><pre{shape}>{body}</pre>{more}</details>\n"


def _draw_change(line: str) -> str:
    colour = {"+": "good", "-": "bad", "@": "mild"}.get(line[:1])
    return f'<span class="{colour}">{_text(line)}</span>' if colour else _text(line)
