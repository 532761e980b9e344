"""
What the rules under `permissions` must keep to beyond the shape of their values. Pure.

A rule that says less than its author thinks is worse than none: what matches everything, nothing, or a kind behind
which agents hide other decisions (facts of ACP v1 in the field) is spoken of before anything starts.
"""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from acp_launch.document.faults import Fault, choose
from acp_launch.document.keypath import KeyPath
from acp_launch.document.nodes import Plain, shorten
from acp_launch.profile.model import Match

ANSWERS = ("allow", "deny", "ask")
KINDS = ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other")  # ACP v1
TRAPS = ("switch_mode", "fetch", "think", "other")  # adapters ask for other things under these names
WILD = frozenset("*?[")
_OTHER_KINDS = {  # as agents call their tools
    **dict.fromkeys(("write", "create", "patch", "update", "modify"), "edit"),
    **dict.fromkeys(("bash", "shell", "command", "run", "exec", "terminal"), "execute"),
    **dict.fromkeys(("grep", "glob", "find"), "search"),
    **dict.fromkeys(("rm", "remove", "unlink"), "delete"),
    **dict.fromkeys(("web", "http", "url", "download"), "fetch"),
    **dict.fromkeys(("rename", "mv"), "move"),
    "plan": "switch_mode",
}


def broken(root: Mapping[str, Plain]) -> Iterator[Fault]:
    """Every rule about rules that the profile breaks."""
    for path, rule in _rules(root):
        written = [answer for answer in ANSWERS if answer in rule]
        if not rule:
            yield Fault(path, "this rule says nothing", "write one of allow, deny or ask: {kind: ...}")
        for second in written[1:]:
            what = f"a rule has one answer, and this one has {' and '.join(written)}"
            yield Fault((*path, second), what, "make it two rules; the first that matches decides", at_key=True)
        for answer in written:
            if isinstance(match := rule[answer], dict):
                yield from _match((*path, answer), answer, match)


def patterns(root: Mapping[str, Plain]) -> Iterator[tuple[KeyPath, str]]:
    """The texts in which references are allowed."""
    for path, rule in _rules(root):
        for answer in ANSWERS:
            match = rule.get(answer)
            for key in ("path", "command"):
                yield from _items((*path, answer, key), match.get(key) if isinstance(match, dict) else None)


def _rules(root: Mapping[str, Plain]) -> Iterator[tuple[KeyPath, Mapping[str, Plain]]]:
    permissions = root.get("permissions")
    rules = permissions.get("rules") if isinstance(permissions, dict) else None
    for index, rule in enumerate(rules if isinstance(rules, list) else []):
        if isinstance(rule, dict):
            yield ("permissions", "rules", index), rule


def _items(path: KeyPath, written: Plain) -> Iterator[tuple[KeyPath, str]]:
    """A text, or those of a list."""
    if isinstance(written, str):
        yield path, written
    for index, item in enumerate(written if isinstance(written, list) else []):
        if isinstance(item, str):
            yield (*path, index), item


def _match(path: KeyPath, answer: str, match: Mapping[str, Plain]) -> Iterator[Fault]:
    if _is_everything(match):
        yield Fault(path, "this rule matches everything", f"write permissions.default: {answer}", at_key=True)
        return
    for key in Match.__struct_fields__:
        if match.get(key) == []:
            yield Fault((*path, key), "an empty list matches nothing", "write a glob, or remove the key")
        for where, glob in _items((*path, key), match.get(key)):
            yield from _glob(where, key, glob)
    if answer == "allow":
        yield from _trapped(path, match)


def _is_everything(match: Mapping[str, Plain]) -> bool:
    kinds = [kind for _, kind in _items((), match.get("kind"))]
    return not match or (set(match) == {"kind"} and any(kind and not kind.strip("*") for kind in kinds))


def _glob(path: KeyPath, key: str, glob: str) -> Iterator[Fault]:
    if not glob.strip():
        yield Fault(path, "the pattern is empty", "write a glob, or remove it")
    elif key == "kind" and not WILD & set(glob) and glob not in KINDS:
        yield choose(path, glob, KINDS, _OTHER_KINDS.get(glob.lower()))
    elif key == "path" and glob.startswith("~"):
        what = f'"{shorten(glob)}": no shell runs here that would expand "~"'
        yield Fault(path, what, f"write ${{home}}{shorten(glob[1:])}")


def _trapped(path: KeyPath, match: Mapping[str, Plain]) -> Iterator[Fault]:
    """A warning: whoever wrote `allow: {kind: fetch}` may know their agent."""
    if set(match) != {"kind"}:
        return
    for where, glob in _items((*path, "kind"), match["kind"]):
        if hidden := [kind for kind in TRAPS if fnmatchcase(kind, glob)]:
            what = f"agents hide other decisions behind the kind {hidden[0]}, and this allows them unseen"
            yield Fault(where, what, "name the tool or the title too, or ask", severity="warning")
