"""
What of a tool call's input must be the same for an answer that was kept to hold, besides what is understood. Pure.

That is all of it, as a rule. What does nothing may differ: what a command is said to be for, how long it may take. Who
allowed a file to be read, edited or deleted allowed that file, whatever comes into it. Where there is no input, and no
kind that the title of a call says enough for, what the agent says of it counts: gemini tells the arguments of a
server's tool as text. Only a digest is kept: nobody knows what is in an input.
"""

import json
import re
from typing import Any

from acp_launch.protocol import acp
from acp_launch.session.permission.subject import COMMANDS, DIRECTORIES, PATHS, UNKNOWN, Subject, plain

NOTHING = ""  # no input, or nothing in it that counts
_HARMLESS = frozenset({"timeout", "timeoutms", "timeoutseconds", "callid", "toolcallid", "turnid"})
WORDS = frozenset({"description", "explanation"})  # about a command; elsewhere they may be what is sent
_FILES = frozenset({"read", "edit", "delete", "move"})
_CONTENT = re.compile(  # of a file, and which part of it
    "(?:file)?(?:content|contents|text)|(?:old|new)(?:text|string|str|source|content)|(?:find|replace(?:ment)?)"
    "|edits?|diff|patch|(?:unified)?diff|changes|replaceall|expectedreplacements"
    "|offset|limit|line|lines|startline|endline|insertline|viewrange"
)


def likeness(call: dict[str, Any], about: Subject) -> str:
    """The same for two calls whose inputs come to the same."""
    given = call.get("rawInput")
    if UNKNOWN in about.paths:  # perhaps nested without end; no answer to it is kept
        return "unknown"
    if given is None and about.kind in ("", "other") and call.get("status") in (None, "pending"):
        given = _texts(call)  # later they are what came of the call
    rest = _rest(given, about) if isinstance(given, dict) else given
    if rest in (None, {}, [], ""):
        return NOTHING
    from hashlib import sha256  # loads OpenSSL

    return sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _texts(call: dict[str, Any]) -> list[str]:
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
    if _CONTENT.fullmatch(name):
        return False
    return about.kind == "move" or not PATHS.fullmatch(name) or not _is_flat(value)  # a move: what goes where


def _is_flat(value: object) -> bool:
    """A path, or several: nothing else is in it."""
    return all(isinstance(item, str) for item in (value if isinstance(value, list) else [value]))
