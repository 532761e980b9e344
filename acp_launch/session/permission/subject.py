"""
The subject of a tool call, as far as it says: its kind, tool, title, files, commands and addresses. Pure.

A call is JSON from the agent, so every member may be missing, or of any type. A member that seems to name a file or a
command, but cannot be read, counts as one that no rule allows. Nothing is looked up: a path is taken as written,
without `.` and `..`. Links are not resolved, except those through which the session's own directories are reached,
which are given.

`subject` reads a call; `input_digest` is the digest that identifies the rest of its input for a remembered answer.
"""

import json
import posixpath
import shlex
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from acp_launch.private import hash_content
from acp_launch.protocol import acp
from acp_launch.regex import regex
from acp_launch.session.permission.globs import Links, real, script
from acp_launch.session.state import tool

UNKNOWN = ""  # an unreadable path; no glob matches it
_DEPTH = 12  # levels of the input that are searched
# The names that agents and MCP servers use, without case, `_` and `-`.
PATHS = regex(
    "(?:abs|absolute|dir|file|notebook|target|relative|relativeworkspace|old|new|move|source|destination|from|to)?paths?"
    "|(?:target|source)?files?|filenames?|source|destination|src|dst|dest|dir|directory|(?:file)?uri"
)
DIRECTORIES = frozenset({"cwd", "workdir", "workingdir", "workingdirectory"})  # where a command runs
COMMANDS = frozenset({"command", "cmd", "commandline"})
ADDRESSES = frozenset({"url", "urls", "uri", "href", "address"})
_CHANGES = frozenset(
    {"changes", "edits", "diff", "unifieddiff", "patch", "newtext", "newstring", "newstr", "newcontent", "newsource"}
)
_SCHEME = regex(r"[A-Za-z][A-Za-z0-9+.-]+:(?://|$)")


class Subject(Struct, frozen=True):
    """The subject of a call.

    `kind` is empty if the call has none. Paths are absolute; each command has one or more readings, or none.
    `directories` are where commands run, if known. `acts` are the kinds of all signs: `execute` if a command is run,
    `edit` if a file changes.
    """

    kind: str
    tool: str
    title: str
    paths: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...]
    directories: tuple[str, ...]
    addresses: tuple[str, ...]
    acts: frozenset[str]

    @property
    def command(self) -> str:
        """Return the command line as it stands; empty if there is none, or it is unreadable."""
        return "\n".join(readings[0] for readings in self.commands if readings)

    def includes(self, other: "Subject") -> bool:
        """Whether the other names nothing that this one does not."""
        return (
            set(other.paths) <= set(self.paths)
            and set(other.commands) <= set(self.commands)
            and set(other.addresses) <= set(self.addresses)
        )


def subject(call: dict[str, Any], *, cwd: str = "/", home: str = "", links: Links = ()) -> Subject:
    """Return the subject of `call`, which is merged with earlier updates; `cwd` is the session's.

    A path in a directory that `links` names is replaced by its real path.
    """

    def absolute(paths: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(real(_absolute(path, cwd, home), links) for path in paths))

    given = list(_members(call.get("rawInput"), 0))
    places = [text for key, value, _ in given if key in DIRECTORIES for text in _texts(value)]
    commands = tuple(dict.fromkeys(_run(given)))
    return Subject(
        kind=acp.text(call.get("kind")),
        tool=tool(call),
        title=acp.text(call.get("title")),
        paths=absolute((*_visible_files(call), *_named_files(given))),
        commands=commands,
        directories=absolute(places),
        addresses=tuple(dict.fromkeys(text for key, value, _ in given if key in ADDRESSES for text in _texts(value))),
        acts=frozenset(_acts(call, given, commands)),
    )


def _members(value: Any, depth: int) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Yield every member in `value`: its key in plain letters, itself, and its mapping."""
    if depth > _DEPTH:
        yield "path", 0, {}  # deeper levels may hold anything
        return
    if isinstance(value, dict):
        for key, member in value.items():
            yield plain(key), member, value
            yield from _members(member, depth + 1)
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, dict | list):
                yield from _members(item, depth + 1)


def plain(key: object) -> str:
    """Return the name of a member without case, `_` and `-`."""
    return _plain(key if isinstance(key, str) else str(key))


@lru_cache(maxsize=1024)  # agents use few names, again and again
def _plain(key: str) -> str:
    return key.replace("_", "").replace("-", "").lower()


def _acts(call: dict[str, Any], given: list[tuple[str, Any, dict[str, Any]]], commands: object) -> Iterator[str]:
    shown = {acp.text(content.get("type")) for content in map(acp.mapping, acp.sequence(call.get("content")))}
    if commands or "terminal" in shown:
        yield "execute"
    if "diff" in shown or any(key in _CHANGES and value for key, value, _ in given):
        yield "edit"


def _visible_files(call: dict[str, Any]) -> Iterator[str]:
    """Yield the files that the user sees: the call's locations, and its diffs."""
    for location in map(acp.mapping, acp.sequence(call.get("locations"))):
        yield from _texts(location.get("path"))
    for content in map(acp.mapping, acp.sequence(call.get("content"))):
        if content.get("type") == "diff":
            yield from _texts(content.get("path"))


def _named_files(given: list[tuple[str, Any, dict[str, Any]]]) -> Iterator[str]:
    for key, value, _ in given:
        if PATHS.fullmatch(key):
            yield from _texts(value)
        elif key == "changes" and isinstance(value, dict):  # codex: a patch, by file
            yield from map(str, value)


