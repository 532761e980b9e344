"""
A small real ACP agent over stdio, started as `python -I -m acp_launch.demo.agent`. Its answers are scripted.

It uses the standard library only, without an event loop: the main thread reads and answers, each prompt turn has a
thread, and so does each MCP server for reading. It ends with its stdin, or on SIGTERM, SIGINT and SIGHUP, and stops its
servers. Protocol: ACP v1; every capability in `CAPABILITIES` is served.
"""

import os
import select
import signal
import sys
from collections.abc import Callable, Iterable
from types import FrameType

import acp_launch
from acp_launch.demo import params as read
from acp_launch.demo import toolbox
from acp_launch.demo.session import Session, Store
from acp_launch.demo.turn import ClientOffers, offered_by
from acp_launch.demo.wire import (
    AUTH_REQUIRED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOT_FOUND,
    Message,
    RpcError,
    Wire,
    decode,
)

CAPABILITIES: Message = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True},
    "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}, "additionalDirectories": {}},
}
ABOUT = {"name": "acp-launch-demo", "title": "Demo agent (scripted, no model)", "version": acp_launch.__version__}


class Agent:
    """The agent's methods; a result of None means that a turn will answer later."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._sessions: dict[str, Session] = {}
        self._opened: Store | None = None
        self._offered: ClientOffers | None = None  # None until initialized
        self._methods: dict[str, Callable[[Message], Message]] = {
            "initialize": self._initialize,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/list": self._list,
            "session/close": self._close,
            "session/delete": self._delete,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_option,
        }
        self._wants_login = os.environ.get("ACP_LAUNCH_DEMO_LOGIN") == "1"
        if self._wants_login:
            from acp_launch.demo import login

            self._methods |= {"authenticate": login.authenticate, "logout": login.logout}

    def receive(self, line: bytes) -> None:
        """Handle one line from the client."""
        try:
            message = decode(line)
        except RpcError as error:
            self._wire.refuse(None, error)
            return
        if message is None:
            return
        if "method" not in message:
            self._wire.deliver(message)
        elif "id" in message:
            self._request(message)
        else:
            self._notified(message)

    def stop(self) -> None:
        toolbox.stop([server for session in self._sessions.values() for server in session.servers])

    @property
    def _store(self) -> Store:
        if self._opened is None:
            self._opened = Store()
        return self._opened

    def _request(self, message: Message) -> None:
        identity, method = message["id"], message["method"]
        try:
            params = self._admit(message)
            if method == "session/prompt":
                self._session(params).prompt(identity, read.prompt(params))
                return
            result = self._methods[method](params)
        except RpcError as error:
            self._wire.refuse(identity, error)
            return
        except BrokenPipeError:
            raise
        except OSError as error:
            self._wire.refuse(identity, RpcError(INTERNAL_ERROR, f"the session store failed: {error}"))
            return
        self._wire.answer(identity, result)
        if method in {"session/new", "session/load", "session/resume"}:
            self._sessions[result.get("sessionId") or params["sessionId"]].advertise()

    def _admit(self, message: Message) -> Message:
        method, params = message["method"], message.get("params")
        if method not in self._methods and method != "session/prompt":
            raise RpcError(METHOD_NOT_FOUND, f"this agent has no method {method}")
        if self._offered is None and method != "initialize":
            raise RpcError(INVALID_REQUEST, f"initialize comes before {method}")
        if not isinstance(params, dict):
            raise RpcError(INVALID_PARAMS, "params must be an object")
        if method.startswith("session/") and not self._is_logged_in():
            raise RpcError(AUTH_REQUIRED, "log in to the demo agent first")
        return params

    def _notified(self, message: Message) -> None:
        params = message.get("params")
        if not isinstance(params, dict):
            return
        for session in self._sessions.values():
            turn = session.turn
            if turn is None:
                continue
            if message["method"] == "session/cancel" and params.get("sessionId") == session.identity:
                turn.cancel(withdraw=False)
            elif message["method"] == "$/cancel_request" and _same(params.get("requestId"), turn.request):
                turn.cancel(withdraw=True)

    def _initialize(self, params: Message) -> Message:
        version = params.get("protocolVersion")
        if type(version) is not int or not 0 <= version <= 65535:
            raise RpcError(INVALID_PARAMS, "protocolVersion must be an integer from 0 to 65535")
        if self._offered is not None:
            raise RpcError(INVALID_REQUEST, "initialize was answered already")
        self._offered = offered_by(params.get("clientCapabilities"))
        return {"protocolVersion": 1, "agentInfo": ABOUT, **self._abilities(self._offered)}

    def _abilities(self, client: ClientOffers) -> Message:
        if not self._wants_login:
            return {"agentCapabilities": CAPABILITIES, "authMethods": []}
        from acp_launch.demo import login

        return {"agentCapabilities": {**CAPABILITIES, "auth": {"logout": {}}}, "authMethods": login.methods(client)}

    def _is_logged_in(self) -> bool:
        if not self._wants_login:
            return True
        from acp_launch.demo import login

        return login.is_done()

    def _new(self, params: Message) -> Message:
        cwd = read.directory(params.get("cwd"), "cwd")
        directories, servers = read.directories(params), read.servers(params)
        identity = self._store.create(cwd, directories)
        session = self._open(identity, cwd, directories)
        session.connect(servers)
        return {"sessionId": identity, **session.state()}

    def _load(self, params: Message) -> Message:
        session = self._reopen(params)
        session.replay()
        return session.state()

    def _resume(self, params: Message) -> Message:
        return self._reopen(params).state()

    def _reopen(self, params: Message) -> Session:
        identity = read.text(params, "sessionId")
        cwd = read.directory(params.get("cwd"), "cwd")
        directories = read.directories(params)
        servers = read.servers({"mcpServers": [], **params})
        head, _ = self._store.read(identity)
        if head["cwd"] != cwd:
            raise RpcError(INVALID_PARAMS, f"this session works in {head['cwd']}, not in {cwd}")
        session = self._open(identity, cwd, directories)
        session.connect(servers)
        return session

    def _open(self, identity: str, cwd: str, directories: list[str]) -> Session:
        if identity in self._sessions:
            self._sessions.pop(identity).close()
        assert self._offered is not None
        session = Session(identity, cwd, directories, store=self._store, wire=self._wire, offered=self._offered)
        self._sessions[identity] = session
        return session

    def _session(self, params: Message) -> Session:
        identity = read.text(params, "sessionId")
        if identity not in self._sessions:
            raise RpcError(NOT_FOUND, f"no session {identity[:64]!r} is open")
        return self._sessions[identity]

    def _list(self, params: Message) -> Message:
        cwd = None if params.get("cwd") is None else read.absolute(params["cwd"], "cwd")
        sessions, following = self._store.page(cwd, read.optional_text(params, "cursor"))
        return {"sessions": sessions, **({"nextCursor": following} if following else {})}

    def _close(self, params: Message) -> Message:
        session = self._session(params)
        session.close()
        del self._sessions[session.identity]
        return {}

    def _delete(self, params: Message) -> Message:
        identity = read.text(params, "sessionId")
        if identity in self._sessions:
            self._sessions.pop(identity).close()
        self._store.delete(identity)
        return {}

    def _set_mode(self, params: Message) -> Message:
        session = self._session(params)
        session.options.choose("mode", read.text(params, "modeId"))
        session.tell_options()
        return {}

    def _set_option(self, params: Message) -> Message:
        session = self._session(params)
        option = read.text(params, "configId")
        session.options.choose(option, read.option_value(params))
        if option == "mode":
            session.tell_mode()
        return {"configOptions": session.options.listed()}


def _same(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other


def _lines() -> Iterable[bytes]:
    """The lines of stdin. A signal that comes just before a read does not interrupt it: this waits for both."""
    if os.name == "nt":  # where select waits for sockets only
        yield from sys.stdin.buffer
        return
    awoken, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.set_wakeup_fd(wakeup)
    line = bytearray()
    while True:
        select.select([0, awoken], [], [])  # after a signal its handler runs, which raises
        if not (chunk := os.read(0, 1 << 16)):
            break
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            yield bytes(line + piece)
            line.clear()
        line += rest
    if line:
        yield bytes(line)


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def main() -> None:
    if sys.argv[1:] == ["--login"]:
        from acp_launch.demo import login

        raise SystemExit(login.converse())
    signals = [getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)]
    for number in signals:  # Windows has no SIGHUP
        signal.signal(number, _leave)
    agent = Agent(Wire(sys.stdout.fileno()))
    try:
        for line in _lines():
            agent.receive(line)
    except BrokenPipeError:
        print("the client closed our output", file=sys.stderr)
    finally:
        for number in signals:  # the shutdown is bounded, and must not be interrupted
            signal.signal(number, signal.SIG_IGN)
        agent.stop()


if __name__ == "__main__":
    main()
