"""
A small real ACP agent over stdio, started as `python -I -m acp_launch.demo.agent`. Its answers are scripted.

It uses the standard library only, without an event loop: the main thread reads and answers, each prompt turn has a
thread, and so does each MCP server for reading. It ends with its stdin, and stops its servers. Protocol: ACP v1; every
capability in `CAPABILITIES` is served.

With ACP_LAUNCH_DEMO_LOGIN=1 it requires a login: `authenticate`, which leaves a file in its directory, or DEMO_TOKEN in
the environment.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import acp_launch
from acp_launch.demo import replies, servers
from acp_launch.demo.session import Session
from acp_launch.demo.store import Store, home
from acp_launch.demo.wire import (
    AUTH_REQUIRED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
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
    "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}, "additionalDirectories": {}},
}
ABOUT = {"name": "acp-launch-demo", "title": "Demo agent (scripted, no model)", "version": acp_launch.__version__}

TOKEN = "DEMO_TOKEN"
LOGIN: Message = {"id": "demo-agent", "name": "Log in at once", "description": "Does not ask anything"}
TOKEN_LOGIN: Message = {  # no longer in the protocol, but agents still send it
    "type": "env_var",
    "id": "demo-token",
    "name": "A token in the environment",
    "vars": [{"name": TOKEN, "label": "Any text"}],
}


class Agent:
    """The agent's methods."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._sessions: dict[str, Session] = {}
        self._store = Store()
        self._client: Message = {}  # the client's capabilities
        self._methods: dict[str, Callable[[Message], Message]] = {
            "initialize": self._initialize,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": lambda params: self._reopen(params).state(),
            "session/list": self._list,
            "session/close": self._close,
            "session/delete": self._delete,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_option,
        }
        self._requires_login = os.environ.get("ACP_LAUNCH_DEMO_LOGIN") == "1"
        if self._requires_login:
            self._methods |= {"authenticate": _authenticate, "logout": _log_out}

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
            self._answer(message)
        elif isinstance(message.get("params"), dict):
            self._cancel(message["method"], message["params"])

    def stop(self) -> None:
        servers.stop([server for session in self._sessions.values() for server in session.servers])

    def _answer(self, message: Message) -> None:
        identity, method = message["id"], message["method"]
        params: Message = message.get("params", {})
        try:
            is_logged_in = not self._requires_login or os.environ.get(TOKEN) or _login_file().exists()
            if method.startswith("session/") and not is_logged_in:
                raise RpcError(AUTH_REQUIRED, "log in to the demo agent first")
            if method == "session/prompt":
                self._session(params).prompt(identity, params["prompt"])
                return
            if method not in self._methods:
                raise RpcError(METHOD_NOT_FOUND, f"this agent has no method {method}")
            result = self._methods[method](params)
        except RpcError as error:
            self._wire.refuse(identity, error)
            return
        except (KeyError, TypeError, AttributeError, OSError) as error:
            code = INTERNAL_ERROR if isinstance(error, OSError) else INVALID_PARAMS
            self._wire.refuse(identity, RpcError(code, f"it failed: {error!r}"))
            return
        self._wire.answer(identity, result)
        if method in {"session/new", "session/load", "session/resume"}:
            commands = {"sessionUpdate": "available_commands_update", "availableCommands": replies.list_commands()}
            self._sessions[result.get("sessionId") or params["sessionId"]].notify(commands)

    def _cancel(self, method: str, params: Message) -> None:
        session = self._sessions.get(params.get("sessionId", ""))
        if method == "session/cancel" and session and session.turn:
            session.turn.cancel()

    def _initialize(self, params: Message) -> Message:
        self._client = params.get("clientCapabilities") or {}
        answer = {"protocolVersion": 1, "agentInfo": ABOUT, "agentCapabilities": CAPABILITIES, "authMethods": []}
        if self._requires_login:
            answer["agentCapabilities"] = {**CAPABILITIES, "auth": {"logout": {}}}
            answer["authMethods"] = [LOGIN, TOKEN_LOGIN]
        return answer

    def _new(self, params: Message) -> Message:
        cwd, directories, entries = _read_opening(params)
        session = self._open(self._store.create(cwd, directories), cwd, directories, entries)
        return {"sessionId": session.identity, **session.state()}

    def _load(self, params: Message) -> Message:
        session = self._reopen(params)
        session.replay()
        return session.state()

    def _reopen(self, params: Message) -> Session:
        identity = params["sessionId"]
        cwd, directories, entries = _read_opening(params)
        head, _ = self._store.read(identity)
        if head["cwd"] != cwd:
            raise RpcError(INVALID_PARAMS, f"this session works in {head['cwd']}, not in {cwd}")
        return self._open(identity, cwd, directories, entries)

    def _open(self, identity: str, cwd: str, directories: list[str], entries: list[Message]) -> Session:
        if former := self._sessions.pop(identity, None):
            former.close()
        session = Session(identity, cwd, directories, self._store, self._wire, self._client, replies.reply)
        self._sessions[identity] = session
        session.servers = [servers.Server(entry, cwd) for entry in entries]
        return session

    def _session(self, params: Message) -> Session:
        identity = params["sessionId"]
        if identity not in self._sessions:
            raise RpcError(NOT_FOUND, f"no session {identity[:64]!r} is open")
        return self._sessions[identity]

    def _list(self, params: Message) -> Message:
        cwd = None if params.get("cwd") is None else os.path.normpath(params["cwd"])
        return {"sessions": [each for each in self._store.list_sessions() if cwd in (None, each["cwd"])]}

    def _close(self, params: Message) -> Message:
        session = self._session(params)
        session.close()
        del self._sessions[session.identity]
        return {}

    def _delete(self, params: Message) -> Message:
        if session := self._sessions.pop(params["sessionId"], None):
            session.close()
        self._store.delete(params["sessionId"])
        return {}

    def _set_mode(self, params: Message) -> Message:
        session = self._session(params)
        session.options.choose("mode", params.get("modeId"))
        session.tell_options()
        return {}

    def _set_option(self, params: Message) -> Message:
        session = self._session(params)
        session.options.choose(params["configId"], params.get("value"))
        if params["configId"] == "mode":
            session.tell_mode()
        return {"configOptions": session.options.list_options()}


