"""
Drafts: entries of other tools as a profile would write them, with their credentials taken out. Pure.

`collect_drafts` turns the entries of some files into a `DraftSet`. A credential becomes a `Token`; its places in the
draft hold the token's number instead of the text. A key without a counterpart in a profile stays with the draft, to be
written as a comment.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from acp_launch.document.nodes import section
from acp_launch.errors import UsageError
from acp_launch.interop.read import Kind, ToolEntry, entries
from acp_launch.interop.tools import Tool
from acp_launch.problem import KeyPath
from acp_launch.profile.leaks import named, option_before, slug
from acp_launch.profile.values import free_name
from acp_launch.regex import regex
from acp_launch.secret.detect import (
    GONE,
    PROGRAMS,
    REFERENCE,
    Sighting,
    apart,
    is_placeholder,
    issued,
    masked,
    noun,
    sightings,
)
from acp_launch.secret.value import BadReference, Secret, SecretReference, parse

# An import treats more texts as credentials than a check of a profile: every variable and header whose name says
# password, token, key or secret. The user is asked, so one too many does no harm.
LEAST_ELSEWHERE = 8  # characters; a shorter value is likely to stand elsewhere as an ordinary word
LEAST_WORD = 4  # characters; the same where a name announces it
_NOT_ONE = regex(r"(?i)true|false|yes|no|on|off|null|none|(?:~|\.{0,2})/.*|[a-z]:[\\/].*|[a-z][a-z0-9+.-]*://[^@]*")
_KEY_NAME = regex(
    r"(?i)(?!.*(?:public|publishable|primary|foreign|sort|partition|cache|idempotency))(?:.*[_-]key|.*[a-z](?-i:Key))"
)  # of whatever: FIGMA_KEY
_SCHEME = regex(r"\s*(?:(?:bearer|basic|token|apikey)\s+)?", re.IGNORECASE)
# What only stands for a credential, apart from what a check of a profile takes for that: the name of a variable, a text
# in marks, a token that was cut off or made up. It is not stored; the user is asked for it.
_MADE_UP = regex(
    r"(?i:optional|undefined|__\w+__|@@?\w+@@?|#\{?\w+\}?#|.*(?:\.{3}|…|x{4}|\*{3}|•{3}|example|placeholder).*"
    r"|(?:.*[^a-z])?your(?:[^a-z].*)?|[a-z].*(?:1234567890|abcdefghij).*)|(?:[A-Z]+(?:\d[A-Z]*)?_)+[A-Z]+(?:\d[A-Z]*)?"
    r"|(?:.*[^A-Za-z])?[Yy]our[A-Z].*|YOUR[A-Z]+|[0-]{8,}"
)
_PHRASE = regex(r"[A-Za-z]+(?:[-_ ][A-Za-z]+)+")
_UNNAMED = regex(
    r"<{1,2}[\w .:-]{2,60}>{1,2}|(?<!\$)\{\{?[\w .-]{2,60}\}?\}|\[{1,2}[A-Za-z][\w -]{2,40}\]{1,2}"
    r"|(?<![\w.$-])(?<!\$\{)[A-Za-z][\w-]{6,60}(?![\w.-])"
)
_ASKS = regex(r"(?i)[<{\[].*|(?:.*[_-])?your[_-].*|.*[_-]here|(?:replace|change|insert|paste)[_-]?.*")
_IN_WORD = regex(r"[\w-]")
_BEARER = regex(r"(?i)\bbearer\s+([^\s\"'<]+)")
_CREDENTIAL = regex(r"(?i)(?:.*[^a-z])?(?:token|key|apikey|secret|password|passwd|pat|credentials?)(?:[^a-z].*)?")


def _find(written: str, name: str, *, is_named: bool) -> tuple[Sighting, ...]:
    """Return the credentials in a text from left to right. What only stands for one is a placeholder, as a whole."""
    opened = written
    for pattern in (REFERENCE, PROGRAMS):
        opened = pattern.sub(lambda reference: GONE * len(reference[0]), opened)
    pieces = tuple(_by_name(opened, name)) if is_named else ()
    seen = sightings(written, name) or pieces
    made_up = [one for one in (*seen, *_find_unnamed(opened)) if _is_made_up(written[one.start : one.end], one)]
    asked = [one for one in made_up if opened[one.start] != GONE]  # a reference's default stays
    whole = pieces if asked and len(pieces) == 1 else [_whole_word(one, opened) for one in asked]
    stated = (one for one in seen if one not in made_up)
    return apart((*(replace(one, certainty="placeholder") for one in whole), *stated))


def _whole_word(found: Sighting, text: str) -> Sighting:
    start, end = found.start, found.end
    while start and _IN_WORD.match(text[start - 1]) and _IN_WORD.match(text[start]):
        start -= 1
    while end < len(text) and _IN_WORD.match(text[end]) and _IN_WORD.match(text[end - 1]):
        end += 1
    return replace(found, start=start, end=end)


def _is_made_up(literal: str, found: Sighting) -> bool:
    if found.certainty == "placeholder" or is_placeholder(literal):
        return True
    if len(literal) > 200:
        return False
    is_phrase = _PHRASE.fullmatch(literal) and _CREDENTIAL.fullmatch(literal) and found.what != "a password"
    return bool(is_phrase or _MADE_UP.fullmatch(literal))


def _by_name(opened: str, name: str) -> Iterator[Sighting]:
    what = noun(name) or ("a key" if _KEY_NAME.fullmatch(name) else "")
    if what in ("", "a credential"):
        return
    for piece in re.finditer(f"[^{GONE}]+", opened):
        scheme = _SCHEME.match(piece[0])
        begin = piece.start() + (scheme.end() if scheme else 0)
        literal = opened[begin : piece.end()].strip()
        is_affix = piece[0] != opened and len(literal) < LEAST_WORD  # `k-${secret:x}`
        if literal and not is_affix and not _NOT_ONE.fullmatch(literal):
            begin = opened.index(literal, begin)
            yield Sighting(begin, begin + len(literal), what, "likely")


def _find_unnamed(text: str) -> Iterator[Sighting]:
    """Yield texts that ask for a credential wherever they stand: `<github-token>`, `YOUR_API_KEY`."""
    for found in _UNNAMED.finditer(text):
        literal = found[0]
        if _ASKS.fullmatch(literal) and _CREDENTIAL.fullmatch(literal) and is_placeholder(literal):
            assigned = _ASSIGNED.search(text[max(0, found.start() - 80) : found.start()])
            name = assigned["name"] if assigned else ""
            yield Sighting(*found.span(), noun(literal) or "a credential", "placeholder", name)
    for found in _BEARER.finditer(text):
        if is_placeholder(found[1]) and "$" not in found[1]:
            yield Sighting(*found.span(1), "a token", "placeholder")


# Where a value stands for itself and not within a word, a host or a path of its own.
_BEFORE, _AFTER = regex(r"^$|[\s'\"=:,;&?/#]"), regex(r"$|[\s'\",;&?/#@]")


def _stands_alone(before: str, after: str) -> bool:
    return bool(_BEFORE.search(before[-1:]) and _AFTER.match(after)) and not before.endswith("//")


_ASSIGNED = regex(r"(?P<name>[A-Za-z_][\w.-]*)[\"']?\s*[=:]\s*[\"']?$")
_USER = regex(r"://[^\s/?#@:]*:$")
# Ordinary words have at most one number; a value in which letters and digits alternate is part of none.
_WORD = regex(
    r"(?i)(?!.*\d\D+\d)(?:(?=.{1,30}$)[a-z]*\d*[a-z]*(?:[-_. ][a-z]*\d*[a-z]*)?"
    r"|(?=.{1,15}$)[a-z\d]+[-_. ][a-z\d]+[-_. ][a-z\d]+)"
)
_MIXED = regex(r"(?=[A-Za-z0-9]{8})[A-Za-z]{0,40}\d{1,40}[A-Za-z]{1,40}\d")
MAX_TEXT_CHARS = 512 * 1024  # of all entries of one import
MAX_TOKENS = 500  # each one is searched in all texts

Spot = tuple[str, KeyPath, int]  # the entry, where in it, how far in the text


class Token(Struct, frozen=True):
    """A secret to be stored. `secret` is its value; None if the file does not hold it, for the reason `why`.

    `owner` is the entry it was first seen in; empty for an input of the whole file. `word` is its name there. With
    `is_word` its value may be an ordinary word of other texts, and so is not masked there.
    """

    owner: str
    path: KeyPath
    start: int
    what: str
    word: str
    secret: Secret | None = None
    is_sure: bool = True
    why: str = ""
    is_word: bool = False

    @property
    def spot(self) -> Spot:
        return self.owner, self.path, self.start


class Echo(Struct, frozen=True):
    """A text that is spelt like a credential, the token `token`, but may be another word: a user, a database."""

    owner: str
    path: KeyPath
    token: int

    @property
    def spot(self) -> Spot:
        return self.owner, self.path, 0


class Text(Struct, frozen=True):
    """A text without its credentials: each number is a token of the same import."""

    parts: tuple[str | int, ...]


def _map_texts(shape: Any, change: Callable[[Text, KeyPath], Any], path: KeyPath = ()) -> Any:
    if isinstance(shape, Text):
        return change(shape, path)
    if isinstance(shape, Mapping):
        return {key: _map_texts(value, change, (*path, key)) for key, value in shape.items()}
    return (
        [_map_texts(item, change, (*path, at)) for at, item in enumerate(shape)] if isinstance(shape, list) else shape
    )


def _with_tokens(whole: str, tokens: Iterator[int]) -> Iterator[str | int]:
    """Put the tokens back that `GONE` stands for."""
    for index, piece in enumerate(whole.split(GONE)):
        yield from ([next(tokens)] if index else [])
        yield from ([piece] if piece else [])


def fill(shape: Any, names: Sequence[str] | Mapping[int, str]) -> Any:
    """Write the entry as in a profile; `names` are the names of the tokens' secrets."""

    def as_text(text: Text, path: KeyPath) -> str:
        return "".join(part if isinstance(part, str) else f"${{secret:{names[part]}}}" for part in text.parts)

    return _map_texts(shape, as_text)


