"""
What the process of a run tells `batch item`, which records it: the forms of its secrets, and the place of its agent.

It looks the secrets up, and `batch item` writes down what they must not stand in: the record, the check's output. The
forms go through a pipe, as each is learnt, and never through a file, an argument or a variable.
"""

import os
from contextlib import suppress
from functools import partial
from typing import BinaryIO

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from acp_launch.batch.model import ErrorFacts, Record
from acp_launch.plan.model import Place
from acp_launch.secret.redact import redactor

BLOCK_BYTES = 1024 * 1024  # of a patch that are searched at once
UNNAMED = "of a login"  # a secret that no profile names


class _Message(Struct, omit_defaults=True):
    """A line of the pipe: forms of the secret of a name, or a place."""

    name: str = ""
    forms: frozenset[str] = frozenset()
    place: Raw = Raw(b"")


def tell_forms(pipe: int) -> None:
    """Tell each secret that this process learns, from now on."""
    redactor.listener = lambda name, forms: _send(pipe, _Message(name=name, forms=forms))


def tell_place(pipe: int, place: "Place") -> None:
    _send(pipe, _Message(place=Raw(msgspec.json.encode(place, enc_hook=str))))


def _send(pipe: int, message: _Message) -> None:
    rest = memoryview(msgspec.json.encode(message) + b"\n")
    with suppress(BrokenPipeError):  # our parent is gone, and its lifeline ends us
        while rest:
            rest = rest[os.write(pipe, rest) :]


class Told:
    """What was told. Forms are masked from then on in all that this process prints, and in a check's output."""

    def __init__(self) -> None:
        self._rest, self._place = b"", b""
        self._forms: dict[str, frozenset[str]] = {}

    def read(self, pipe: int) -> bool:
        """Read what there is in the pipe, which does not block; False at its end."""
        with suppress(BlockingIOError):
            while data := os.read(pipe, BLOCK_BYTES):
                *lines, self._rest = (self._rest + data).split(b"\n")
                for line in lines:
                    message = msgspec.json.decode(line, type=_Message)
                    self._place = bytes(message.place) or self._place
                    if message.forms:
                        if not self._forms:
                            from acp_launch.app.stores import protect_secrets

                            protect_secrets()
                        redactor.hide(message.forms)
                        name = message.name or UNNAMED
                        self._forms[name] = self._forms.get(name, frozenset()) | message.forms
            return False
        return True

    @property
    def place(self) -> "Place | None":
        """The place of the agent; None if it is not confined."""
        if not self._place:
            return None

        return msgspec.json.decode(self._place, type=Place, dec_hook=lambda kind, text: kind(text))

    def find_secrets(self, file: BinaryIO) -> tuple[str, ...]:
        """Return the names of the secrets that a file holds, in any form."""
        if redactor.tables is None:
            return ()
        forms = {name: [form.encode(errors="surrogateescape") for form in each] for name, each in self._forms.items()}
        longest = max((len(form) for each in forms.values() for form in each), default=0)
        found, window = set[str](), b""
        for block in iter(partial(file.read, BLOCK_BYTES), b""):
            window += block
            for begin, end in redactor.tables.data.spans(window):
                found |= {name for name, each in forms.items() if any(form in window[begin:end] for form in each)}
            window = window[-longest:]
        return tuple(sorted(found))


def mask(record: Record) -> Record:
    """Mask the texts of a record that an agent, a server or a check has written."""
    text, agent, error, check = redactor.text, record.agent, record.error, record.check
    return replace(
        record,
        check=check and replace(check, command=tuple(map(text, check.command))),
        agent=replace(agent, name=text(agent.name), version=text(agent.version)),
        answer=text(record.answer),
        error=None if error is None else _mask_error(error),
        **{name: value and text(value) for name in ("denied", "model", "mode") for value in [getattr(record, name)]},
    )


def _mask_error(error: ErrorFacts) -> ErrorFacts:
    text = redactor.text
    return replace(error, message=text(error.message), fix=text(error.fix), data=redactor.tree(error.data))
