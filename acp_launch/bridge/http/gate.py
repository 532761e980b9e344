"""
The HTTP requests that are admitted: from this launch's agent, to the path of one of its servers. Pure.

Each server has a path that cannot be guessed, and a token for the header `Authorization`, because agents write
addresses to their logs. Host and Origin are checked too, so that no web page can get in by a name of its own
(MCP "streamable HTTP", security warning).
"""

from collections.abc import Mapping

from msgspec import Struct

from acp_launch.private import compare_digest

JSON, EVENTS = "application/json", "text/event-stream"
METHODS = ("GET", "POST", "DELETE")
_SHOWN = 80  # characters of a header that a message repeats


class ServerKey(Struct, frozen=True):
    """The path and the token of one server; both are for the agent alone."""

    path: str
    token: str

    def __repr__(self) -> str:
        return "Key(...)"


class Head(Struct, frozen=True):
    """A request without its body. Names of headers are in lower case."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]

    def all(self, name: str) -> list[str]:
        return [value for found, value in self.headers if found == name]

    def get(self, name: str) -> str | None:
        """Return the first header of this name."""
        return next(iter(self.all(name)), None)

    def __repr__(self) -> str:
        return f"Head({self.method})"


class RequestRefused(Exception):  # noqa: N818 - not our error
    """Raised when a request is refused; its text completes "the request was refused: …", and holds no token."""

    def __init__(self, status: int, why: str, *headers: tuple[str, str]) -> None:
        super().__init__(why)
        self.status, self.headers = status, headers


class RequestGate:
    """Admits requests; `keys` are the servers' keys by name, `port` is where we listen."""

    def __init__(self, keys: Mapping[str, ServerKey], port: int) -> None:
        self._keys = keys
        self._hosts = frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost"))

    def admit(self, head: Head) -> str:
        """Check a request, and return the name of the server it is for.

        Raises:
            Refused: it is not from the agent, or not for a server.
        """
        hosts = head.all("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            raise RequestRefused(421, f"its Host is {quote(hosts[0]) if hosts else 'missing'}")
        for origin in head.all("origin"):
            if origin.lower().removeprefix("http://") not in self._hosts:
                raise RequestRefused(403, f"it came from the web page of {quote(origin)}")
        if "content-length" in (names := [name for name, _ in head.headers]) and "transfer-encoding" in names:
            raise RequestRefused(400, "it states its length in two ways")  # the usual means of request smuggling
        name = self.find(head)
        if head.method not in METHODS:
            raise RequestRefused(405, f"its method is {quote(head.method)}", ("Allow", ", ".join(METHODS)))
        return name

    def find(self, head: Head) -> str:
        """Return the server of the request's path, if the request has its token."""
        path = head.target.encode(errors="replace")
        found = [name for name, key in self._keys.items() if compare_digest(path, key.path.encode())]
        if not found:
            raise RequestRefused(404, "its path is not one of a server")
        given = head.all("authorization")
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        wanted = self._keys[found[0]].token.encode()
        if scheme.lower() != "bearer" or not compare_digest(token.strip().encode(errors="replace"), wanted):
            raise RequestRefused(401, "it does not have the token of this launch", ("WWW-Authenticate", "Bearer"))
        return found[0]


def check_type(head: Head) -> None:
    """Check the type of a posted message.

    Raises:
        Refused: it is not JSON.
    """
    types = head.all("content-type")
    if len(types) != 1 or types[0].partition(";")[0].strip().lower() != JSON:
        raise RequestRefused(400, f"its Content-Type is not {JSON}")


def quote(said: str) -> str:
    """Make received text fit for a message."""
    return ascii(said if len(said) <= _SHOWN else f"{said[:_SHOWN]}...")
