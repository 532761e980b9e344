"""
What a user reads about logins to remote MCP servers: their state, the page to visit, and how a login or logout ended.

Names and addresses of servers, and what a server calls the user, are made harmless.
"""

import os
import time
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from acp_launch.console import stdout
from acp_launch.console.ask import links
from acp_launch.console.ask.terminal import ask_for_paste, choose_yes_or_no
from acp_launch.console.stderr import DIM, YELLOW, harmless_line, say
from acp_launch.console.stdout import columns
from acp_launch.errors import AuthRequired
from acp_launch.mcp.http.wire import shown_origin
from acp_launch.oauth.grant import STEP_UPS, Login
from acp_launch.secret.detect import masked

NOT_LOGGED_IN = "not logged in"


class State(Struct, frozen=True):
    """The state of the login to a server. `url` is empty if it cannot be told.

    `is_asked`: the profile or the server has asked for a login.
    `program` is the one that prints headers for it, as the user's settings say; then it needs no login.
    """

    name: str
    url: str
    login: Login | None
    is_asked: bool
    program: str = ""

    def is_lacking(self, now: float) -> bool:
        """Whether the server asks for a login that the user does not have."""
        return self.is_asked and not self.program and not is_valid(self.login, now)


def is_valid(login: Login | None, now: float) -> bool:
    """Whether a login can be used, as far as its record tells."""
    if login is None or login.is_over:
        return False
    return login.is_renewed or login.expires is None or login.expires > now


def describe_state(state: State, now: float) -> str:
    """Describe what proves to a server who its user is."""
    return f"headers from {state.program}" if state.program else _describe(state.login, now)


def _describe(login: Login | None, now: float) -> str:
    """Describe a login in a few words: `as ada, until 2026-11-23 04:05, then renewed`."""
    if login is None:
        return NOT_LOGGED_IN
    who = f"as {login.account}" if login.account else "logged in"
    if login.is_over:
        return f"{who}, revoked by the server"
    if not is_valid(login, now):
        return f"{who}, expired {_moment(login.expires)}"
    if login.expires is None:
        return who
    if login.expires <= now:
        return f"{who}, renewed at the next use"
    return f"{who}, until {_moment(login.expires)}{', then renewed' if login.is_renewed else ''}"


def data(state: State, now: float) -> dict[str, Any]:
    """Return a login as data; times are Unix seconds."""
    login = None if state.program else state.login
    return {
        "state": "headers" if state.program else _word(login, now),
        "program": state.program or None,
        "account": login.account or None if login else None,
        "issuer": login.issuer if login else None,
        "scopes": list(login.scopes) if login else [],
        "since": login.since if login else None,
        "expires": login.expires if login else None,
        "renewed": login.is_renewed if login else False,
    }


def _word(login: Login | None, now: float) -> str:
    if login is None:
        return NOT_LOGGED_IN
    return "logged in" if is_valid(login, now) else "revoked" if login.is_over else "expired"


def show(states: Sequence[State], now: float, *, as_json: bool) -> None:
    """Print the logins on stdout."""
    if as_json:
        servers = [{"name": each.name, "url": masked(each.url) or None, **data(each, now)} for each in states]
        stdout.put_json({"servers": servers})
        return
    rows = [(each.name, masked(each.url) or "?", describe_state(each, now), _scopes(each)) for each in states]
    for line in columns([("NAME", "URL", "LOGIN", "SCOPES"), *rows] if rows else []):
        stdout.line(harmless_line(line))


def say_none(which: str) -> None:
    _say(f"acp-launch: {which} known to want a login", style=DIM)


def say_state(state: State, now: float, *, is_due: bool) -> None:
    """Tell of a login before the user is sent to log in, or is not, if it is not due."""
    _say(f"acp-launch: {state.name}: {describe_state(state, now)}{'' if is_due else '; nothing was done'}", style=DIM)


