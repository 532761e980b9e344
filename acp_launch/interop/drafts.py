"""
An entry of another tool becomes a draft: what a profile would say. Pure.

Whatever has no place in a profile stays with the draft, to be written as a comment beside it.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from acp_launch.document.keypath import KeyPath
from acp_launch.interop.declared import Declared, Kind
from acp_launch.interop.drafting import Drafting, Text
from acp_launch.interop.places import Dialect, Tool
from acp_launch.interop.tokens import option
from acp_launch.interop.variables import Untranslatable, translated
from acp_launch.secret.credential import issued, masked

_UNPRINTABLE = re.compile("[\0\ud800-\udfff]")
_ASKED = re.compile(r"\$\{secret:([^}]*)\}")  # what `translated` makes of an input


class Draft(Struct, frozen=True):
    """`shape` is the entry with a Text in each text's place. One that is `unfit` cannot be taken, and says why.

    `left` are keys of the other tool and why they are not there.
    """

    name: str
    original: str
    kind: Kind
    shape: Mapping[str, Any]
    left: tuple[tuple[str, str], ...] = ()
    unfit: str = ""
    disabled: bool = False


def draft(entry: Declared, name: str, tool: Tool, drafting: Drafting, inputs: frozenset[str] = frozenset()) -> Draft:
    """`name` is what the profile will call it; `inputs` as `readers.inputs`."""
    work = _Work(entry, name, tool, drafting, inputs)
    shape = {} if entry.unfit else work.shape()
    left = tuple((masked(key), why) for key, why in entry.left)
    return Draft(name, masked(entry.name), entry.kind, shape, left, entry.unfit, entry.disabled)


def settled(drafts: Iterable[Draft], drafting: Drafting) -> tuple[Draft, ...]:
    """When all are drafted: no credential of one stands in another."""
    return tuple(_settled(one, drafting.punched(one.shape)) for one in drafts)


def _settled(one: Draft, shape: Mapping[str, Any]) -> Draft:
    unfit = one.unfit
    for key in ("command", "cwd"):
        if any(isinstance(part, int) for part in getattr(shape.get(key), "parts", ())):
            unfit = f"its {key} holds a credential, and no {key} can come from a secret"
    return Draft(one.name, one.original, one.kind, {} if unfit else shape, one.left, unfit, one.disabled)


class _Work(Struct):
    """One entry on its way."""

    entry: Declared
    name: str
    tool: Tool
    drafting: Drafting
    inputs: frozenset[str]

    def shape(self) -> dict[str, Any]:
        entry = self.entry
        for mapping in (entry.env, entry.headers):
            for name in [name for name in mapping if issued(name)]:  # it cannot be moved anywhere
                del mapping[name]
                entry.leave(name, "is a credential in the place of a name")
        shape = self._remote() if entry.url else self._program()
        for key, value in entry.more.items():
            if (entry.url and key != "required") or entry.kind == "agent":
                entry.leave(key, "is only for servers that acp-launch starts")
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
        """Variables of which only the name is written; each with the text before it."""
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
        # goose fills in what it keeps: `$NAME` is a secret where it is one of those.
        pieces = re.split(_any_of(kept), text) if kept and self.entry.url else [text]
        for piece in pieces:
            bare = piece.strip("${}")
            if bare in kept and piece != bare:
                parts += self._kept(bare).parts
            else:
                ours = translated(piece, dialect or self.tool.dialect_of(str(path[0])), self.inputs)
                parts += self._asked(self.drafting.text(self.name, path, name, ours))
        return Text(tuple(parts))

    def _kept(self, name: str) -> Text:
        why = f"{self.tool.title} keeps it in a store of its own"
        return Text((self.drafting.elsewhere(self.name, name, why),))

    def _asked(self, text: Text) -> Iterable[str | int]:
        """What VS Code asks for becomes the secret it was the question for; one for all servers."""
        for part in text.parts:
            pieces = _ASKED.split(part) if isinstance(part, str) and self.inputs else [part]
            for index, piece in enumerate(pieces):
                if index % 2 and isinstance(piece, str):
                    yield self.drafting.elsewhere("", piece, f"{self.tool.title} keeps it in a store of its own")
                elif piece != "":
                    yield piece


def _any_of(names: Iterable[str]) -> str:
    words = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return rf"(\$\{{(?:{words})\}}|\$(?:{words})(?![A-Za-z0-9_]))"
