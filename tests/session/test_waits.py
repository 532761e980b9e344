"""Ring 2. Every wait has a name, a word and a deadline; the clock is a loop whose time we turn ourselves."""

import asyncio
import subprocess
import sys

import pytest

from acp_launch import waits
from acp_launch.errors import WaitExpired
from acp_launch.waits import awaited, seconds
from tests.turnedclock import turned


@pytest.fixture(autouse=True)
def as_users_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is ours, so the tests need no patience."""
    monkeypatch.setattr(waits, "FIRST_NOTICE", 3.0)


@turned
async def test_a_silent_wait_says_so_at_growing_intervals_and_ends_with_its_name() -> None:
    words: list[tuple[str, float, float]] = []
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    with pytest.raises(WaitExpired, match=r"^no answer to initialize within 2 min$") as caught:
        await awaited(future, what="answer to initialize", limit=120, waiting=lambda *word: words.append(word))
    assert caught.value.exit_code == 124
    assert asyncio.get_running_loop().time() == pytest.approx(120)
    assert not future.done()
    assert words == [
        ("answer to initialize", 3, 120),
        ("answer to initialize", 9, 120),
        ("answer to initialize", 27, 120),
        ("answer to initialize", 81, 120),
    ]


@turned
async def test_a_deadline_before_the_first_word_needs_no_word() -> None:
    words: list[object] = []
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    with pytest.raises(WaitExpired, match=r"^no x within 0\.2 s$"):
        await awaited(future, what="x", limit=0.2, waiting=lambda *word: words.append(word))
    assert words == []


@turned
async def test_a_lively_wait_never_expires_and_says_each_word_once() -> None:
    words: list[float] = []
    loop = asyncio.get_running_loop()
    future: asyncio.Future[str] = loop.create_future()
    heard = 0.0

    def alive(moment: float) -> None:
        nonlocal heard
        heard = moment

    for moment in range(0, 100, 4):  # a sign of life every 4 s: a word after 3 s of the first silence only
        loop.call_at(moment, alive, moment)
    loop.call_at(100, future.set_result, "done")
    assert (
        await awaited(future, what="x", limit=8, waiting=lambda _, at, __: words.append(at), since=lambda: heard)
        == "done"
    )
    assert words == [3]


@turned
async def test_silence_is_counted_from_the_last_sign_of_life() -> None:
    loop = asyncio.get_running_loop()
    heard = 0.0

    def alive() -> None:
        nonlocal heard
        heard = 50.0

    loop.call_at(50, alive)
    future: asyncio.Future[None] = loop.create_future()
    with pytest.raises(WaitExpired):
        await awaited(future, what="x", limit=60, waiting=lambda *_: None, since=lambda: heard)
    assert loop.time() == pytest.approx(110)


@turned
async def test_an_answer_or_an_error_comes_out_as_itself() -> None:
    loop = asyncio.get_running_loop()
    good: asyncio.Future[int] = loop.create_future()
    good.set_result(7)
    assert await awaited(good, what="x", limit=1, waiting=lambda *_: None) == 7
    bad: asyncio.Future[int] = loop.create_future()
    bad.set_exception(KeyError("gone"))
    with pytest.raises(KeyError, match="gone"):
        await awaited(bad, what="x", limit=1, waiting=lambda *_: None)


@pytest.mark.parametrize(
    ("amount", "text"), [(0.2, "0.2 s"), (3, "3 s"), (60, "60 s"), (120, "2 min"), (1800, "30 min"), (9000, "2.5 h")]
)
def test_durations_read_well(amount: float, text: str) -> None:
    assert seconds(amount) == text


@pytest.mark.parametrize(("environment", "limit"), [({}, 3.0), ({"ACP_LAUNCH_TEST_PATIENCE": "2.5"}, 7.5)])
def test_only_tests_stretch_a_limit(environment: dict[str, str], limit: float) -> None:
    code = "from acp_launch.waits import FIRST_NOTICE; print(FIRST_NOTICE)"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert float(done.stdout) == limit
