"""
The values of a profile as a person is shown them who decides about it: all of them, but for credentials, and with what
a variable can do. Pure.

A credential that is written down is masked, but nothing that a shell would act on: no part of a command can be hidden
by its looks. Where a program may be named, only what is certainly a credential is masked.
"""

import json
import re

from msgspec import Struct

from acp_launch.profile.potent import RUNS, power
from acp_launch.secret.credential import sightings
from acp_launch.secret.value import MASK

_KEY = r'(?:[A-Za-z_][A-Za-z0-9_-]*|"(?:[^"\\]|\\.)*")'  # as `accepted` writes it
_LINE = re.compile(r'(?P<path>(?:[^":]|"(?:[^"\\]|\\.)*")*): (?P<value>.*)')
_NAMED = re.compile(rf"(?:agent|mcp_servers\.{_KEY})\.(?P<kind>env|headers)\.(?P<name>{_KEY})")
_ACTIVE = re.compile(r"[$`;|&<>(){}]")  # what a shell acts on


class Shown(Struct, frozen=True):
    """A line for a person. `can` is what setting that variable can do (see `potent`); empty for all else."""

    path: str
    value: str  # JSON, without credentials
    can: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.value}" if self.value else self.path


def shown(line: str) -> Shown:
    """One line of what `accepted.content` gives."""
    found = _LINE.fullmatch(line)
    if found is None:
        return Shown(discreet(line), "")
    kind, name = _called(found["path"])
    can = power(name) if kind == "env" else ""
    return Shown(discreet(found["path"]), _discreet_json(found["value"], name), can)


def _called(path: str) -> tuple[str, str]:
    """`env` or `headers`, and the name in it; nothing for all else."""
    found = _NAMED.fullmatch(path)
    if found is None:
        return "", ""
    return found["kind"], json.loads(found["name"]) if found["name"].startswith('"') else found["name"]


def _discreet_json(text: str, name: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:  # in an acceptance of an older version, which masked some of it
        return text
    return json.dumps(discreet(value, name)) if isinstance(value, str) else text


def discreet(text: str, name: str = "") -> str:
    """Without the credentials in it. `name` is that of a variable or header whose value it is; of any other text, and
    of what may be a program, only those are left out that are certain."""
    is_command = not name or power(name) == RUNS
    for found in reversed(sightings(text, "" if is_command else name)):
        is_meant = found.certainty == "certain" or not (is_command or found.certainty == "placeholder")
        if is_meant and not _ACTIVE.search(text, found.start, found.end):
            text = text[: found.start] + MASK + text[found.end :]
    return text
