"""
The border to keyring libraries: they may raise anything, and what they raise may hold the value being written.

Foreign exceptions become a `StoreFault` here and are dropped; of their text one short line stays, without the value.
"""

from collections.abc import Callable
from typing import TypeVar

from acp_launch.secret.outcome import MAX_VALUE, Outcome, StoreFault
from acp_launch.secret.value import MASK, Secret

SERVICE = "acp-launch"
USE_A_FILE = 'keep secrets in a sealed file instead: write "secrets: {store: file}" in config.yaml'
_LONGEST = 200  # characters of somebody else's message
_TELLING = 6  # characters of a value in a row: as many as the redactor wants before it hides a value
T = TypeVar("T")


class ItemFault(StoreFault):
    """Raised for what is wrong with one item; the others may well be readable."""


def attempt(work: Callable[[], T], translate: Callable[[Exception], StoreFault]) -> T:
    """What `work` gives. Every exception but StoreFault is translated, and not even kept as the fault's context."""
    try:
        return work()
    except StoreFault:
        raise
    except Exception as error:
        fault = translate(error)
    raise fault


def sentence(error: BaseException, *, hide: str = "") -> str:
    """`error` in one line, at most 200 characters; anything in it that tells of `hide` is masked."""
    text = " ".join(str(error).replace(hide, MASK).split() if len(hide) >= _TELLING else str(error).split())
    text = "".join(character if character.isprintable() else "?" for character in text).rstrip(". ")
    if len(text) > _LONGEST:
        text = text[: _LONGEST - 1] + "…"
    return text if text and not _tells(text, hide) else type(error).__name__


def _tells(text: str, hide: str) -> bool:
    """Whether a piece of `hide` is still in `text`: libraries quote, cut and escape what they were given."""
    size = min(_TELLING, len(hide))
    return size > 0 and any(text[start : start + size] in hide for start in range(len(text) - size + 1))


def storable(secret: Secret) -> str:
    """The text to store.

    Raises:
        StoreFault: it is too large, or no text that could be stored.
    """
    text = secret.expose()
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        size = -1  # outside of the except block: this exception holds the value
    if size < 0:
        raise StoreFault(
            "unavailable", "the value is not text in UTF-8", fix="encode it first, with base64 for instance"
        )
    if size > MAX_VALUE:
        reason = f"the value has {size:,} bytes; {MAX_VALUE:,} are the most a secret may have"
        raise StoreFault("too large", reason, fix="keep it in a file, and only its path or its key in a secret")
    return text


def found(text: str, source: str) -> Outcome:
    """What was read, unless it is more than a secret may hold."""
    size = len(text.encode(errors="surrogatepass"))
    if size > MAX_VALUE:
        reason = f"the value has {size:,} bytes; {MAX_VALUE:,} are the most a secret may have"
        return Outcome("too large", source, None, reason, "store a shorter value under this name")
    return Outcome("found", source, Secret(text))


def failed(fault: StoreFault, source: str) -> Outcome:
    return Outcome(fault.state, source, None, fault.reason, fault.fix)


def not_text(name: str) -> ItemFault:
    reason = "what is stored under this name is not text in UTF-8"
    return ItemFault("unavailable", reason, fix=f"acp-launch secret set {name}")
