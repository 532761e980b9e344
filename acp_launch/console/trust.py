"""
What a profile would run, for somebody who decides whether to trust it; and what they have trusted.

The texts are a stranger's, who may want something to be overlooked: each takes one line, nothing in it is invisible,
and what is left out is counted.
"""

import re
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence

from acp_launch.console.columns import columns
from acp_launch.console.stderr import DIM, RED, harmless, paint
from acp_launch.plan.model import INHERITED, Inherited, LaunchPlan, RemotePlan, StdioPlan, Value
from acp_launch.profile.accepted import changes
from acp_launch.profile.trust import Acceptance, Standing

GREEN = "32"
LONGEST = 400  # lines of a diff, or of a content; what is more is counted
WIDEST = 2000  # characters of a line; the same
FOREIGN_MARKS = 8  # characters that are named one by one
RULES = "permissions.rules"
_GAP = re.compile(r" {9,}")  # that many could push what follows to where a line of its own would begin


def heading(standing: Standing) -> str:
    """What comes before a report."""
    return f"acp-launch: {_plain(standing.label)} would:"


def report(plan: LaunchPlan | None, standing: Standing) -> Iterator[str]:
    """Everything that would happen, and what is new since it was accepted; coloured for a terminal."""
    for doubt in standing.doubts:
        yield paint(f"  {_plain(doubt)}", RED)
    if plan is not None:
        parts = [*_parts(plan, _shareable(standing.now))]
        width = max(len(label) for label, _ in parts)
        yield from (f"  {label:{width}}  {_plain(text)}" for label, text in parts)
        texts = [standing.label, *(text for _, text in parts)]
    else:
        texts = [standing.label, *_shareable(standing.now)]
        yield "  it cannot be resolved on this machine yet; this is all it says:"
        yield from (f"    {_plain(line)}" for line in _cut(texts[1:]))
    if foreign := _foreign("".join(texts)):
        yield paint(f"  look twice: not everything is in ASCII, and may look like something else: {foreign}", RED)
    if standing.before is not None and standing.how == "changed":
        yield from _news(standing.before, standing.now)


def _news(before: Acceptance, now: Sequence[str]) -> Iterator[str]:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(before.since))
    yield f"changed since you accepted it on {when}:"
    found = list(changes(before.lines, _shareable(now)))
    for line in _cut(found):
        yield paint(f"  {_plain(line)}", RED if line.startswith("-") else GREEN)
    if not found:
        yield "  a credential that is written in it, which is not shown"


def _shareable(lines: Sequence[str]) -> list[str]:
    """Without the credentials that somebody wrote down."""
    from acp_launch.secret.credential import masked

    return [masked(line) for line in lines]


def _foreign(text: str) -> str:
    """The characters that are none of ASCII, by name: letters of other alphabets look like ours."""
    from unicodedata import name

    marks = sorted({mark for mark in text if not mark.isascii()})
    named = [f"U+{ord(mark):04X} {name(mark, '')}".strip() for mark in marks[:FOREIGN_MARKS]]
    more = [f"and {len(marks) - FOREIGN_MARKS} more"] if len(marks) > FOREIGN_MARKS else []
    return ", ".join([*named, *more])


def table(acceptances: Sequence[Acceptance]) -> str:
    """For `trust --list`."""
    rows = [
        (each.profile, each.project, each.file, time.strftime("%Y-%m-%d", time.localtime(each.since)))
        for each in acceptances
    ]
    return "\n".join(columns([tuple(map(_plain, row)) for row in rows]))


def _parts(plan: LaunchPlan, said: Sequence[str]) -> Iterator[tuple[str, str]]:
    agent = plan.agent
    yield "runs", _command(str(agent.command), agent.args)
    yield "in", str(plan.cwd)
    if plan.additional_directories:
        yield "and in", ", ".join(map(str, plan.additional_directories))
    if names := _names(agent.env):
        yield "sets", names
    for server in plan.servers:
        yield "server", f"{server.name}: {_server(server, plan)}"
    if plan.secrets:
        yield "secrets", ", ".join(secret.name for secret in plan.secrets)
    if read := _read(plan):
        yield "reads", f"from your environment: {', '.join(read)}"
    yield from _grants(plan, said)
    if plan.mode or plan.config:
        settings = {**({"mode": plan.mode} if plan.mode else {}), **plan.config}
        yield "chooses", ", ".join(f"{name}={value}" for name, value in settings.items())


def _grants(plan: LaunchPlan, said: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield "asks", f"permissions.default: {plan.permission}"
    for line in said:
        if line.startswith(RULES):
            yield "rule", line.removeprefix(RULES)
    if plan.client.fs or plan.client.terminal:
        grants = [f"files ({'read' if plan.client.fs == 'read' else 'read and write'})"] if plan.client.fs else []
        yield "serves", ", ".join([*grants, *(["commands"] if plan.client.terminal else [])])


def _read(plan: LaunchPlan) -> list[str]:
    """The variables of the user's environment that values refer to."""
    parts = (part for value in plan.values for part in value.parts if isinstance(part, Inherited))
    return list(dict.fromkeys(part.reference.name for part in parts))


def _server(server: StdioPlan | RemotePlan, plan: LaunchPlan) -> str:
    if isinstance(server, RemotePlan):
        headers = f", headers {', '.join(server.headers)}" if server.headers else ""
        return f"{server.type} {server.url.display()}{headers}"
    names = _names(server.env)
    where = f", in {server.cwd}" if server.bridge and server.cwd != plan.cwd else ""
    how = "" if server.bridge else ", started by the agent"
    return f"{_command(str(server.command), server.args)}{f', sets {names}' if names else ''}{where}{how}"


def _command(program: str, args: Sequence[Value]) -> str:
    """As a shell would want it, so that one argument cannot pass for two."""
    return " ".join(shlex.quote(text) for text in (program, *(arg.display() for arg in args)))


def _names(env: Mapping[str, Value]) -> str:
    """Of the variables the profile sets; never their values."""
    return ", ".join(name for name, value in env.items() if value.origin != INHERITED)


def _cut(lines: Sequence[str]) -> Iterator[str]:
    yield from lines[:LONGEST]
    if len(lines) > LONGEST:
        yield paint(f"… {len(lines) - LONGEST:,} more lines", DIM)


def _plain(text: str) -> str:
    """On one line, with everything in it to be seen."""
    seen = harmless(text[: 2 * WIDEST].replace("\r", "\\r"), keep="")
    seen = _GAP.sub(lambda gap: f" [{len(gap[0])} spaces] ", seen)[:WIDEST]
    return f"{seen} … and {len(text) - WIDEST:,} more characters" if len(text) > WIDEST else seen
