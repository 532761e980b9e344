"""What lies below HTTP: TLS, proxies, and how their failures are told (M-46)."""

import asyncio
import datetime
import gzip
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.looped import looped
from tests.patience import PATIENCE

from .children import tempered
from .peer import HELLO, Peer, connected, remote

ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 88\r\n\r\n"
    b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}    '
)
VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def certificate(directory: Path, *, host: str = "127.0.0.1", days: int = 1) -> Path:
    """A certificate of its own authority, with its key, valid since ten days before its end."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
    named = x509.IPAddress(ipaddress.ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(end - datetime.timedelta(days=10))
        .not_valid_after(end)
        .add_extension(x509.SubjectAlternativeName([named]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = directory / "certificate.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM) + secret)
    return file


@asynccontextmanager
async def serving(answer: Callable[[bytes], bytes], context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A server of this process, and its address; nothing of it is left after the block."""
    at_work: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        at_work.add(task)
        try:
            while data := await reader.read(65536):
                writer.write(answer(data))
        finally:
            writer.close()
            with suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()

    site = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with site:
        yield f"{'https' if context else 'http'}://127.0.0.1:{site.sockets[0].getsockname()[1]}/mcp"
        if at_work:
            await asyncio.wait(at_work, timeout=PATIENCE)


@asynccontextmanager
async def secure(file: Path) -> AsyncIterator[str]:
    """A server that speaks TLS and gives one answer to each request."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    async with serving(lambda asked: ANSWER, context) as url:
        yield url


@pytest.mark.parametrize(
    ("host", "days", "how", "fix"),
    [
        ("127.0.0.1", 1, "has a TLS certificate that is not accepted: self-signed certificate", "SSL_CERT_FILE"),
        ("127.0.0.1", -1, "has a TLS certificate that is not accepted: certificate has expired", "clock"),
        ("docs.example.com", 1, "has a TLS certificate that is not accepted: IP address mismatch", "url"),
    ],
)
@looped
async def test_a_certificate_that_is_not_accepted_is_told_with_what_to_do(
    host: str, days: int, how: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = certificate(tmp_path, host=host, days=days)
    if "self-signed" not in how:
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
    async with secure(file) as url, connected(remote(url)) as peer:
        end = await peer.rejected()
        assert end.how.startswith(how)
        assert (end.follows, fix in end.reason) == ("never", True)


@looped
async def test_an_authority_of_ones_own_is_named_in_ssl_cert_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    async with secure(file) as url, connected(remote(url)) as peer:
        assert "result" in await peer.call("initialize", HELLO)
        assert peer.remote.tls == "TLSv1.3"


@looped
async def test_a_proxy_that_is_reached_over_tls_is_checked_with_the_same_certificates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = certificate(tmp_path)
    async with secure(file) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.removesuffix("/mcp"))
        async with connected(remote("http://docs.example.com/mcp")) as peer:
            assert "certificate that is not accepted" in (await peer.rejected()).how
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        async with connected(remote("http://docs.example.com/mcp")) as peer:
            assert "result" in await peer.call("initialize", HELLO)


@looped
async def test_a_certificate_file_that_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    async with connected(remote("https://127.0.0.1:9/mcp")) as peer:
        end = await peer.rejected()
        assert "the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read" in end.how
        assert end.follows == "never"


async def introduced(url: str) -> Peer:
    async with connected(remote(url)) as peer:
        await peer.shake_hands()
        return peer


def test_a_proxy_of_the_environment_is_used_for_other_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempered() as server:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{server.port}")
        asyncio.run(introduced("http://docs.example.com/mcp"))
        assert dict(server.requests[0]["headers"])["Host"] == "docs.example.com"


@looped
async def test_this_machine_and_hosts_in_no_proxy_are_reached_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempered() as server:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        await introduced(server.url)
        monkeypatch.setenv("NO_PROXY", "docs.invalid")
        async with connected(remote("http://docs.invalid/mcp")) as peer:
            assert "its name cannot be looked up" in (await peer.rejected()).how


@pytest.mark.parametrize("host", ["127.0.0.2", "127.1.1.1", "127.1", "2130706433", "x.localhost", "localhost."])
@looped
async def test_this_machine_is_reached_without_a_proxy_however_it_is_called(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A secret header would go to the proxy in the clear."""
    with tempered() as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        async with connected(remote(f"http://{host}:9/mcp")) as peer:
            peer.ask("initialize", HELLO)
            assert (await peer.ended()).how.startswith("could not be")
        assert proxy.requests == []


