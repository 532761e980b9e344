"""A page that an agent asks the user to visit. The whole address and its host are shown; it is opened with consent."""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from acp_launch.console.draw.sanitize import quote, quote_line
from acp_launch.console.stderr import harmless
from acp_launch.plan.executable import inherited
from acp_launch.plan.written import keep_path
from acp_launch.process import detached
from acp_launch.regex import regex
from acp_launch.secret.redact import redactor
from acp_launch.session.elicitation import Action, Link
from acp_launch.session.events import Choice, Person, Tone

# The address of a page as the user must see it before visiting: whole, and without misleading parts.


MAX_URL_CHARS = 8000  # servers reject longer ones, and users cannot check them
_HOST = regex(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\.?|\[[0-9a-f:.]+\]")
_LOCAL = regex(r"localhost|.*\.localhost|127\.[0-9.]+|\[::1\]")
_ODD = regex(r"[\s\\<>\"^`{|}]")  # browsers repair these, each in its own way


class WebAddress(Struct, frozen=True):
    """An address to open. `url` is shown and opened; its host is in ASCII. `warnings` are whole sentences."""

    url: str
    host: str
    warnings: tuple[str, ...] = ()


class UnfitAddress(Struct, frozen=True):
    """An address that must not be opened. `reason` completes "The link …"."""

    reason: str


def read(url: str) -> WebAddress | UnfitAddress:
    """Read a URL of an agent."""
    if problem := _at_sight(url):
        return UnfitAddress(problem)
    try:
        parts = urlsplit(url)
        port = parts.port
        host = _ascii(parts.hostname or "")
    except ValueError:  # UnicodeError, of a host that cannot be written in ASCII, is one
        return UnfitAddress("is not a web address")
    if parts.scheme not in ("http", "https"):
        return UnfitAddress(f'begins with "{parts.scheme}:"; only http and https can be opened')
    if not _HOST.fullmatch(host):
        return UnfitAddress("names no host")
    user, at, _ = parts.netloc.rpartition("@")
    netloc = f"{user}{at}{host}{'' if port is None else f':{port}'}"
    return WebAddress(parts._replace(netloc=netloc).geturl(), host, tuple(_warnings(parts, host)))


def _at_sight(url: str) -> str:
    if len(url) > MAX_URL_CHARS:
        return f"is {len(url):,} characters long"
    if redactor.text(url) != url:
        return "contains a secret of this launch"
    if not url.isprintable() or harmless(url) != url or _ODD.search(url):
        return "contains characters that are not valid in a web address"
    return "" if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", url) else "is not a web address"


def _ascii(host: str) -> str:
    """Return the host as DNS wants it; an IPv6 address in brackets."""
    if ":" in host:
        return f"[{host}]"
    return host if host.isascii() else host.encode("idna").decode("ascii")


def _warnings(parts: SplitResult, host: str) -> list[str]:
    said = []
    if not (parts.hostname or "").isascii() or "xn--" in host:
        said.append("The host name has letters other than a to z: it may imitate a host you know.")
    if "@" in parts.netloc:
        said.append("The text before the @ is not the host.")
    if parts.scheme == "http" and not _LOCAL.fullmatch(host):
        said.append("The connection is not encrypted: others on the network can read and change it.")
    return said


# The program that shows a page to the user, started so that it outlives this process.


# These need the terminal, which is in use; `www-browser` is the installed one of them.
TEXTUAL = {"browsh", "carbonyl", "chawan", "cha", "edbrowse", "elinks", "links", "links2", "lynx", "w3m", "www-browser"}


def command(env: Mapping[str, str]) -> list[str] | None:
    """Return the command that opens a page, with `%s` for its address; None if there is none.

    `$BROWSER` is read as other programs read it: commands separated by `:`, of which the first installed one is used.
    Browsers that run in the terminal are skipped.
    """
    path = keep_path(env)["PATH"]
    for argv in _candidates(env):
        found = shutil.which(argv[0], path=path)
        if found and Path(argv[0]).name not in TEXTUAL:
            address = [] if any("%s" in argument for argument in argv[1:]) else ["%s"]
            return [str(Path(found).absolute()), *argv[1:], *address]
    return None


def start(argv: Sequence[str], url: str, env: Mapping[str, str]) -> tuple[str, Tone]:
    """Open a page, and return what to tell the user. The result of the visit is not known.

    Variables with secrets of profiles are removed from its environment.
    """
    theirs = keep_path(inherited(env, "all"))
    if problem := detached.start([argument.replace("%s", url) for argument in argv], theirs):
        return f"{argv[0]} did not start ({problem}). Open the address by hand.", "warning"
    return f"Opening it with {argv[0]}. If no page appears, open the address by hand.", "dim"


def _candidates(env: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    for said in env.get("BROWSER", "").split(os.pathsep):
        if argv := _split(said):
            yield argv
    if sys.platform == "darwin":
        yield ("/usr/bin/open",)
        return
    yield ("wslview",)  # Linux under Windows: opens the browser there
    if env.get("DISPLAY") or env.get("WAYLAND_DISPLAY"):
        yield ("xdg-open",)


def _split(said: str) -> tuple[str, ...]:
    """Split a command line, without a final `&`: every browser is started in the background."""
    try:
        argv = shlex.split(said)
    except ValueError:
        return ()
    return tuple(argv[:-1] if argv[-1:] == ["&"] else argv)


OPEN = Choice("o", "open in the browser")
MYSELF = Choice("m", "I will open it myself")
DECLINE = Choice("d", "decline")
CANCEL = Choice("c", "cancel, without an answer")


class Links:
    """Asks `person`. `env` names the browser, and is passed to it."""

    def __init__(self, person: Person, agent_name: str, *, env: Mapping[str, str] = os.environ) -> None:
        self._person = person
        self._agent_name = quote_line(agent_name)
        self._env = env

    async def visit(self, link: Link) -> Action:
        """Ask for consent. `accept` says nothing about the result of the visit. Unfit links are declined."""
        async with self._person.floor():
            self._person.say(f"The agent {self._agent_name} asks you to visit a page:", "heading")
            quote(self._person, link.message)
            match read(link.url):
                case UnfitAddress(reason):
                    self._person.say(f"    {quote_line(link.url)}", "quote")
                    self._person.say(f"The link {reason}: declined.", "warning")
                    return "decline"
                case WebAddress() as address:
                    return await self._consent(address)

    async def _consent(self, address: WebAddress) -> Action:
        opener = command(self._env)
        self._person.say(f"    {address.url}", "quote")
        self._person.say(f"    on the host {address.host}")
        for warning in address.warnings:
            self._person.say(warning, "warning")
        if opener is None:
            self._person.say("No browser was found; open the address by hand.", "dim")
        choices = ([OPEN] if opener else []) + [MYSELF, DECLINE, CANCEL]
        match await self._person.choose("Visit it?", choices):
            case OPEN.key if opener:
                self._person.say(*start(opener, address.url, self._env))
                return "accept"
            case MYSELF.key:
                return "accept"
            case DECLINE.key:
                return "decline"
        return "cancel"
