"""
The border to keyring libraries: they may raise anything, and what they raise may hold the value being written.

Foreign exceptions become a `StoreFault` here and are dropped; of their text one short line stays, and nothing at all
while a value is written: no search finds it there in every shape a stranger may give it.
"""

from collections.abc import Callable
from typing import TypeVar

from acp_launch.secret.outcome import MAX_VALUE, Outcome, StoreFault, size
from acp_launch.secret.value import Secret

SERVICE = "acp-launch"
USE_A_FILE = 'keep secrets in a sealed file instead: write "secrets: {store: file}" in config.yaml'
_LONGEST = 200  # characters of somebody else's message
T = TypeVar("T")


class ItemFault(StoreFault):
    """Raised for what is wrong with one item; the others may well be readable."""


def attempt(work: Callable[[], T], translate: Callable[[BaseException], StoreFault]) -> T:
    """What `work` gives. Everything but StoreFault and Ctrl-C is translated, and not even kept as the fault's context.

    SystemExit too: a library that ends the process would end it with its own exit code, and without a word.
    """
    try:
        return work()
    except (StoreFault, KeyboardInterrupt):
        raise
    except BaseException as error:
        fault = translate(error)
    raise fault


def sentence(error: BaseException) -> str:
    """`error` in one line, at most 200 characters."""
    name = type(error).__name__
    text = " ".join(said(error).split())
    text = "".join(character if character.isprintable() else "?" for character in text).rstrip(". ")
    if not isinstance(error, Exception):
        text = f"{name} {text}".rstrip()  # SystemExit: the text may be no more than a number
    return f"{text[: _LONGEST - 1]}…" if len(text) > _LONGEST else text or name


def kind(error: BaseException) -> str:
    """What may be shown of `error` while a value is written."""
    return f"{type(error).__name__}; its text is not shown, as it may hold the value"


def said(error: BaseException) -> str:
    """The text of `error`; empty when it cannot even give that."""
    try:
        return str(error)
    except Exception:
        return ""


def storable(secret: Secret) -> str:
    """The text to store.

    Raises:
        StoreFault: it is too large, or no text that could be stored.
    """
    text = secret.expose()
    if (held := size(text)) is None:
        raise StoreFault(
            "unavailable", "the value is not text in UTF-8", fix="encode it first, with base64 for instance"
        )
    if held > MAX_VALUE:
        reason = f"the value has {held:,} bytes; {MAX_VALUE:,} are the most a secret may have"
        raise StoreFault("too large", reason, fix="keep it in a file, and only its path or its key in a secret")
    return text


def found(text: str, source: str) -> Outcome:
    """What was read, unless it is more than a secret may hold."""
    held = len(text.encode(errors="surrogatepass"))
    if held > MAX_VALUE:
        reason = f"the value has {held:,} bytes; {MAX_VALUE:,} are the most a secret may have"
        return Outcome("too large", source, None, reason, "store a shorter value under this name")
    return Outcome("found", source, Secret(text))


def failed(fault: StoreFault, source: str) -> Outcome:
    return Outcome(fault.state, source, None, fault.reason, fault.fix)


def not_text(name: str) -> ItemFault:
    reason = "what is stored under this name is not text in UTF-8"
    return ItemFault("unavailable", reason, fix=f"acp-launch secret set {name}")