def holes(shape: Any) -> tuple[int, ...]:
    """Return the tokens that an entry needs, each once."""
    parts: list[str | int] = []
    _map_texts(shape, lambda text, path: parts.extend(text.parts))
    return tuple(dict.fromkeys(part for part in parts if isinstance(part, int)))


class DraftBuilder:
    """Takes the credentials out of the texts of one import. Equal credentials become one token; the values are only in
    `Token.secret`, which is never shown."""

    def __init__(self, *, spared: Iterable[Spot] = (), same: Iterable[Spot] = ()) -> None:
        """`spared` are places where the user said that the text is not a secret, `same` places of an `Echo` where it is
        one."""
        self.tokens: list[Token] = []
        self._known: dict[str, int] = {}
        self._words: dict[tuple[str, str], int] = {}  # by owner: two servers may happen to use the same word
        self._kept: dict[tuple[str, str], int] = {}
        self._length = 0
        self._spared, self._same = frozenset(spared), frozenset(same)
        self._names: dict[tuple[str, KeyPath], str] = {}
        self.echoes: dict[Echo, None] = {}
        self._harmless: set[str] = set()  # the texts of those places, wherever they occur

    def text(self, owner: str, path: KeyPath, name: str, written: str) -> Text:
        """Take the credentials out of a text. `name` is its name: a variable, a header, the option before an argument.

        Raises:
            UsageError: the import is larger than any real configuration.
        """
        self._length += len(written)
        if self._length > MAX_TEXT_CHARS or len(self.tokens) > MAX_TOKENS:
            what = f"the servers there hold more than {MAX_TEXT_CHARS // 1024} KiB of text, or {MAX_TOKENS} credentials"
            raise UsageError(what, fix="import from a smaller file")
        parts: list[str | int] = []
        done = 0
        self._names[owner, path] = name
        for found in _find(written, name, is_named=path[0] in ("env", "headers")):
            if written[done : found.start].endswith("$"):  # with a reference behind it, it would be an escape
                found = replace(found, start=found.start - 1)
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

    def punch(self, owner: str, shape: Any) -> Any:
        """Take out further occurrences of credentials that were found in other texts.

        A value that may be an ordinary word (`postgres`) is taken out only where a name announces it.
        """
        texts = dict.fromkeys((*self._known, *(text for _, text in self._words)))
        known = [re.escape(text) for text in texts if len(text) >= LEAST_WORD]
        if not known:
            return shape
        pattern = re.compile("|".join(sorted(known, key=len, reverse=True)))

        def without_known(text: Text, path: KeyPath) -> Text:
            tokens = iter([part for part in text.parts if isinstance(part, int)])
            whole = "".join(part if isinstance(part, str) else GONE for part in text.parts)
            parts: list[str | int] = []
            done = 0
            for found in pattern.finditer(whole):
                token = self._token_of(owner, path, found)
                if token is not None:
                    parts += [*_with_tokens(whole[done : found.start()], tokens), token]
                    done = found.end()
            return Text((*parts, *_with_tokens(whole[done:], tokens)))

        return _map_texts(shape, without_known)

    def _token_of(self, owner: str, path: KeyPath, found: re.Match[str]) -> int | None:
        """Return the token of an occurrence of a known credential; None if it is a word that is spelt like it."""
        literal, text = found[0], found.string
        token = self._words.get((owner, literal)) if _WORD.fullmatch(literal) else self._known[literal]
        if _MIXED.search(literal):
            return None if text[: found.start()].endswith("$") else token
        before, after = text[max(0, found.start() - 200) : found.start()], text[found.end() : found.end() + 1]
        if token is None or not _stands_alone(before, after):
            return None
        is_whole = found.start() < 200 and not after and _SCHEME.fullmatch(before) is not None
        assigned = _ASSIGNED.search(before[-80:])
        named = self._names.get((owner, path), "") if is_whole else assigned["name"] if assigned else ""
        echo = Echo(owner, path, token)
        if noun(named) or (after == "@" and _USER.search(before)) or echo.spot in self._same:
            return token
        if not _WORD.fullmatch(literal):
            return token if len(literal) >= LEAST_ELSEWHERE else None
        if is_whole or assigned:
            self.echoes[echo] = None
        return None

    def _token(self, owner: str, path: KeyPath, name: str, written: str, found: Sighting) -> int:
        literal = written[found.start : found.end]
        is_value, is_word = found.certainty != "placeholder", _WORD.fullmatch(literal) is not None
        known = self._words.get((owner, literal)) if is_word else self._known.get(literal)
        if is_value and known is not None:
            return known
        if is_value and is_word:
            self._words[owner, literal] = len(self.tokens)
        elif is_value:
            self._known[literal] = len(self.tokens)
        wanted = named(found, found.name or ("" if path[0] in ("command", "url") else name))
        value = literal.replace("$${", "${")  # as the tool's file has it; only a profile needs the escape
        secret, why = (Secret(value), "") if is_value else (None, "the file has only a placeholder")
        is_sure = found.certainty != "random"
        self.tokens.append(Token(owner, path, found.start, found.what, wanted, secret, is_sure, why, is_word))
        return len(self.tokens) - 1


