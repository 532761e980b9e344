"""
Streamable HTTP as a machine: JSON lines in, HTTP requests out; answers of the server in, JSON lines out. Sans-IO.

The era of a message is decided by its `_meta`: one with a protocol version goes out on its own, with headers that
repeat its body (2026-07-28); any other belongs to the session that `initialize` has opened (2025-03-26 to 2025-11-25).
HTTP+SSE (2024-11-05) is the same machine with another way to send: one event stream carries all answers.

A connection of this kind has no single socket. It ends when the server has forgotten the session or refuses us
altogether, or cannot be reached while nothing else of it lives; a stream that breaks fails the requests on it alone,
unless it can be resumed. A request that cannot be sent while others are answered is tried again, and then fails alone.
Each request gets one answer: the server's, or an error of ours, or it is still open when the connection ends; then it
is `unsent` if it certainly had no effect.

    Machine      the state; its methods are called with what happened
    Ports        what it wants done
    Stream       one HTTP request and what comes back on it, over its resumptions
"""

from urllib.parse import urljoin

from msgspec import UNSET, Raw

from acp_launch.mcp.http.challenge import Challenge
from acp_launch.mcp.http.headers import request_headers, version_of, written
from acp_launch.mcp.http.streams import Streams
from acp_launch.mcp.http.wire import (
    AGAIN,
    EXCERPT,
    JITTER,
    LEAST,
    LONG_SECRET,
    MODERN,
    OURS,
    REDIRECTS,
    REPEATS,
    RESUMES,
    SHORT,
    SIGNS,
    WRONG_VERSION,
    Failure,
    Request,
    Role,
    Stream,
    ended_by,
    error_in,
    key,
    one_line,
    origin,
    phrase,
    printable,
    shown_origin,
)
from acp_launch.mcp.message import CLIENT_INFO, VERSIONS, cancelled_id
from acp_launch.process.lifecycle import Ended, Follows
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.jsonrpc import Envelope
from acp_launch.secret.redact import redactor