def say_logged_in(name: str, login: Login, use: str) -> None:
    """Tell how a login ended; `use` is the command that uses it."""
    who = f" as {login.account}" if login.account else ""
    scopes = f", for {', '.join(login.scopes)}" if login.scopes else ""
    until = f", until {_moment(login.expires)}" if login.expires is not None and not login.is_renewed else ""
    _say(f"acp-launch: {name}: logged in{who}{scopes}{until}")
    _say(f"    to use it: {use}", style=DIM)


def say_not_asked(name: str, scopes: Sequence[str]) -> None:
    """Tell that scopes are not asked for any more, as logins do not bring them."""
    asked = f"it wants {', '.join(scopes)}, which {STEP_UPS} logins in a row did not grant; this one did not ask"
    _say(f"acp-launch: {name}: {asked}", style=YELLOW)
    _say("    ask its operator which scopes your account may have; a logout forgets what it wanted", style=YELLOW)


def say_not_logged_in(name: str) -> None:
    _say(f"acp-launch: {name}: {NOT_LOGGED_IN}", style=DIM)


def say_logged_out(name: str, fault: str, others: Sequence[str]) -> None:
    """Tell how a logout ended: `fault` is what the server did not do, and `others` are addresses that shared the
    login."""
    how = "its tokens are deleted" if fault else "its tokens are revoked and deleted"
    _say(f"acp-launch: {name}: logged out, {how}")
    if fault:
        _say(f"    {fault}", style=YELLOW)
    if others:
        _say(f"    the same login was used for {', '.join(map(masked, others))}", style=YELLOW)


def show_page(name: str, url: str, opener: Sequence[str] | None, address: str) -> None:
    """Tell the user which server sends them where, and open the page, if there is a command for that.

    Raises:
        AuthRequired: the address must not be opened.
    """
    page = _say_address(name, url, address)
    if opener is None:
        _say("    Open it in a browser. It may end on an error page. Copy its address and paste it here.")
        return
    text, tone = links.start(opener, page, os.environ)
    _say(f"    {text}", style=YELLOW if tone == "warning" else DIM)


def show_code(name: str, url: str, address: str, code: str) -> None:
    """Tell the user at which page to type a code, on any machine.

    Raises:
        AuthRequired: the address must not be opened.
    """
    _say_address(name, url, address)
    _say(f"    Open it in a browser on any machine. The code to type or to compare there: {code}")


def _say_address(name: str, url: str, address: str) -> str:
    """Say which server sends the user where; return the address."""
    read = links.read(address)
    if isinstance(read, links.UnfitAddress):
        what = f"{name}: the address for the login {read.reason}; it was not opened"
        raise AuthRequired(what, fix="ask the operator of the server")
    _say(f"acp-launch: {name} ({_host(url)}) sends you to {_host(read.url)} to log in:")
    _say(f"    {read.url}")
    for warning in read.warnings:
        _say(f"    {warning}", style=YELLOW)
    return read.url


async def ask_address(name: str, complaint: str) -> str:
    """Ask for the address that the browser came back to. `complaint` says what was wrong with the one before.

    Raises:
        AuthRequired: the user ended the input.
    """
    if complaint:
        _say(f"    {complaint}", style=YELLOW)
    which = "another address" if complaint else "the address that the browser ends at"
    text = await ask_for_paste(f"    Paste {which} (it is not shown), then Enter: ")
    if text is None:
        raise AuthRequired(f"{name}: no address was pasted, so there is no login", fix="log in again")
    return text


async def confirm(what: str, question: str) -> bool:
    """Tell the user at the terminal something about a login, and ask whether it is right; no answer means no."""
    _say(f"acp-launch: {what}")
    return await choose_yes_or_no(question) is True


def _host(url: str) -> str:
    return shown_origin(url)


def _scopes(state: State) -> str:
    return " ".join(state.login.scopes) if state.login and not state.program else ""


def _moment(when: float | None) -> str:
    """Return a time of this machine to the minute; `?` if the calendar does not have it."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(when))
    except (OverflowError, OSError, ValueError):
        return "?"


def _say(text: str, *, style: str = "") -> None:
    say(harmless_line(text), style=style)
