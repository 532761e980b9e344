"""Logins that a test has without a browser: their records, and their items in a sealed file."""

import json
import os
import time
from pathlib import Path

from acp_launch.oauth.grant import Grant, Login, Logins, OAuthClient, decode_grant, encode_grant
from acp_launch.secret.sealedfile import SealedFile, open_file
from acp_launch.secret.value import Secret
from acp_launch.settings.model import FileSettings
from tests.cli.launcher import Launcher

STORE = {"store": "file", "file": {"key_file": "key"}}
NOBODY = OAuthClient(
    issuer="https://login.example.com", token_endpoint="https://login.example.com/token", client_id="acp-launch"
)


def sealed(launch: Launcher) -> SealedFile:
    """The secret store of these tests, which needs no passphrase."""
    config = Path(launch.env["ACP_LAUNCH_CONFIG_DIR"])
    config.mkdir(exist_ok=True)
    (config / "config.yaml").write_text(json.dumps({"secrets": STORE}))
    key = config / "key"
    if not key.exists():
        key.touch(0o600)
        key.write_text(os.urandom(32).hex())  # bytes could end in a line end, which does not count
    store = open_file(FileSettings(key_file="key"), config, {}, lambda _: None)
    store.prepare(writing=True)
    return store


def log_in(
    launch: Launcher,
    url: str,
    access: str,
    refresh: str | None = None,
    *,
    client: OAuthClient = NOBODY,
    expires: float | None = None,
    is_stored: bool = True,
) -> Login:
    """Be logged in to the server at this address; with `is_stored` false there is only the record."""
    grant = Grant(
        client=client,
        resource=url,
        access=Secret(access),
        refresh=None if refresh is None else Secret(refresh),
        expires=expires,
    )
    login = Login(
        url=url, client="", issuer=client.issuer, resource=url, client_id=client.client_id, item=grant.name,
        since=time.time(), expires=expires, is_renewed=refresh is not None,
    )  # fmt: skip
    Logins(Path(launch.env["ACP_LAUNCH_STATE_DIR"])).put(login)
    store = sealed(launch)
    if is_stored:
        store.write(grant.name, encode_grant(grant))
    return login


def stored(launch: Launcher, login: Login) -> Grant | None:
    """What the store holds of a login now."""
    found = sealed(launch).read([login.item])[login.item]
    return decode_grant(found.secret) if found.secret is not None else None
