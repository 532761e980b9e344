"""
Drafts: entries of other tools as a profile would write them, with their credentials taken out. Pure.

`collect_drafts` turns the entries of some files into a `DraftSet`. A credential becomes a `Token`; its places in the
draft hold the token's number instead of the text. A key without a counterpart in a profile stays with the draft, to be
written as a comment.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from acp_launch.errors import UsageError
from acp_launch.interop import read
from acp_launch.interop.read import Kind, ToolEntry, Untranslatable, translated
from acp_launch.interop.tools import Dialect, Tool
from acp_launch.problem import KeyPath
from acp_launch.profile.leaks import named, numbered, slug
from acp_launch.regex import regex
from acp_launch.secret.detect import GONE, REFERENCE, Sighting, is_placeholder, issued, masked, noun, sightings
from acp_launch.secret.reference import BadReference, SecretReference, parse
from acp_launch.secret.value import Secret

# An import treats more texts as credentials than a check of a profile: every variable and header whose name says
# password, token, key or secret. The user is asked, so one too many does no harm.
LEAST_ELSEWHERE = 8  # characters; a shorter value is likely to stand elsewhere as an ordinary word
_NOT_ONE = regex(r"(?i)true|false|yes|no|on|off|null|none|(?:~|\.{0,2})/.*|[a-z]:[\\/].*|[a-z][a-z0-9+.-]*://[^@]*")
_OPTION = regex(r"--?[A-Za-z][\w-]*")
_SCHEME = regex(r"\s*(?:(?:bearer|basic|token|apikey)\s+)?", re.IGNORECASE)


def seen(text: str, name: str, *, is_named: bool) -> tuple[Sighting, ...]:
    """Find the credentials in a text, from left to right. `is_named`: it is the variable or header called `name`."""
    found = sightings(text, name)
    if found or not is_named:
        return found
    return tuple(_by_name(text, name))


def _by_name(text: str, name: str) -> Iterator[Sighting]:
    what = noun(name)
    if what in ("", "a credential"):
        return
    opened = REFERENCE.sub(lambda reference: GONE * len(reference[0]), text)
    for piece in re.finditer(f"[^{GONE}]+", opened):
        scheme = _SCHEME.match(piece[0])
        begin = piece.start() + (scheme.end() if scheme else 0)
        literal = opened[begin : piece.end()].strip()
        if not literal or _NOT_ONE.fullmatch(literal):
            continue
        begin = opened.index(literal, begin)
        certainty = "placeholder" if is_placeholder(literal) else "likely"
        yield Sighting(begin, begin + len(literal), what, certainty)  # type: ignore[arg-type]


def option(arguments: Sequence[str], index: int) -> str:
    """Return the option before an argument, `token` for one after `--token`; empty if the argument is an option."""
    before = arguments[index - 1] if index else ""
    return before.lstrip("-") if _OPTION.fullmatch(before) and not arguments[index].startswith("-") else ""


MOST_TEXT = 512 * 1024  # characters of all entries of one import
MOST_TOKENS = 500  # each one is searched in all texts

Spot = tuple[str, KeyPath, int]  # the entry, where in it, how far in the text


class Token(Struct, frozen=True):
    """A secret to be stored. `secret` is its value; None if the file does not hold it, for the reason `why`.

    `owner` is the entry it was first seen in; empty for an input of the whole file. `word` is its name there.
    """

    owner: str
    path: KeyPath
    start: int
    what: str
    word: str
    secret: Secret | None = None
    is_sure: bool = True
    why: str = ""

    @property
    def spot(self) -> Spot:
        return self.owner, self.path, self.start


class Text(Struct, frozen=True):
    """A text without its credentials: each number is a token of the same import."""

    parts: tuple[str | int, ...]


def filled(shape: Any, names: Sequence[str] | Mapping[int, str]) -> Any:
    """Write the entry as in a profile; `names` are the names of the tokens' secrets."""
    if isinstance(shape, Text):
        return "".join(part if isinstance(part, str) else f"${{secret:{names[part]}}}" for part in shape.parts)
    if isinstance(shape, Mapping):
        return {key: filled(value, names) for key, value in shape.items()}
    return [filled(item, names) for item in shape] if isinstance(shape, list) else shape


def holes(shape: Any) -> tuple[int, ...]:
    """Return the tokens that an entry needs, each once."""
    return tuple(dict.fromkeys(part for text in _texts(shape) for part in text.parts if isinstance(part, int)))


