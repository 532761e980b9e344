"""A remote server as its user knows it: its address and headers, and how it may be named in texts. Pure."""

from collections.abc import Mapping
from urllib.parse import urljoin

from acp_launch.mcp.era import STATELESS
from acp_launch.mcp.http.stream import HttpAnswer
from acp_launch.mcp.http.wire import EXCERPT, origin, phrase, printable, shown_origin
from acp_launch.mcp.message import CLIENT_INFO
from acp_launch.secret.redact import redactor

SCHEMES = {"Basic", "Bearer", "Digest", "Token"}  # of authorization: no secrets
AGENT = f"{CLIENT_INFO['name']}/{CLIENT_INFO['version']}"
LONG_SECRET = 8  # characters of a header's word that is hidden in the name of another host
CHECK = "check the address in its `url`"
WEB_PAGES = ("text/html", "application/xhtml+xml")


class Site:
    """One remote server. `type` is `http` or `sse`, `pin` the profile's `protocol`, `login` the command that logs in.

    `is_proven`: it has answered in an earlier connection.
    """

    def __init__(
        self,
        name: str,
        url: str,
        headers: Mapping[str, str],
        *,
        type: str = "http",
        pin: str = "auto",
        login: str = "",
        is_proven: bool = False,
    ) -> None:
        self.name, self.type, self.login, self.is_proven = name, type, login, is_proven
        self.origin = origin(url)
        self.is_pinned_stateless = pin in ("modern", *STATELESS)
        self.is_pinned_legacy = pin != "auto" and not self.is_pinned_stateless
        words = {word for value in headers.values() for word in (value, *value.split()) if len(word) > 3} - SCHEMES
        self._secrets = sorted(words, key=len, reverse=True)
        names = {header.lower() for header in headers}
        self.has_own_credentials = "authorization" in names
        own = {} if "user-agent" in names else {"User-Agent": AGENT}
        self.headers = {**own, **headers, "Accept": "application/json, text/event-stream"}
        self.listening = {**self.headers, "Accept": "text/event-stream", "Cache-Control": "no-store"}
        self.posting = {**self.headers, "Content-Type": "application/json"}

    def show(self, said: str, *, least: int = 0) -> str:
        """Make a text of the server fit for our messages: one line, without our secrets of `least` characters."""
        from acp_launch.secret.forms import forms

        for secret in self._secrets:
            if len(secret) >= least:
                for form in sorted({secret, secret.lower(), *forms(secret)}, key=len, reverse=True):
                    said = said.replace(form, "***")
        return printable(redactor.text(said))

    def quote(self, body: bytes) -> str:
        """Quote what a refusal said, for the end of a sentence."""
        said = self.show(body.decode(errors="replace"))
        return "" if not said or said.startswith("<") else f": {said[:EXCERPT]}"

    def join(self, base: str, address: str) -> tuple[str, bool]:
        """Return an address that the server names, and whether it is of the server's own origin."""
        try:
            found = urljoin(base, address)
            return found, origin(found) == self.origin
        except ValueError:
            return "", False

    def name_of(self, url: str) -> str:
        """Name another server by its address."""
        return self.show(shown_origin(url), least=LONG_SECRET)[:EXCERPT]

    def describe(self, answer: HttpAnswer, body: bytes) -> tuple[str, str]:
        """Return what is strange about a success that holds no answer, and what to do about it."""
        if answer.kind in WEB_PAGES:
            fix = f"{CHECK}; a network that asks for a login answers like this, too"
            return "answered with a web page and not with MCP", fix
        if answer.status in (202, 204) or not body:
            return f"took a request ({phrase(answer.status)}) and sent no answer", CHECK
        if answer.kind == "application/json":
            return f"answered with JSON that is not the answer to the request{self.quote(body)}", CHECK
        kind = self.show(answer.kind)[:60] or "none"
        return f'answered with the content type "{kind}" instead of JSON or an event stream', CHECK
