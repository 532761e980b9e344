"""
What `import` and `export` show: what other tools have, what would change, and what a person is asked.

Other tools' files hold credentials in plain text, so whatever is quoted of a file goes through `masked` and the
redactor, and only lines that change are shown.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from acp_launch.console import stdout
from acp_launch.console.ask.question import Questions
from acp_launch.console.columns import columns
from acp_launch.console.draw.difflines import changes
from acp_launch.console.stderr import DIM, YELLOW, harmless, say
from acp_launch.interop.read import Finding
from acp_launch.problem import ours
from acp_launch.profile.load import shown
from acp_launch.secret.credential import masked
from acp_launch.secret.redact import redactor
from acp_launch.session.person import Choice

NAMED = 6  # entries of one file


def discreet(text: str) -> str:
    """Fit for a terminal and for an issue."""
    return harmless(masked(redactor.text(text)), keep="")


def note(text: str) -> None:
    say(f"acp-launch: {discreet(text)}", style=DIM)


def warn(text: str) -> None:
    say(f"acp-launch: {discreet(text)}", style=YELLOW)


def show_findings(found: Sequence[Finding], *, as_json: bool) -> None:
    """Each file with what is in it, and the command that imports it."""
    if as_json:
        stdout.put_json(json.dumps({"found": [_members(one) for one in found]}))
        return
    for line in columns([(one.tool.title, discreet(shown(one.file)), _content(one)) for one in found]):
        stdout.line(line)
    usable = [one for one in found if one.servers or one.agents]
    for one in usable:
        say(
            f"    {ours('import', discreet(shown(one.file)), '--from', one.tool.name, '--into', 'PROFILE')}",
            style=DIM,
        )


def show_change(file: Path, old: str | None, new: str) -> None:
    """Only the lines that change, without the ones around them."""
    made = changes(old, new)
    head = "new file, " if old is None else ""
    stdout.line(f"{discreet(shown(file))}  {head}+{made.added} -{made.removed}")
    for line in made.lines:
        if line.sign in "+-":
            stdout.line(f"{line.sign} {discreet(line.text)}")


async def agreed(prompt: str, yes: str, no: str) -> bool:
    """Whether a person at the terminal says yes."""
    questions = Questions(lambda: None)
    async with questions.floor():
        return await questions.choose(prompt, [Choice("y", yes), Choice("n", no)]) == "y"


def listed(names: Iterable[str]) -> str:
    everything = list(names)
    further = f" and {len(everything) - NAMED} more" if len(everything) > NAMED else ""
    return discreet(", ".join(everything[:NAMED]) + further)


def _content(one: Finding) -> str:
    if one.fault:
        return f"({discreet(one.fault)})"
    kinds = [("servers", one.servers), ("agents", one.agents)]
    said = [f"{kind}: {listed(names)}" for kind, names in kinds if names]
    return "; ".join(said) or "(nothing to import)"


def _members(one: Finding) -> dict[str, object]:
    return {
        "tool": one.tool.name,
        "file": str(one.file),
        "servers": [discreet(name) for name in one.servers],
        "agents": [discreet(name) for name in one.agents],
        "fault": discreet(one.fault),
    }
