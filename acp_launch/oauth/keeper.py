"""
The keeper of a grant: gives its access token, and renews it once for any number of tasks and processes.

A token is renewed shortly before it expires, or after the server has refused it. The one that renews holds the lock
of the item, reads the store again, as another process may have been faster, and stores the new tokens before they are
used. It also writes the present ones once more before it asks, because a refresh token can be used up by asking: a
store that takes nothing is found out in time. If the answer cannot be stored nevertheless, it is used, and stored at
the next renewal.

A renewal works in a thread of its own, so that neither the store nor a cancelled call can stop it halfway. Between the
server's answer and the write lies nothing but the encoding. A process that is killed there loses the new refresh token:
the next process sends the old one again, which a server with a reuse grace takes, and others refuse.

While the authorization server cannot be asked, the present token stays in use until the MCP server refuses it. So does
one whose time is over by our clock, which may be wrong.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread
from time import monotonic
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from acp_launch.errors import StateError
from acp_launch.mcp.http.wire import NoToken
from acp_launch.oauth.exchange import ClientSecret, Refused, ask
from acp_launch.oauth.grant import NOT_LOGGED_IN, Grant, Logins, Tokens, decode_grant, encode_grant
from acp_launch.private import locked
from acp_launch.secret.isolate import beside_a_session
from acp_launch.secret.lookup import within
from acp_launch.secret.redact import redactor
from acp_launch.secret.value import Secret, Store, StoreFault
from acp_launch.waits import stretch

EARLY_SECONDS = 60.0  # before its end that a token is renewed
EARLY_SHARE = 0.1  # of its life, if that is shorter
ANSWER_TIMEOUT = stretch(15.0)  # for the authorization server
STORE_TIMEOUT = stretch(10.0)  # for each access, if the caller does not say
SPARE_SECONDS = 5.0  # for a holder of the lock; so long must a token last to be used in that time
END_TIMEOUT = stretch(5.0)  # to wait for an answer at the end of a session
RETRY_SECONDS = 10.0  # after an attempt that failed, if the server does not say
LONGEST_REST = 300.0
NEW_SECONDS = 30.0  # in which a renewed token that is refused is not renewed again
T = TypeVar("T")


class _Failure(Struct, frozen=True):
    """Why there was no renewal. `until`: no further attempt before that moment of the monotonic clock."""

    error: NoToken
    until: float


class TokenStore:
    """The access token in one item of the secret store. Safe to use from the tasks of one event loop."""

    def __init__(
        self,
        item: str,
        store: Callable[[], Store],
        logins: Logins,
        *,
        command: str,
        grant: Grant | None = None,
        secret: ClientSecret | None = None,
        limit: float = STORE_TIMEOUT,
        note: Callable[[str], None] = lambda text: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`store` returns the prepared store, in any thread; `limit` is for each access to it. `command` logs in.

        `grant` is what the item holds, if the caller knows. `secret` belongs to a configured client. `note` is called
        in other threads, with a sentence for the user.
        """
        self._item, self._store, self._logins = item, store, logins
        self._command, self._secret, self._limit = command, secret, limit
        self._note, self._clock = note, clock
        self._grant = grant
        self._over: Grant | None = None  # refused for good
        self._unsaved: tuple[Grant, Grant] | None = None  # what the store holds, and what it should hold
        self._failure: _Failure | None = None
        self._running: Future[Secret] | None = None
        self._is_asking = False  # what the authorization server answers now is not stored yet
        if grant is not None:
            redactor.register(*grant.secrets)

    async def token(self, refused: Secret | None = None) -> Secret:
        """Return the access token for a request; `refused` is one that the server has just refused.

        It takes at most the time of the lock: some accesses to the store, and one answer of the authorization server.

        Raises:
            NoToken: the user is not logged in, or the token cannot be renewed now.
        """
        while True:
            if (present := self._present(refused)) is not None:
                return present
            if self._running is None or self._running.done():
                self._running = _start(lambda: self._renew(refused))
                return await asyncio.wrap_future(self._running)
            await _wait_for(self._running)  # another call's, whose token may have been another

    async def leave(self) -> None:
        """Wait for an answer under way: tokens that are not stored would be lost with this process."""
        if self._running is not None and self._is_asking:
            await _wait_for(self._running, limit=END_TIMEOUT)

    @property
    def _is_resting(self) -> bool:
        return self._failure is not None and monotonic() < self._failure.until

    def _present(self, refused: Secret | None) -> Secret | None:
        """Return the token that can be used without asking anything."""
        if self._grant is None or self._grant.access == refused:
            return None
        if not self._is_due(self._grant):
            return self._grant.access
        if self._failure is None or not self._is_resting:
            return None
        return self._grant.access if self._may_be_used(self._grant, self._failure.error) else None

    def _is_due(self, grant: Grant) -> bool:
        """Whether the token is about to expire. If another clock wrote a time that is wrong, a refusal decides."""
        if grant.expires is None:
            return False
        life = EARLY_SECONDS / EARLY_SHARE if grant.issued is None else grant.expires - grant.issued
        return self._clock() >= grant.expires - max(0.0, min(EARLY_SECONDS, EARLY_SHARE * life))

    # In a thread.

    def _renew(self, refused: Secret | None) -> Secret:
        """Return a token other than `refused`: the stored one, or a new one."""
        try:
            if self._serves(self._read_latest(), refused):
                return self._in_use
            with locked(self._logins.lock(self._item), 0.0 if self._can_wait(refused) else patience(self._limit)):
                return self._renew_alone(refused)
        except NoToken as error:
            return self._without(error, refused)
        except StoreFault as fault:
            read = _not_now(f"its login cannot be read: {fault.reason}", fault.fix)
            return self._without(self._fail(read), refused)
        except TimeoutError:
            held = f"another process has been renewing its login for {patience(self._limit):g} s"
            return self._without(_not_now(held, "try again"), refused)
        except (OSError, StateError) as fault:
            reason = fault.message if isinstance(fault, StateError) else (fault.strerror or str(fault)).lower()
            unable = _not_now(f"its login cannot be renewed: {reason}", "check the state directory")
            return self._without(self._fail(unable), refused)

    def _can_wait(self, refused: Secret | None) -> bool:
        """Whether the present token is good enough while another process renews it."""
        grant = self._grant
        if grant is None or grant.access == refused:
            return False
        return grant.expires is not None and self._clock() < grant.expires - SPARE_SECONDS

    def _serves(self, grant: Grant, refused: Secret | None) -> bool:
        """Take what the store holds into use; return whether that will do."""
        if grant != self._grant:
            self._failure = None  # another process has written
        self._grant = grant
        return grant.access != refused and not self._is_due(grant)

    def _renew_alone(self, refused: Secret | None) -> Secret:
        """Do the same while no other process renews."""
        stored = self._read_latest()
        if self._serves(stored, refused):
            return self._in_use
        if stored.access == refused and stored.is_renewed and 0 <= self._clock() - (stored.issued or 0.0) < NEW_SECONDS:
            how = "rejects the login, even with a fresh token"
            raise NoToken(how, f"check its `url`, or log in again: {self._command}")
        if self._failure is not None and self._is_resting:
            raise self._failure.error.with_traceback(None)
        if self._failure is not None and stored == self._over:
            raise self._fail(self._failure.error.with_traceback(None))
        return self._exchange(stored)

    def _exchange(self, stored: Grant) -> Secret:
        """Renew a grant, under the lock."""
        if stored.refresh is None:
            raise self._end(stored, "the login has expired, and the server gave no refresh token")
        self._rehearse(stored)
        self._is_asking = True
        try:
            self._save(stored, replace(stored.after(self._ask(stored)), is_renewed=True))
        except Refused as refused:
            if refused.is_final:
                return self._use_other(stored, refused)
            how = f"its login cannot be renewed: {refused.how}"
            raise self._fail(_not_now(how, refused.fix or "try again later"), refused.pause) from None
        finally:
            self._is_asking = False
        return self._in_use

    def _rehearse(self, stored: Grant) -> None:
        """Find out whether the store takes a write, before the refresh token is used up."""
        try:
            self._write(stored)
        except StoreFault as fault:
            error = _not_now(f"its login cannot be renewed, as it cannot be stored: {fault.reason}", fault.fix)
            raise self._fail(error) from None

    def _ask(self, stored: Grant) -> Tokens:
        assert stored.refresh is not None
        form: dict[str, str | Secret] = {"grant_type": "refresh_token", "refresh_token": stored.refresh}
        if stored.resource and stored.sends_resource:
            form["resource"] = stored.resource
        secret = stored.client_secret if self._secret is None else self._secret.reveal_to(stored.client)
        return asyncio.run(ask(stored.client, secret, form, limit=ANSWER_TIMEOUT, clock=self._clock))

    def _use_other(self, stored: Grant, refused: Refused) -> Secret:
        """Use what another process, one that did not take the lock, has stored since; else the login has ended."""
        now = self._read()
        if now.access == stored.access:
            raise self._end(stored, refused.how)
        self._grant, self._failure = now, None
        return now.access

    def _save(self, before: Grant, after: Grant) -> None:
        """Store new tokens, and use them from now on, even if they cannot be stored yet."""
        try:
            self._write(after)
        except StoreFault as fault:
            self._note(f"the renewed login in {self._item} could not be stored yet: {fault.reason}")
            self._unsaved = before, after
        else:
            self._record(after)
        self._grant, self._failure = after, None

    def _record(self, grant: Grant, *, is_over: bool = False) -> None:
        known = {"expires": grant.expires, "scopes": grant.scopes, "is_renewed": grant.refresh is not None}
        with suppress(StateError):  # the record is only a memory
            for login in self._logins.of(self._item):
                self._logins.put(replace(login, **known, is_over=is_over))

    # The store.

    def _read_latest(self) -> Grant:
        """Return the grant of the store, or the renewed one that it could not take, if none has written since."""
        stored = self._read()
        before, after = self._unsaved or (stored, stored)
        return after if stored == before else stored

    def _read(self) -> Grant:
        outcome = self._use_store(lambda store: store.read([self._item]))[self._item]
        if outcome.state == "missing":
            raise NoToken(NOT_LOGGED_IN, self._command)
        if outcome.secret is None:
            raise StoreFault(outcome.state, outcome.reason, fix=outcome.fix)
        if (grant := decode_grant(outcome.secret)) is None:
            raise NoToken(f"{NOT_LOGGED_IN}: what the {outcome.source} holds is not its login", self._command)
        redactor.register(*grant.secrets)
        return grant

    def _write(self, grant: Grant) -> None:
        try:
            text = encode_grant(grant)
        except ValueError as error:
            raise StoreFault("too large", str(error), fix="ask the server's operator for shorter ones") from None
        self._use_store(lambda store: store.write(self._item, text))

    def _use_store(self, work: Callable[[Store], T]) -> T:
        store = self._store()

        def done() -> T:
            with beside_a_session():
                return work(store)

        return within(store, done, limit=self._limit, waiting=lambda what, waited, limit: None)

    # Failures.

    def _without(self, error: NoToken, refused: Secret | None) -> Secret:
        """Go on with the present token if it may still be taken; else raise the error."""
        grant = self._grant
        if grant is None or grant.access == refused or not self._may_be_used(grant, error):
            raise error
        return grant.access

    def _may_be_used(self, grant: Grant, error: NoToken) -> bool:
        """Whether to go on with a token after this error. By our clock alone a login that may be renewed has no end."""
        return not error.is_final or grant.expires is None or self._clock() < grant.expires

    def _fail(self, error: NoToken, pause: float = 0.0) -> NoToken:
        self._failure = _Failure(error, monotonic() + min(pause or RETRY_SECONDS, LONGEST_REST))
        return error

    def _end(self, grant: Grant, why: str) -> NoToken:
        self._over = grant
        if grant.refresh is not None or not self._is_due(grant):  # else it has expired, which its record says
            self._record(grant, is_over=True)
        return self._fail(NoToken(f"{NOT_LOGGED_IN} any more: {why}", self._command))

    @property
    def _in_use(self) -> Secret:
        assert self._grant is not None
        return self._grant.access


def patience(limit: float) -> float:
    """Return the seconds that a holder of the lock may need: two reads, two writes of `limit` each, one request."""
    return 4 * limit + ANSWER_TIMEOUT + SPARE_SECONDS


def _not_now(why: str, fix: str) -> NoToken:
    return NoToken(f"cannot be asked now: {why}", fix, is_final=False)


def _start(work: Callable[[], T]) -> "Future[T]":
    """Do work in a thread that neither a cancelled caller nor the end of its event loop stops."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    try:
        Thread(target=run, name="login", daemon=True).start()
    except RuntimeError:
        raise _not_now("no more threads are allowed", "raise the limit with `ulimit -u`") from None
    return future


async def _wait_for(future: "Future[T]", limit: float | None = None) -> None:
    """Wait until work is over, however it ended, or for `limit` seconds."""
    wrapped = asyncio.wrap_future(future)
    wrapped.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        await asyncio.wait([wrapped], timeout=limit)
    finally:
        wrapped.cancel()  # or it would be told after the end of its loop
