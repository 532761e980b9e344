"""
How a shim and its seat begin, and which shim is let in. Sans-IO.

    shim    acp-launch 2 TOKEN NAME and a line end
    seat    `+`, or nothing more: it has hung up
    shim    `+`, and with it its stdin and stdout; or `=`, where no descriptors can be passed

After `+` the seat reads and writes what the shim was started with, and the connection only tells when either of them
ends; after `=` the bytes of the conversation go over the connection.
"""

from collections.abc import Container

LONGEST = 4096  # bytes, with its newline
SHOWN = 80  # characters of what a stranger said

LET_IN = b"+"

_WORD, _VERSION = b"acp-launch", b"2"


class Unwelcome(Exception):  # noqa: N818 - not an error of ours
    """Raised when somebody is not let in; its text says why, and holds no token, not even a wrong one."""


def welcome(line: bytes, token: str, names: Container[str]) -> str:
    """The name of the server that is asked for, by a line without its newline.

    Raises:
        Unwelcome: it is not to be had.
    """
    word, _, rest = line.partition(b" ")
    version, _, rest = rest.partition(b" ")
    given, separator, asked = rest.partition(b" ")
    if word != _WORD:
        raise Unwelcome("it did not begin as a shim does")
    if version != _VERSION:
        raise Unwelcome(f"its shim speaks version {_shown(version)}, this acp-launch version 2")
    import hmac  # loads OpenSSL: not while an agent is being started

    if not (separator and hmac.compare_digest(given, token.encode())):
        raise Unwelcome("its token is not the one of this launch")
    name = asked.decode(errors="replace")
    if name not in names:
        raise Unwelcome(f"it asked for {_shown(asked)}, which is no server of this launch")
    return name


def _shown(said: bytes) -> str:
    """Fit for a terminal."""
    text = said.decode(errors="replace")
    return ascii(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")
