"""What `import` says besides the change itself: what stays behind and why, and what becomes of each credential."""

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from acp_launch.console.interop import discreet, listed, note, warn
from acp_launch.interop.drafts import Draft, Token, used_secrets
from acp_launch.interop.merge import Step
from acp_launch.interop.tools import Source
from acp_launch.profile.load import shown


def tell_of_files(found: Iterable[Source]) -> None:
    for one in found:
        if one.twice:
            warn(f"{shown(one.file)}: {listed(one.twice)} appears twice in one place; the last one counts")


def tell_of_drafts(drafts: Iterable[Draft], steps: Iterable[Step], *, forced: bool) -> None:
    """What cannot be taken, what is called otherwise, and what is there already and differs."""
    for one in drafts:
        if one.unfit:
            warn(f"{one.original or one.name} is not imported: {one.unfit}")
    for step in steps:
        if step.standing == "other" and not forced:
            is_agent = step.draft.kind == "agent"
            beside = "" if is_agent else ", --as NAME adds it under another name"
            there = "an agent" if is_agent else step.name
            warn(f"{there} is there already and differs; --force replaces it{beside}")
        if step.standing == "new":
            _tell_of_new(step)


def _tell_of_new(step: Step) -> None:
    one = step.draft
    if one.kind == "server" and one.original != step.name:
        note(f'"{one.original}" becomes {step.name}; a name is made of letters, digits, _ . and -')
    for key, why in one.left:
        warn(f"{step.name}: {key} {why}; it is kept as a comment")


def tell_of_servers(steps: Iterable[Step]) -> None:
    """What each would do, as it will be written; names of variables and headers, never values."""
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
    """Each credential by what it is and where it stands, with the name it gets."""
    for name, token in tokens:
        if token.secret is not None:
            note(f"{_place(token)} is {token.what}; it becomes the secret {name}")


def tell_of_kept(names: Sequence[str], store: str, files: Sequence[Path]) -> None:
    note(f"kept in the {store}: {', '.join(names)}")
    note(f"the values still stand in {listed(map(shown, files))}; remove them there, and replace what others have seen")


def tell_of_missing(tokens: Iterable[tuple[str, Token]]) -> None:
    for name, token in tokens:
        why = f" ({token.why})" if token.why else ""
        note(f"acp-launch secret set {name}{why}")


def question(name: str, token: Token, store: str) -> tuple[str, str, str]:
    """The question, what yes means, and what no means."""
    no = "No, I keep it myself" if token.is_sure else "No, it is no secret; it stays as it is"
    return f"{_place(token)} is {token.what}. Keep it?", f"Yes, in the {store} as {name}", no


def _place(token: Token) -> str:
    where = ".".join(map(str, token.path))
    return discreet(f"{token.owner}: {where}" if token.owner else where)
