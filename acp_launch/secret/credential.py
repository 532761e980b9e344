"""
Where a literal looks like a credential, and how sure that is. Pure; nothing found is ever part of an answer.

    certain      a known issuer's shape, a password in a url, what follows Bearer or Basic in an Authorization header
    likely       its name says credential (`wording.noun`), and it is not plainly something else
    random       whatever its name, characters nobody would type: long, mixed, without a pattern
    placeholder  stands where a credential belongs, and is none

`${…}` stands for something else and is not looked at, but for the default in it: that is a literal like any other.
"""

import re
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from math import log2
from typing import Literal

from msgspec import Struct

from acp_launch.secret.shapes import beginnings, shapes
from acp_launch.secret.value import MASK
from acp_launch.secret.wording import is_filled, is_filling, is_placeholder, is_plain, noun

Certainty = Literal["certain", "likely", "random", "placeholder"]
LEAST_RANDOM = 20  # characters; below that, words and numbers are too often as mixed
GONE = "\0"  # stands for each character of a reference; no text of a profile holds one

# Real ones and those misspelt a little; anything else in braces is text like the text around it.
REFERENCE = re.compile(
    r"""(?<!\$)\$\{(?:
        s[a-z]{3,6}[:.][\w./\s-]{1,80} | env[:.][\w./-]{1,80} | [a-z_]{1,40}
      | (?:env[:.])?(?P<name>[^:=?}]{1,80})(?::[-=?]?|[=?])(?P<default>(?:(?!\$\{)[^}])*)
    )\}""",
    re.IGNORECASE | re.VERBOSE,
)
_USER = re.compile(r"://(?P<user>[^\s/?#@:\"']*):(?P<password>[^\s/?#@\"']+)@")
_SCHEME = re.compile(r"\s*(?P<scheme>bearer|basic|token|apikey)\s+", re.IGNORECASE)
_ASSIGNING = re.compile(
    r"""(?<![\w.:-])(?:
        -{0,2}(?P<name>[A-Za-z_][\w.-]{1,60})["']?\s*[:=]\s*
      | --?(?P<option>[A-Za-z][\w-]{1,60}),?\s+(?!-)
    )["']?""",
    re.VERBOSE,
)
_ASSIGNED = re.compile(r"(?:(?:bearer|basic|token)\s+)?[^\s\"'&;,}\]]+", re.IGNORECASE)
_NAME_BEFORE = re.compile(r"(?P<name>[A-Za-z_][\w-]*)[\"']?\s*[:=]\s*[\"']?$")  # right before a value
_BEARER = re.compile(r"\bBearer\s+(?P<value>(?=\S*[0-9])[\w.~+/-]{8,}=*)")
_LONG = re.compile(rf"[A-Za-z0-9+]{{{LEAST_RANDOM},}}={{0,2}}")
_KEY_LINE = re.compile("[A-Za-z0-9+]{20}")  # of a private key; without one, its first line is only spoken of
# What `--key` takes, whose name alone says little.
_KEY = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=\S*[0-9])(?=\S*[A-Za-z])[\w~+-]{16,}", re.IGNORECASE)
_CHUNK = re.compile(r"[^\s=,;\"'(\[{]*$")  # back to the beginning of a path or an address
_CUT = re.compile(r"(?<=://)[^\s/?#@:\"]*:(?!\d{1,5}\.\.\.)[^\s/?#@\"]+(?=\.\.\.)")  # before its @
# These identify something, and are as long and as mixed as what is secret.
_IDENTIFIES = re.compile(
    r"(?i)(?:^|[-_])(?:ids?|uuid|guid|sha\d*|md5|hash|digest|checksum|commit|rev|revision|ref|version|fingerprint"
    r"|integrity|etag|image|model|tag|path|file|dir)$|public"
)
_NOT_SECRET = re.compile(r"(?:sha\d{1,3}[-:=]|@|#|ssh-\w+\s)$")  # what is right before: a digest, a pin, a public key


class Sighting(Struct, frozen=True):
    """A slice of the text. `name` is what the text calls it (`--token=…`); `shown` a placeholder as it may be shown."""

    start: int
    end: int
    what: str  # `a GitHub token`
    certainty: Certainty
    name: str = ""
    shown: str = ""


