"""Visiting a page for an agent: the whole address and its host are shown, and nothing is fetched without consent."""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from acp_launch.console.ask.asked import quote, shown
from acp_launch.console.stderr import harmless
from acp_launch.process import detached
from acp_launch.secret.redact import redactor
from acp_launch.secret.value import is_private
from acp_launch.session.elicitation.answer import Action, Link
from acp_launch.session.person import Choice, Person

# The address of a page, as a person has to see it before they go there: whole, and nothing in it misleads.


LONGEST = 8000  # characters; servers take no longer ones, and a person reads none of them
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\.?|\[[0-9a-f:.]+\]")
_LOCAL = re.compile(r"localhost|.*\.localhost|127\.[0-9.]+|\[::1\]")
_ODD = re.compile(r"[\s\\<>\"^`{|}]")  # what browsers repair, each in its own way


class Address(Struct, frozen=True):
    """`url` is what is shown and what is opened: the host in it is in ASCII. `warnings` are whole sentences."""

    url: str
    host: str
    warnings: tuple[str, ...] = ()


class Unfit(Struct, frozen=True):
    """Why an address is not opened, as the end of a sentence about the link."""

    reason: str


def read(url: str) -> Address | Unfit:
    """What an agent gave as a URL."""
    if problem := _at_sight(url):
        return Unfit(problem)
    try:
        parts = urlsplit(url)
        port = parts.port
        host = _ascii(parts.hostname or "")
    except ValueError:  # UnicodeError, of a host that cannot be written in ASCII, is one
        return Unfit("is no web address")
    if parts.scheme not in ("http", "https"):
        return Unfit(f'begins with "{parts.scheme}:", and only http and https are opened')
    if not _HOST.fullmatch(host):
        return Unfit("names no host")
    user, at, _ = parts.netloc.rpartition("@")
    netloc = f"{user}{at}{host}{'' if port is None else f':{port}'}"
    return Address(parts._replace(netloc=netloc).geturl(), host, tuple(_warnings(parts, host)))


def _at_sight(url: str) -> str:
    if len(url) > LONGEST:
        return f"is {len(url):,} characters long"
    if redactor.text(url) != url:
        return "holds a secret of this launch"
    if not url.isprintable() or harmless(url) != url or _ODD.search(url):
        return "holds characters that belong in no web address"
    return "" if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", url) else "is no web address"


def _ascii(host: str) -> str:
    """As it is asked for in DNS; an IPv6 address in brackets."""
    if ":" in host:
        return f"[{host}]"
    return host if host.isascii() else host.encode("idna").decode("ascii")


def _warnings(parts: SplitResult, host: str) -> list[str]:
    said = []
    if not (parts.hostname or "").isascii() or "xn--" in host:
        said.append("The host's name has letters that are not plain a to z: it may only look like one you know.")
    if "@" in parts.netloc:
        said.append("What stands before the @ is not the host.")
    if parts.scheme == "http" and not _LOCAL.fullmatch(host):
        said.append("It is not encrypted: others on the way can read and change it.")
    return said


# Which program shows a page to the person at this machine, and starting it so that it stays theirs.


# They need the terminal, which is ours; `www-browser` is whichever of them is installed.
TEXTUAL = {"browsh", "carbonyl", "chawan", "cha", "edbrowse", "elinks", "links", "links2", "lynx", "w3m", "www-browser"}
DESKTOP = (("xdg-open",), ("gio", "open"), ("x-www-browser",))
WITHOUT_DESKTOP = (("wslview",),)  # Linux under Windows: opens the browser there


def command(env: Mapping[str, str]) -> list[str] | None:
    """What opens a page when its address is put in for `%s`; None when there is nothing that does.

    `$BROWSER` as others read it: several commands with `:` between, the first that is there; one that belongs on a
    terminal is passed over.
    """
    for argv in _candidates(env):
        found = shutil.which(argv[0], path=env.get("PATH", os.defpath))
        if found and Path(argv[0]).name not in TEXTUAL:
            address = [] if any("%s" in argument for argument in argv[1:]) else ["%s"]
            return [str(Path(found).absolute()), *argv[1:], *address]
    return None


def start(argv: list[str], url: str, env: Mapping[str, str]) -> str:
    """Open a page. Why it could not be started; empty when it was. What comes of it is not known.

    Values that stand in our environment for secrets of profiles are none of its business.
    """
    theirs = {name: value for name, value in env.items() if not is_private(name)}
    return detached.start([argument.replace("%s", url) for argument in argv], theirs)


def _candidates(env: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    for said in env.get("BROWSER", "").split(os.pathsep):
        if argv := _split(said):
            yield argv
    if sys.platform == "darwin":
        yield ("/usr/bin/open",)
        return
    yield from WITHOUT_DESKTOP
    if env.get("DISPLAY") or env.get("WAYLAND_DISPLAY"):
        yield from DESKTOP


def _split(said: str) -> tuple[str, ...]:
    """Without the `&` that asks to be started in the background: everything is."""
    try:
        argv = shlex.split(said)
    except ValueError:
        return ()
    return tuple(argv[:-1] if argv[-1:] == ["&"] else argv)


OPEN = Choice("o", "open it in the browser")
MYSELF = Choice("m", "I open it myself")
DECLINE = Choice("d", "decline")
CANCEL = Choice("c", "cancel")


class Links:
    """Asks `person`; `env` is where the browser is looked for, and what it is given."""

    def __init__(self, person: Person, agent_name: str, *, env: Mapping[str, str] = os.environ) -> None:
        self._person = person
        self._agent_name = shown(agent_name)
        self._env = env

    async def visit(self, link: Link) -> Action:
        """`accept` is consent, and no word about what the page did. A link that is not fit to be opened is declined."""
        async with self._person.floor():
            self._person.say(f"The agent {self._agent_name} asks you to visit a page:", "heading")
            quote(self._person, link.message)
            match read(link.url):
                case Unfit(reason):
                    self._decline(link.url, reason)
                    return "decline"
                case Address() as address:
                    return await self._consent(address)

    def _decline(self, url: str, reason: str) -> None:
        self._person.say(f"    {shown(url)}", "quote")
        self._person.say(f"The link {reason}: declined.", "warning")

    async def _consent(self, address: Address) -> Action:
        opener = command(self._env)
        self._person.say(f"    {address.url}", "quote")
        self._person.say(f"    on the host {address.host}")
        for warning in address.warnings:
            self._person.say(warning, "warning")
        if opener is None:
            self._person.say("There is no browser here to open it with; it can be opened by hand.", "dim")
        choices = ([OPEN] if opener else []) + [MYSELF, DECLINE, CANCEL]
        match await self._person.choose("Visit it?", choices):
            case OPEN.key if opener:
                self._open(opener, address.url)
                return "accept"
            case MYSELF.key:
                return "accept"
            case DECLINE.key:
                return "decline"
        return "cancel"

    def _open(self, opener: list[str], url: str) -> None:
        problem = start(opener, url, self._env)
        if problem:
            self._person.say(f"{opener[0]} could not be started ({problem}). Open the address by hand.", "warning")
        else:
            self._person.say(f"Opening it with {opener[0]}. If no page appears, open the address by hand.", "dim")
