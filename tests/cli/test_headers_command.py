"""The headers that a command prints: what counts as headers, and when the command is called again."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence

import pytest
from msgspec import Struct

from acp_launch.app.credentials import RETRY_SECONDS, PrintedHeaders, read_headers
from acp_launch.document.scalars import Duration
from acp_launch.errors import LaunchError
from acp_launch.mcp.http.wire import Headers, NoToken
from acp_launch.process.capture import CaptureResult
from acp_launch.process.tree import Exit
from acp_launch.secret.redact import redactor
from acp_launch.settings.model import HeadersCommand
from tests.clock import Clock

CANARY = "canary-minted-5a8e01"
PATIENCE, TTL = 20.0, 60.0


class Said(Struct):
    """What a call of the command gives."""

    out: bytes = b""
    err: tuple[str, ...] = ()
    ending: Exit = Exit(0, None)
    timed_out: bool = False


def headers(token: str) -> Said:
    return Said(json.dumps({"Authorization": f"Bearer {token}"}).encode())


class Mint:
    """A command whose answers are given in order; the last one stays. `gate` holds each call back."""

    def __init__(self, *answers: Said | LaunchError) -> None:
        self.answers, self.calls = list(answers), 0
        self.gate: asyncio.Event | None = None

    async def run(self, argv: Sequence[str], limit: float) -> CaptureResult:
        if self.gate is not None:
            await self.gate.wait()
        assert (tuple(argv), limit) == (("mint", "--all"), 10.0)
        self.calls += 1
        said = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(said, LaunchError):
            raise said
        return CaptureResult(said.ending, said.out, said.err, said.timed_out)


def made(mint: Mint, clock: Clock | None = None) -> PrintedHeaders:
    """Headers whose command has been called once."""
    entry = HeadersCommand(command=("mint", "--all"), ttl=Duration(TTL))
    credentials = PrintedHeaders(entry, mint.run, limit=10.0, clock=clock or Clock())
    asyncio.run(credentials.headers())
    return credentials


def token(found: Headers) -> str:
    return found["Authorization"].expose().removeprefix("Bearer ")


def played(story: Callable[[], Awaitable[None]]) -> None:
    async def play() -> None:
        async with asyncio.timeout(PATIENCE):
            await story()

    asyncio.run(play())


# What is printed.


def test_a_value_and_the_credentials_in_it_are_hidden_from_now_on() -> None:
    found = read_headers(b' {"Authorization": "Bearer %b", "X-Tenant": "tenant-%b"}\n' % ((CANARY.encode(),) * 2))
    assert {name: value.expose() for name, value in found.items()} == {
        "Authorization": f"Bearer {CANARY}",
        "X-Tenant": f"tenant-{CANARY}",
    }
    assert CANARY not in repr(found)
    assert redactor.text(f"{CANARY} tenant-{CANARY}") == "*** ***"


@pytest.mark.parametrize(
    ("out", "fault"),
    [
        ("", "did not print a JSON object of strings"),
        (f'{{"Authorization": "Bearer {CANARY}"', "did not print a JSON object of strings"),
        (f'{{"A": "\udcff{CANARY}"}}', "did not print a JSON object of strings"),
        ("{" * 10_000, "did not print a JSON object of strings"),
        (f'{{"A": "{CANARY}", "B": 1}}', "did not print a JSON object of strings"),
        ("{}", "printed no header, or one twice"),
        (f'{{"A": "{CANARY}", "a": "x"}}', "printed no header, or one twice"),
        (f'{{"{CANARY} x": "y"}}', "printed a header that cannot be sent: number 1"),
        (f'{{"X": "y", "A": "{CANARY}\\r\\nHost: x"}}', "be sent: number 2"),
        (f'{{"A": "{CANARY}\\u20ac"}}', "be sent: number 1"),
        (f'{{"hOST": "{CANARY}"}}', "be sent: number 1"),
        (f'{{"Mcp-Session-Id": "{CANARY}"}}', "be sent: number 1"),
        (f'{{"A": "{CANARY}{"x" * 70_000}"}}', "printed more than 64 KiB"),
    ],
)
def test_anything_else_is_refused_and_never_quoted(out: str, fault: str) -> None:
    with pytest.raises(ValueError) as raised:
        read_headers(out.encode(errors="surrogateescape"))
    assert fault in str(raised.value)
    assert CANARY not in str(raised.value)


@pytest.mark.parametrize(
    ("said", "how"),
    [
        (LaunchError('"mint" is not on PATH'), '"mint" is not on PATH'),
        (Said(ending=Exit(3, None), err=("not signed in",)), "mint exited with status 3: not signed in"),
        (
            Said(headers("plain-word-7f3a").out, ("trace: plain-word-7f3a",), Exit(1, None)),
            "mint exited with status 1: trace: ***",
        ),
        (Said(ending=Exit(None, 9), timed_out=True), "mint did not answer within 10 s"),
        (Said(out=b"x" * 70_000, ending=Exit(None, 9)), "mint printed more than 64 KiB; it must print one JSON object"),
        (Said(out=b"oops"), "mint did not print a JSON object of strings; it must print one JSON object"),
    ],
)
def test_a_command_that_fails_is_named_with_the_way_to_try_it(said: Said | LaunchError, how: str) -> None:
    with pytest.raises(NoToken) as raised:
        made(Mint(said))
    assert redactor.text(raised.value.how).startswith(f"has no headers from its command: {how}")
    assert "run mint yourself" in raised.value.fix
    assert not raised.value.is_final


# When it is called.


def test_it_is_called_again_before_the_first_request_after_its_time_to_live() -> None:
    clock, mint = Clock(), Mint(headers("first-token"), headers("second-token"))
    credentials = made(mint, clock)

    async def story() -> None:
        clock.now += TTL - 1
        assert (token(await credentials.headers()), mint.calls) == ("first-token", 1)
        clock.now += 1
        assert (token(await credentials.headers()), mint.calls) == ("second-token", 2)
        clock.now -= 2  # a clock that was set back says nothing of the age
        assert (token(await credentials.headers()), mint.calls) == ("second-token", 3)

    played(story)


def test_many_requests_at_that_moment_call_it_once() -> None:
    clock, mint = Clock(), Mint(headers("first-token"), headers("second-token"), headers("third-token"))
    credentials = made(mint, clock)

    async def story() -> None:
        clock.now += TTL
        mint.gate = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(credentials.headers()) for _ in range(20)]
            await asyncio.sleep(0)
            asked[0].cancel()  # the one that calls it
            mint.gate.set()
        assert {token(task.result()) for task in asked[1:]} == {"second-token"}
        assert mint.calls == 2

    played(story)


def test_headers_that_are_refused_are_printed_anew_once_for_all_and_then_not_for_a_while() -> None:
    clock, mint = Clock(), Mint(headers("first-token"), headers("second-token"), headers("third-token"))
    credentials = made(mint, clock)

    async def story() -> None:
        refused = await credentials.headers()
        renewed = await asyncio.gather(*(credentials.headers(refused) for _ in range(5)))
        assert ({token(each) for each in renewed}, mint.calls) == ({"second-token"}, 2)
        with pytest.raises(NoToken) as raised:
            await credentials.headers(renewed[0])
        how = "rejects the headers that mint has just printed"
        assert (raised.value.how, raised.value.is_final) == (how, True)
        assert mint.calls == 2
        clock.now += RETRY_SECONDS
        assert token(await credentials.headers(renewed[0])) == "third-token"
        clock.now += RETRY_SECONDS
        with pytest.raises(NoToken) as raised:
            await credentials.headers(await credentials.headers())
        assert (raised.value.how, mint.calls) == (how, 4), "the same again are not sent again"

    played(story)


def test_while_it_fails_the_present_headers_stay_in_use() -> None:
    clock = Clock()
    mint = Mint(headers("first-token"), Said(ending=Exit(1, None), err=("no network",)))
    credentials = made(mint, clock)

    async def story() -> None:
        clock.now += TTL
        for _ in range(3):
            assert token(await credentials.headers()) == "first-token"
        assert mint.calls == 2, "it rests after a failure"
        clock.now += RETRY_SECONDS
        first = await credentials.headers()
        assert mint.calls == 3
        with pytest.raises(NoToken) as raised:
            await credentials.headers(first)
        assert raised.value.how == "has no headers from its command: mint exited with status 1: no network"
        clock.now += RETRY_SECONDS
        mint.answers = [headers("second-token")]
        assert token(await credentials.headers(first)) == "second-token"

    played(story)