@looped
async def test_the_name_localhost_is_not_believed_where_it_leads_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempered() as server:
        monkeypatch.setattr("acp_launch.http.is_loopback", lambda literal: False)
        async with connected(remote(f"http://localhost:{server.port}/mcp")) as peer:
            end = await peer.rejected()
        assert "its name leads to 127.0.0.1, which is not on this machine" in end.how
        assert end.follows == "never"
        assert server.requests == []


@pytest.mark.parametrize("scheme", ["http", "https"])
@looped
async def test_a_proxy_that_cannot_be_reached_is_mentioned(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as plug:
        port = plug.getsockname()[1]
    monkeypatch.setenv(f"{scheme.upper()}_PROXY", f"http://user:sekret-pw@127.0.0.1:{port}")
    async with connected(remote(f"{scheme}://docs.example.com/mcp")) as peer:
        end = await peer.rejected()
        assert end.how == "could not be reached: connection refused"
        assert "HTTPS_PROXY" in end.reason
        assert "sekret-pw" not in str(end)


@looped
async def test_a_proxy_that_refuses_to_connect_us_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"on": "*", "do": "status", "status": 407}
    with tempered(faults=[said]) as server:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{server.port}")
        async with connected(remote("https://docs.example.com/mcp")) as peer:
            end = await peer.rejected()
            assert end.how.startswith("could not be reached through the proxy: 407")
            assert "NO_PROXY" in end.reason


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "gopher://127.0.0.1:9"])
@looped
async def test_a_proxy_of_a_kind_that_is_not_known_is_told(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    with tempered() as server:
        await introduced(server.url)
    async with connected(remote("http://docs.example.com/mcp")) as peer:
        end = await peer.rejected()
        assert "the proxy in HTTPS_PROXY, HTTP_PROXY or ALL_PROXY cannot be used" in end.how
        assert end.follows == "never"


@looped
async def test_a_cookie_comes_back_to_the_server_that_gave_it_and_to_no_other() -> None:
    """Hosts with several machines find the one that knows the session by it."""
    seen: list[bytes] = []

    def answer(asked: bytes) -> bytes:
        seen.append(asked.partition(b"\r\n\r\n")[0])
        return ANSWER.replace(b"\r\n", b"\r\nSet-Cookie: machine=seven; Path=/\r\n", 1)

    async with serving(answer) as url, connected(remote(url)) as first, connected(remote(url)) as second:
        await first.call("initialize", HELLO)
        await second.call("initialize", HELLO)
        first.heard.clear()
        await first.answer(first.ask("ping", id=1))
    assert [b"cookie: machine=seven" in head.lower() for head in seen] == [False, False, True]


def packed(body: bytes, *codings: str, kind: str = "application/json") -> bytes:
    for _ in codings:
        body = gzip.compress(body)
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Encoding: {', '.join(codings)}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


@looped
async def test_an_answer_that_is_compressed_twice_is_not_unpacked() -> None:
    """Some kilobytes could become some terabytes."""
    body = ANSWER.partition(b"\r\n\r\n")[2]
    async with serving(lambda asked: packed(body, "gzip", "gzip")) as url, connected(remote(url)) as peer:
        end = await peer.rejected()
        assert end.how == "sent an answer that is compressed more than once"


def test_a_stream_that_grows_a_thousandfold_leaves_the_other_servers_their_turn() -> None:
    event = b'data: {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}\n\n'
    turns = 0
    seen: list[int] = []

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def use() -> None:
        body = packed(b":" + b" " * 20_000_000 + b"\n\n" + event, "gzip", kind="text/event-stream")
        async with serving(lambda asked: body) as url, connected(remote(url)) as peer:
            connection = peer.remote._connection
            take = connection.receive_chunk

            def watched(number: int, chunk: bytes) -> None:
                seen.append(turns)
                take(number, chunk)

            connection.receive_chunk = watched  # type: ignore[method-assign]
            task = asyncio.create_task(others())
            await peer.call("initialize", HELLO)
            task.cancel()

    asyncio.run(use())
    assert len(seen) > 10
    assert len(set(seen)) == len(seen)
