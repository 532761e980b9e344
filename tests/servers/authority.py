"""
An MCP server and its authorization server, each on a port of 127.0.0.1. Standard library only. Run as a program:

    python -I -S tests/servers/authority.py '{"server": {"scopes_supported": ["read"]}}'

The first line on stdout is JSON with both addresses. It ends with its stdin. What is asked of it is at `/log` of the
authorization server, and `/forget` there revokes every token. The argument says how it differs from a plain one:

- `place`: of the server's metadata: `path`, `root`, `none` or an address; `is_named`: whether the challenge names it
- `resource`, `server`: members that replace those of the metadata; null removes one
- `issuer_path`, `metadata_path`: of the authorization server, and of its metadata
- `answers`: for `mcp /path` or `as /path`, an answer of `status`, `headers`, `body`; `holds` for one that never comes
- `clients`: id to secret, or to null; `documents`: ids of client id metadata documents
- `redirect`: parameters of the browser's way back that are replaced
- `refuses_resource`: the parameter `resource`; `redirect_host`: the only one that it registers
- `allows`: scopes that any login gets at most
- `device`: what the token endpoint answers before the user has typed the code of a device; `page`: replaced members
- `rotation`: `strict`, `grace` or `none`; `life`: of an access token, seconds
"""

import base64
import hashlib
import json
import os
import secrets
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, quote, unquote_plus, urlencode, urlsplit

Json = dict[str, Any]
temper: Json = json.loads(sys.argv[1])
log: list[Json] = []
clients: dict[str, str | None] = dict(temper.get("clients", {}))
codes: dict[str, Json] = {}
tokens: dict[str, list[str]] = {}  # access token → scopes
refreshes: dict[str, Json] = {}
lock = threading.Lock()
PRM = "/.well-known/oauth-protected-resource"
ASM = "/.well-known/oauth-authorization-server"


def changed(said: Json, changes: Json) -> Json:
    return {name: filled(value) for name, value in {**said, **changes}.items() if value is not None}


def filled(value: Any) -> Any:
    return value.replace("{as}", site["as"]).replace("{mcp}", site["mcp"]) if isinstance(value, str) else value


def issuer() -> str:
    return f"{site['as']}{temper.get('issuer_path', '')}"


def resource_metadata() -> Json:
    said = {"resource": f"{site['mcp']}/mcp", "authorization_servers": [issuer()]}
    said = changed(said, temper.get("resource", {}))
    said["authorization_servers"] = [filled(each) for each in said.get("authorization_servers", [])]
    return said


def server_metadata() -> Json:
    said = {
        "issuer": issuer(),
        "authorization_endpoint": f"{site['as']}/authorize",
        "token_endpoint": f"{site['as']}/token",
        "registration_endpoint": f"{site['as']}/register",
        "revocation_endpoint": f"{site['as']}/revoke",
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
    }
    return changed(said, temper.get("server", {}))