def sightings(text: str, name: str = "") -> tuple[Sighting, ...]:
    """Everything in `text` that looks like a credential, from left to right; `name` is what the whole is called."""
    defaults = (_moved(found, match.start("default")) for match in _defaults(text) for found in _default(match))
    identified = _IDENTIFIES.search(name) is not None
    nameless = (found for found in _nameless(text) if not (identified and found.certainty == "random"))
    return _apart((*_called(_opened(text), name), *nameless, *defaults))


def issued(text: str) -> tuple[Sighting, ...]:
    """What is certain wherever it stands, in a file that nobody has read yet: known shapes, and passwords in urls."""
    passwords = (found for found in _in_urls(text) if "${" not in text[found.start : found.end])
    found = _apart((*_shaped(text), *passwords))
    return tuple(one for one in found if one.certainty == "certain" and not _is_mention(text, one))


def _is_mention(text: str, found: Sighting) -> bool:
    return found.what == "a private key" and not _KEY_LINE.search(text, found.start, found.start + 400)


def masked(text: str) -> str:
    """A message without the credentials it quotes, those that were cut off with `...` included."""
    for found in reversed(sightings(text)):
        if found.certainty != "placeholder":
            text = text[: found.start] + MASK + text[found.end :]
    for begun in reversed([*beginnings(text)]):
        if text[: begun.end].endswith("...") and not is_filling(text[begun.body : begun.end]):
            text = text[: begun.start] + MASK + text[begun.end :]
    return _CUT.sub(MASK, text)


def _opened(text: str) -> str:
    """As long as `text`, with every reference gone but for its default."""

    def gone(match: re.Match[str]) -> str:
        default = match["default"] or ""
        return GONE * (len(match[0]) - len(default) - 1) + default + GONE

    return REFERENCE.sub(gone, text)


def _defaults(text: str) -> Iterator[re.Match[str]]:
    return (match for match in REFERENCE.finditer(text) if match["default"])


def _default(match: re.Match[str]) -> Iterable[Sighting]:
    return _called(match["default"], match["name"])


def _moved(found: Sighting, by: int) -> Sighting:
    return Sighting(found.start + by, found.end + by, found.what, found.certainty, found.name, found.shown)


def _apart(found: Iterable[Sighting]) -> tuple[Sighting, ...]:
    """Of those that overlap, the surest; placeholders are as sure as anything."""
    order: dict[Certainty, int] = {"certain": 0, "placeholder": 0, "likely": 1, "random": 2}
    kept: list[Sighting] = []
    for one in sorted(found, key=lambda one: (order[one.certainty], one.start)):
        index = bisect(kept, one.start, key=lambda other: other.start)
        if (index == 0 or kept[index - 1].end <= one.start) and (index == len(kept) or kept[index].start >= one.end):
            kept.insert(index, one)
    return tuple(kept)


@lru_cache(maxsize=64)
def _nameless(text: str) -> tuple[Sighting, ...]:
    """What can be seen without a name. Kept: an alias may repeat one text ten thousand times in a profile."""
    opened = _opened(text)
    # A token is no secret's name either: `${secret:ghp_…}`.
    return (*_shaped(text), *_in_urls(opened), *_assigned(opened), *_random(opened))


def _shaped(text: str) -> Iterator[Sighting]:
    for shape in shapes(text):
        if is_filled(text[shape.body : shape.end]):
            yield _stand_in(shape.start, shape.end, shape.what, text[shape.start : shape.body] + "...")
        else:
            before = _NAME_BEFORE.search(text, max(shape.start - 80, 0), shape.start)
            yield Sighting(shape.start, shape.end, shape.what, "certain", before["name"] if before else "")
    for shape in beginnings(text):
        if is_filling(text[shape.body : shape.end]):
            yield _stand_in(shape.start, shape.end, shape.what, text[shape.start : shape.end])


def _stand_in(start: int, end: int, what: str, shown: str, name: str = "") -> Sighting:
    return Sighting(start, end, what, "placeholder", name, shown)


def _in_urls(text: str) -> Iterator[Sighting]:
    for url in _USER.finditer(text):
        for start, end in _pieces(text, *url.span("password")):
            password = text[start:end]
            if password == url["user"] or is_placeholder(password):
                yield _stand_in(start, end, "a password", password, "password")
            else:
                yield Sighting(start, end, "a password", "certain", "password")