_STORED = regex(r"(?<!\$)\$\{secret:([^}]*)\}")  # how `read` writes a secret of a tool's own store


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


def _draft(entry: ToolEntry, name: str, builder: DraftBuilder) -> Draft:
    """Convert an entry that is called `name` in the profile."""

    def text(path: KeyPath, called: str, written: str) -> Text:
        parts = builder.text(name, path, called, written).parts
        return Text(tuple(each for part in parts for each in _with_stored(part, entry, name, builder)))

    def texts(key: str, written: Mapping[str, str]) -> dict[str, Text]:
        return {called: text((key, called), called, each) for called, each in written.items()}

    shape: dict[str, Any] = {}
    unused: list[tuple[str, Any]] = []
    why = ""
    if entry.unfit:  # its credentials are of no use
        pass
    elif entry.url:
        shape = {"type": entry.transport, "url": text(("url",), "", entry.url)}
        shape["headers"] = texts("headers", entry.headers)
        unused = [("cwd", entry.cwd), *((f"env.{each}", each) for each in entry.env)]
        why = "belongs to a server with a command"
    else:
        arguments = enumerate(entry.args)
        shape = {"command": text(("command",), "", entry.command)}
        shape["args"] = [text(("args", at), option_before(entry.args, at), each) for at, each in arguments]
        shape["env"] = texts("env", entry.env)
        shape["cwd"] = text(("cwd",), "", entry.cwd) if entry.cwd else None
        unused = [(f"headers.{each}", each) for each in entry.headers]
        why = "belongs to a server with a url"
    shape |= {} if entry.unfit else entry.more
    if entry.kind == "agent":
        unused += [(key, shape.pop(key, None)) for key in ("cwd", *entry.more)]
        why = "is only for servers"
    left = (*entry.left, *((key, why) for key, value in unused if value))
    shape = {key: value for key, value in shape.items() if value not in (None, {}, [])}
    said = tuple((masked(key), why) for key, why in left)
    return Draft(name, masked(entry.name), entry.kind, shape, said, entry.unfit, entry.disabled)


