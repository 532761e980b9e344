"""
The cached answers of a server to the handshake and for its lists, as its latest process gave them.

With `start: lazy` they answer in its place while it is asleep. A server may answer different clients differently, so
they are kept for each client apart, which is known by the parameters of its `initialize`. Between launches they are a
file of the cache, for exactly the program, arguments and variables that gave them. The answers are kept as
they were written, before the profile's `tools` hide any.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from acp_launch.document.cache import JsonCache
from acp_launch.mcp.message import INITIALIZE, capabilities
from acp_launch.plan.model import INHERITED, ServerPlan, StdioPlan, Value
from acp_launch.private import make_digest
from acp_launch.process.code import read_code
from acp_launch.secret.redact import redactor

CODE = ("bridge/*.py", "mcp/adapter.py", "mcp/message.py")  # what the answers depend on besides the server
FOLDER = "servers"
CLIENTS = 4  # of which answers are kept, for each server
MAX_CACHE_FILES = 200
MAX_CACHED_BYTES = 4 * 1024 * 1024  # of a server's answers; one with more is started at once each time

_Pages = dict[str, str]  # by cursor, empty for the first page


def client(params: Raw) -> str:
    """Return the name of a client, from the parameters of its `initialize`; empty if they cannot be read."""
    try:
        return msgspec.json.encode(msgspec.json.decode(params), order="sorted").decode()
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return ""


class CachedAnswers:
    """The answers of one server. Kept only in memory if `directory`, of acp-launch's caches, is None."""

    def __init__(self, plan: ServerPlan, directory: Path | None) -> None:
        self._cache = None if directory is None else JsonCache(directory / FOLDER, CODE)
        self._of = _identity(plan)
        self._answers: dict[str, dict[str, _Pages]] = {}  # by client, then by method; the latest client is the last
        self._is_changed = False
        if self._cache is not None:
            self._answers = self._cache.read(Path(self._of), self._of, _answers) or {}

    @property
    def is_known(self) -> bool:
        """Whether the handshake of some client can be answered."""
        return any(INITIALIZE in answers for answers in self._answers.values())

    def is_of(self, plan: ServerPlan) -> bool:
        """Tell whether they are of this server, from the files that it would be started from now."""
        return self._of == _identity(plan)

    def find(self, client: str, method: str, cursor: str = "") -> Raw | None:
        """Return a result, or a page of it; None if it is not known."""
        found = self._answers.get(client, {}).get(method, {}).get(cursor)
        return None if found is None else Raw(found.encode())

    def takes_level(self, client: str) -> bool:
        """Tell whether the server has shown this client that it takes a logging level."""
        result = self.find(client, INITIALIZE)
        return result is not None and "logging" in (capabilities(result) or ())

    def cache_answer(self, client: str, method: str, result: Raw, cursor: str = "") -> None:
        """Note a result, or a page of it. The first page replaces all, and another handshake everything."""
        answers, text = self._answers.get(client, {}), bytes(result).decode(errors="replace")
        if not client or answers.get(method, {}).get(cursor) == text:
            return
        if method == INITIALIZE:
            answers = {}
        pages = answers.get(method, {}) if cursor else {}
        self._answers.pop(client, None)
        self._answers[client] = {**answers, method: {**pages, cursor: text}}
        self._is_changed = True
        while len(self._answers) > CLIENTS:
            del self._answers[next(iter(self._answers))]
        if sum(map(len, self._pages())) > MAX_CACHED_BYTES:
            del self._answers[client]

    def forget(self, client: str, *methods: str) -> None:
        """Drop results that the server has said are no longer true."""
        for method in methods:
            if self._answers.get(client, {}).pop(method, None) is not None:
                self._is_changed = True

    def save(self) -> None:
        """Write them for the next launch, if they have changed and the directory is writable."""
        if self._cache is None or not self._is_changed:
            return
        self._is_changed = False
        if any(redactor.text(page) != page for page in self._pages()):
            return  # a file must not hold a secret, and an agent must not get an answer without it
        self._cache.write(Path(self._of), self._of, self._answers)
        self._cache.prune(MAX_CACHE_FILES)

    def _pages(self) -> Iterator[str]:
        for answers in self._answers.values():
            for pages in answers.values():
                yield from pages.values()


def _answers(kept: Any) -> dict[str, dict[str, _Pages]]:
    return msgspec.convert(kept, dict[str, dict[str, _Pages]])


def _identity(plan: ServerPlan) -> str:
    """Return a hash of what runs. Secrets count as their references, and of inherited variables only the names."""
    runs: list[object]
    if isinstance(plan, StdioPlan):
        words = [each.display() for each in plan.args]
        runs = [str(plan.command), words, str(plan.cwd or "")]
        runs += read_code([str(plan.command), *words], plan.cwd or Path(os.sep))
    else:
        runs = [plan.type, plan.url.display(), _shown(plan.headers)]
    runs += [plan.name, plan.roots, plan.protocol, _shown(plan.env)]
    return make_digest(msgspec.json.encode(runs).decode())


def _shown(values: Mapping[str, Value]) -> list[tuple[str, str]]:
    return sorted((name, "" if value.origin == INHERITED else value.display()) for name, value in values.items())
