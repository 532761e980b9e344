"""
A remote MCP server as a program that a supervisor starts, with its secrets revealed.

Its connection (`remote`) needs the HTTP client, whose import takes a tenth of a second: a thread does that while the
agent is greeted.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct, field

from acp_launch.mcp.http.site import Endpoint
from acp_launch.mcp.http.wire import Credentials, Limits, RemoteMemory
from acp_launch.secret.value import Secret, variable

if TYPE_CHECKING:
    from acp_launch.mcp.remote import Remote
    from acp_launch.plan.model import RemotePlan


@cache
def load_remote() -> "Future[type[Remote]]":
    """Begin to import the connection of remote servers; every caller gets the same answer."""
    found: Future[type[Remote]] = Future()
    found.set_running_or_notify_cancel()  # from now on who is cancelled abandons it, and the thread may end it

    def load() -> None:
        try:
            from acp_launch.mcp.remote import Remote

            found.set_result(Remote)
        except BaseException as error:
            found.set_exception(error)

    try:
        threading.Thread(target=load, name="http client", daemon=True).start()
    except RuntimeError:  # no more threads are allowed
        load()
    return found


class RemoteProgram(Struct, frozen=True, kw_only=True):
    """A remote server with its secrets revealed. Its repr shows only the name.

    `type` is `http` or `sse`, `headers` are sent with every request and to this origin only. `protocol` is the
    profile's: `auto`, `legacy`, `modern` or a version. `credentials` give further headers; `login` is the command that
    logs in. `refusal` is for its `Endpoint`.
    """

    name: str
    type: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    protocol: str = "auto"
    limits: Limits = Limits()
    memory: RemoteMemory = field(default_factory=RemoteMemory)
    credentials: Credentials | None = None
    login: str = ""
    refusal: tuple[str, str] | None = None

    @classmethod
    def of(
        cls,
        plan: "RemotePlan",
        secrets: Mapping[str, Secret],
        *,
        max_line: int,
        credentials: Credentials | None,
        login: str,
    ) -> "RemoteProgram":
        """Reveal the secrets of a plan, and begin to load what its connection needs."""
        load_remote()
        return cls(
            name=plan.name,
            type=plan.type,
            url=plan.url.reveal(secrets),
            headers={name: value.reveal(secrets) for name, value in plan.sent.items()},
            protocol=plan.protocol,
            limits=Limits(max_line=max_line),
            credentials=credentials,
            login=login,
            refusal=_refusal(plan),
        )

    @property
    def may_fetch(self) -> bool:
        return False

    @asynccontextmanager
    async def begin(self, *, restarts: int, log: Callable[[bytes], None] | None = None) -> "AsyncIterator[Remote]":
        loaded = load_remote()
        connect = loaded.result() if loaded.done() else await asyncio.wrap_future(loaded)
        site = Endpoint(
            self.name,
            self.url,
            self.headers,
            type=self.type,
            pin=self.protocol,
            login=self.login,
            refusal=self.refusal,
            is_proven=self.memory.is_proven,
        )
        remote = connect(site, self.memory, self.limits, self.credentials, log)
        try:
            remote.open()
            yield remote
        finally:
            await remote.leave()

    def __repr__(self) -> str:
        return f"RemoteProgram({self.name!r})"

    def __rich_repr__(self) -> list[tuple[str, str]]:  # msgspec's own shows every field
        return [("name", self.name)]


def _refusal(plan: "RemotePlan") -> tuple[str, str] | None:
    """Return what it means if the server refuses the secrets that it is sent, and the fix; None if there are none."""
    sent = {name.lower(): value.secrets for name, value in (*plan.sent.items(), ("", plan.url))}
    named = sent.get("authorization") or chain.from_iterable(sent.values())
    names = list(dict.fromkeys(each.name for each in named))
    if not names:
        return None
    (first, *others), given = names, variable(names[0])
    fix = f"export {given}=..." if given in os.environ else f"acp-launch secret set {first}"
    return f"it does not accept the secret{'s' if others else ''} {', '.join(names)}", fix
