"""
The redactor: knows every secret of this process, and replaces them in everything we print or write.

Each registered value is searched for in every form in which it may appear (`secret.forms`) and replaced by `***`. The
result holds no form any more, so redacting twice gives the same as redacting once. A process has one redactor,
`redactor`. `MultiPattern` searches, `Redactor` handles text, bytes and JSON, `StreamRedactor` bytes that arrive in
pieces, and `install` our own stdout and stderr.
"""

import json
import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from struct import Struct
from threading import Lock
from typing import Any, AnyStr, BinaryIO, Generic, TextIO, cast

from acp_launch.protocol.acp import NAMES, is_structure
from acp_launch.regex import regex
from acp_launch.secret.forms import forms, in_json
from acp_launch.secret.value import MASK, Secret

LONG_FORM_CHARS = 10  # the few forms below that cost less than the many samples they need
FEW_FORMS = 8  # so few are searched for one by one whatever their length
GRAM = 4  # characters of a sample: rare enough in prose
MAX_SAMPLED_CHARS = 64  # of a form that a sample may meet; more would only enlarge the table
ENTRIES = 32 * 1024  # entries of the table of grams; about 200 bytes each
BLOCK_SAMPLES = 1024  # looked up together
MAX_CUTS = 64  # samples cut out in one call
END = 3  # characters that decide whether a text may end in the beginning of a form
KNOWN_ENDS = (
    256 * 1024
)  # characters of all forms; beyond that, the ends of forms are not indexed and the text is searched

Span = tuple[int, int]


