"""
Checks of running agents and servers: who they are, what they can do, and how long it took.

The caller starts them; the functions here turn their answers, or their errors, into a `Check`. `connect` tries whether
a remote MCP server accepts connections.
"""

import socket
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from acp_launch.checks.check import Check, of_error, ok, problem, warning
from acp_launch.checks.profile import ProfilePart
from acp_launch.errors import AuthRequired, LaunchError, ProtocolError, WaitExpired
from acp_launch.plan.model import Value
from acp_launch.problem import count, ours
from acp_launch.profile.values import is_local
from acp_launch.protocol.acp import Capabilities, Negotiated
from acp_launch.session.login import more
from acp_launch.waits import stretch

if TYPE_CHECKING:
    from acp_launch.mcp.client import Survey
    from acp_launch.mcp.http.wire import RemoteFacts

STDERR_LINES = 5  # of a child, the last ones
SLOW = 0.5  # of its start timeout; on a busy machine a start that takes longer may fail
NOUNS = {"tools/list": "tool", "resources/list": "resource", "prompts/list": "prompt"}


class Handshake(Struct, frozen=True):
    """An agent's answer to `initialize`, `after` seconds from its start; `limit` is its timeout in seconds.

    `mcp` is how it reaches bridged MCP servers, empty if there are none. `place` says where it answered: "confined".
    """

    negotiated: Negotiated
    after: float
    limit: float
    mcp: str = ""
    place: str = ""


def agent(shaken: Handshake) -> Check:
    """Report an agent that answered."""
    said = shaken.negotiated
    able, methods = capabilities(said.capabilities), said.auth_methods
    facts = {
        "agent_name": said.name,
        "agent_version": said.agent_version,
        "protocol_version": said.version,
        "capabilities": able,
        "auth_methods": [{"id": method.id, "name": method.name, "type": method.type} for method in methods],
        "timings": {"initialize": round(shaken.after, 4)},
    }
    who = f"{said.title or '(without a name)'} {said.agent_version}".strip()
    text = f"{who}, ACP {said.version}; answered in {milliseconds(shaken.after)}"
    logins = ", ".join(f"{method.name} ({method.id})" for method in methods) or "none offered"
    detail: tuple[str, ...] = (f"can: {', '.join(able) or 'nothing beyond a prompt'}", f"logins: {logins}")
    if shaken.mcp == "http":
        detail = (*detail, f"reaches bridged MCP servers over {shaken.mcp}")
        facts["mcp_over"] = shaken.mcp
    if shaken.place:
        detail = (*detail, f"{shaken.place}: it answered in its place, which plan shows")
        facts |= {"confined": True} if shaken.place == "confined" else {"place": shaken.place}
    check = Check(name="agent", text=text, detail=detail, facts=facts)
    if shaken.after <= SLOW * shaken.limit:
        return check
    fix = f"raise agent.timeouts.initialize ({shaken.limit:g} s) in the profile"
    return replace(check, verdict="warning", text=f"{text}, near its limit", fix=fix)


def session(after: float) -> Check:
    """Report a session that was opened, `after` seconds from its request."""
    return ok("session", "", f"opened in {milliseconds(after)}", timings={"session/new": round(after, 4)})


def server(
    part: ProfilePart,
    found: "Survey",
    profile: str,
    *,
    hidden: int,
    after: float,
    fetched: bool = False,
    has_log: bool = True,
    remote: "RemoteFacts | None" = None,
) -> Check:
    """Report an MCP server that answered.

    `hidden` counts the tools that the profile hides from the agent; `after` is the time of its handshake in seconds,
    with the download by its package runner if it was `fetched`.
    """
    assert part.planned is not None
    who, limit = found.server, part.planned.timeouts.start
    facts = {
        "server_name": who.name,
        "server_version": who.version,
        "protocol_version": who.protocol_version,
        "capabilities": sorted(who.capabilities),
        "counts": dict(found.counts),
        "hidden_tools": hidden,
        "refused": dict(found.refused),
        "answers_ping": found.answers_ping,
        "downloaded": fetched,
        "timings": {"initialize": round(after, 4), **{key: round(each, 4) for key, each in found.timings.items()}},
    }
    if remote is not None:
        facts["connection"] = remote.as_json
    name = f"{who.title or who.name or '(without a name)'} {who.version}".strip()
    text = f"{name}, MCP {who.protocol_version}; {_offers(found, hidden)}; ready in {milliseconds(after)}"
    text += ", after a download" if fetched else ""
    if "tools/list" in found.refused:
        text = f"{text}; {found.refused['tools/list']}"
        fix = ours("logs", profile, part.server) if has_log else "fix the server: it declares tools"
        return warning("server", part.server, text, fix, **facts)
    if after > SLOW * limit and not fetched:
        fix = f"raise mcp_servers.{part.server}.timeouts.start ({limit:g} s) in the profile"
        return warning("server", part.server, f"{text}, near its limit", fix, **facts)
    return ok("server", part.server, text, **facts)


