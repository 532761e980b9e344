"""
Literals of a profile that look like credentials, each with the two steps that move it to a secret. Pure.

`leaks` looks at raw values, so it also works on a profile that is wrong in other ways, or comes from the cache.
`in_comments` looks at the file's text, for credentials in comments, in keys, and in files that are not profiles. Only
`validate` asks for them; `plan` and `run` do not look for credentials.
"""

import re
from bisect import bisect
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from acp_launch.document.faults import Fault
from acp_launch.document.nodes import Plain
from acp_launch.problem import KeyPath, Severity
from acp_launch.profile.values import USER_FIX, free_name, host, user_fault
from acp_launch.regex import regex
from acp_launch.secret.detect import GONE, REFERENCE, Sighting, issued, masked, noun, sightings
from acp_launch.secret.value import MASK, misspelt

MAX_NAME_CHARS = 100  # of a name that is made from other text


def slug(name: str) -> str:
    """Make a name of letters, digits, `_`, `.` and `-`; empty if the text has none of them."""
    return re.sub("[^A-Za-z0-9_.-]+", "-", name).strip("-.")[:MAX_NAME_CHARS]


def named(found: Sighting, called: str) -> str:
    """Name the secret of a credential: as it is `called` in the profile, masked; else by its kind."""
    return slug(masked(called).lower().replace("_", "-")) or found.what.rpartition(" ")[2].lower()


EXAMINED = ("command", "args", "env", "url", "headers", "oauth")
_SECRET = regex(r"\$\{secret:([^}]*)\}")
_OPTION = regex(r"--?[A-Za-z][\w-]*")
_NUMBER = regex(r"(?<![\w.+])-?\d[\w.+-]*")
_LINE_BREAK = regex("\r\n|[\n\r\x85\u2028\u2029]")  # YAML's

Spot = tuple[int, int]  # line and column, from 1


class _Text(Struct, frozen=True):
    """A text of the profile. `name` is its name there: a variable, a header, or the option before an argument."""

    path: KeyPath
    name: str
    text: str
    seen: tuple[Sighting, ...] = ()


def leaks(root: Mapping[str, Plain]) -> Iterator[Fault]:
    """Yield a fault for each literal that looks like a credential; a warning if it only might be one."""
    everything = (text.text for key in ("agent", "mcp_servers") for text in _texts(root.get(key), (key,)))
    taken = set(_SECRET.findall("\n".join(everything)))
    for owner, texts in _program_texts(root):
        movable = [replace(text, seen=tuple(each for each in text.seen if not _is_login(text, each))) for text in texts]
        names = _names(owner, movable, taken)
        for text, rest in zip(texts, movable, strict=True):
            if rest.seen != text.seen:
                yield Fault(text.path, user_fault(text.text), USER_FIX)
            for found in rest.seen:
                fix = f"acp-launch secret set {names[_credential(rest, found)]}, then {_next_step(rest, found, names)}"
                severity: Severity = "error" if found.certainty in ("certain", "likely") else "warning"
                yield Fault(rest.path, _describe(found), fix, offset=found.start, severity=severity)


def literals(root: Mapping[str, Plain]) -> Iterator[tuple[KeyPath, int, str]]:
    """Yield path, offset and literal of each fault of `leaks`. For comparison only: literals must not be shown."""
    for _, texts in _program_texts(root):
        for text in texts:
            yield from ((text.path, found.start, text.text[found.start : found.end]) for found in text.seen)


def in_comments(text: str, told: Iterable[tuple[Spot, int, str]]) -> Iterator[tuple[Spot, Fault]]:
    """
    Yield a fault for each certain credential anywhere in a file: in comments, in keys, in text that is not a profile.

    `told` are literals that already have a fault and are skipped: the latest place where the value begins, the offset,
    and the literal.
    """
    found = issued(text)
    if not found:
        return
    breaks = [line_break.end() for line_break in _LINE_BREAK.finditer(text)]
    spots = [_spot(one.start, breaks) for one in found]
    known = _spots_of(zip(spots, (text[one.start : one.end] for one in found), strict=True), told)
    for spot, one in zip(spots, found, strict=True):
        if spot not in known:
            kind = one.what.rpartition(" ")[2]
            yield (
                spot,
                Fault((), _describe(one), f"remove it, and rotate the {kind}: everyone who can read this file has it"),
            )


def _spot(offset: int, breaks: Sequence[int]) -> Spot:
    line = bisect(breaks, offset)
    return line + 1, offset - (breaks[line - 1] if line else 0) + 1


def _spots_of(found: Iterable[tuple[Spot, str]], told: Iterable[tuple[Spot, int, str]]) -> set[Spot]:
    """Find the spots of the literals in `told`: for each the next spot in the file whose text begins alike.

    Only the beginning is compared, because YAML may fold and indent the rest.
    """
    waiting: dict[str, deque[Spot]] = defaultdict(deque)
    for spot, literal in found:
        waiting[_begin(literal)].append(spot)
    known = set()
    for begin, _, literal in sorted(set(told)):  # an alias tells one literal twice
        within = (literal[one.start : one.end] for one in issued(literal))
        for word in {_begin(literal), *map(_begin, within)} & waiting.keys():
            queue = waiting[word]
            while queue and queue[0] < begin:
                queue.popleft()
            if queue:
                known.add(queue.popleft())
    return known