class DraftBuilder:
    """Takes the credentials out of the texts of one import. Equal credentials become one token; the values are only in
    `Token.secret`, which is never shown."""

    def __init__(self, *, spared: Iterable[Spot] = ()) -> None:
        """`spared` are places where the user said that the text is not a secret."""
        self.tokens: list[Token] = []
        self._known: dict[str, int] = {}
        self._kept: dict[tuple[str, str], int] = {}
        self._length = 0
        self._spared = frozenset(spared)
        self._harmless: set[str] = set()  # the texts of those places, wherever they occur

    def text(self, owner: str, path: KeyPath, name: str, written: str) -> Text:
        """Take the credentials out of a text. `name` is its name: a variable, a header, the option before an argument.

        Raises:
            UsageError: the import is larger than any real configuration.
        """
        self._length += len(written)
        if self._length > MOST_TEXT or len(self.tokens) > MOST_TOKENS:
            what = f"the servers there hold more than {MOST_TEXT // 1024} KiB of text, or {MOST_TOKENS} credentials"
            raise UsageError(what, fix="import from a smaller file")
        parts: list[str | int] = []
        done = 0
        for found in seen(written, name, is_named=path[0] in ("env", "headers")):
            if (owner, path, found.start) in self._spared:
                self._harmless.add(written[found.start : found.end])
            if written[found.start : found.end] not in self._harmless:
                parts += [written[done : found.start], self._token(owner, path, name, written, found)]
                done = found.end
        return Text(tuple(part for part in (*parts, written[done:]) if part != ""))

    def elsewhere(self, owner: str, name: str, why: str) -> int:
        """Return the token of a secret that the tool keeps in its own store; one for each name of an owner."""
        word = slug(name.lower().replace("_", "-")) or "secret"
        if (owner, word) not in self._kept:
            self._kept[owner, word] = len(self.tokens)
            self.tokens.append(Token(owner, ("env", name), 0, noun(name) or "a secret", word, why=why))
        return self._kept[owner, word]

    def punched(self, shape: Any) -> Any:
        """Take out further occurrences of credentials that were found in other texts."""
        known = {text: index for text, index in self._known.items() if len(text) >= LEAST_ELSEWHERE}
        if not known:
            return shape
        longest_first = "|".join(sorted(map(re.escape, known), key=len, reverse=True))
        return _punched(shape, re.compile(f"({longest_first})"), known)

    def _token(self, owner: str, path: KeyPath, name: str, written: str, found: Sighting) -> int:
        literal = written[found.start : found.end]
        is_value = found.certainty != "placeholder"
        if is_value and literal in self._known:
            return self._known[literal]
        called = found.name or ("" if path[0] in ("command", "url") else name)
        wanted = named(found, called)
        token = Token(owner, path, found.start, found.what, wanted, is_sure=found.certainty != "random")
        if is_value:
            self._known[literal] = len(self.tokens)
            token = Token(owner, path, found.start, found.what, wanted, Secret(literal), token.is_sure)
        else:
            token = Token(owner, path, found.start, found.what, wanted, why="the file has only a placeholder")
        self.tokens.append(token)
        return len(self.tokens) - 1


def _texts(shape: Any) -> Iterator[Text]:
    if isinstance(shape, Text):
        yield shape
    elif isinstance(shape, Mapping | list):
        for value in shape.values() if isinstance(shape, Mapping) else shape:
            yield from _texts(value)


def _punched(shape: Any, pattern: re.Pattern[str], known: Mapping[str, int]) -> Any:
    if isinstance(shape, Text):
        pieces = (piece for part in shape.parts for piece in (pattern.split(part) if isinstance(part, str) else [part]))
        return Text(tuple(known.get(one, one) if isinstance(one, str) else one for one in pieces if one != ""))
    if isinstance(shape, Mapping):
        return {key: _punched(value, pattern, known) for key, value in shape.items()}
    return [_punched(item, pattern, known) for item in shape] if isinstance(shape, list) else shape


_UNPRINTABLE = regex("[\0\ud800-\udfff]")
_ASKED = regex(r"\$\{secret:([^}]*)\}")  # how `translated` writes an input


class Draft(Struct, frozen=True):
    """An entry as a profile would write it, with a `Text` for each text. `unfit` says why it cannot be imported.

    `left` are keys of the tool that are left out, and why.
    """

    name: str
    original: str
    kind: Kind
    shape: Mapping[str, Any]
    left: tuple[tuple[str, str], ...] = ()
    unfit: str = ""
    disabled: bool = False