def _read_opening(params: Message) -> tuple[str, list[str], list[Message]]:
    """Return the directory of a session, its additional directories and its MCP servers."""
    paths = [params["cwd"], *(params.get("additionalDirectories") or [])]
    for path in paths:
        if not Path(path).is_absolute() or not Path(path).is_dir():
            raise RpcError(INVALID_PARAMS, f"{path!r} is not the absolute path of a directory that exists")
    cwd, *more = map(os.path.normpath, paths)
    entries = params.get("mcpServers", [])
    for entry in entries:
        if kind := entry.get("type"):
            raise RpcError(INVALID_PARAMS, f"mcpServers[{entry['name']}]: this agent speaks stdio, not {kind}")
    return cwd, more, [{**each, "env": {pair["name"]: pair["value"] for pair in each["env"]}} for each in entries]


# The login.


def _login_file() -> Path:
    return home() / "login"


def _authenticate(params: Message) -> Message:
    method = params["methodId"]
    if method == LOGIN["id"]:
        _login_file().touch(mode=0o600)
    elif method != TOKEN_LOGIN["id"]:
        known = f"{LOGIN['id']} or {TOKEN_LOGIN['id']}"
        raise RpcError(INVALID_PARAMS, f"authenticate takes {known}, not {method[:64]!r}")
    elif not os.environ.get(TOKEN):
        raise RpcError(AUTH_REQUIRED, f"{TOKEN} is not in this agent's environment")
    return {}


def _log_out(params: Message) -> Message:
    """Forget the login. DEMO_TOKEN belongs to the environment, and stays."""
    _login_file().unlink(missing_ok=True)
    return {}


def main() -> None:
    agent = Agent(Wire(sys.stdout.fileno()))
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # its servers are stopped first
    try:
        for line in sys.stdin.buffer:
            agent.receive(line)
    except (BrokenPipeError, KeyboardInterrupt):
        print("the client closed our output", file=sys.stderr)
    finally:
        agent.stop()


if __name__ == "__main__":
    main()
