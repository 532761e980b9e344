"""
A server on the published `mcp` package that wants a login, with the package's own authorization server: an oracle.

    python -m tests.servers.http_sdk_login SCOPE...

The scopes are those that each request needs. The first line on stdout is its address. It ends with its stdin.
"""

import asyncio
import secrets
import socket
import sys
import time

import uvicorn
from mcp.server.auth.provider import AccessToken as Access
from mcp.server.auth.provider import AuthorizationCode as Code
from mcp.server.auth.provider import AuthorizationParams, OAuthAuthorizationServerProvider, construct_redirect_uri
from mcp.server.auth.provider import RefreshToken as Refresh
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull as Client
from mcp.shared.auth import OAuthToken
from pydantic import AnyHttpUrl


class Memory(OAuthAuthorizationServerProvider[Code, Refresh, Access]):
    """Clients, codes and tokens of a server whose users all consent."""

    def __init__(self) -> None:
        self.clients: dict[str, Client] = {}
        self.codes: dict[str, Code] = {}
        self.tokens: dict[str, Access] = {}
        self.refreshes: dict[str, Refresh] = {}

    async def get_client(self, client_id: str) -> Client | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: Client) -> None:
        self.clients[str(client_info.client_id)] = client_info

    async def authorize(self, client: Client, params: AuthorizationParams) -> str:
        code = Code(
            code=secrets.token_urlsafe(24),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=str(client.client_id),
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(self, client: Client, authorization_code: str) -> Code | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client: Client, authorization_code: Code) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._given(client, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client: Client, refresh_token: str) -> Refresh | None:
        return self.refreshes.get(refresh_token)

    async def exchange_refresh_token(self, client: Client, refresh_token: Refresh, scopes: list[str]) -> OAuthToken:
        del self.refreshes[refresh_token.token]
        return self._given(client, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> Access | None:
        return self.tokens.get(token)

    async def revoke_token(self, token: Access | Refresh) -> None:
        self.tokens.pop(token.token, None)
        self.refreshes.pop(token.token, None)

    def _given(self, client: Client, scopes: list[str], resource: str | None) -> OAuthToken:
        access, refresh = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        name = str(client.client_id)
        self.tokens[access] = Access(token=access, client_id=name, scopes=scopes, resource=resource)
        self.refreshes[refresh] = Refresh(token=refresh, client_id=name, scopes=scopes, resource=resource)
        return OAuthToken(
            access_token=access, refresh_token=refresh, token_type="Bearer", expires_in=3600, scope=" ".join(scopes)
        )


async def main(scopes: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as plug:
        base = f"http://127.0.0.1:{plug.getsockname()[1]}"
        settings = AuthSettings(
            issuer_url=AnyHttpUrl(base),
            resource_server_url=AnyHttpUrl(f"{base}/mcp"),
            validate_token_resource=True,
            required_scopes=scopes,
            client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=[*scopes, "more"]),
            revocation_options=RevocationOptions(enabled=True),
        )
        server = MCPServer("sdk", auth_server_provider=Memory(), auth=settings, log_level="CRITICAL")
        serving = uvicorn.Server(
            uvicorn.Config(server.streamable_http_app(), log_level="critical", timeout_graceful_shutdown=0)
        )
        print(f"{base}/mcp", flush=True)
        task = asyncio.create_task(serving.serve(sockets=[plug]))
        await asyncio.to_thread(sys.stdin.read)
        serving.should_exit = True
        await task


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