def _texts(value: Any) -> Iterator[str]:
    """Yield a text or a list of texts. A mapping is searched by itself; anything else is unreadable."""
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str):
            yield item
        elif not isinstance(item, dict | None):
            yield "~?"  # an unknown home


def _absolute(path: str, cwd: str, home: str) -> str:
    if path.lower().startswith("file:"):
        parts = urlsplit(path)
        path = unquote(parts.path) if parts.netloc in ("", "localhost") else "~?"
    elif _SCHEME.match(path):
        return UNKNOWN
    if path == "~" or path.startswith("~/"):
        path = home + path[1:] if home else "~?"
    if path.startswith("~"):
        return UNKNOWN
    whole = posixpath.normpath(posixpath.join(cwd, path))
    return whole[1:] if whole.startswith("//") else whole


def _run(given: list[tuple[str, Any, dict[str, Any]]]) -> Iterator[tuple[str, ...]]:
    for key, value, owner in given:
        if key in COMMANDS and value is not None:
            yield _readings(value, owner.get("args"), owner.get("env"))


def _readings(value: Any, args: Any, env: Any) -> tuple[str, ...]:
    """Return the ways to write a command, given as text or as words; none if it is neither."""
    words, further = _words(value), _words(args)
    typed = _assignments(env)
    if not words or further is None or typed is None:
        return ()
    inner = script([*words, *further]) if further or isinstance(value, list) else None
    whole = value.strip() if isinstance(value, str) else shlex.join(words)
    rest = args.strip() if isinstance(args, str) else shlex.join(further)
    told = " ".join(filter(None, [*typed, whole, rest]))
    return (told,) if inner is None else (told, " ".join([*typed, inner]))


def _words(value: Any) -> list[str] | None:
    if isinstance(value, str):
        return [value]
    words = [] if value is None else value
    return words if isinstance(words, list) and all(isinstance(word, str) for word in words) else None


def _assignments(env: Any) -> list[str] | None:
    """Return a command's variables, as typed before it: they may change what it does."""
    if not isinstance(env, dict | list | None):
        return None
    entries = ((entry.get("name"), entry.get("value")) for entry in map(acp.mapping, acp.sequence(env)))
    named: list[tuple[Any, Any]] = list(env.items() if isinstance(env, dict) else entries)
    if not all(isinstance(text, str) for pair in named for text in pair):
        return None
    return [f"{name}={shlex.quote(value)}" for name, value in named]


# The part of a call's input that must be the same for a remembered answer to hold, besides its subject.
#
# As a rule that is all of it. Members without effect may differ: the description of a command, its timeout. An answer
# about reading, editing or deleting a file is about that file, whatever its content. Without an input, and without a
# kind for which the title says enough, the agent's description counts: gemini sends the arguments of a server's tool as
# text. Only a digest is stored, because an input may hold anything.


NOTHING = ""  # no input, or nothing in it that counts
_HARMLESS = frozenset({"timeout", "timeoutms", "timeoutseconds", "callid", "toolcallid", "turnid"})
WORDS = frozenset({"description", "explanation"})  # of a command; elsewhere they may be the content that is sent
_FILES = frozenset({"read", "edit", "delete", "move"})
CONTENT = regex(  # of a file, and which part of it
    "(?:file)?(?:content|contents|text)|(?:old|new)(?:text|string|str|source|content)|(?:find|replace(?:ment)?)"
    "|edits?|diff|patch|(?:unified)?diff|changes|replaceall|expectedreplacements"
    "|offset|limit|line|lines|startline|endline|insertline|viewrange"
)


def input_digest(call: dict[str, Any], about: Subject) -> str:
    """Return the same digest for two calls with equivalent inputs."""
    given = call.get("rawInput")
    if UNKNOWN in about.paths:  # perhaps nested without end; no answer to it is stored
        return "unknown"
    if given is None and about.kind in ("", "other") and call.get("status") in (None, "pending"):
        given = _all_texts(call)  # in later updates they are the call's results
    rest = _rest(given, about) if isinstance(given, dict) else given
    if rest in (None, {}, [], ""):
        return NOTHING

    return hash_content(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode())


def _all_texts(call: dict[str, Any]) -> list[str]:
    contents = [acp.mapping(content) for content in acp.sequence(call.get("content"))]
    texts = [
        acp.text(acp.mapping(each.get("content")).get("text")) for each in contents if each.get("type") == "content"
    ]
    return [text for text in texts if text]


def _rest(given: dict[str, Any], about: Subject) -> dict[str, Any]:
    told: set[str] = set()
    if any(plain(key) in COMMANDS for key in given):
        told = {"args", "env", *(key for key in given if plain(key) in WORDS)}
    return {key: value for key, value in given.items() if key not in told and _counts(key, value, about)}


def _counts(key: object, value: object, about: Subject) -> bool:
    name = plain(key)
    if name in _HARMLESS | COMMANDS or (name in DIRECTORIES and _is_flat(value)):
        return False
    if about.kind not in _FILES or not about.paths or about.commands or about.addresses:
        return True
    if CONTENT.fullmatch(name):
        return False
    return about.kind == "move" or not PATHS.fullmatch(name) or not _is_flat(value)  # a move: the order counts


def _is_flat(value: object) -> bool:
    """Whether it is a path, or several, and nothing else."""
    return all(isinstance(item, str) for item in (value if isinstance(value, list) else [value]))
