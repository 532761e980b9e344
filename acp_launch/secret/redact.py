"""
The redactor: every secret of this process, and no text that shows one.

What is registered is looked for in every form it may appear in (`secret.forms`) and replaced by `***`. The result
holds no form any more, so redacting twice is redacting once. A process has one redactor, `redactor`: everything we
print or write passes through it.
"""

import re
from threading import Lock
from typing import Any

from acp_launch.secret.needles import Needles
from acp_launch.secret.value import MASK, Secret

_DATA_MASK = MASK.encode()
_JSON_MASK = b'"' + _DATA_MASK + b'"'
_ESCAPE = re.compile(rb"\\u([0-9a-fA-F]{4})")
# A string or a number of a JSON text. Possessive, so that 48 MB are no stack of 48 million choices.
_SCALAR = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|-?[0-9][0-9.eE+-]*+', re.DOTALL)


class Tables:
    """The forms as they are searched for: made whole, then put in place of those before."""

    def __init__(self, forms: frozenset[str]) -> None:
        from acp_launch.secret.forms import in_json

        self.forms = forms
        self.text = Needles(forms)
        self.data = Needles(_bytes(form) for form in forms)
        self.json = Needles(_bytes(in_json(form)) for form in forms)
        self._escapes = frozenset(unit for form in forms for unit in _escapes(form))

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
        """Decoded JSON, keys and numbers included; `value` itself when nothing in it had to be hidden.

        What is nested too deep to be looked through is hidden whole.
        """
        if self.tables is None:
            return value
        try:
            return _tree(self.tables.text, value)
        except RecursionError:
            return MASK

    def raw_json(self, data: bytes) -> bytes:
        """One JSON text, as bytes: no string, key or number in it shows a secret, however it is escaped.

        Only the strings and numbers that do are written anew, a number as a string. `data` itself when there is none.
        """
        tables = self.tables
        if tables is None:
            return data
        if tables.is_plain(data) and not tables.json.spans(data):
            return data
        redacted = _SCALAR.sub(lambda found: self._scalar(found[0]), data)
        return data if redacted == data else redacted

    def _scalar(self, written: bytes) -> bytes:
        if not written.startswith(b'"'):
            return written if self.data(written) == written else _JSON_MASK
        if b"\\" not in written:
            return b'"' + self.data(written[1:-1]) + b'"'
        import json

        try:
            # The standard library: unlike msgspec it reads half a surrogate pair, which agents do send.
            said: str = json.loads(written.decode("utf-8", "surrogateescape"), strict=False)
        except ValueError:
            return self.data(written)  # no JSON: nobody can read more in it than its bytes
        redacted = self.text(said)
        return written if redacted == said else json.dumps(redacted).encode()


def _tree(needles: Needles[str], value: Any) -> Any:
    if isinstance(value, str):
        return needles.masked(value, MASK)
    if isinstance(value, int | float):
        return MASK if needles.spans(str(value)) else value
    if isinstance(value, list):
        items = [_tree(needles, item) for item in value]
        return items if any(map(_is_another, items, value)) else value
    if isinstance(value, dict):
        members = {_tree(needles, key): _tree(needles, member) for key, member in value.items()}
        same = len(members) == len(value) and not any(map(_is_another, members, value))
        return value if same and not any(map(_is_another, members.values(), value.values())) else members
    return value


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