def _with_stored(part: str | int, entry: ToolEntry, name: str, builder: DraftBuilder) -> Iterator[str | int]:
    """Turn secrets of the tool's own store into tokens; an input of VS Code is one for all servers."""
    pieces = _STORED.split(part) if isinstance(part, str) and entry.stored else [part]
    owner = "" if entry.tool.name == "vscode" else name
    for index, piece in enumerate(pieces):
        if index % 2 and isinstance(piece, str):
            yield builder.elsewhere(owner, piece, f"{entry.tool.title} keeps it in its own store")
        elif piece != "":
            yield piece


Difference = Literal["new", "same", "other"]  # of an entry to the present one of its name


class DraftSet(Struct, frozen=True):
    """The drafts of one import and their tokens.

    Of entries with the same name only the nearest file's is included. `lost` are the others that differ from it: the
    name, and the positions of its file and of the nearest one.
    """

    drafts: tuple[Draft, ...]
    tokens: tuple[Token, ...]
    echoes: tuple[Echo, ...] = ()
    lost: tuple[tuple[str, int, int], ...] = ()

    def names(self, taken: Iterable[str] = ()) -> list[str]:
        """Choose a secret's name for each token: the server's if it has only one token. Skip names in `taken`."""
        used, alone = set(taken), self._alone()
        names = []
        for index, token in enumerate(self.tokens):
            within = f"{token.owner}/{token.word}" if token.owner else token.word
            wanted = token.owner if token.owner and index in alone and token.owner not in used else within
            names.append(free_name(wanted, used))
            used.add(names[-1])
        return names

    def _alone(self) -> set[int]:
        needed = [holes(one.shape) for one in self.drafts if one.kind == "server"]
        return {few[0] for few in needed if len(few) == 1}