def draft(
    entry: ToolEntry, name: str, tool: Tool, builder: DraftBuilder, inputs: frozenset[str] = frozenset()
) -> Draft:
    """Convert one entry. `name` is its name in the profile; `inputs` as from `read.inputs`."""
    work = _EntryDraft(entry, name, tool, builder, inputs)
    shape = {} if entry.unfit else work.shape()
    left = tuple((masked(key), why) for key, why in entry.left)
    return Draft(name, masked(entry.name), entry.kind, shape, left, entry.unfit, entry.disabled)


def punch_credentials(drafts: Iterable[Draft], builder: DraftBuilder) -> tuple[Draft, ...]:
    """Take the credentials of each draft out of all others; call it when all are drafted."""
    return tuple(_punched_draft(one, builder.punched(one.shape)) for one in drafts)


def _punched_draft(one: Draft, shape: Mapping[str, Any]) -> Draft:
    unfit = one.unfit
    for key in ("command", "cwd"):
        if any(isinstance(part, int) for part in getattr(shape.get(key), "parts", ())):
            unfit = f"its {key} contains a credential, but a {key} cannot come from a secret"
    return Draft(one.name, one.original, one.kind, {} if unfit else shape, one.left, unfit, one.disabled)


class _EntryDraft(Struct):
    """The conversion of one entry."""

    entry: ToolEntry
    name: str
    tool: Tool
    builder: DraftBuilder
    inputs: frozenset[str]

    def shape(self) -> dict[str, Any]:
        entry = self.entry
        for mapping in (entry.env, entry.headers):
            for name in [name for name in mapping if issued(name)]:  # a name cannot come from a secret
                del mapping[name]
                entry.leave(name, "is a credential in the place of a name")
        shape = self._remote() if entry.url else self._program()
        for key, value in entry.more.items():
            if entry.kind == "agent":
                entry.leave(key, "is only for servers")
            else:
                shape[key] = value
        return {} if entry.unfit else shape

    def _program(self) -> dict[str, Any]:
        entry = self.entry
        shape: dict[str, Any] = {"command": self._required(("command",), "", entry.command)}
        if entry.args:
            named = enumerate(entry.args)
            shape["args"] = [self._required(("args", at), option(entry.args, at), text) for at, text in named]
        env = self._mapping("env", entry.env)
        env |= {name: self._kept(name) for name in entry.kept}
        env |= self._from_env("env", {name: ("", name) for name in entry.passed if name not in env})
        if env:
            shape["env"] = env
        if entry.cwd and entry.kind == "server":
            shape["cwd"] = self._required(("cwd",), "", entry.cwd)
        elif entry.cwd:
            entry.leave("cwd")
        for name in (*entry.headers, *entry.from_env):
            entry.leave(f"headers.{name}", "belongs to a server with a url")
        return shape

    def _remote(self) -> dict[str, Any]:
        entry = self.entry
        shape: dict[str, Any] = {"type": entry.transport, "url": self._required(("url",), "", entry.url)}
        if headers := self._mapping("headers", entry.headers) | self._from_env("headers", entry.from_env):
            shape["headers"] = headers
        for name in (*entry.env, *entry.passed):
            entry.leave(f"env.{name}", "belongs to a server with a command")
        return shape

    def _mapping(self, key: str, written: Mapping[str, str]) -> dict[str, Text]:
        found = {name: self._optional((key, name), name, text) for name, text in written.items()}
        return {name: text for name, text in found.items() if text is not None}

    def _from_env(self, key: str, written: Mapping[str, tuple[str, str]]) -> dict[str, Text]:
        """Convert variables that are given by name, each with the text before it."""
        found = {}
        for name, (before, variable) in written.items():
            if text := self._optional((key, name), name, f"${{{variable}}}", "shell"):
                found[name] = Text(((before,) if before else ()) + text.parts)
        return found

    def _optional(self, path: KeyPath, name: str, text: str, dialect: Dialect | None = None) -> Text | None:
        try:
            return self._text(path, name, text, dialect)
        except Untranslatable as why:
            self.entry.leave(".".join(map(str, path)), str(why))
            return None

    def _required(self, path: KeyPath, name: str, text: str) -> Text:
        try:
            return self._text(path, name, text)
        except Untranslatable as why:
            self.entry.unfit = f"its {path[0]} {why}"
            return Text(())

    def _text(self, path: KeyPath, name: str, text: str, dialect: Dialect | None = None) -> Text:
        if _UNPRINTABLE.search(text):
            raise Untranslatable("holds characters that no program can receive")
        kept, parts = self.entry.kept, list[str | int]()
        # goose fills in values of its own store: `$NAME` is a secret if it is one of those.
        pieces = re.split(_any_of(kept), text) if kept and self.entry.url else [text]
        for piece in pieces:
            bare = piece.strip("${}")
            if bare in kept and piece != bare:
                parts += self._kept(bare).parts
            else:
                ours = translated(piece, dialect or self.tool.dialect_of(str(path[0])), self.inputs)
                parts += self._asked(self.builder.text(self.name, path, name, ours))
        return Text(tuple(parts))

    def _kept(self, name: str) -> Text:
        why = f"{self.tool.title} keeps it in its own store"
        return Text((self.builder.elsewhere(self.name, name, why),))

    def _asked(self, text: Text) -> Iterable[str | int]:
        """Turn inputs that VS Code asks for into tokens, one for all servers."""
        for part in text.parts:
            pieces = _ASKED.split(part) if isinstance(part, str) and self.inputs else [part]
            for index, piece in enumerate(pieces):
                if index % 2 and isinstance(piece, str):
                    yield self.builder.elsewhere("", piece, f"{self.tool.title} keeps it in its own store")
                elif piece != "":
                    yield piece


