"""The page of a batch: one HTML file that loads nothing and runs nothing, whatever agents and tasks wrote."""

import base64
import hashlib
import os
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from acp_launch.batch.figures import NO_RECORD, UNKNOWN, ItemResult, Summary, name_column, write_rate
from acp_launch.batch.store import ANSWER, CHECK, PATCH, BatchDirectory
from acp_launch.batch.trees import tell_kept
from acp_launch.console.stderr import harmless
from acp_launch.problem import count
from acp_launch.waits import seconds

MAX_TEXT_BYTES = 4 << 20  # of all items
MAX_PART_BYTES = 64 << 10  # of one text

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
th,td{padding:.3rem .7rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top;
min-width:6rem;max-width:22rem;overflow-wrap:anywhere}
thead th{background:var(--box)}
td svg{display:block;width:100%;min-width:5rem;height:.3rem;margin-top:.2rem}svg .bar{fill:var(--bar)}
svg .track{fill:var(--line)}figure{margin:0;max-width:40rem}figure svg{width:100%;height:auto}
svg text{fill:var(--text);font-size:14px}svg line{stroke:var(--line)}svg circle{fill:var(--bar)}
svg .on{fill:var(--back);font-size:12px;font-weight:700}
tbody th{min-width:9rem}a{color:inherit}.good{color:var(--good)}.bad{color:var(--bad)}.mild{color:var(--mild)}
details{border:1px solid var(--line);border-radius:.4rem;margin:.4rem 0;padding:.4rem .7rem}
details details{background:var(--box)}details:target{border-color:var(--bar)}summary{cursor:pointer}
pre{overflow:auto;max-height:34rem;margin:.4rem 0;font:.8rem/1.45 ui-monospace,monospace;white-space:pre-wrap}
pre.patch{white-space:pre}
"""

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
content="default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>{name}</title>
<style>{style}</style></head>
<body>
<header><h1>{name}</h1><p>{counts}</p><p class="dim">{made}</p>{kept}</header>
<main>
{parts}</main>
</body></html>
"""
SCALE = "".join(  # of the pass rates
    f'<line x1="50" x2="470" y1="{y}" y2="{y}"/><text x="42" y="{y + 5}" text-anchor="end">{label}</text>'
    for y, label in ((20, "100%"), (115, "50%"), (210, "0%"))
)


def make_page(directory: BatchDirectory, summary: Summary) -> str:
    """Write the page. Texts of items that did not pass come first, since there is room for some."""
    batch = summary.batch
    items = {each.item.id: each for each in summary.results}
    parts = [_draw_columns(summary), _draw_scatter(summary), _draw_matrix(summary)]
    for title, headings, rows in summary.tables[2:]:  # the items that did not pass are below
        cells = [[_link(items[id], id), *map(_text, others)] for id, *others in rows]
        parts.append(_draw_table(title, headings, cells) if rows else "")
    return PAGE.format(
        digest=base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode(),
        style=STYLE,
        name=_text(batch.name),
        counts=_text(summary.counts),
        made=_text(f"{batch.created} · acp-launch {batch.acp_launch}"),
        kept="".join(f'<p class="dim">{_text(line)}</p>' for line in tell_kept(directory)),
        parts="".join([*parts, "<h2>Items</h2>\n", *_draw_items(directory, summary.results)]),
    )


def _text(text: str) -> str:
    """Write foreign text: it is neither markup, nor can it change the direction of what follows."""
    return escape(harmless(text))


def _mark(result: ItemResult) -> tuple[str, str]:
    """Return the sign of an item's outcome, and the class of its colour."""
    if result.is_passed:
        return "✓", "good"
    return ("–", "dim") if result.outcome == NO_RECORD else ("✗", "bad") if result.is_counted else ("○", "mild")


def _link(result: ItemResult, text: str) -> str:
    """Write what leads to the texts of an item, if it has some."""
    _, colour = _mark(result)
    if not result.outcomes:
        return f'<span class="{colour}">{_text(text)}</span>'
    label = _text(f"{result.item.id}: {result.outcome}")
    return f'<a class="{colour}" href="#i{result.item.index}" aria-label="{label}" title="{label}">{_text(text)}</a>'