def failure(part: ProfilePart, error: LaunchError, profile: str, *, has_log: bool = True) -> Check:
    """Report an error of the agent or of a server; a server that is not required gets only a warning. `has_log`: it
    wrote to stderr."""
    (check, *_) = of_error(part.kind, error)
    fix = error.fix or more(profile, part.server, has_log=has_log)
    command = [line for line in error.detail if line.startswith("command: ")][:1]
    words = [line for line in error.detail if line not in command]
    check = replace(check, subject=part.server, fix=fix, detail=(*command, *words[-STDERR_LINES:]))
    if not part.is_required:
        return replace(check, verdict="warning", code=0)
    if part.server:
        is_told = part.remote is not None and isinstance(error, AuthRequired | ProtocolError)
        code = error.exit_code if is_told else 8
    else:
        code = 4 if isinstance(error, WaitExpired) else error.exit_code
    return replace(check, verdict="problem", code=code)


def no_session(error: LaunchError, profile: str, *, has_log: bool = True) -> Check:
    """Report a session that could not be opened, or not as the profile wants it."""
    return replace(failure(ProfilePart(), error, profile, has_log=has_log), name="session")


def session_skipped(profile: str) -> Check:
    """Report that no session was requested (--no-session)."""
    text = "not opened (--no-session); a run may still fail to open one"
    return warning("session", "", text, ours("doctor", profile))


def capabilities(able: Capabilities) -> list[str]:
    """List an agent's capabilities by readable names."""
    return [name.replace("_", " ") for name in able.__struct_fields__ if getattr(able, name)]


def milliseconds(amount: float) -> str:
    return f"{amount:.2f} s" if amount >= 1 else f"{1000 * amount:.0f} ms"


def _offers(found: "Survey", hidden: int) -> str:
    counted = [count(found.counts[method], noun) for method, noun in NOUNS.items() if method in found.counts]
    if hidden and counted:
        counted[0] += f" ({hidden} hidden by the profile)"
    return ", ".join(counted) or "nothing offered"


def without_secret(part: ProfilePart, names: Sequence[str], fix: str) -> Check:
    """Report a process that was not started because `names` are not available; they have a problem of their own."""
    text = f"not started: it needs the secret {', '.join(names)}"
    return warning(part.kind, part.server, text, fix)


def without_login(part: ProfilePart, why: str, fix: str) -> Check:
    """Report a remote server that was not asked because the user is not logged in to it; `why` says so."""
    text = f"it {why}; nothing was sent to it"
    if not part.is_required:
        return warning("server", part.server, text, fix)
    return problem("server", part.server, text, fix, AuthRequired.exit_code)


def no_answer(part: ProfilePart) -> Check:
    """Report a process whose check was interrupted."""
    text = "the check was interrupted"
    return warning(part.kind, part.server, text, "run it again")


# Reachability of a remote MCP server that the agent connects to itself, before a run. Only the connection is tried,
# because a request with the headers of the profile would be a login.
CONNECT_TIMEOUT = stretch(5.0)  # for a name and a connection
LATE = f"no answer within {CONNECT_TIMEOUT:g} s"
_SECRET = "\ue000"  # stands for a secret in an address
PROXIES = ("http_proxy", "https_proxy", "all_proxy")


def address(url: Value, environ: Mapping[str, str]) -> tuple[str, int] | str | None:
    """Return host and port, or their fault; None if a proxy is set or the host is a secret.

    Local addresses bypass a proxy.
    """
    whole = "".join(part if isinstance(part, str) else _SECRET for part in url.parts)
    parts = urlsplit(whole)
    if _SECRET in parts.netloc.rpartition("@")[2]:
        return None
    if any(environ.get(name) or environ.get(name.upper()) for name in PROXIES) and not is_local(whole):
        return None
    try:
        port = parts.port or {"http": 80}.get(parts.scheme.lower(), 443)
    except ValueError:
        return "the port is not valid"
    return parts.hostname or "", port


def connect(host: str, port: int) -> str:
    """Return why a connection fails; empty if it succeeds. Blocks, so call it in a thread that may be abandoned."""
    try:
        socket.create_connection((host, port), timeout=CONNECT_TIMEOUT).close()
    except TimeoutError:
        return LATE
    except (OSError, UnicodeError) as error:
        return getattr(error, "strerror", None) or str(error)
    return ""