def _any_of(names: Iterable[str]) -> str:
    words = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return rf"(\$\{{(?:{words})\}}|\$(?:{words})(?![A-Za-z0-9_]))"


Difference = Literal["new", "same", "other"]  # of an entry to the present one of its name


class DraftSet(Struct, frozen=True):
    """The drafts of one import and their tokens. Of servers with the same name, only the nearest file's is included."""

    drafts: tuple[Draft, ...]
    tokens: tuple[Token, ...]

    def names(self, taken: Iterable[str] = ()) -> list[str]:
        """Choose a secret's name for each token: the server's if it has only one token. Skip names in `taken`."""
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
        """Return the tokens that are the only one of their entry."""
        needed = [holes(one.shape) for one in self.drafts if one.kind == "server"]
        return {few[0] for few in needed if len(few) == 1}


def collect_drafts(files: Sequence[tuple[Tool, Any]], project: str, *, spared: Iterable[Spot] = ()) -> DraftSet:
    """Convert all entries of these files, the nearest first; `spared` as in `DraftBuilder`."""
    builder = DraftBuilder(spared=spared)
    drafts: list[Draft] = []
    seen: set[tuple[Kind, str]] = set()
    used: dict[Kind, set[str]] = {"server": set(), "agent": set()}
    for tool, root in files:
        inputs = read.inputs(tool, root)
        here = [entry for entry in read.entries(tool, root, project) if (entry.kind, entry.name) not in seen]
        seen |= {(entry.kind, entry.name) for entry in here}
        for entry in here:
            name = _name(entry, used[entry.kind])
            drafts.append(draft(entry, name, tool, builder, inputs))
    return DraftSet(punch_credentials(drafts, builder), tuple(builder.tokens))


def difference(root: Mapping[str, Any], one: Draft, names: Sequence[str], name: str = "") -> Difference:
    """Compare a draft with the profile's entry under its name, or under `name`."""
    above = root.get("mcp_servers") if one.kind == "server" else root
    key = (name or one.name) if one.kind == "server" else "agent"
    there = above.get(key) if isinstance(above, Mapping) else None
    if there is None:
        return "new"
    return "same" if _says(there, filled(one.shape, names)) else "other"


def used_secrets(root: Any) -> Iterator[str]:
    """Yield every secret that a profile names anywhere."""
    if isinstance(root, Mapping | list | tuple):
        for value in root.values() if isinstance(root, Mapping) else root:
            yield from used_secrets(value)
    elif isinstance(root, str):
        yield from (part.name for part in _parts(root) if isinstance(part, SecretReference))


def _says(there: Any, wanted: Any) -> bool:
    """Whether an entry has the wanted content, and perhaps more; the names of secrets do not matter."""
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


def _name(entry: ToolEntry, used: set[str]) -> str:
    """Choose the entry's name in the profile: letters, digits, `_`, `.` and `-`, and unique."""
    wanted = "" if issued(entry.name) else slug(entry.name)
    name = next(one for one in numbered(wanted or entry.kind) if one not in used)
    used.add(name)
    return name
