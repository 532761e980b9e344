"""
The records of logins: what is known of each without opening the secret store. A file for each, and no secret in any.

A login is looked up by a server's address and the client id that the profile configures. A record that cannot be
understood counts as absent: a new login replaces it. The lock of an item is held by who changes it, in any process.
"""

import hashlib
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from acp_launch.errors import StateError
from acp_launch.oauth.grant import Login
from acp_launch.private import Unfit, locked, make_private, read_bounded, replace
from acp_launch.waits import stretch

SIZE = 256 * 1024  # bytes of a record, which may hold 200 scopes of 256 characters
PATIENCE = stretch(5.0)  # seconds that a call waits for the lock before it fails without a note of why
MOST = 1000  # records that are read


class Logins:
    """The records in the state directory. Every method may raise StateError."""

    def __init__(self, state: Path) -> None:
        self._directory = state / "logins"

    def find(self, url: str, client: str = "") -> Login | None:
        with self._explained():
            found = _read(self._file(url, client))
        return found if found is not None and (found.url, found.client) == (url, client) else None

    def put(self, login: Login) -> None:
        """Add a record, or replace the one of the same address and configured client."""
        with self._explained():
            make_private(self._directory)
            replace(self._file(login.url, login.client), msgspec.json.format(msgspec.json.encode(login)) + b"\n")

    def lacking(self, login: Login, scopes: Iterable[str]) -> Login | None:
        """Note that the server has refused a request for want of scopes, so that the next login asks for them.

        Return the record as it is then; None if it was dropped meanwhile.

        Raises:
            TimeoutError: another process that changes this login did not end in time.
        """
        before = self.find(login.url, login.client)
        if before is None or before.lacking(scopes) == before:
            return before
        with locked(self.lock(before.item), PATIENCE):
            if (before := self.find(login.url, login.client)) is None:
                return None
            self.put(after := before.lacking(scopes))
        return after

    def drop(self, login: Login) -> None:
        with self._explained():
            self._file(login.url, login.client).unlink(missing_ok=True)

    def all(self) -> tuple[Login, ...]:
        """Return every record, in the order of addresses."""
        with self._explained():
            files = sorted(self._directory.glob("*.json"))[:MOST]
            found = [login for login in map(_read, files) if login is not None]
        return tuple(sorted(found, key=lambda login: (login.url, login.client)))

    def of(self, item: str) -> tuple[Login, ...]:
        """Return the records whose tokens are in this item of the secret store."""
        return tuple(login for login in self.all() if login.item == item)

    def lock(self, item: str) -> Path:
        """Return the lock file of an item, for `private.locked`; its directory exists from now on."""
        with self._explained():
            make_private(self._directory)
        return self._directory / f"{_digest(item)}.lock"

    def _file(self, url: str, client: str) -> Path:
        digest = _digest(f"{url}\n{client}")
        return self._directory / f"{digest}.json"

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (OSError, UnicodeEncodeError) as error:
            why = error.strerror if isinstance(error, OSError) else None
            reason = (why or str(error)).lower()
            fix = f"check the owner, the mode and the free space of {shlex.quote(str(self._directory))}"
            raise StateError(f"cannot read or write the records of logins: {reason}", fix=fix) from error


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


def _read(file: Path) -> Login | None:
    try:
        found = read_bounded(file, SIZE)
        return None if found is None else msgspec.json.decode(found[0], type=Login)
    except (Unfit, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