def collect_drafts(
    files: Sequence[tuple[Tool, Any]], project: str, *, spared: Iterable[Spot] = (), same: Iterable[Spot] = ()
) -> DraftSet:
    """Convert all entries of these files, the nearest first; `spared` and `same` as in `DraftBuilder`."""
    builder = DraftBuilder(spared=spared, same=same)
    drafts: list[Draft] = []
    nearest: dict[tuple[Kind, str], tuple[int, ToolEntry]] = {}
    lost: list[tuple[str, int, int]] = []
    used: dict[Kind, set[str]] = {"server": set(), "agent": set()}
    for file, (tool, root) in enumerate(files):
        for entry in entries(tool, root, project):
            first, other = nearest.setdefault((entry.kind, entry.name), (file, entry))
            if first == file:
                drafts.append(_draft(entry, _name(entry, used[entry.kind]), builder))
            elif entry != other:
                lost.append((masked(entry.name), file, first))
    punched = tuple(_punch(one, builder) for one in drafts)
    return DraftSet(punched, tuple(builder.tokens), tuple(builder.echoes), tuple(lost))


def _punch(one: Draft, builder: DraftBuilder) -> Draft:
    """Take the credentials of all other drafts out of one."""
    shape = builder.punch(one.name, one.shape)
    for key in ("command", "cwd"):
        if holes(shape.get(key)):
            return replace(
                one, shape={}, unfit=f"its {key} contains a credential, but a {key} cannot come from a secret"
            )
    return replace(one, shape=shape)


def difference(root: Mapping[str, Any], one: Draft, names: Sequence[str], name: str = "") -> Difference:
    """Compare a draft with the profile's entry under its name, or under `name`."""
    there = section(root, "mcp_servers").get(name or one.name) if one.kind == "server" else root.get("agent")
    if there is None:
        return "new"
    return "same" if _says(there, fill(one.shape, names)) else "other"


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
    name = free_name(wanted or entry.kind, used)
    used.add(name)
    return name