MORE_SCOPES = "add them to its oauth.scopes in the profile"
_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": CLIENT_INFO,
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Machine(Streams):
    # From our user.

    def begin(self) -> None:
        """Open what must be open before the first message."""
        if self.era == "sse":
            self._open_endpoint()

    def said(self, line: bytes) -> None:
        """Take one message for the server, without its newline."""
        if self.is_over or self._parting or self._has_left:
            self.unsent.append(line)
            return
        parts = jsonrpc.batch(line)
        messages = [found for part in parts or (line,) if (found := jsonrpc.decode(part)) is not None]
        if not messages:
            return
        first = messages[0]
        if parts is None and self._is_ours(first):
            return
        version = "" if parts is not None or first.method is UNSET else version_of(line, first.params)
        if version:
            self._post_modern(line, first, version)
        elif self._barrier or (self.era == "sse" and not self._endpoint):
            self._held.append(line)
            self._held_bytes += len(line)
        else:
            self._post(line, messages)

    def _is_ours(self, message: Envelope) -> bool:
        """Handle what is not sent as it is: cancellations, and a ping before the handshake."""
        if message.method == "notifications/cancelled" and message.id is UNSET:
            return self._cancels(message.params)
        if message.method == "ping" and message.id is not UNSET and not self._version and not self._modern:
            self._probe(message.id.copy())
            return True
        return False

    def _cancels(self, params: Raw) -> bool:
        """Cancel a request; return whether the server must not be told by a message."""
        told = cancelled_id(params)
        owner = None if told is None else self._owners.get(key(told))
        if owner is None or told is None:
            return bool(self._modern) and not self._version
        if owner.is_modern or (owner.is_waiting and len(owner.open) == 1):
            self._owners.pop(key(told))
            self._drop(owner)  # the end of the stream is the cancellation; or the server has never seen it
            return True
        if any(asked.method == "initialize" for asked in owner.open.values()):
            return True  # never cancelled
        if len(owner.open) == 1:
            owner.is_cancelled, owner.finished = True, self._ports.now()
        return False

    def _post_modern(self, line: bytes, message: Envelope, version: str) -> None:
        self._modern = version
        self._send(self._stream("line", line, self._modern_headers(message, version), [message], is_modern=True))

    def _modern_headers(self, message: Envelope, version: str) -> dict[str, str]:
        headers = {**self._posting, "MCP-Protocol-Version": written(version)}
        if message.method is not UNSET:
            headers |= request_headers(message.method, message.params, {})
        return headers

    def _post(self, line: bytes, messages: list[Envelope]) -> None:
        stream = self._stream("line", line, self._posting, messages)
        methods = {message.method for message in messages}
        if "initialize" in methods:
            self._session = self._version = ""
            self._has_initialized = False
            if self.era != "sse":
                self._barrier = stream.number
        else:
            stream.request = self._with_session(stream.request)
        if "notifications/initialized" in methods and self.era != "sse":
            self._barrier = stream.number
        self._send(stream)

    # The first question to a server, and the sign of life.

    def verify(self) -> None:
        """Ask for a sign of life at once, unless one is awaited."""
        if self.is_over or self._parting or self._sign or not self.is_met:
            return
        self._checked = self._ports.now()
        id = f'"{OURS}{self._numbers + 1}"'.encode()
        if self._version:
            stream = self._stream("sign", jsonrpc.request(Raw(id), "ping"), self._posting, [])
            stream.request = self._with_session(stream.request)
            if self.era == "sse":
                self._own.add(id)
        else:
            stream = self._discovery("sign", id)
        stream.request = Request(
            stream.number, "POST", stream.request.url, stream.request.headers, stream.request.body, self.limits.sign
        )
        self._sign = stream.number
        self._send(stream)

    def _strange(self, stream: Stream, body: bytes) -> None:
        """Handle a success that holds no answer."""
        how, fix = self._stranger(stream, body)
        if self.is_met:
            self._fail(stream, how)
        else:
            self._finish(self._alien(how, fix), also=stream)

    def _alien(self, how: str, fix: str) -> Ended:
        """Describe the end of a connection to what does not seem to be an MCP server."""
        follows: Follows = "judged" if self._is_proven else "never"
        return Ended(how, reason=fix, follows=follows, jitter=JITTER, fault="protocol")

    def _stranger(self, stream: Stream, body: bytes) -> tuple[str, str]:
        if stream.kind in ("text/html", "application/xhtml+xml"):
            fix = "check the address in its `url`; a network that asks for a login answers like this, too"
            return "answered with a web page and not with MCP", fix
        fix = "check the address in its `url`"
        if stream.status in (202, 204) or not body:
            return f"took a request ({phrase(stream.status)}) and sent no answer", fix
        if stream.kind == "application/json":
            return f"answered with JSON that is not the answer to the request{self._quoted(body)}", fix
        kind = self._shown(stream.kind)[:60] or "none"
        return f'answered with the content type "{kind}" instead of JSON or an event stream', fix

    def _probe(self, id: Raw) -> None:
        """Answer a ping before the handshake as soon as the server has shown that it lives."""
        self._pongs.append(id)
        if self.era == "sse":
            if self._endpoint:
                self._pong()
            return
        if len(self._pongs) > 1:
            return
        is_legacy = self.era == "legacy" or self._pin not in ("auto", "modern", MODERN)
        self._ask_probe("ping" if is_legacy else "discover")

    def _ask_probe(self, step: str) -> None:
        id = f'"{OURS}{self._numbers + 1}"'.encode()
        if step == "discover":
            stream = self._discovery("probe", id)
        elif step == "ping":
            stream = self._stream("probe", jsonrpc.request(Raw(id), "ping"), self._posting, [])
        else:
            params = {"protocolVersion": VERSIONS[0], "capabilities": {}, "clientInfo": CLIENT_INFO}
            stream = self._stream("probe", jsonrpc.request(Raw(id), "initialize", params), self._posting, [])
        stream.step = step
        self._send(stream)

    def _discovery(self, role: Role, id: bytes) -> Stream:
        line = jsonrpc.request(Raw(id), "server/discover", {"_meta": _META})
        headers = {**self._posting, "MCP-Protocol-Version": MODERN, "Mcp-Method": "server/discover"}
        return self._stream(role, line, headers, [], is_modern=True)

    def _living(self, stream: Stream, message: Envelope | None) -> None:
        """Take a sign of life: an answer, or the end of one that held none."""
        self._forget(stream)
        if stream.role == "sign":
            return
        if message is not None and message.id is not UNSET:
            self.is_met = True
        if message is not None and stream.step == "discover":
            self._judge_discovery(message)
        elif stream.step == "initialize":
            self._judge("legacy")
        self._pong()

    def _judge_discovery(self, message: Envelope) -> None:
        if message.result is not UNSET:
            self._discovered(message)
        elif message.error is not UNSET:
            self._judge("modern" if jsonrpc.fault(message.error).code == WRONG_VERSION else "legacy")

    def _pong(self) -> None:
        pongs, self._pongs = self._pongs, []
        for id in pongs:
            self._ports.receive(jsonrpc.result(id, {}))

    def _probe_refused(self, stream: Stream, body: bytes) -> None:
        error = error_in(body)
        if stream.status == 403:
            self._denied(stream)
        elif error is not None:
            self._living(stream, Envelope(id=Raw(b"null"), error=error))
        elif stream.status == 400 and stream.step != "initialize":
            self._living(stream, Envelope(error=Raw(b"{}")))
        elif stream.status in (404, 405) and stream.step != "initialize":
            self._over(stream)
            self._ask_probe("initialize")
        elif stream.status in (400, 404, 405) and self._type == "http" and self._pin not in ("modern", MODERN):
            self._over(stream)
            self._begin_sse()
        else:
            self._finish(self._turned_away(stream, body))

    # HTTP+SSE.

    def _may_be_sse(self, stream: Stream) -> bool:
        is_introduction = any(asked.method == "initialize" for asked in stream.open.values()) and not stream.is_modern
        return (
            is_introduction
            and not self.is_met
            and self.era in ("", "legacy")
            and stream.status in (400, 404, 405)
            and self._pin not in ("modern", MODERN)
        )

    def _is_of_other_era(self, stream: Stream) -> bool:
        """Whether a first request was refused because the server may speak the other era only."""
        if self.era == "sse" or stream.status not in (400, 404, 405, 406, 415):
            return False
        if stream.is_modern:
            return not self.is_met or self.era == "legacy"
        return self.era == "modern" and not self._version

    def _fall_back(self, stream: Stream) -> None:
        """Try the older transport with a handshake that streamable HTTP has refused."""
        self._streams.pop(stream.number, None)
        for known in stream.open:
            self._owners.pop(known, None)
        self._held.appendleft(stream.request.body)
        self._held_bytes += len(stream.request.body)
        self._barrier = 0
        self._begin_sse()

    def _begin_sse(self) -> None:
        if self.era == "sse":
            return
        self.era = "sse"
        self._open_endpoint()

    def _open_endpoint(self) -> None:
        self._endpoint = ""
        stream = self._get("endpoint")
        self._send(stream)

    def _found_endpoint(self, data: bytes) -> None:
        """Take the address that messages are posted to; it must be of the same origin."""
        try:
            found = urljoin(self._url, data.decode().strip())
            is_same = origin(found) == self._origin
        except ValueError:
            found, is_same = "", False
        if not is_same:
            how = f"wants its messages to be sent to {self._named(found)}"
            why = "an MCP server must not send its client elsewhere"
            self._finish(Ended(how, reason=why, follows="never", fault="protocol"))
            return
        is_first = not self._endpoint
        self._endpoint = found
        if not is_first:
            return
        self._ports.remember_era("sse")
        if self._type == "http":
            self._note("it speaks HTTP+SSE of MCP 2024-11-05 (`type: sse` saves the attempt at streamable HTTP)")
        self.is_met = True
        self._pong()
        self._release()

    def _no_stream(self, stream: Stream, how: str) -> None:
        """Handle a server that gives no event stream: fatal for HTTP+SSE only."""
        if stream.role == "listen":
            self._drop(stream)
            if stream.status == 404:
                self.verify()
            return
        if self._is_assumed:
            self._streamable_after_all(stream)
            return
        status = stream.status
        if status in (429, 503) or status >= 500:
            self._finish(Ended(how, pause=stream.retry or 0.0, jitter=JITTER))
            return
        spoken = "MCP" if self._type == "http" else "HTTP+SSE"
        keys = "`url`" if self._type == "http" else "`url` and `type`"
        where = f"{shown_origin(self._url)} answers, but does not speak {spoken} at this path: check its {keys}"
        self._ports.remember_era("")
        self._finish(self._alien(how, where))

    def _streamable_after_all(self, stream: Stream) -> None:
        """Begin anew with a server that was of the older transport when we last met it."""
        self._drop(stream)
        self._is_assumed = False
        self._judge("")
        if self._pongs:
            self._ask_probe("discover")
        self._release()

    # Refusals.

    def _refusal(self, stream: Stream) -> None:
        body, stream.body = b"".join(stream.body), []
        status = stream.status
        if stream.role == "delete":
            self._drop(stream)
        elif status == 401 and self.refusal is not None:
            self._unauthorized(stream, self.refusal)
        elif status == 401 and stream.role != "listen":
            self._denied(stream)
        elif status == 404 and "Mcp-Session-Id" in stream.request.headers and stream.role in ("line", "sign"):
            self._gone(stream)
        elif stream.role in ("listen", "endpoint"):
            self._no_stream(stream, f"answered {phrase(status)}")
        elif stream.role == "probe":
            self._probe_refused(stream, body)
        elif stream.role == "sign":
            self._living(stream, None)
        else:
            self._line_refused(stream, body)

    def _line_refused(self, stream: Stream, body: bytes) -> None:
        status, error = stream.status, error_in(body)
        if self._asks_again(stream):
            return
        if status == 403 and not self.is_met:
            self._denied(stream)
        elif status == 403 and stream.challenge.wants_more:
            fix = self._fix(stream)
            fix = (
                f"{MORE_SCOPES}, then {fix}"
                if stream.challenge.scopes and fix and fix == self._login and not stream.fix
                else fix
            )
            self._refuse(stream, "; ".join(filter(None, (_too_few(stream.challenge), fix))))
            self._over(stream)
        elif error is not None and stream.open:
            self._pass_on(stream, error, body)
            self._over(stream)
        elif self._may_be_sse(stream):
            self._fall_back(stream)
        elif self._endpoint and status == 404:
            self._gone(stream)
        elif not self.is_met and stream.open and not stream.is_resuming and not self._is_of_other_era(stream):
            self._finish(self._turned_away(stream, body), also=stream)
        else:
            self._request_refused(stream, f"answered {phrase(status)}{self._quoted(body)}")
            self._over(stream)

    def _request_refused(self, stream: Stream, how: str) -> None:
        """Answer a request that was refused without a reason in JSON-RPC, while the connection goes on."""
        status = stream.status
        if not stream.open:
            self._note_once(f"{how} to a notification")
        elif stream.is_resuming:
            self._fail(stream, f"ended its event stream, and refused to resume it ({phrase(status)})")
        elif self._is_of_other_era(stream):
            self._refuse(stream, how, jsonrpc.METHOD_NOT_FOUND)
        elif status in (429, 503):
            when = f"; it may be asked again in {stream.retry:g} s" if stream.retry is not None else ""
            self._refuse(stream, how + when)
        elif status < 500:
            self._refuse(stream, how)
        else:
            self._fail(stream, how)

    def _asks_again(self, stream: Stream) -> bool:
        """Let a request wait that a busy server has refused, if it may be asked again soon; return whether it may."""
        is_busy = stream.status == 429 or (stream.status == 503 and stream.retry is not None)
        pause = AGAIN * 2**stream.repeats if stream.retry is None else max(stream.retry, LEAST)
        if not is_busy or not self.is_met or stream.is_resuming or pause > SHORT or stream.repeats == REPEATS:
            return False
        self._note_once(f"answered {phrase(stream.status)}; what it refuses so is asked again")
        self._wait(stream, pause)
        return True

    def _pass_on(self, stream: Stream, error: Raw, body: bytes) -> None:
        """Answer every open request of a stream with the server's own error, under the request's id."""
        if len(stream.open) == 1 and stream.role == "line":
            self._line(stream, one_line(body), is_direct=True)
        for known, asked in list(stream.open.items()):
            self._owners.pop(known, None)
            self._ports.receive(b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (bytes(asked.id), bytes(error)))
        stream.open.clear()

    def _turned_away(self, stream: Stream, body: bytes) -> Ended:
        """Describe the end of a connection that has never worked."""
        status, how = stream.status, f"answered {phrase(stream.status)}{self._quoted(body)}"
        if status in (429, 503) or status >= 500 or status == 408:
            pause = stream.retry or 0.0
            return Ended(how, follows="judged", pause=pause, jitter=JITTER)
        if status in (404, 405, 410):
            where = f"{shown_origin(self._url)} answers, but has no MCP server at this path: check its `url`"
            return self._alien(how, where)
        return Ended(how, reason="check its `url` and `headers`", follows="never", fault="protocol")

    def _denied(self, stream: Stream) -> None:
        how = f"answered {phrase(stream.status)}"
        if stream.challenge.wants_more:
            how, what = _too_few(stream.challenge), ""
        elif stream.status == 403:
            what = "our credentials do not allow this"
        elif self._is_login_wanted(stream):
            what = "it wants a login"
        else:
            what = "it does not accept our credentials"
        why = ": ".join(filter(None, (what, self._fix(stream) or "check its `headers`")))
        self._finish(Ended(how, reason=why, follows="never", fault="credentials"), also=stream)

    def _is_login_wanted(self, stream: Stream) -> bool:
        return not self._has_own_credentials and bool(self._login) and stream.challenge.is_bearer

    def _fix(self, stream: Stream) -> str:
        """Return what may help the user to other credentials: mostly the command that logs in."""
        if stream.fix:
            return stream.fix
        if self.refusal is not None:
            return self.refusal.fix
        return self._login if self._is_login_wanted(stream) else ""

    def _unauthorized(self, stream: Stream, failure: Failure) -> None:
        """Handle a request that had no effect for want of a token; the next may have one, as the user may log in."""
        if stream.role == "delete":
            self._drop(stream)
        elif stream.role == "listen":
            self._rest(stream)
        elif not self.is_met:
            self._unmet(stream, failure)
        elif stream.role != "line":  # a sign of life, which a refusal is, too
            self._living(stream, None)
        else:
            how = f"{failure.how}; {failure.fix}" if failure.fix else failure.how
            self._note_once(how)
            self._fail(stream, how) if stream.is_resuming else self._refuse(stream, how)
            self._over(stream)

    def _unmet(self, stream: Stream, failure: Failure) -> None:
        if failure.is_final:
            ended = Ended(failure.how, reason=failure.fix, follows="never", fault="credentials")
        else:
            ended = ended_by(failure)
        self._finish(ended, also=stream)

    def _quoted(self, body: bytes) -> str:
        """Quote what the server said, without any value of our headers."""
        said = self._shown(body.decode(errors="replace"))
        if not said or said.startswith("<"):
            return ""
        return f": {said[:EXCERPT]}"

    def _shown(self, said: str, *, least: int = 0) -> str:
        """Make a text of the server fit for our messages: one line, without our secrets of `least` characters."""
        from acp_launch.secret.forms import forms

        for secret in self._secrets:
            if len(secret) >= least:
                for form in sorted({secret, secret.lower(), *forms(secret)}, key=len, reverse=True):
                    said = said.replace(form, "***")
        return printable(redactor.text(said))

    def _named(self, url: str) -> str:
        return self._shown(shown_origin(url), least=LONG_SECRET)[:EXCERPT]

    # Redirects.

    def _redirected(self, stream: Stream, location: str) -> None:
        """Follow a redirect within the origin, with the same method: a call must not become a GET."""
        try:
            found = urljoin(stream.request.url, location)
            is_same = bool(location) and origin(found) == self._origin
        except ValueError:
            found, is_same = "", False
        stream.redirects += 1
        self._ports.drop(stream.number)
        if is_same and stream.redirects <= REDIRECTS and stream.status != 303:
            if stream.status in (301, 308) or found.rstrip("/") == self._url.rstrip("/"):
                self._url = found if stream.request.url == self._url else self._url
            stream.status = 0
            old = stream.request
            stream.request = Request(old.stream, old.method, found, old.headers, old.body, old.patience)
            self._ports.request(stream.request)
            return
        how = f"redirects to {self._named(found)}" if not is_same else "redirects in circles"
        how = how if location else f"answered {phrase(stream.status)} without saying where to"
        fix = f"if that is right, write that address into its `url`; its headers are for {shown_origin(self._url)} only"
        if stream.role == "delete":
            self._drop(stream)
        elif self.is_met:
            self._fail(stream, how) if stream.is_resuming else self._refuse(stream, how)
            self._over(stream)
        else:
            self._finish(Ended(how, reason=fix, follows="never"), also=stream)

    # The session that the server has forgotten, and servers that cannot be reached.

    def _gone(self, stream: Stream) -> None:
        """Note that the server does not know the session any more; other requests learn it, too, or fail."""
        if stream.is_resuming:
            self._fail(stream, "has closed the session")
        self._session = ""
        self._depart(stream, Ended("has closed the session", follows="again"))

    def _unreached(self, stream: Stream, failure: Failure) -> None:
        """Handle a request that never got to the server; the connection ends only if nothing else of it lives."""
        is_hopeful = not failure.is_final
        if stream.is_resuming and stream.attempts < RESUMES and is_hopeful:
            stream.attempts += 1
            self._rest(stream)
            return
        if stream.is_resuming:
            self._fail(stream, failure.how)
        is_busy = self._answers_others(stream)
        if self._parting or not (is_busy or self._listens_beside(stream)):
            self._depart(stream, ended_by(failure))
        elif stream.role == "listen":
            self._rest(stream)
        elif stream.is_resuming:
            self._over(stream)
        elif is_hopeful and stream.repeats < (SIGNS if stream.role == "sign" else REPEATS):
            self._note_once(f"{failure.how}, while it answers other requests; what is asked now waits")
            self._wait(stream, AGAIN * 2**stream.repeats)
        elif is_busy and stream.role == "line" and stream.number != self._barrier:
            self._refuse(stream, failure.how)
            self._over(stream)
        else:
            self._depart(stream, ended_by(failure))

    def _answers_others(self, stream: Stream) -> bool:
        """Whether the server is at work on requests other than those of a stream, as far as we know."""
        others = [owner for owner in self._owners.values() if owner is not stream and not owner.is_cancelled]
        return any(not owner.is_waiting and (owner.status or not owner.is_resuming) for owner in others)

    def _listens_beside(self, stream: Stream) -> bool:
        """Whether an event stream of the server's own messages is open, other than this one."""
        listening = (each for each in self._streams.values() if each.role in ("listen", "endpoint"))
        return any(each.status and each is not stream for each in listening)


def _too_few(challenge: Challenge) -> str:
    scopes = " ".join(challenge.scopes)[:EXCERPT]
    return f"answered 403 Forbidden: it wants {f'the scopes {scopes}' if scopes else 'more scopes'}"