def _called(text: str, name: str) -> Iterator[Sighting]:
    """The whole of a text that is called a credential."""
    if "://" not in text and "-----BEGIN" not in text:  # an address and a key file have parts of their own
        yield from _named(text, 0, len(text), name)
        if name.lower() == "key" and _KEY.fullmatch(text):
            yield from _judged(text, 0, len(text), "a key")


def _assigned(text: str) -> Iterator[Sighting]:
    """`--token=…`, `TOKEN=…`, `?api_key=…`, `Authorization: Bearer …`, `{"password": "…"}`, `--password …`."""
    position = 0
    while assigning := _ASSIGNING.search(text, position):
        position = assigning.end()
        name = assigning["name"] or assigning["option"]
        if noun(name) and (value := _ASSIGNED.match(text, position)):
            position = value.end()
            for found in _named(text, *value.span(), name):
                yield Sighting(found.start, found.end, found.what, found.certainty, name, found.shown)
    for match in _BEARER.finditer(text):
        yield from _judged(text, *match.span("value"), "a token")


def _named(text: str, start: int, end: int, name: str) -> Iterator[Sighting]:
    """A slice that is called `name`. A scheme before it makes it certain in an Authorization, as a header or not."""
    what = noun(name)
    scheme = _SCHEME.match(text, start, end)
    if what and scheme and what == "a credential":
        what = "a password" if scheme["scheme"].lower() == "basic" else "a token"
        yield from _judged(text, scheme.end(), end, what, certainty="certain")
    elif what:
        yield from _judged(text, scheme.end() if scheme else start, end, what)


def _judged(text: str, start: int, end: int, what: str, *, certainty: Certainty = "likely") -> Iterator[Sighting]:
    for begin, stop in _pieces(text, start, end):
        literal = text[begin:stop]
        if what == "a credential" and is_plain(literal, what):
            continue  # `AUTH: token` names a kind, `PASSWORD: token` holds a place
        if is_placeholder(literal):
            yield _stand_in(begin, stop, what, literal)
        elif not is_plain(literal, what):
            yield Sighting(begin, stop, what, certainty)


def _pieces(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The literal pieces of a slice, without the blanks and quotes around them."""
    for match in re.compile(f"[^{GONE}]+").finditer(text, start, end):
        piece = match.group()
        begin = match.start() + len(piece) - len(piece.lstrip(" \t\r\n\"'"))
        stop = match.end() - len(piece) + len(piece.rstrip(" \t\r\n\"'"))
        if begin < stop:
            yield begin, stop


def _random(text: str) -> Iterator[Sighting]:
    if "-----BEGIN" in text or "data:" in text:  # certificates and pictures
        return
    for match in _LONG.finditer(text):
        if _is_random(match.group().rstrip("=")) and not _is_identity(text, match):
            yield Sighting(match.start(), match.end(), "a credential", "random")


def _is_random(word: str) -> bool:
    """Letters and digits take turns as no identifier lets them, and few of them come again."""
    numbers = len(re.findall("[0-9]+", word))
    turns = sum(_class(one) != _class(other) for one, other in pairwise(word))
    return numbers >= max(2, len(word) // 12) and turns >= 0.25 * len(word) and _entropy(word) >= 3.0


def _class(character: str) -> int:
    return 0 if character.isdigit() else 1 if character.islower() else 2


def _entropy(word: str) -> float:
    """Shannon's, in bits per character: 3.3 for 20 random hexadecimal digits, 4.5 for 40 letters and digits."""
    shares = (count / len(word) for count in Counter(word).values())
    return -sum(share * log2(share) for share in shares)


def _is_identity(text: str, match: re.Match[str]) -> bool:
    """A path, a digest, a commit, a public key: long and mixed, and no secret."""
    before = text[max(match.start() - 200, 0) : match.start()]
    chunk = _CHUNK.search(before)
    lead = chunk.group() if chunk else ""
    if re.match(r"(?:~|\.{1,2})?/|[A-Za-z]:[\\/]", lead) or _NOT_SECRET.search(before):
        return True
    if "://" in lead and re.fullmatch("[0-9a-f]+", match.group()):
        return True  # a page, a commit
    return match.group().startswith("AAAA") or text.startswith(".apps.googleusercontent.com", match.end())
