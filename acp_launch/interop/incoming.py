"""Everything that some files of other tools declare, as drafts, with the names of the secrets they need. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from acp_launch.interop import readers
from acp_launch.interop.declared import Declared, Kind
from acp_launch.interop.drafting import Drafting, Spot, Token, filled, holes
from acp_launch.interop.drafts import Draft, draft, settled
from acp_launch.interop.places import Tool
from acp_launch.profile.leaks import numbered, slug
from acp_launch.secret.credential import issued
from acp_launch.secret.reference import BadReference, SecretReference, parse

Standing = Literal["new", "same", "other"]


class Incoming(Struct, frozen=True):
    """`tokens` are what the holes of the drafts mean. A server that a nearer file declares too is not among them."""

    drafts: tuple[Draft, ...]
    tokens: tuple[Token, ...]

    def names(self, taken: Iterable[str] = ()) -> list[str]:
        """What the secret of each token is called: by its server if it is the only one there. None is in `taken`."""
        used, alone = set(taken), self._alone()
        names = []
        for index, token in enumerate(self.tokens):
            within = f"{token.owner}/{token.word}" if token.owner else token.word
            wanted = token.owner if token.owner and index in alone and token.owner not in used else within
            name = next(one for one in numbered(wanted) if one not in used)
            used.add(name)
            names.append(name)
        return names

    def _alone(self) -> set[int]:
        """Tokens that are the only one of the entry they were first seen in."""
        needed = [holes(one.shape) for one in self.drafts if one.kind == "server"]
        return {few[0] for few in needed if len(few) == 1}


def gathered(files: Sequence[tuple[Tool, Any]], project: str, *, spared: Iterable[Spot] = ()) -> Incoming:
    """`files` are what was read, the nearest first; `spared` as in `Drafting`."""
    drafting = Drafting(spared=spared)
    drafts: list[Draft] = []
    seen: set[tuple[Kind, str]] = set()
    used: dict[Kind, set[str]] = {"server": set(), "agent": set()}
    for tool, root in files:
        inputs = readers.inputs(tool, root)
        here = [entry for entry in readers.entries(tool, root, project) if (entry.kind, entry.name) not in seen]
        seen |= {(entry.kind, entry.name) for entry in here}
        for entry in here:
            name = _name(entry, used[entry.kind])
            drafts.append(draft(entry, name, tool, drafting, inputs))
    return Incoming(settled(drafts, drafting), tuple(drafting.tokens))


def standing(root: Mapping[str, Any], one: Draft, names: Sequence[str], name: str = "") -> Standing:
    """How a draft stands to what a profile says under its name, or under `name`."""
    above = root.get("mcp_servers") if one.kind == "server" else root
    key = (name or one.name) if one.kind == "server" else "agent"
    there = above.get(key) if isinstance(above, Mapping) else None
    if there is None:
        return "new"
    return "same" if _says(there, filled(one.shape, names)) else "other"


def used_secrets(root: Any) -> Iterator[str]:
    """Every secret that a profile names anywhere."""
    if isinstance(root, Mapping | list | tuple):
        for value in root.values() if isinstance(root, Mapping) else root:
            yield from used_secrets(value)
    elif isinstance(root, str):
        yield from (part.name for part in _parts(root) if isinstance(part, SecretReference))


def _says(there: Any, wanted: Any) -> bool:
    """Whether it says the same, and perhaps more; what its secrets are called does not matter."""
    if isinstance(wanted, Mapping):
        return isinstance(there, Mapping) and all(_says(there.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(there, list) and len(there) == len(wanted) and all(map(_says, there, wanted))
    if isinstance(wanted, str) and isinstance(there, str):
        return [*map(_nameless, _parts(there))] == [*map(_nameless, _parts(wanted))]
    return bool(there == wanted)


def _parts(text: str) -> Sequence[Any]:
    try:
        return parse(text)
    except BadReference:
        return (text,)


def _nameless(part: Any) -> Any:
    return SecretReference("") if isinstance(part, SecretReference) else part


def _name(entry: Declared, used: set[str]) -> str:
    """What the profile will call it: letters, digits, `_`, `.` and `-`, and none twice."""
    wanted = "" if issued(entry.name) else slug(entry.name)
    name = next(one for one in numbered(wanted or entry.kind) if one not in used)
    used.add(name)
    return name
