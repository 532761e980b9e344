"""The listener of a login: one answer with the right path, Host and state; everything else changes nothing."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from html.parser import HTMLParser
from typing import Any

import pytest

from acp_launch.errors import AuthRequired, WaitExpired
from acp_launch.oauth import listener
from acp_launch.oauth.listener import MAX_HEAD_BYTES, LoopbackListener
from tests.looped import looped
from tests.patience import PATIENCE

STATE = "the-state-of-this-login"
ADDRESS = "https://auth.example/authorize?state=the-state-of-this-login"


class Waiting:
    """A listener whose login waits for its answer."""

    def __init__(self, browser: LoopbackListener, answer: "asyncio.Task[Mapping[str, str]]") -> None:
        self.browser, self.answer = browser, answer

    @property
    def port(self) -> int:
        return int(self.browser.redirect_uri.split(":")[2].partition("/")[0])

    async def asked(self, target: str, *, host: str = "", method: str = "GET") -> tuple[int, str]:
        """Make a request as a browser does; return the status and the page."""
        head = f"{method} {target} HTTP/1.1\r\nHost: {host or f'127.0.0.1:{self.port}'}\r\n\r\n"
        return read(await self.sent(head.encode()))

    async def sent(self, data: bytes) -> bytes:
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                writer.write(data)
                return await reader.read()
            except ConnectionError:
                return b""
            finally:
                writer.close()


def read(response: bytes) -> tuple[int, str]:
    head, _, body = response.partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert b"Content-Security-Policy: default-src 'none'" in head
    assert b"Cache-Control: no-store" in head
    return int(head.split()[1]), body.decode()


def visited(address: str) -> None:
    """The user has the page before them."""


def unsaid(what: str, waited: float, limit: float) -> None:
    """Tests do not wait so long that it is said."""


@asynccontextmanager
async def waiting(**options: Any) -> AsyncIterator[Waiting]:
    shown = asyncio.Event()
    browser = LoopbackListener(lambda address: shown.set(), unsaid, **options)
    async with browser.listen(), asyncio.timeout(PATIENCE):
        answer = asyncio.create_task(browser.answer(ADDRESS, STATE))
        await shown.wait()
        try:
            yield Waiting(browser, answer)
        finally:
            answer.cancel()
            await asyncio.wait({answer})


@looped
async def test_the_browser_comes_back_and_is_told_to_close_the_page() -> None:
    async with waiting() as login:
        status, page = await login.asked(f"/callback?code=c%2F1&state={STATE}&iss=https%3A%2F%2Fauth.example")
        assert status == 200
        assert "Return to your terminal" in page
        assert "You can close this page." in page
        assert "c/1" not in page and "c%2F1" not in page, "the code stays out of the page"
        assert await login.answer == {"code": "c/1", "state": STATE, "iss": "https://auth.example"}


@pytest.mark.parametrize(
    "target",
    [
        "/favicon.ico",
        f"/callback/?code=x&state={STATE}",
        f"http://127.0.0.1/callback?code=x&state={STATE}",
        "/callback?code=x",
        "/callback?code=x&state=",
        "/callback?code=x&state=another",
        f"/callback?code=x&state={STATE}&state={STATE}",
        f"/callback?code=x&code=y&state={STATE}",
        "/callback?" + "&".join(f"a{number}=b" for number in range(60)),
    ],
)
@looped
async def test_any_other_request_gets_an_error_and_the_login_goes_on(target: str) -> None:
    async with waiting() as login:
        found, page = await login.asked(target)
        assert (found, "Not this login" in page) == (400, True)
        assert not login.answer.done()
        assert (await login.asked(f"/callback?code=right&state={STATE}"))[0] == 200
        assert (await login.answer)["code"] == "right"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "localhost:1", "127.0.0.1:1"])
@looped
async def test_a_page_of_another_site_by_a_name_that_leads_here_is_not_the_answer(host: str) -> None:
    """DNS rebinding: the Host is not ours."""
    async with waiting() as login:
        found, page = await login.asked(f"/callback?code=x&state={STATE}", host=host)
        assert (found, "Not this login" in page) == (400, True)
        assert not login.answer.done()


@pytest.mark.parametrize(
    "data",
    [
        f"POST /callback?code=x&state={STATE} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode(),
        b"\r\n\r\n",
        b"\x16\x03\x01\xff\xfe\r\n\r\n",
        b"GET  HTTP/1.1\r\n\r\n",
    ],
)
@looped
async def test_what_is_not_a_request_is_answered_as_such(data: bytes) -> None:
    async with waiting() as login:
        status, page = read(await login.sent(data))
        assert (status, "Not this login" in page) == (400, True)
        assert not login.answer.done()


@looped
async def test_a_head_without_an_end_is_not_read_for_ever() -> None:
    async with waiting() as login:
        assert await login.sent(b"GET /callback HTTP/1.1\r\nX: " + b"x" * (3 * MAX_HEAD_BYTES) + b"\r\n\r\n") == b""
        assert not login.answer.done()


@looped
async def test_only_the_first_of_two_answers_counts() -> None:
    async with waiting() as login:
        target = f"/callback?code={{}}&state={STATE}"
        first, second = await asyncio.gather(login.asked(target.format("one")), login.asked(target.format("two")))
        assert sorted((first[0], second[0])) == [200, 400]
        kept = "one" if first[0] == 200 else "two"
        assert (await login.answer)["code"] == kept
        status, page = await login.asked(target.format("three"))
        assert (status, "Not this login" in page) == (400, True)


class Texts(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@looped
async def test_a_refusal_is_quoted_harmlessly() -> None:
    async with waiting() as login:
        hostile = "%3Cscript%3Ealert(1)%3C/script%3E%22%27%26%1b%5B31m%E2%80%AE" + "y" * 900
        query = f"error=access_denied&error_description={hostile}&state={STATE}"
        status, page = await login.asked(f"/callback?{query}")
        shown = Texts(page)
        assert (status, shown.tags) == (200, ["html", "meta", "title", "style", "h1", "p"])
        assert "The login was refused" in shown.text
        assert "The server says: access_denied: <script>alert(1)</script>\"'& [31m" in shown.text
        assert "\x1b" not in page and "\u202e" not in page
        assert "y" * 300 not in page
        assert (await login.answer)["error"] == "access_denied"


def test_the_page_needs_no_script_and_loads_nothing() -> None:
    body = listener.OTHER.decode()
    assert "color-scheme:light dark" in body
    assert not [word for word in ("<script", "<link", "<img", "src=", "href=", "url(", "@import") if word in body]


@looped
async def test_the_wait_has_a_name_and_an_end() -> None:
    browser = LoopbackListener(visited, unsaid, patience=0.0)
    async with browser.listen():
        with pytest.raises(WaitExpired) as caught:
            await browser.answer(ADDRESS, STATE)
    assert caught.value.message == "no answer from the browser within 0 s"
    assert caught.value.fix == (
        "log in again; if its page refused the redirect address, register "
        f"{browser.redirect_uri} there, or write oauth.callback: localhost; if it refused `resource`, "
        "write oauth.resource: false in the profile"
    )


def has_two_numbers() -> bool:
    with socket.socket(socket.AF_INET6) as six:
        try:
            six.bind(("::1", 0))
        except OSError:
            return False
    return True


two_numbers = pytest.mark.skipif(not has_two_numbers(), reason="this machine has no ::1")


@two_numbers
@looped
@pytest.mark.parametrize("number", ["127.0.0.1", "::1"])
async def test_at_localhost_the_browser_may_come_back_by_either_number(number: str) -> None:
    browser = LoopbackListener(visited, unsaid, host="localhost")
    async with browser.listen(), asyncio.timeout(PATIENCE):
        answer = asyncio.create_task(browser.answer(ADDRESS, STATE))
        await asyncio.sleep(0)
        port = int(browser.redirect_uri.removeprefix("http://localhost:").removesuffix("/callback"))
        for host, status in ((number, 400), ("127.0.0.1", 400), ("localhost", 200)):
            reader, writer = await asyncio.open_connection(number, port)
            writer.write(f"GET /callback?code=c&state={STATE} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
            assert read(await reader.read())[0] == status
            writer.close()
        assert await answer == {"code": "c", "state": STATE}


@two_numbers
@looped
async def test_a_port_that_is_taken_at_the_other_number_is_not_listened_at() -> None:
    with socket.socket(socket.AF_INET6) as taken:
        taken.bind(("::1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="address already in use"):
            async with LoopbackListener(visited, unsaid, host="localhost").listen(port):
                pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), PATIENCE)


@looped
async def test_a_machine_without_the_other_number_is_listened_at_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(listener.NUMBERS, "localhost", ("127.0.0.1", "192.0.2.1"))  # for documentation, nowhere
    browser = LoopbackListener(visited, unsaid, host="localhost")
    async with browser.listen():
        assert browser.redirect_uri.startswith("http://localhost:")


@looped
async def test_connections_that_ask_nothing_neither_keep_it_open_nor_keep_the_browser_out() -> None:
    async with waiting() as login:
        idle = [socket.create_connection(("127.0.0.1", login.port), PATIENCE) for _ in range(50)]
        assert (await login.asked(f"/callback?code=x&state={STATE}"))[0] == 200
        assert await login.answer
    for each in idle:
        each.settimeout(PATIENCE)
        with suppress(ConnectionResetError):
            assert each.recv(1) == b""
        each.close()


@looped
async def test_the_oldest_connection_that_asks_nothing_makes_room_for_the_newest() -> None:
    async with waiting() as login, asyncio.timeout(PATIENCE):
        idle = [await asyncio.open_connection("127.0.0.1", login.port) for _ in range(listener.MAX_IDLE + 1)]
        with suppress(ConnectionResetError):
            assert await idle[0][0].read() == b""
        reader, writer = idle[-1]
        writer.write(f"GET /callback?code=x&state={STATE} HTTP/1.1\r\nHost: 127.0.0.1:{login.port}\r\n\r\n".encode())
        assert read(await reader.read())[0] == 200
        assert [each.at_eof() for each, _ in idle[1:-1]] == [False] * (listener.MAX_IDLE - 1)
        assert await login.answer
    for _, each in idle:
        each.close()


def test_nothing_listens_after_the_login() -> None:
    async def story() -> int:
        async with waiting() as login:
            return login.port

    port = asyncio.run(story())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), PATIENCE)


@looped
async def test_a_port_of_the_profile_is_used_and_may_be_taken() -> None:
    async with waiting() as login:
        browser = LoopbackListener(visited, unsaid)
        with pytest.raises(OSError, match="address already in use"):
            async with browser.listen(login.port):
                pass
    async with browser.listen(login.port):
        assert browser.redirect_uri == f"http://127.0.0.1:{login.port}/callback"


def test_a_pasted_address_is_checked_like_one_that_the_browser_comes_back_to() -> None:
    complaints: list[str] = []
    typed = [
        "",
        "hello",
        "http://127.0.0.1:1/callback?code=x&state=s",
        "{}?code=x&state=another",
        " {}?code=x&state={}\n",
    ]

    async def story() -> None:
        shown: list[str] = []

        async def pasted(complaint: str) -> str:
            complaints.append(complaint)
            return typed[len(complaints) - 1].replace("{}", browser.redirect_uri, 1).replace("{}", STATE)

        browser = LoopbackListener(shown.append, unsaid, pasted=pasted, patience=PATIENCE)
        async with browser.listen():
            assert await browser.answer(ADDRESS, STATE) == {"code": "x", "state": STATE}
        assert shown == [ADDRESS]

    asyncio.run(story())
    told = "That is not the answer to this login: it begins with http://127.0.0.1:"
    assert [told in each for each in complaints] == [False, True, True, True, True]


@looped
async def test_an_end_of_the_input_ends_the_wait() -> None:
    async def pasted(complaint: str) -> str:
        raise AuthRequired("no address was pasted")

    browser = LoopbackListener(visited, unsaid, pasted=pasted, patience=PATIENCE)
    async with browser.listen():
        with pytest.raises(AuthRequired):
            await browser.answer(ADDRESS, STATE)


@looped
async def test_the_browser_may_also_come_back_by_itself_while_an_address_could_be_pasted() -> None:
    """A forwarded port leads it here; the question ends."""
    ended: list[bool] = []

    async def pasted(complaint: str) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)
        return ""

    async with waiting(pasted=pasted) as login:
        assert (await login.asked(f"/callback?code=x&state={STATE}"))[0] == 200
        assert await login.answer

    assert ended == [True]
