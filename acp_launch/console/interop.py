"""
The output of `init`, `import` and `export`: findings in other tools, changes to files, and questions to the user.

Other tools' files hold credentials in plain text, so text quoted from a file passes through `masked` and the redactor,
and only changed lines are shown.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal

from acp_launch.console import stdout
from acp_launch.console.ask import terminal
from acp_launch.console.draw.difflines import changes
from acp_launch.console.stderr import DIM, YELLOW, harmless_line, say
from acp_launch.console.stdout import columns
from acp_launch.interop.drafts import Draft, Echo, Token
from acp_launch.interop.merge import Step
from acp_launch.interop.read import Finding
from acp_launch.interop.tools import Source
from acp_launch.problem import ours
from acp_launch.profile.agents import KnownAgent
from acp_launch.profile.load import shown
from acp_launch.secret.detect import masked
from acp_launch.secret.redact import redactor

NAMED = 6  # entries of one file


def discreet(text: str) -> str:
    """Return `text` safe for a terminal and for a bug report."""
    return harmless_line(masked(redactor.text(text)))


def note(text: str) -> None:
    say(f"acp-launch: {discreet(text)}", style=DIM)


def warn(text: str) -> None:
    say(f"acp-launch: {discreet(text)}", style=YELLOW)


def show_findings(found: Sequence[Finding], *, as_json: bool, is_first: bool) -> None:
    """Print each file with its content, and the command that imports it. `is_first`: there is no profile yet."""
    if as_json:
        stdout.put_json({"found": [_members(one) for one in found]})
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


def join_names(names: Iterable[str]) -> str:
    everything = list(names)
    further = f" and {len(everything) - NAMED} more" if len(everything) > NAMED else ""
    return discreet(", ".join(everything[:NAMED]) + further)


def _content(one: Finding) -> str:
    if one.fault:
        return f"({discreet(one.fault)})"
    kinds = [("servers", one.servers), ("agents", one.agents), ("switched off", one.off)]
    said = [f"{kind}: {join_names(names)}" for kind, names in kinds if names]
    return "; ".join(said) or "(nothing to import)"


def _members(one: Finding) -> dict[str, object]:
    return {
        "tool": one.tool.name,
        "file": str(one.file),
        "servers": [discreet(name) for name in one.servers],
        "agents": [discreet(name) for name in one.agents],
        "off": [discreet(name) for name in one.off],
        "fault": discreet(one.fault),
    }


# The notes of `import`: entries that are left out, with the reason, and the future place of each credential.


def tell_of_files(found: Iterable[Source]) -> None:
    for one in found:
        if one.twice:
            warn(
                f"{shown(one.file)}: {join_names(one.twice)} is defined twice in one place; the last definition is used"
            )


def tell_of_lost(lost: Iterable[tuple[str, int, int]], files: Sequence[Path]) -> None:
    """Report entries that are left out, because a nearer file has another of the same name."""
    for name, file, nearest in lost:
        add = ours("import", shown(files[file]), "--only", name, "--as", "NAME")
        warn(f"{name} in {shown(files[file])} is not imported: {shown(files[nearest])} has another; to add it: {add}")


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
    if one.kind == "server" and one.original != step.name == one.name:  # else the user chose the name
        note(f'"{one.original}" is imported as {step.name}: a name may contain letters, digits, _ . and -')
    for key, why in one.left:
        warn(f"{step.name}: {key} {why}; it is kept as a comment")


def tell_of_tokens(tokens: Iterable[tuple[str, Token]]) -> None:
    """Print what each credential is, where it stands, and the name of its secret."""
    for name, token in tokens:
        if token.secret is not None:
            note(f"{_place(token)} is {token.what}; it becomes the secret {name}")


def tell_of_off(drafts: Iterable[Draft]) -> None:
    """Name the servers that their tool does not start, and so are not imported unless the user names them."""
    for one in drafts:
        if one.disabled and not one.unfit:
            note(f"{one.original} is switched off there, and not imported; --only {one.original} imports it")


def tell_of_echoes(echoes: Iterable[Echo], tokens: Sequence[Token]) -> None:
    for one in echoes:
        note(f"{_place(one)} has the same text as {_place(tokens[one.token])}; it stays as it is")


def echo_question(one: Echo, token: Token) -> tuple[str, str, str]:
    """Return the question and the texts of its two answers, yes and no."""
    asked = f"{_place(one)} has the same text as {_place(token)}. Is it {token.what}, too?"
    return asked, "Yes, it gets the same secret", "No, leave it as it is"


def tell_of_kept(names: Sequence[str], store: str, files: Sequence[Path]) -> None:
    note(f"stored in the {store}: {', '.join(names)}")
    note(f"the tokens are still in {join_names(map(shown, files))}: delete them there, and rotate any that were shared")


def tell_of_missing(tokens: Iterable[tuple[str, Token]]) -> None:
    for name, token in tokens:
        why = f" ({token.why})" if token.why else ""
        note(f"acp-launch secret set {name}{why}")


def question(name: str, token: Token, store: str) -> tuple[str, str, str]:
    """Return the question and the texts of its two answers, yes and no."""
    no = "No, I will store it myself" if token.is_sure else "No, it is not a secret; leave it as it is"
    return f"{_place(token)} is {token.what}. Store it?", f"Yes, in the {store} as {name}", no


def _place(one: Token | Echo) -> str:
    where = ".".join(map(str, one.path))
    return discreet(f"{one.owner}: {where}" if one.owner else where)


# The questions of `init`. Enter gives the default answer of a line; yes or no is one key.


class InputEnded(Exception):  # noqa: N818 - not an error: the user ended the input
    """Raised at the end of input."""


def agent(known: Sequence[KnownAgent], installed: Iterable[str]) -> str:
    """Ask for the agent. Return the name of a known one, or the command line that the user typed."""
    there = set(installed)
    say("Which agent?", style="1")
    rows = [
        (f"{number:>4}.", one.name, one.title, "ready" if one.name in there else "not installed")
        for number, one in enumerate(known, 1)
    ]
    for row in columns(rows):
        say(row)
    say("  or type the command of another agent", style=DIM)
    answer = ask("Agent", "1")
    if not answer.isdecimal():
        return answer
    if not 0 < int(answer) <= len(known):
        say(f"{answer} is not in the list: choose a number from 1 to {len(known)}", style=YELLOW)
        return agent(known, there)
    return known[int(answer) - 1].name


def place(project: Path, user: Path) -> bool:
    """Ask where to save the profile. True means: for this user only."""
    say("Where should the profile be saved?", style="1")
    say(harmless_line(f"  1. {project}, shared with the project"))
    say(harmless_line(f"  2. {user}, for you only, in every project"))
    while (answer := ask("Location", "1")) not in ("1", "2"):
        say("answer 1 or 2", style=YELLOW)
    return answer == "2"


def name(suggested: str, fault: Callable[[str], str]) -> str:
    """Ask for a name until `fault` returns an empty string for it."""
    while True:
        answer = ask("Name of the profile", suggested)
        if not (wrong := fault(answer)):
            return answer
        say(harmless_line(wrong), style=YELLOW)


def servers(found: Sequence[tuple[str, Sequence[str]]], otherwise: Literal["all", "none"]) -> list[int]:
    """Ask which files to import. Return their positions in `found`; Enter means `otherwise`."""
    say("Other tools have MCP servers here:", style="1")
    for row in columns([(f"{number:>4}.", file, ", ".join(names)) for number, (file, names) in enumerate(found, 1)]):
        say(row)
    while True:
        words = ask("Numbers of those to import", otherwise).replace(",", " ").split()
        if words == ["none"]:
            return []
        if words == ["all"]:
            return list(range(len(found)))
        if all(word.isdecimal() and 0 < int(word) <= len(found) for word in words):
            return sorted({int(word) - 1 for word in words})
        say('type numbers from the list, "all" or "none"', style=YELLOW)


def ask(prompt: str, default: str) -> str:
    """Ask one question and return the answer, or `default` for an empty line.

    Raises:
        InputEnded: at the end of input.
    """
    line = terminal.ask_line(harmless_line(f"{prompt} [{default}]: "))
    if not line:
        raise InputEnded
    return line.strip() or default