def granted(asked: Json) -> Json:
    """New tokens for what was asked for."""
    allowed: list[str] = temper["allows"] if "allows" in temper else asked["scopes"]
    scopes = [each for each in asked["scopes"] if each in allowed]
    access, refresh = secrets.token_urlsafe(20), secrets.token_urlsafe(20)
    tokens[access] = scopes
    said = {"access_token": access, "token_type": "Bearer", "expires_in": temper.get("life", 3600)}
    if scopes != asked["scopes"]:
        said["scope"] = " ".join(scopes)
    if temper.get("rotation", "strict") != "none":
        refreshes[refresh] = asked
        said["refresh_token"] = refresh
    return changed(said, temper.get("tokens", {}))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    role = ""

    def handle_any(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        is_form = "form" in self.headers.get("Content-Type", "")
        form = dict(parse_qsl(body if is_form else parts.query, keep_blank_values=True))
        if parts.path == "/log":
            return self.say(200, log)
        with lock:
            about = json.loads(body) if body and not is_form else {}
            seen = {"to": self.role, "verb": self.command, "path": parts.path, "form": form, "body": about}
            said = {name: self.headers.get(name, "") for name in ("Authorization", "X-Key")}
            log.append({**seen, "authorization": said["Authorization"], "key": said["X-Key"]})
            canned = temper.get("answers", {}).get(f"{self.role} {parts.path}")
            if canned is None:
                name = f"{self.role}_{parts.path.strip('/').replace('.', '_').replace('-', '_').replace('/', '_')}"
                getattr(self, name, self.other)(form, about)
                return None
        if canned.get("holds"):
            self.rfile.read(1)  # until the client leaves
            self.close_connection = True
            return None
        headers = {name: filled(value) for name, value in canned.get("headers", {}).items()}
        return self.write(canned.get("status", 200), str(filled(canned.get("body", ""))).encode(), headers)

    do_GET = do_POST = do_DELETE = handle_any  # noqa: N815 - the names are the library's

    def other(self, form: Json, about: Json) -> None:
        if self.role == "mcp" and self.path.startswith(PRM) and temper.get("place", "path") != "none":
            wanted = {"path": f"{PRM}/mcp", "root": PRM}.get(temper.get("place", "path"), "")
            if self.path == wanted:
                return self.say(200, resource_metadata())
        if self.role == "as":
            if self.path == temper.get("metadata_path", ASM + temper.get("issuer_path", "")):
                return self.say(200, server_metadata())
            if self.path == "/elsewhere.json":
                return self.say(200, resource_metadata())
        return self.say(404, {"error": "not_found"})

    # The MCP server.

    def mcp_mcp(self, form: Json, about: Json) -> None:
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if given not in tokens:
            return self.challenge("invalid_token" if given else "", temper.get("names_scopes", []))
        if self.command == "DELETE":
            return self.say(200, {})
        if about and "id" not in about:
            return self.write(202, b"", {})
        about_us = {"serverInfo": {"name": "a", "version": "1"}, "capabilities": {"tools": {}}}
        results: Json = {
            "tools/list": {"tools": [{"name": "save", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "it is saved"}]},
        }
        result = results.get(about.get("method", ""), {"protocolVersion": "2025-11-25", **about_us})
        body = json.dumps({"jsonrpc": "2.0", "id": about.get("id"), "result": result}).encode()
        return self.write(200, body, {"Content-Type": "application/json", "Mcp-Session-Id": "session-1"})

    def challenge(self, error: str, scopes: list[str]) -> None:
        place = {"path": f"{site['mcp']}{PRM}/mcp", "root": f"{site['mcp']}{PRM}", "none": ""}
        named = filled(place.get(temper.get("place", "path"), temper.get("place")))
        words = [
            *([f'error="{error}"'] if error else []),
            *([f'resource_metadata="{named}"'] if named and temper.get("is_named", True) else []),
            *([f'scope="{" ".join(scopes)}"'] if scopes else []),
        ]
        return self.write(401, b"{}", {"WWW-Authenticate": f"Bearer {', '.join(words)}".strip()})

    # The authorization server.

    def as_authorize(self, form: Json, about: Json) -> None:
        known = form.get("client_id") in clients or form.get("client_id") in temper.get("documents", [])
        wanted = {"response_type": "code", "code_challenge_method": "S256"}
        is_refused = temper.get("refuses_resource", False)
        if not known or any(form.get(name) != value for name, value in wanted.items()):
            return self.say(400, {"error": "invalid_request"})
        if ("resource" in form) == is_refused:
            back = {"error": "invalid_target", "error_description": "not that", "state": form["state"]}
            return self.write(302, b"", {"Location": f"{form['redirect_uri']}?{urlencode(back)}"})
        code = secrets.token_urlsafe(16)
        codes[code] = {**form, "scopes": form.get("scope", "").split()}
        back = changed({"code": code, "state": form["state"]}, temper.get("redirect", {}))
        return self.write(302, b"", {"Location": f"{form['redirect_uri']}?{urlencode(back, quote_via=quote)}"})

    def as_device(self, form: Json, about: Json) -> None:
        if ("resource" in form) == temper.get("refuses_resource", False):
            words = "AADSTS901002: The 'resource' request parameter is not supported."
            return self.say(400, {"error": "invalid_request", "error_description": words})
        codes["device"] = {**form, "scopes": form.get("scope", "").split()}
        said = {"device_code": "device", "user_code": "ABCD-EFGH", "verification_uri": f"{site['as']}/type"}
        return self.say(200, changed({**said, "expires_in": 60, "interval": 0}, temper.get("page", {})))

    def as_register(self, form: Json, about: Json) -> None:
        if any(urlsplit(uri).hostname != temper.get("redirect_host", "127.0.0.1") for uri in about["redirect_uris"]):
            return self.say(400, {"error": "invalid_redirect_uri"})
        client = f"client-{len(clients) + 1}"
        method = about["token_endpoint_auth_method"]
        clients[client] = None if method == "none" else f"secret-of-{client}"
        said = {"client_id": client, "client_secret": clients[client], "redirect_uris": about["redirect_uris"]}
        return self.say(201, changed(said, temper.get("registration", {})))

    def as_token(self, form: Json, about: Json) -> None:
        client, secret = form.get("client_id", ""), form.get("client_secret")
        if (header := self.headers.get("Authorization", "")).startswith("Basic "):
            client, secret = map(unquote_plus, base64.b64decode(header[6:]).decode().split(":"))
        if client not in {*clients, *temper.get("documents", [])} or clients.get(client) != secret:
            return self.say(401, {"error": "invalid_client"})
        if form["grant_type"].endswith(":device_code"):
            return self.poll(form)
        return self.give(form, client)

    def poll(self, form: Json) -> None:
        if not temper["device"]:
            return self.say(200, granted(codes.pop(form["device_code"])))
        error = temper["device"].pop(0)
        return self.say(500, []) if error == "crash" else self.say(400, {"error": error})

    def give(self, form: Json, client: str) -> None:
        if form["grant_type"] == "authorization_code":
            asked = codes.pop(form["code"], {})
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            same = all(asked.get(name) == form.get(name) for name in ("redirect_uri", "resource"))
            if not same or asked.get("client_id") != client or asked.get("code_challenge") != challenge:
                return self.say(400, {"error": "invalid_grant"})
            return self.say(200, granted(asked))
        if form["refresh_token"] not in refreshes:
            return self.say(400, {"error": "invalid_grant"})
        asked = refreshes[form["refresh_token"]]
        if temper.get("rotation", "strict") == "strict":
            del refreshes[form["refresh_token"]]
        return self.say(200, granted(asked))

    def as_revoke(self, form: Json, about: Json) -> None:
        tokens.pop(form["token"], None)
        refreshes.pop(form["token"], None)
        return self.say(200, {})

    def as_forget(self, form: Json, about: Json) -> None:
        tokens.clear()
        refreshes.clear()
        return self.say(200, {})

    def say(self, status: int, said: object) -> None:
        self.write(status, json.dumps(said).encode(), {"Content-Type": "application/json"})

    def write(self, status: int, body: bytes, headers: Json) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:  # the client has had enough
            self.close_connection = True

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


def listening(role: str) -> str:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type(role, (Handler,), {"role": role}))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


site = {role: listening(role) for role in ("mcp", "as")}
print(json.dumps(site), flush=True)
sys.stdin.read()
os._exit(0)