def _draw_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Draw a table of cells of HTML; the first of each row is its heading."""
    head = "".join(f'<th scope="col">{_text(each)}</th>' for each in headings)
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>\n'
        for first, *cells in rows
    )
    return (
        f'<h2>{title}</h2>\n<div class="wide" role="region" tabindex="0" aria-label="{title}"><table>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>\n"
    )


def _draw_columns(summary: Summary) -> str:
    """Draw the figures of the profiles, with a bar below each that can be compared."""
    title, headings, _ = summary.tables[0]
    largest = [max(each.whole or each.number or 0.0 for each in same) for same in zip(*summary.figures, strict=True)]
    rows = [
        [_text(column.name), *(_text(each.text) + _draw_bar(each.number, most) for each, most in pairs)]
        for column, figures in zip(summary.columns, summary.figures, strict=True)
        for pairs in [zip(figures, largest, strict=True)]
    ]
    note = '<p class="dim">A pass rate leaves out what was cancelled or not run; the time is a median.</p>\n'
    return _draw_table(title, headings, rows) + note


def _draw_bar(number: float | None, most: float) -> str:
    if number is None:
        return ""
    width = 100 * max(0.0, number / most) if most > 0 else 0.0
    return (
        '<svg viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="100" '
        f'height="4"/><rect class="bar" width="{width:.1f}" height="4"/></svg>'
    )


def _draw_scatter(summary: Summary) -> str:
    """Draw cost against pass rate, for the profiles of which both are known; the list below it has the figures."""
    known = [(each, each.spent.costs.get(summary.currency)) for each in summary.columns]
    points = [(each, each.rate, cost) for each, cost in known if each.rate is not None and cost is not None]
    most = max((cost for *_, cost in points), default=0.0) or 1.0
    drawn = legend = ""
    for number, (column, rate, cost) in enumerate(points, 1):
        x, y = 60 + 390 * max(0.0, cost) / most, 210 - 190 * rate
        drawn += f'<circle cx="{x:.1f}" cy="{y:.1f}" r="10"/>'
        drawn += f'<text class="on" x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle">{number}</text>'
        legend += f"<li>{_text(f'{column.name}: {column.spent.write_cost()}, {write_rate(rate)}')}</li>"
    figure = (
        '<svg viewBox="0 0 480 255" role="img" aria-label="Cost and pass rate">'
        f'{SCALE}{drawn}<text x="60" y="245">0</text><text x="460" y="245" text-anchor="end">{most:,.4g} '
        f"{_text(summary.currency)}</text></svg><figcaption><ol>{legend}</ol></figcaption>"
    )
    names = ", ".join(each.name for each, cost in known if cost is None)
    left_out = f"<p>Not drawn, since the cost is {UNKNOWN}: {_text(names)}.</p>" if names else ""
    return f"<h2>Cost and pass rate</h2>\n<figure>{figure if points else ''}{left_out}</figure>\n"


def _draw_matrix(summary: Summary) -> str:
    """Draw tasks × profiles; a cell has a sign for each sample."""
    cells: dict[str, dict[str, list[ItemResult]]] = {}
    for each in summary.results:
        cells.setdefault(each.item.task, {}).setdefault(name_column(each.item), []).append(each)
    names = [each.name for each in summary.columns]
    rows = [[_text(task), *(_draw_cell(found.get(name, [])) for name in names)] for task, found in cells.items()]
    return _draw_table("Tasks", ["task", *names], rows)


def _draw_cell(results: Sequence[ItemResult]) -> str:
    if len(results) < 2:
        return "".join(_link(each, f"{_mark(each)[0]} {each.outcome}") for each in results)
    signs = " ".join(_link(each, _mark(each)[0]) for each in results)
    return f"{signs} {sum(each.is_passed for each in results)} of {len(results)}"


def _draw_items(directory: BatchDirectory, results: Sequence[ItemResult]) -> Iterator[str]:
    """Yield each item, folded; when their texts have used up the room of the page, without them."""
    room = MAX_TEXT_BYTES
    for each in sorted((each for each in results if each.outcomes), key=lambda each: each.is_passed):
        sign, colour = _mark(each)
        reason = f": {_text(each.reason)}" if each.reason else ""
        head = f'<span class="{colour}">{sign} {_text(each.outcome)}</span> {_text(each.item.id)}{reason}'
        texts = _draw_texts(directory, each) if room > 0 else "<p>Its texts are left out, since the page is full.</p>"
        room -= len(texts.encode(errors="replace"))
        spent, place = each.spent, f"items/{each.item.id}/{each.attempt}"
        facts = (each.way, seconds(each.seconds), spent.write_cost(), f"{spent.write_tokens()} tokens", place)
        where = f'<p class="dim">{_text(" · ".join(facts))}</p>'
        yield f'<details id="i{each.item.index}"><summary>{head}</summary>\n{where}{texts}</details>\n'


def _draw_texts(directory: BatchDirectory, result: ItemResult) -> str:
    """Draw the texts of the last attempt of an item."""
    place = directory.directory_of(result.item.id, result.attempt)
    files = (("check", CHECK), ("answer", ANSWER), ("patch", PATCH))
    texts = {"prompt": _cut(result.item.prompt.encode(errors="replace"))}
    record = directory.read_record(result.item.id, result.attempt)
    if error := record.error:
        data = None if error.data is None else f"data: {error.data}"
        told = filter(None, (error.message, error.fix and f"fix: {error.fix}", data))
        texts["error"] = _cut("\n".join(told).encode(errors="replace"))
    texts |= {title: _read_start(directory, place / name) for title, name in files}
    if record.patch and record.patch.warning:
        texts["patch"] = f"left out: {record.patch.warning}"
    return "".join(_fold(title, text) for title, text in texts.items() if text.strip())


def _read_start(directory: BatchDirectory, file: Path) -> str:
    try:
        with directory.open(file) as opened:
            return _cut(opened.read(MAX_PART_BYTES), os.fstat(opened.fileno()).st_size)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _cut(data: bytes, size: int = 0) -> str:
    """Return the beginning of a text, and how many bytes of the whole are left out."""
    left = max(size, len(data)) - MAX_PART_BYTES
    return data[:MAX_PART_BYTES].decode(errors="replace") + (f"\n… {count(left, 'byte')} left out" if left > 0 else "")


def _fold(title: str, text: str) -> str:
    body = "\n".join(map(_draw_change, text.split("\n"))) if title == "patch" else _text(text)
    lines = count(len(text.splitlines()), "line")
    return f'<details><summary>{title} ({lines})</summary><pre class="{title}">{body}</pre></details>\n'


def _draw_change(line: str) -> str:
    colour = {"+": "good", "-": "bad", "@": "mild"}.get(line[:1])
    return f'<span class="{colour}">{_text(line)}</span>' if colour else _text(line)