def _begin(literal: str) -> str:
    return literal.partition(" ")[0]


def discreet(fault: Fault, root: Mapping[str, Plain]) -> Fault:
    """Mask the number that a fault quotes where a credential belongs: `PASSWORD: 12345678`."""
    if not noun(_name_of(fault.path, root)):
        return fault
    return replace(fault, message=_NUMBER.sub(MASK, fault.message), fix=_NUMBER.sub(MASK, fault.fix))


def _name_of(path: KeyPath, root: Plain) -> str:
    *above, last = path or ("",)
    if isinstance(last, str):
        return last
    for step in above:
        root = root.get(step) if isinstance(root, Mapping) else None
    return option_before(root, last) if isinstance(root, list) and last < len(root) else ""


def _program_texts(root: Mapping[str, Plain]) -> Iterator[tuple[str, list[_Text]]]:
    """Yield for each program its texts, with the credentials seen in them."""
    for owner, path, program in _programs(root):
        texts = [text for key in EXAMINED for text in _texts(program.get(key), (*path, key), key)]
        yield owner, [_with_sightings(text) for text in texts]


def _programs(root: Mapping[str, Plain]) -> Iterator[tuple[str, KeyPath, Mapping[str, Plain]]]:
    """Yield the agent, with an empty name, and the servers with their names."""
    if isinstance(agent := root.get("agent"), Mapping):
        yield "", ("agent",), agent
    servers = root.get("mcp_servers")
    for name, server in servers.items() if isinstance(servers, Mapping) else ():
        if isinstance(server, Mapping):
            yield name, ("mcp_servers", name), server


def _texts(value: Plain, path: KeyPath, name: str = "") -> Iterator[_Text]:
    """Yield every text below a value of any shape: variables may stand in a list, arguments in one text."""
    if isinstance(value, str):
        yield _Text(path, name, str(value))
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _texts(entry, (*path, key), key)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _texts(item, (*path, index), option_before(value, index))


def option_before(arguments: Sequence[Plain], index: int) -> str:
    """Return the option before an argument, `token` for one after `--token`; empty if the argument is an option."""
    option = arguments[index - 1] if index else None
    if not isinstance(option, str) or not _OPTION.fullmatch(option) or str(arguments[index]).startswith("-"):
        return ""
    return option.lstrip("-")


def _with_sightings(text: _Text) -> _Text:
    """Look for credentials in a text. Misspelt references are skipped: `check` and `in_comments` report them."""
    written, pieces, done = text.text, [], 0
    for start, end in misspelt(written):
        pieces += [written[done:start], GONE * (end - start)]
        done = end
    literal = "".join((*pieces, written[done:]))
    return _Text(text.path, text.name, written, sightings(literal, text.name))


def _is_login(text: _Text, found: Sighting) -> bool:
    """Whether it stands before the `@` of an address, where no secret may be written either."""
    if text.path[-1:] != ("url",) or not user_fault(text.text):
        return False
    return found.start < text.text.index(host(text.text)) + host(text.text).rindex("@")


def _names(owner: str, texts: Sequence[_Text], taken: set[str]) -> dict[Hashable, str]:
    """Choose a secret's name for each credential: the server's name if it needs only one secret.

    Names in `taken` are not used; the chosen ones are added to it.
    """
    found = {_credential(text, one): _word(text, one) for text in texts for one in text.seen}
    owner = owner and (slug(masked(owner)) or "server")
    alone = owner and len(found) == 1 and not any(_SECRET.search(text.text) for text in texts)
    names: dict[Hashable, str] = {}
    for credential, word in found.items():
        within = f"{owner}/{word}" if owner else word
        wanted = owner if alone and owner not in taken else within
        names[credential] = free_name(wanted, taken)
        taken.add(names[credential])
    return names


def _credential(text: _Text, found: Sighting) -> Hashable:
    """Identify a credential: by its literal, wherever it stands; a placeholder by its place."""
    literal = text.text[found.start : found.end]
    return (text.path, found.start) if found.certainty == "placeholder" else literal


def _word(text: _Text, found: Sighting) -> str:
    """Name a credential: as the text does, else as the profile does, else by its kind."""
    called = found.name or (text.name if "args" not in text.path or noun(text.name) else "")
    called = "" if called in EXAMINED else called
    return named(found, called)


def _next_step(text: _Text, found: Sighting, names: Mapping[Hashable, str]) -> str:
    if text.path[1 if text.path[0] == "agent" else 2] == "command":  # it cannot come from a secret
        return "pass it in env"
    reference = f"${{secret:{names[_credential(text, found)]}}}"
    # References do not nest, so a default is replaced with its reference.
    around = [match.span() for match in REFERENCE.finditer(text.text) if match.start() <= found.start < match.end()]
    is_whole = (0, len(text.text)) in (*around, (found.start, found.end))
    place = "here" if is_whole else "in place of the reference" if around else "in its place"
    return f'write "{reference}" {place}' if is_whole else f"write {reference} {place}"


def _describe(found: Sighting) -> str:
    if found.certainty == "placeholder":
        return f'"{found.shown}" is a placeholder, not {found.what}'
    because = {"likely": ", by its name", "random": ": it is long and random"}.get(found.certainty, "")
    return f"this looks like {found.what}{because}"
