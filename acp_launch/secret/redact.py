"""
The redactor: every secret of this process, and no text that shows one.

What is registered is looked for in every form it may appear in (`secret.forms`) and replaced by `***`. The result
holds no form any more, so redacting twice is redacting once. A process has one redactor, `redactor`: everything we
print or write passes through it.
"""

import re
from functools import cached_property
from threading import Lock
from typing import Any

from acp_launch.protocol.acp import NAMES, is_structure
from acp_launch.secret.needles import Needles
from acp_launch.secret.value import MASK, Secret

_BACKSLASH = ord("\\")  # a number is found sooner than bytes are
_DATA_MASK = MASK.encode()
_JSON_MASK = b'"' + _DATA_MASK + b'"'
_ESCAPE = re.compile(rb"\\u([0-9a-fA-F]{4})")
# A string, and what makes it a name; a number; the end of an object or a list. Possessive, so that 48 MB are no stack
# of 48 million choices.
_TOKEN = re.compile(
    rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")(\s*+:)?|-?[0-9][0-9.eE+-]*+|[]}]',
    re.DOTALL,
)
_LEAST_DIGITS = 6  # of a number that is a secret; fewer are found everywhere


class Tables:
    """The forms as they are searched for: made when they are first needed, each only once."""

    def __init__(self, forms: frozenset[str]) -> None:
        self.forms = forms

    @cached_property
    def text(self) -> Needles[str]:
        return Needles(self.forms, str)

    @cached_property
    def data(self) -> Needles[bytes]:
        return Needles(self.forms, _bytes)

    @cached_property
    def json(self) -> Needles[bytes]:
        from acp_launch.secret.forms import in_json

        changed = {form: written for form in self.forms if (written := in_json(form)) != form}
        if not changed:
            return self.data
        return Needles((changed.get(form, form) for form in self.forms), _bytes)

    @cached_property
    def _escapes(self) -> frozenset[bytes]:
        return frozenset(unit for form in self.forms for unit in _escapes(form))

    def is_plain(self, data: bytes) -> bool:
        """Whether no string of a JSON text can hide a form behind an escape that it did not need.

        With the short escapes alone there is one way to write a form, the one that `json` knows.
        """
        if b"\\/" in data:
            return False
        return b"\\u" not in data or self._escapes.isdisjoint(map(bytes.lower, _ESCAPE.findall(data)))


class Redactor:
    """Safe to use from any thread; one that knows no secret gives back what it is given."""

    def __init__(self) -> None:
        self._registering = Lock()
        self.tables: Tables | None = None  # None while there is nothing to hide

    def register(self, *secrets: Secret) -> None:
        """From now on these are hidden. Values under `forms.SHORTEST` characters cannot be."""
        from acp_launch.secret.forms import forms

        found = frozenset[str]().union(*(forms(secret.expose()) for secret in secrets))
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
        """For UTF-8; other bytes pass as they are."""
        return self.tables.data.masked(data, _DATA_MASK) if self.tables else data

    def held(self, text: str) -> int:
        """How many characters at the end of `text` may become a form with what comes after them."""
        return self.tables.text.held(text) if self.tables else 0

    def tree(self, value: Any) -> Any:
        """Decoded JSON, keys included; `value` itself when nothing in it had to be hidden.

        What ACP itself says stays (`protocol.words`), and a number that only holds a value among its digits. What is
        nested too deep to be looked through is hidden whole.
        """
        if self.tables is None:
            return value
        try:
            return _tree(self.tables, value, "")
        except RecursionError:
            return MASK

    def raw_json(self, data: bytes) -> bytes:
        """One JSON text, as bytes: what `tree` does to it, however its strings are escaped.

        Only the strings and numbers that have to be hidden are written anew, a number as a string. `data` itself when
        there is none.
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
    """Goes through one JSON text, token by token, and knows of which member each is the value."""

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
            self._name = ""  # what follows in a list is not known to be anything of the protocol's
            return written
        return _JSON_MASK if _is_secret_number(self._tables, self._name, written.decode()) else written

    def _string(self, written: bytes, said: str | None, *, is_kept: bool) -> bytes:
        if is_kept:
            return written
        if said is None or b"\\" not in written:
            return (
                b'"' + self._redactor.data(written[1:-1]) + b'"'
            )  # no JSON: nobody can read more in it than its bytes
        redacted = self._redactor.text(said)
        if redacted == said:
            return written
        import json

        return json.dumps(redacted).encode()

    @property
    def _tables(self) -> Tables:
        assert self._redactor.tables is not None, "nothing is rewritten where nothing is secret"
        return self._redactor.tables


def _said(written: bytes) -> str | None:
    """What a JSON string says; None when it is no JSON."""
    text = written.decode("utf-8", "surrogateescape")
    if "\\" not in text:
        return text[1:-1]
    import json

    try:
        # The standard library: unlike msgspec it reads half a surrogate pair, which agents do send.
        return str(json.loads(text, strict=False))
    except ValueError:
        return None


def _tree(tables: Tables, value: Any, name: str) -> Any:
    """`name` is that of the member whose value, or an item of whose value, this is."""
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
    """A number is hidden only when all of it is a value: most hold any six digits by chance."""
    digits = written.removeprefix("-")
    return digits in tables.forms and sum(map(str.isdigit, digits)) >= _LEAST_DIGITS and not is_structure(name, 0)


def _is_another(new: object, old: object) -> bool:
    return new is not old


def _bytes(form: str) -> bytes:
    """As it comes out of a pipe, where not every text was UTF-8."""
    return form.encode("utf-8", "surrogateescape")


def _escapes(form: str) -> set[bytes]:
    """The digits after `\\u` for each of its characters, two for those beyond U+FFFF."""
    data = form.encode("utf-16-be", "surrogatepass")
    return {data[at : at + 2].hex().encode() for at in range(0, len(data), 2)}


redactor = Redactor()


def excerpt(said: bytes, characters: int) -> str:
    """The beginning of what a child said, redacted before it is cut: half a secret is known to nobody."""
    return redactor.text(said[: 64 * 1024].decode(errors="replace"))[:characters].strip()
