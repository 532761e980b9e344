"""
The output of `import` and `export`: findings in other tools, changes to files, and questions to the user.

Other tools' files hold credentials in plain text, so text quoted from a file passes through `masked` and the redactor,
and only changed lines are shown.
"""

import json
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from acp_launch.console import stdout
from acp_launch.console.columns import columns
from acp_launch.console.draw.difflines import changes
from acp_launch.console.stderr import DIM, YELLOW, harmless, say
from acp_launch.interop.drafts import Draft, Token, used_secrets
from acp_launch.interop.merge import Step
from acp_launch.interop.read import Finding
from acp_launch.interop.tools import Source
from acp_launch.problem import ours
from acp_launch.profile.load import shown
from acp_launch.secret.detect import masked
from acp_launch.secret.redact import redactor

NAMED = 6  # entries of one file


def discreet(text: str) -> str:
    """Return `text` safe for a terminal and for a bug report."""
    return harmless(masked(redactor.text(text)), keep="")


def note(text: str) -> None:
    say(f"acp-launch: {discreet(text)}", style=DIM)


def warn(text: str) -> None:
    say(f"acp-launch: {discreet(text)}", style=YELLOW)


def show_findings(found: Sequence[Finding], *, as_json: bool, is_first: bool) -> None:
    """Print each file with its content, and the command that imports it. `is_first`: there is no profile yet."""
    if as_json:
        stdout.put_json(json.dumps({"found": [_members(one) for one in found]}))
        return
    for line in columns([(one.tool.title, discreet(shown(one.file)), _content(one)) for one in found]):
        stdout.line(line)
    usable = [one for one in found if one.servers or one.agents]
    for one in usable:
        name, agent = ("tools", ("--agent", "claude")) if is_first and not one.agents else ("PROFILE", ())
        command = ours("import", discreet(shown(one.file)), "--from", one.tool.name, "--into", name, *agent)
        say(f"    {command}", style=DIM)


def show_change(file: Path, old: str | None, new: str) -> None:
    """Print only the changed lines, without their context."""
    made = changes(old, new)
    head = "new file, " if old is None else ""
    stdout.line(f"{discreet(shown(file))}  {head}+{made.added} -{made.removed}")
    for line in made.lines:
        if line.sign in "+-":
            stdout.line(f"{line.sign} {discreet(line.text)}")


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


# The notes of `import`: entries that are left out, with the reason, and the future place of each credential.


def tell_of_files(found: Iterable[Source]) -> None:
    for one in found:
        if one.twice:
            warn(f"{shown(one.file)}: {listed(one.twice)} is defined twice in one place; the last definition is used")


def tell_of_drafts(drafts: Iterable[Draft], steps: Iterable[Step], *, forced: bool) -> None:
    """Report entries that cannot be imported, that get another name, or that exist already and differ."""
    for one in drafts:
        if one.unfit:
            warn(f"{one.original or one.name} is not imported: {one.unfit}")
    for step in steps:
        if step.difference == "other" and not forced:
            is_agent = step.draft.kind == "agent"
            beside = "" if is_agent else ", --as NAME adds it under another name"
            there = "an agent" if is_agent else step.name
            warn(f"{there} already exists and differs; --force replaces it{beside}")
        if step.difference == "new":
            _tell_of_new(step)


def _tell_of_new(step: Step) -> None:
    one = step.draft
    if one.kind == "server" and one.original != step.name:
        note(f'"{one.original}" is imported as {step.name}: a name may contain letters, digits, _ . and -')
    for key, why in one.left:
        warn(f"{step.name}: {key} {why}; it is kept as a comment")


def tell_of_servers(steps: Iterable[Step]) -> None:
    """Print what each server would run, as it will be written; names of variables and headers, never their values."""
    for step in steps:
        entry = step.entry
        words = [entry["command"], *entry.get("args", ())] if "command" in entry else [entry["type"], entry["url"]]
        note(f"{step.name}: {' '.join(shlex.quote(str(word)) for word in words)}")
        if "cwd" in entry:
            note(f"{step.name} runs in {entry['cwd']}")
        for verb, key in (("sets", "env"), ("sends", "headers")):
            if values := entry.get(key):
                note(f"{step.name} {verb} {', '.join(values)}")
        if secrets := dict.fromkeys(used_secrets(entry)):
            note(f"{step.name} uses the secret{'' if len(secrets) == 1 else 's'} {', '.join(secrets)}")


def tell_of_tokens(tokens: Iterable[tuple[str, Token]]) -> None:
    """Print what each credential is, where it stands, and the name of its secret."""
    for name, token in tokens:
        if token.secret is not None:
            note(f"{_place(token)} is {token.what}; it becomes the secret {name}")


def tell_of_kept(names: Sequence[str], store: str, files: Sequence[Path]) -> None:
    note(f"kept in the {store}: {', '.join(names)}")
    note(f"the tokens are still in {listed(map(shown, files))}: delete them there, and rotate any that were shared")


def tell_of_missing(tokens: Iterable[tuple[str, Token]]) -> None:
    for name, token in tokens:
        why = f" ({token.why})" if token.why else ""
        note(f"acp-launch secret set {name}{why}")


def question(name: str, token: Token, store: str) -> tuple[str, str, str]:
    """Return the question and the texts of its two answers, yes and no."""
    no = "No, I will store it myself" if token.is_sure else "No, it is not a secret; leave it as it is"
    return f"{_place(token)} is {token.what}. Store it?", f"Yes, in the {store} as {name}", no


def _place(token: Token) -> str:
    where = ".".join(map(str, token.path))
    return discreet(f"{token.owner}: {where}" if token.owner else where)
