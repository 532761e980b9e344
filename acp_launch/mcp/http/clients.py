"""
The HTTP clients for remote servers: connection pools, TLS, and proxies.

httpx2 is imported, and TLS set up, when the first address needs it.
"""

import os
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import ssl

    import httpx2

LOOPBACK = ("127.0.0.1", "localhost", "::1")  # reached without a proxy, whatever NO_PROXY says
KEPT_ALIVE = 4.0  # seconds an unused connection is kept: many servers close them after 5


class SetUp(Exception):  # noqa: N818 - reads as what it is about
    """Raised if requests cannot be made on this machine at all; `how` and `fix` are those of a `Failure`."""

    def __init__(self, how: str, fix: str) -> None:
        super().__init__(how)
        self.how, self.fix = how, fix


def is_loopback(url: str) -> bool:
    return urlsplit(url).hostname in LOOPBACK


def make_client(url: str) -> "httpx2.AsyncClient":
    """Return a client for the origin of an address.

    Raises:
        SetUp: certificates or proxies are set up wrongly.
    """
    import ssl

    import httpx2

    try:
        is_secure = url.startswith("https:")
        context = (
            _trust(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
            if is_secure
            else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        )
    except (OSError, ssl.SSLError) as error:
        how = "could not be reached: the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read"
        raise SetUp(how, f"correct that variable, or unset it ({error})") from None
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=KEPT_ALIVE)
    uses_proxies = not is_loopback(url)
    try:
        return httpx2.AsyncClient(
            verify=context, limits=limits, timeout=None, trust_env=uses_proxies, follow_redirects=False
        )
    except (ValueError, ImportError, httpx2.InvalidURL):
        how = "could not be reached: the proxy in HTTPS_PROXY, HTTP_PROXY or ALL_PROXY cannot be used"
        raise SetUp(how, "write it as http://host:port") from None


@lru_cache(maxsize=4)
def _trust(file: str | None, directory: str | None) -> "ssl.SSLContext":
    """Load the certificates that these variables name, or those of the system: it takes long enough to do it once."""
    import httpx2

    return httpx2.create_ssl_context()
