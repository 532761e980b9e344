"""
Texts with holes: wherever a credential stood there is the number of a token, and the text never holds it again. Pure.

One `Drafting` serves one import. Credentials that are alike become one token, wherever they stand; the values are in
`Token.secret`, which nothing shows.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from acp_launch.document.keypath import KeyPath
from acp_launch.errors import UsageError
from acp_launch.interop.tokens import LEAST_ELSEWHERE, seen
from acp_launch.profile.leaks import named, slug
from acp_launch.secret.credential import Sighting
from acp_launch.secret.value import Secret
from acp_launch.secret.wording import noun

MOST_TEXT = 512 * 1024  # characters of all entries of one import
MOST_TOKENS = 500  # each is looked for in all of that

Spot = tuple[str, KeyPath, int]  # the entry, where in it, how far in the text


class Token(Struct, frozen=True):
    """A secret there will be. `secret` is None where its value is not in the file, and `why` says so.

    `owner` is the entry it was first seen in; none for what a whole file asks for. `word` is what it is called there.
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
    """A text with holes: each number is a token of the same import."""

    parts: tuple[str | int, ...]


def filled(shape: Any, names: Sequence[str] | Mapping[int, str]) -> Any:
    """The entry as a profile has it; `names` are those of the tokens' secrets."""
    if isinstance(shape, Text):
        return "".join(part if isinstance(part, str) else f"${{secret:{names[part]}}}" for part in shape.parts)
    if isinstance(shape, Mapping):
        return {key: filled(value, names) for key, value in shape.items()}
    return [filled(item, names) for item in shape] if isinstance(shape, list) else shape


def holes(shape: Any) -> tuple[int, ...]:
    """The tokens an entry needs, each once."""
    return tuple(dict.fromkeys(part for text in _texts(shape) for part in text.parts if isinstance(part, int)))


class Drafting:
    def __init__(self, *, spared: Iterable[Spot] = ()) -> None:
        """`spared` are places of which somebody said that no secret is there."""
        self.tokens: list[Token] = []
        self._known: dict[str, int] = {}
        self._kept: dict[tuple[str, str], int] = {}
        self._length = 0
        self._spared = frozenset(spared)
        self._harmless: set[str] = set()  # what stood there, wherever it comes again

    def text(self, owner: str, path: KeyPath, name: str, written: str) -> Text:
        """`name` is what the entry calls it: a variable, a header, the option before an argument.

        Raises:
            UsageError: this is more than anybody configured.
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
        """A token whose value the tool keeps in a store of its own; what one owner calls alike is one."""
        word = slug(name.lower().replace("_", "-")) or "secret"
        if (owner, word) not in self._kept:
            self._kept[owner, word] = len(self.tokens)
            self.tokens.append(Token(owner, ("env", name), 0, noun(name) or "a secret", word, why=why))
        return self._kept[owner, word]

    def punched(self, shape: Any) -> Any:
        """The entry with every further place of a credential that was found somewhere made a hole too."""
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
            token = Token(owner, path, found.start, found.what, wanted, why="only a placeholder is there")
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
