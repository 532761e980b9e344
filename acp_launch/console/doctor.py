"""
The output of `doctor`: one line per check, on stdout; a terminal gets long ones broken at their words.

It names neither the user nor a secret, so that it can be pasted anywhere. `--json` gives one object:

    profile      the profile asked for; null when only the machine is checked
    standing     the worst of all checks: ok, warning, problem
    exit_code    of the first stage at which a run would stop; 0 when it would not
    complete     false when a signal cut it short: `checks` then holds the results so far
    checks       in the order of the screen; each has
        check, subject    the thing checked: `server`, `github`; the subject may be empty
        standing          ok, warning, problem
        text, fix         a sentence; the next command, empty if the check is ok
        detail            further lines
        facts             the same as data: versions, capabilities, counts, `timings` in seconds, paths; by check
"""

import getpass
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from textwrap import wrap
from typing import Any

from acp_launch.checks.check import Anonymizer, Check
from acp_launch.console.draw.sanitize import cut, one_line
from acp_launch.console.stderr import YELLOW, say
from acp_launch.console.stdout import cells, has_colours, terminal_width
from acp_launch.problem import count
from acp_launch.secret.detect import masked
from acp_launch.secret.redact import redactor

COLOURS = {"ok": "32", "warning": "33", "problem": "31"}
SEVERITY = ("problem", "warning", "ok")
MAX_TEXT_CHARS = 400  # a server or agent may send a version or an error of any length
LABEL = 28  # cells a label may have before the texts after it stop lining up
ITEMS = 100  # of a list in the facts
DEPTH = 6
MIN_TEXT_CELLS = 30  # to the right of the labels


def show(found: Sequence[Check], profile: str | None, code: int, *, as_json: bool, is_cut_short: bool) -> None:
    """Print the checks on stdout, as text or as JSON."""
    home = os.path.expanduser("~")  # noqa: PTH111 - it returns "~" if the home is unknown
    homes = [home, os.path.realpath(home)] if Path(home).is_absolute() else []
    discretion = Anonymizer([each for each in homes if each != os.sep], _users())
    if as_json:
        verdicts = {check.verdict for check in found}
        answer = {
            "profile": profile,
            "standing": next((each for each in SEVERITY if each in verdicts), "ok"),
            "exit_code": code,
            "complete": not is_cut_short,
            "checks": [_check_json(check) for check in found],
        }
        _put([json.dumps(discretion.tree(_bound_size(redactor.tree(answer))))])
    else:
        _put(lines(found, discretion, coloured=has_colours(), columns=terminal_width()))
    if is_cut_short:
        say("acp-launch: stopped; these are the results so far", style=YELLOW)


def lines(
    found: Sequence[Check], discretion: Anonymizer, *, coloured: bool, columns: int | None = None
) -> Iterator[str]:
    """Yield the lines of the screen. They are safe on a terminal and in a bug report.

    A sentence that is wider than `columns` goes on below itself; a fix stays one line, as it may be a command.
    """
    labels = [_clean(f"{check.name} {check.subject}".strip(), discretion) for check in found]
    width = min(LABEL, max(map(cells, labels), default=0))
    for check, label in zip(found, labels, strict=True):
        verdict = f"{check.verdict:7}"
        painted = f"\x1b[{COLOURS[check.verdict]}m{verdict}\x1b[0m" if coloured else verdict
        indent = " " * (len(verdict) + width + 4)
        room = columns - len(indent) if columns else 0
        (first, *more), *details = (_fold(_clean(text, discretion), room) for text in (check.text, *check.detail))
        yield f"{painted}  {label}{' ' * (width - cells(label))}  {first}"
        yield from (f"{indent}{line}" for line in chain(more, *details))
        if check.fix:
            yield f"{indent}fix: {_clean(check.fix, discretion)}"
    counts = {verdict: sum(check.verdict == verdict for check in found) for verdict in SEVERITY}
    yield f"{count(counts['problem'], 'problem')}, {count(counts['warning'], 'warning')}, {counts['ok']} ok"


def _fold(text: str, columns: int) -> list[str]:
    """Break a text at its spaces; a word that is wider than `columns` stays whole. No room: one line."""
    if columns < MIN_TEXT_CELLS:
        return [text]
    return wrap(text, columns, break_long_words=False, break_on_hyphens=False) or [text]


def _check_json(check: Check) -> dict[str, Any]:
    return {
        "check": check.name,
        "subject": check.subject,
        "standing": check.verdict,
        "text": check.text,
        "fix": check.fix,
        "detail": list(check.detail),
        "facts": dict(check.facts),
    }


def _bound_size(value: Any, depth: int = 0) -> Any:
    """Cut strings, lists and nesting: an agent or a server may send values of any size."""
    if isinstance(value, str):
        return cut(masked(value), MAX_TEXT_CHARS)
    if depth > DEPTH:
        return "…"
    if isinstance(value, Mapping):
        return {cut(str(key), MAX_TEXT_CHARS): _bound_size(each, depth + 1) for key, each in [*value.items()][:ITEMS]}
    if isinstance(value, Sequence):
        return [_bound_size(each, depth + 1) for each in value[:ITEMS]]
    return value


def _clean(text: str, discretion: Anonymizer) -> str:
    return cut(one_line(discretion.text(masked(redactor.text(text)))), MAX_TEXT_CHARS)


def _put(lines: Iterable[str]) -> None:
    """Write UTF-8 whatever the locale is: servers use all languages."""
    sys.stdout.buffer.write("".join(f"{line}\n" for line in lines).encode(errors="replace"))
    sys.stdout.flush()


def _users() -> list[str]:
    names = [os.environ.get(name, "") for name in ("USER", "LOGNAME", "USERNAME")]
    try:
        names.append(getpass.getuser())
    except (KeyError, OSError, ImportError):  # the user of a container may have no name
        return names
    return names
