"""A remote server as its user knows it: its address and headers, and how it may be named in texts. Pure."""

from collections.abc import Mapping
from urllib.parse import urljoin

from acp_launch.mcp.http.wire import EXCERPT_CHARS, origin, printable, shown_origin
from acp_launch.mcp.message import CLIENT_INFO, pinned_era
from acp_launch.secret.forms import forms
from acp_launch.secret.redact import redactor

SCHEMES = {"Basic", "Bearer", "Digest", "Token"}  # of authorization: no secrets
AGENT = f"{CLIENT_INFO['name']}/{CLIENT_INFO['version']}"


class Endpoint:
    """One remote server. `type` is `http` or `sse`, `pin` the profile's `protocol`, `login` the command that logs in.

    `refusal` is what it means if the server refuses the secrets in the headers, and the fix; None if there are none.
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
        refusal: tuple[str, str] | None = None,
        is_proven: bool = False,
    ) -> None:
        self.name, self.type, self.login, self.is_proven = name, type, login, is_proven
        self.url, self.origin, self.refusal = url, origin(url), refusal
        self.pinned = pinned_era(pin).server
        words = {word for value in headers.values() for word in (value, *value.split()) if len(word) > 3} - SCHEMES
        self._secrets = sorted(words, key=len, reverse=True)
        names = {header.lower() for header in headers}
        self.has_own_credentials = "authorization" in names
        own = {} if "user-agent" in names else {"User-Agent": AGENT}
        self.headers = {**own, **headers, "Accept": "application/json, text/event-stream"}
        self.listening = {**self.headers, "Accept": "text/event-stream", "Cache-Control": "no-store"}
        self.posting = {**self.headers, "Content-Type": "application/json"}

    def show(self, said: str) -> str:
        """Make a text of the server fit for our messages: one line, without our secrets."""
        for secret in self._secrets:
            for form in sorted({secret, secret.lower(), *forms(secret)}, key=len, reverse=True):
                said = said.replace(form, "***")
        return printable(redactor.text(said))

    def quote(self, body: bytes) -> str:
        """Quote what a refusal said, for the end of a sentence."""
        said = self.show(body.decode(errors="replace"))
        return "" if not said or said.startswith("<") else f": {said[:EXCERPT_CHARS]}"

    def join(self, base: str, address: str) -> tuple[str, bool]:
        """Return an address that the server names, and whether it is of the server's own origin."""
        try:
            found = urljoin(base, address)
            return found, origin(found) == self.origin
        except ValueError:
            return "", False

    def name_of(self, url: str) -> str:
        """Name another server by its address."""
        return self.show(shown_origin(url))[:EXCERPT_CHARS]