class MultiPattern(Generic[AnyStr]):
    """Finds any of a set of forms in text or bytes, fast if there is none. Pure and immutable.

    A long form is found by sampling. Wherever it stands, one of the samples taken every `_step` characters falls on one
    of its first grams, and a table tells where the form would begin. So the time depends on the samples, however many
    forms there are. Short forms, and a few of any length, are searched for one by one.

    A form that overlaps itself (`aaaa`) is followed to the last copy that overlaps, so that the time is for reading
    the text. The tables are bounded: with many forms the samples are closer together.
    """

    def __init__(self, forms: Iterable[str], written: Callable[[str], AnyStr]) -> None:
        """Prepare the search. `written` gives a form as it stands in the searched text or bytes.

        A long form is stored as it came, and shared.
        """
        self._written: Callable[[str], AnyStr] = written
        self._all = sorted(set(forms), key=len)
        short = (
            len(self._all) if len(self._all) <= FEW_FORMS else sum(len(form) < LONG_FORM_CHARS for form in self._all)
        )
        self._short: list[AnyStr] = [written(form) for form in self._all[:short]]
        self._long = self._all[short:]
        self._step = min([MAX_SAMPLED_CHARS, *map(len, self._long)]) - GRAM + 1
        if self._long:
            self._step = max(1, min(self._step, ENTRIES // len(self._long)))
        self._most = 0 if self._short or not self._long or self._step < GRAM else MAX_CUTS * self._step

    def spans(self, text: AnyStr) -> list[Span]:
        """Return where forms are, from first to last. Overlapping forms are one span."""
        if self.has_none(text):
            return []
        spans = self._sampled(text) if self._long else []
        for form in self._short:
            at = text.find(form)
            while at >= 0:
                spans.append((at, end := _run(form, text, at)))
                at = text.find(form, end)
        return joined(spans) if spans else spans

    def has_none(self, text: AnyStr) -> bool:
        """Whether a look at all samples shows that there is no form. This is so for nearly every text."""
        size, step, most = len(text), self._step, self._most
        if not most:
            return False
        if not isinstance(text, bytes):
            return size < most and self._known.isdisjoint([text[at : at + GRAM] for at in range(0, size, step)])
        at, known, cutters = 0, self._known, self._cutters
        while size - at >= most:
            if not known.isdisjoint(cutters[MAX_CUTS].unpack_from(text, at)):
                return False
            at += most
        return known.isdisjoint(cutters[(size - at - GRAM) // step + 1].unpack_from(text, at))

    def masked(self, text: AnyStr, mask: AnyStr) -> AnyStr:
        """Replace every span by `mask`, again until none is left. Returns `text` itself if there is none.

        Again, because a mask and its neighbours may be a form too. `mask` must be shorter than every form.
        """
        spans: list[Span]
        while spans := self.spans(text):
            edges = [0, *(edge for span in spans for edge in span), len(text)]
            text = mask.join([text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)])
        return text

    def held(self, text: AnyStr) -> int:
        """Return the length of the longest end of `text` that is the beginning of a form, but not a whole form."""
        end, heads = text[-END:], self._heads
        if self._ends is None or end in self._ends:
            length = len(text)
            for at in range(max(0, length - self._longest + 1), length - END + 1):
                if text[at : at + END] in heads and self._begins(text[at:]):
                    return length - at
        if end[-2:] in heads:
            return len(end[-2:])
        return 1 if end[-1:] in heads else 0

    def may_begin(self, text: AnyStr, stop: int) -> bool:
        """Whether a form may begin in `text` before `stop`. Cheap, and false only if there is surely none."""
        return any(text[at : at + END] in self._heads for at in range(stop))

    def _begins(self, text: AnyStr) -> bool:
        """Whether a form begins with `text` and continues."""
        at = bisect_left(self._ordered, text, key=self._written)
        candidates = (self._written(form) for form in self._ordered[at : at + 2])
        return any(form.startswith(text) and form != text for form in candidates)

    @cached_property
    def _ordered(self) -> list[str]:
        return sorted(self._all, key=self._written)

    @cached_property
    def _longest(self) -> int:
        return max((len(self._written(form)) for form in self._all), default=0)

    @cached_property
    def _heads(self) -> frozenset[AnyStr]:
        starts = (self._written(form[:END]) for form in self._all)
        return frozenset(start[:length] for start in starts for length in range(1, END + 1))

    @cached_property
    def _ends(self) -> frozenset[AnyStr] | None:
        """Return the last characters of all beginnings of forms; None if there would be too many."""
        if sum(map(len, self._all)) > KNOWN_ENDS:
            return None
        whole = map(self._written, self._all)
        return frozenset(form[at - END : at] for form in whole for at in range(END, len(form)))

    @cached_property
    def _grams(self) -> dict[AnyStr, list[int]]:
        """Return the places of each gram in long forms: the form's index times `MAX_SAMPLED_CHARS`, plus the offset."""
        grams: dict[AnyStr, list[int]] = {}
        for index, form in enumerate(self._long):
            head = self._written(form[:MAX_SAMPLED_CHARS])
            for offset in reversed(range(self._step)):
                grams.setdefault(head[offset : offset + GRAM], []).append(index * MAX_SAMPLED_CHARS + offset)
        return grams

    @cached_property
    def _known(self) -> frozenset[AnyStr]:
        return frozenset(self._grams)

    @cached_property
    def _cutters(self) -> list[Struct]:
        """Structs that cut samples out of bytes in one call, by the number of samples."""
        sample, gap = f"{GRAM}s", f"{self._step - GRAM}x"
        return [Struct(gap.join([sample] * count)) for count in range(MAX_CUTS + 1)]

    def _sampled(self, text: AnyStr) -> list[Span]:
        spans: list[Span] = []
        reached: dict[int, int] = {}
        for block in range(0, len(text), self._step * BLOCK_SAMPLES):
            places = range(block, min(len(text), block + self._step * BLOCK_SAMPLES), self._step)
            if not self._grams.keys().isdisjoint([text[at : at + GRAM] for at in places]):
                spans += self._met(text, places, reached)
        return spans

    def _met(self, text: AnyStr, places: Sequence[int], reached: dict[int, int]) -> Iterator[Span]:
        """Yield the spans of long forms at these samples. `reached` is how far each form was followed already.

        For one form, a later sample shows a later beginning: each beginning is met by the first sample in it, and of
        those met by one sample the farthest back comes first.
        """
        for at in places:
            for code in self._grams.get(text[at : at + GRAM], ()):
                index, offset = divmod(code, MAX_SAMPLED_CHARS)
                begin = at - offset
                if begin < 0 or begin < reached.get(index, 0) - len(self._long[index]):
                    continue
                form = self._written(self._long[index])
                if begin + len(form) > reached.get(index, 0) and text.startswith(form, begin):
                    reached[index] = _run(form, text, begin)
                    yield begin, reached[index]


def _run(form: AnyStr, text: AnyStr, at: int) -> int:
    """Return where the form at `at` ends, or where the last of a chain of overlapping copies ends."""
    end = at + len(form)
    while (after := text.rfind(form, at + 1, end - 1 + len(form))) > at:
        at, end = after, after + len(form)
    return end


def joined(spans: list[Span]) -> list[Span]:
    """Sort the spans and merge those that overlap. Adjacent spans stay two."""
    result: list[Span] = []
    for begin, end in sorted(spans):
        if result and begin < result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((begin, end))
    return result


_BACKSLASH = ord("\\")  # searching for a number is faster than for bytes
_DATA_MASK = MASK.encode()
_JSON_MASK = b'"' + _DATA_MASK + b'"'
_ESCAPE = regex(rb"\\u([0-9a-fA-F]{4})")
# A string, and the colon that makes it a name; a number; the end of an object or a list. Possessive, so that 48 MB do
# not need a stack of 48 million choices.
_TOKEN = regex(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")(\s*+:)?|-?[0-9][0-9.eE+-]*+|[]}]', re.DOTALL)
_LEAST_DIGITS = 6  # of a secret number; shorter numbers occur everywhere


class Tables:
    """The searches for one set of forms. Each is created at its first use."""

    def __init__(self, forms: frozenset[str]) -> None:
        self.forms = forms

    @cached_property
    def text(self) -> MultiPattern[str]:
        return MultiPattern(self.forms, str)

    @cached_property
    def data(self) -> MultiPattern[bytes]:
        return MultiPattern(self.forms, _bytes)

    @cached_property
    def json(self) -> MultiPattern[bytes]:
        changed = {form: written for form in self.forms if (written := in_json(form)) != form}
        if not changed:
            return self.data
        return MultiPattern((changed.get(form, form) for form in self.forms), _bytes)

    @cached_property
    def _escapes(self) -> frozenset[bytes]:
        return frozenset(unit for form in self.forms for unit in _escapes(form))

    def is_plain(self, data: bytes) -> bool:
        """Whether no string of a JSON text can hide a form behind an unnecessary escape.

        With the short escapes alone there is one way to write a form, the one that `json` knows.
        """
        if b"\\/" in data:
            return False
        return b"\\u" not in data or self._escapes.isdisjoint(map(bytes.lower, _ESCAPE.findall(data)))


class Redactor:
    """The secrets of a process. Safe to use from any thread. Without a secret it returns its input unchanged."""

    def __init__(self) -> None:
        self._registering = Lock()
        self.tables: Tables | None = None  # None while there is nothing to hide
        self.listener: Callable[[str, frozenset[str]], None] | None = None  # gets names and forms for another process

    def register(self, *secrets: Secret, name: str = "") -> None:
        """Hide these from now on. Values under `forms.SHORTEST` characters cannot be hidden.

        `name` is a secret's in profiles.
        """
        found = frozenset[str]().union(*(forms(secret.expose()) for secret in secrets))
        self.hide(found)
        if self.listener is not None and found:
            self.listener(name, found)

    def hide(self, found: frozenset[str]) -> None:
        """Hide these forms of secrets."""
        with self._registering:
            known = self.tables.forms if self.tables else frozenset()
            if not found <= known:
                self.tables = Tables(known | found)

    @property
    def is_empty(self) -> bool:
        return self.tables is None

    def text(self, text: str) -> str:
        return self.tables.text.masked(text, MASK) if self.tables else text

    def data(self, data: bytes) -> bytes:
        """Redact UTF-8 bytes. Other bytes pass unchanged."""
        return self.tables.data.masked(data, _DATA_MASK) if self.tables else data

    def tree(self, value: Any) -> Any:
        """Redact decoded JSON, including keys. Returns `value` itself if nothing was hidden.

        The protocol's own words stay (`protocol.acp`), and so does a number that holds a secret only among its digits.
        A value nested too deep to search is hidden whole.
        """
        if self.tables is None:
            return value
        try:
            return _tree(self.tables, value, "")
        except RecursionError:
            return MASK

    def raw_json(self, data: bytes) -> bytes:
        """Redact one JSON text, with the same result as `tree`, however its strings are escaped.

        Only strings and numbers that must be hidden are rewritten, a number as a string. Returns `data` itself if there
        are none.
        """
        tables = self.tables
        if tables is None:
            return data
        if _BACKSLASH not in data and tables.json.has_none(data):
            return data
        if tables.is_plain(data) and not tables.json.spans(data):
            return data
        redacted = _TOKEN.sub(_Rewriter(self).token, data)
        return data if redacted == data else redacted


class _Rewriter:
    """Rewrites one JSON text token by token, and knows the member to which each value belongs."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._name = ""

    def token(self, found: "re.Match[bytes]") -> bytes:
        written, string, colon = found[0], found[1], found[2]
        if string is None:
            return self._other(written)
        said = _said(string)
        if colon:
            self._name = said or ""
            return self._string(string, said, is_kept=said in NAMES) + colon
        return self._string(string, said, is_kept=is_structure(self._name, said))

    def _other(self, written: bytes) -> bytes:
        if written in b"]}":
            self._name = ""  # the protocol does not name the items that follow in a list
            return written
        return _JSON_MASK if _is_secret_number(self._tables, self._name, written.decode()) else written

    def _string(self, written: bytes, said: str | None, *, is_kept: bool) -> bytes:
        if is_kept:
            return written
        if said is None or b"\\" not in written:
            return (
                b'"' + self._redactor.data(written[1:-1]) + b'"'
            )  # not JSON: a reader can see nothing in it but its bytes
        redacted = self._redactor.text(said)
        return written if redacted == said else _quoted(redacted)

    @property
    def _tables(self) -> Tables:
        assert self._redactor.tables is not None, "nothing is rewritten where nothing is secret"
        return self._redactor.tables


def _quoted(text: str) -> bytes:
    return json.dumps(text).encode()


def _said(written: bytes) -> str | None:
    """Return the text of a JSON string, or None if it is not JSON."""
    text = written.decode("utf-8", "surrogateescape")
    if "\\" not in text:
        return text[1:-1]

    try:
        # The standard library, not msgspec: it accepts half a surrogate pair, which agents do send.
        return str(json.loads(text, strict=False))
    except ValueError:
        return None


def _tree(tables: Tables, value: Any, name: str) -> Any:
    """Redact a tree. `name` is the member that holds this value, or the list with this value."""
    if isinstance(value, str):
        return value if is_structure(name, value) else tables.text.masked(value, MASK)
    if isinstance(value, int | float):
        return MASK if _is_secret_number(tables, name, str(value)) else value
    if isinstance(value, list):
        items = [_tree(tables, item, name) for item in value]
        return items if any(map(_is_another, items, value)) else value
    if isinstance(value, dict):
        members = {_key(tables, key): _tree(tables, member, key) for key, member in value.items()}
        same = len(members) == len(value) and not any(map(_is_another, members, value))
        return value if same and not any(map(_is_another, members.values(), value.values())) else members
    return value


def _key(tables: Tables, key: str) -> str:
    return key if key in NAMES else tables.text.masked(key, MASK)


def _is_secret_number(tables: Tables, name: str, written: str) -> bool:
    """Whether the whole number is a secret. Part of a number is not hidden: any six digits occur by chance."""
    digits = written.removeprefix("-")
    return digits in tables.forms and sum(map(str.isdigit, digits)) >= _LEAST_DIGITS and not is_structure(name, 0)


def _is_another(new: object, old: object) -> bool:
    return new is not old


def _bytes(form: str) -> bytes:
    """Encode a form as it comes out of a pipe, where text need not be UTF-8."""
    return form.encode("utf-8", "surrogateescape")


def _escapes(form: str) -> set[bytes]:
    """Return the digits after `\\u` for each character of the form, two groups for those beyond U+FFFF."""
    data = form.encode("utf-16-be", "surrogatepass")
    return {data[at : at + 2].hex().encode() for at in range(0, len(data), 2)}


redactor = Redactor()


def excerpt(said: bytes, characters: int) -> str:
    """Return the beginning of a child's message.

    It is redacted before it is cut, because half a secret is not recognized.
    """
    return redactor.text(said[: 64 * 1024].decode(errors="replace"))[:characters].strip()


# Redacting streams: bytes that arrive in pieces, and our own stdout and stderr.


MIN_BEGINNING_BYTES = 3  # of a form; fewer end many a text
SHOWN = 5  # bytes of a form that may be visible where a stream ends: one less than the shortest secret has
_MASK_BYTES = MASK.encode()


class StreamRedactor:
    """Redacts bytes however they were cut: the output equals `Redactor.data` of the whole.

    It holds back what may still become a form, never more than the longest form. (A form that consists of our own `***`
    and its neighbours shows no secret, and is not searched for.) What is held when the stream ends, or may have ended,
    is a form that was cut: at most its first `SHOWN` bytes stay visible.
    """

    def __init__(self, source: Redactor = redactor) -> None:
        self._redactor = source
        self._pending = b""
        self._covered = 0  # bytes at the beginning of `_pending` whose mask was already written

    def feed(self, data: bytes) -> bytes:
        """Return as much as is decided of `data` and of the bytes held back before it."""
        tables = self._redactor.tables
        if tables is None:
            return data
        window, covered = self._pending + data, self._covered
        kept = len(window) - tables.data.held(window)
        spans = tables.data.spans(window)
        if covered:
            spans = joined([(0, covered), *spans])
        self._pending = window[kept:]
        self._covered = max([0, *(end - kept for begin, end in spans if begin < max(kept, covered))])
        return _masked(window, spans, kept, is_covered=covered > 0) if spans else window[:kept]

    def cover(self) -> bytes:
        """Return a mask for the bytes held back, in case nothing follows. The rest of that form stays hidden if it
        follows.

        Fewer than `MIN_BEGINNING_BYTES` stay held: too little to say that there was something.
        """
        if len(self._pending) < MIN_BEGINNING_BYTES or self._covered == len(self._pending):
            return b""
        has_mask, self._covered = self._covered > 0, len(self._pending)
        return b"" if has_mask else _MASK_BYTES

    def end(self) -> bytes:
        """Return the bytes held back, masked if they are more than `SHOWN` bytes of a form."""
        last = self.cover() if len(self._pending) > SHOWN else self._pending[self._covered :]
        self._pending, self._covered = b"", 0
        return last


def _masked(window: bytes, spans: list[Span], stop: int, *, is_covered: bool) -> bytes:
    """Return the first `stop` bytes, masked. The first span gets no mask if `is_covered`: it has one already."""
    pieces, at = [], 0
    for begin, end in spans:
        if begin >= stop:
            break
        pieces += [window[at:begin], b"" if is_covered and begin == 0 else _MASK_BYTES]
        at = end
    return b"".join([*pieces, window[at:stop]])


class _Wrapped:
    def __init__(self, stream: Any, source: Redactor) -> None:
        self._stream = stream
        self._redactor = source

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def writelines(self, lines: Iterable[Any]) -> None:
        for line in lines:
            self.write(line)


class _Bytes(_Wrapped):
    def write(self, written: Any) -> int:
        self._stream.write(self._redactor.data(bytes(written)))
        return len(written)


class _Text(_Wrapped):
    """Redacts each write by itself: text cannot be held back, because it may be a question to the user."""

    def write(self, written: Any) -> int:
        """Return the length of the argument, which callers compare with it."""
        self._stream.write(self._redactor.text(written) if isinstance(written, str) else written)
        return len(written)

    @property
    def buffer(self) -> BinaryIO:
        return cast(BinaryIO, _Bytes(self._stream.buffer, self._redactor))


def redacted_stream(stream: TextIO, source: Redactor = redactor) -> TextIO:
    """Return `stream` wrapped so that no write shows a secret, or `stream` itself if it is wrapped already."""
    return stream if isinstance(stream, _Text) else cast(TextIO, _Text(stream, source))


def install() -> None:
    """Redact our stdout and stderr: print, tracebacks, typer and rich write to these."""
    sys.stdout, sys.stderr = (stream and redacted_stream(stream) for stream in (sys.stdout, sys.stderr))
