"""
A backend of the keyring library: macOS, Windows, or one that the user named.

It makes one call for each secret, and no backend can list its items.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from acp_launch.regex import regex
from acp_launch.secret.backend import BackendChoice, load
from acp_launch.secret.isolate import (
    SERVICE,
    USE_A_FILE,
    ItemFault,
    attempt,
    error_text,
    failed,
    found,
    not_text_fault,
    sentence,
    storable_text,
    type_only,
    without_prompts,
)
from acp_launch.secret.value import Outcome, Secret, StoreFault

# What the library's exceptions hold in their text: the status of macOS's Security framework, or a sentence.
_LOCKED = regex(r"-25308|interaction (is )?not allowed", re.I)  # without a user at the screen, as over SSH
_DENIED = regex(r"(?<!\d)-128(?!\d)|cancell?ed|denied|dismissed", re.I)  # the user pressed "Deny"

# UTF-16 units of one value in the Windows Credential Manager: CRED_MAX_CREDENTIAL_BLOB_SIZE is 5 x 512 bytes
_WINDOWS = 1280
_BYTE_ORDER_MARKS = ("\ufeff", "\ufffe")  # the library decodes UTF-16 there and would drop or obey these

Tell = Callable[[BaseException], str]  # returns the part of an exception that may be shown


class LibraryKeyring:
    def __init__(self, choice: BackendChoice) -> None:
        self._choice = choice
        self.label = choice.label

    def prepare(self, *, writing: bool = False) -> None:
        """Do nothing: if the user must be asked, the desktop does."""

    def read(self, names: Sequence[str]) -> Mapping[str, Outcome]:
        with self._items() as items:
            return {name: self._look(items, name) for name in names}

    def write(self, name: str, secret: Secret) -> None:
        text = storable_text(secret)
        with self._items(type_only) as items:
            items.set(name, text)

    def remove(self, name: str) -> bool:
        with self._items() as items:
            return items.delete(name)

    def names(self) -> None:
        """Fail if the backend cannot be used. Returns None, because the library has no call that lists."""
        with self._items():
            return

    def _look(self, items: "_Items", name: str) -> Outcome:
        try:
            text = items.get(name)
        except ItemFault as fault:
            return failed(fault, self.label)
        return Outcome("missing", self.label) if text is None else found(text, self.label)

    @contextmanager
    def _items(self, tell: Tell = sentence) -> Iterator["_Items"]:
        with without_prompts():
            backend = attempt(lambda: load(self._choice), lambda error: _fault(self._choice, error, sentence))
            yield _Items(self._choice, backend, tell)


class _Items:
    """The backend's own calls, with every exception translated."""

    def __init__(self, choice: BackendChoice, backend: Any, tell: Tell) -> None:
        self._choice = choice
        self._backend = backend
        self._tell = tell

    def get(self, user: str) -> str | None:
        text = attempt(
            lambda: self._backend.get_password(SERVICE, user),
            lambda error: not_text_fault(user) if isinstance(error, UnicodeError) else self._fault(error),
        )
        if text is None or isinstance(text, str):
            return text
        raise ItemFault("unavailable", f"the {self._choice.label} gave {type(text).__name__} instead of text")

    def set(self, user: str, text: str) -> None:
        if _is_windows(self._backend):
            _check_fits(text)
        attempt(lambda: self._backend.set_password(SERVICE, user, text), self._fault)

    def delete(self, user: str) -> bool:
        from keyring.errors import PasswordDeleteError

        def work() -> bool:
            try:
                self._backend.delete_password(SERVICE, user)
            except PasswordDeleteError:  # "no such password" is one reason
                if self._backend.get_password(SERVICE, user) is None:
                    return False
                raise
            return True

        return attempt(work, self._fault)

    def _fault(self, error: BaseException) -> StoreFault:
        return _fault(self._choice, error, self._tell)


def _is_windows(backend: Any) -> bool:
    return any(base.__module__ == "keyring.backends.Windows" for base in type(backend).__mro__)


def _check_fits(text: str) -> None:
    """Check that the Windows Credential Manager can store the text.

    Raises:
        StoreFault: it cannot store the text unchanged.
    """
    held = len(text.encode("utf-16-le")) // 2
    if held > _WINDOWS:
        reason = f"the value has {held:,} UTF-16 units; the Windows Credential Manager keeps at most {_WINDOWS:,}"
        raise StoreFault("too large", reason, fix=USE_A_FILE)
    if text.startswith(_BYTE_ORDER_MARKS):
        reason = "the value begins with a byte order mark, which the Windows Credential Manager does not keep"
        raise StoreFault("unavailable", reason, fix=f"remove the mark, or {USE_A_FILE}")


def _fault(choice: BackendChoice, error: BaseException, tell: Tell) -> StoreFault:
    from keyring.errors import KeyringError, KeyringLocked, PasswordDeleteError, PasswordSetError

    label, told = choice.label, tell(error)
    if isinstance(error, EOFError):
        reason = f"the {label} wants to ask for a password in the terminal, which acp-launch does not allow"
        return StoreFault("unavailable", reason, fix=choice.other_choice)
    if isinstance(error, KeyringError) and _LOCKED.search(error_text(error)):
        return _locked(label, told)
    if isinstance(error, KeyringError) and _DENIED.search(error_text(error)):
        return ItemFault("denied", f"the {label} denied access: {told}", fix="try again, and allow it when asked")
    if isinstance(error, KeyringLocked):
        return _locked(label, told)
    if isinstance(error, PasswordSetError | PasswordDeleteError):
        return StoreFault("denied", f"the {label} refused the change: {told}", fix=choice.other_choice)
    return StoreFault("unavailable", f"the {label} does not work here: {told}", fix=choice.other_choice)


def _locked(label: str, told: str) -> StoreFault:
    return StoreFault("locked", f"the {label} is locked: {told}", fix="unlock it, and try again")
