"""Ring 3. Who is let in at the seat, who is not and why, over real sockets; and the directory it is in."""

import asyncio
import os
import resource
import shutil
import socket
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from acp_launch import private
from acp_launch.bridge import seat as module
from acp_launch.bridge import shim as shim_program
from acp_launch.bridge.seat import (
    MAX_GREETING_BYTES,
    GreetingRefused,
    ShimConnection,
    ShimListener,
    check_greeting,
    listen_for_shims,
    peer_uid,
)
from acp_launch.errors import LaunchError
from acp_launch.process.flow import Lent
from tests.looped import bounded
from tests.patience import PATIENCE

BRIEF = 0.05  # seconds, where the deadline is what is tested
NAMES = {"github", "files"}


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory with a short path: that of a socket may have some hundred characters."""
    with tempfile.TemporaryDirectory(prefix="t") as directory:
        yield Path(directory)


@pytest.fixture(autouse=True)
def a_place_of_its_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Nothing is left in it, whatever happened."""
    with tempfile.TemporaryDirectory(prefix="t", ignore_cleanup_errors=True) as directory:
        place = Path(directory)
        monkeypatch.setenv("TMPDIR", directory)
        yield place
        assert list(place.iterdir()) == []


class Hall:
    """A seat, whom it let in, and what it said of the others."""

    def __init__(self) -> None:
        self.shims: asyncio.Queue[ShimConnection] = asyncio.Queue()
        self.refusals: asyncio.Queue[str] = asyncio.Queue()
        self.at: ShimListener
        self._clients = ExitStack()
        self._entering: list[asyncio.Task[None]] = []

    def connect(self) -> socket.socket:
        client = self._clients.enter_context(socket.socket(socket.AF_UNIX))
        client.settimeout(PATIENCE)
        client.connect(str(self.at.path))
        return client

    def say(self, line: bytes) -> socket.socket:
        client = self.connect()
        client.sendall(line)
        return client

    def greeting(self, name: str = "github") -> bytes:
        return f"acp-launch 2 {self.at.token} {name}\n".encode()

    def enter(self, name: str = "github", *lent: int) -> socket.socket:
        """Greet, and once that is answered lend these descriptors, or copy if there are none."""
        client = self.say(self.greeting(name))
        self.goes_on(client, *lent)
        return client

    def goes_on(self, client: socket.socket, *lent: int) -> None:
        client.setblocking(False)
        self._entering.append(asyncio.create_task(_go_on(client, lent)))

    async def shim(self) -> ShimConnection:
        shim = await self.shims.get()
        self._clients.callback(shim.close)
        return shim

    def close(self) -> None:
        while not self.shims.empty():
            self.shims.get_nowait().close()
        self._clients.close()


async def _go_on(client: socket.socket, lent: tuple[int, ...]) -> None:
    assert await asyncio.get_running_loop().sock_recv(client, 1) == b"+"
    if lent:
        socket.send_fds(client, [b"+"], lent)
    else:
        client.send(b"=")


@asynccontextmanager
async def hall(**knobs: Any) -> AsyncIterator[Hall]:
    made = Hall()
    try:
        with patch.dict(vars(module), knobs):
            async with listen_for_shims(NAMES, made.shims.put_nowait, made.refusals.put_nowait) as made.at:
                yield made
    finally:
        made.close()


async def ended(client: socket.socket) -> bool:
    """Whether nothing but the end comes; the end of a connection with something unread is a reset."""
    client.setblocking(False)
    try:
        return await asyncio.get_running_loop().sock_recv(client, 1) == b""
    except ConnectionResetError:
        return True


# Being let in


@bounded
async def test_who_brings_the_token_and_a_servers_name_is_let_in() -> None:
    async with hall() as here:
        client = here.enter("files")
        shim = await here.shim()
        assert (shim.name, shim.lent) == ("files", None)
        assert shim.source == shim.sink == shim.line.fileno()
        client.send(b"more")
        loop = asyncio.get_running_loop()
        assert await loop.sock_recv(shim.line, 100) == b"more"
        with pytest.raises(BlockingIOError):
            shim.line.recv(1)
        shim.close()
        assert await ended(client)


@bounded
async def test_a_greeting_that_comes_byte_by_byte_is_a_greeting() -> None:
    async with hall() as here:
        client = here.connect()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        client.setblocking(False)
        for byte in here.greeting():
            await asyncio.get_running_loop().sock_sendall(client, bytes([byte]))
            await asyncio.sleep(0)  # the loop's turn in between, not a wait
        here.goes_on(client)
        assert (await here.shim()).name == "github"


@bounded
async def test_guests_stay_when_the_door_closes() -> None:
    made = Hall()
    async with listen_for_shims(NAMES, made.shims.put_nowait, made.refusals.put_nowait) as made.at:
        client = made.enter()
        shim = await made.shim()
    client.send(b"still here")
    assert shim.line.recv(100) == b"still here"
    made.close()


@bounded
async def test_sessions_of_one_directory_share_its_socket_until_the_last_ends(tmp_path: Path) -> None:
    """Over ssh it is the only one that is forwarded."""
    first, second, third = Hall(), Hall(), Hall()

    def enter(hall: Hall) -> AbstractAsyncContextManager[ShimListener]:
        return listen_for_shims(NAMES, hall.shims.put_nowait, hall.refusals.put_nowait, tmp_path)

    async with AsyncExitStack() as ends_last:
        async with enter(first) as first.at:
            second.at = await ends_last.enter_async_context(enter(second))
            for hall in (first, second):
                hall.enter()
                assert (await hall.shim()).token == hall.at.token
        assert (first.at.path, second.refusals.empty()) == (second.at.path, True)
        first.say(first.greeting())
        assert "token" in await second.refusals.get()
        second.enter()
        assert (await second.shim()).token == second.at.token
        closing = asyncio.create_task(ends_last.aclose())
        await asyncio.sleep(0)  # it has begun
        async with enter(third) as third.at:
            third.enter()
            assert (await third.shim()).token == third.at.token
        await closing
    assert third.at.path == first.at.path and not first.at.path.exists()
    for hall in (first, second, third):
        hall.close()


@bounded
async def test_a_shim_is_accepted_and_a_foreign_connection_does_not_disturb_it() -> None:
    async with hall() as here:
        argv = [sys.executable, "-I", "-S", str(Path(shim_program.__file__)), str(here.at.path)]

        def start(name: str, token: str) -> "subprocess.Popen[bytes]":
            return subprocess.Popen(
                [*argv, name],
                env={"ACP_LAUNCH_SEAT": token},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )

        with start("github", here.at.token) as let_in, start("github", "guessed") as kept_out:
            shim = await here.shim()
            assert await here.refusals.get() == "its token is not the one of this launch"
            assert await asyncio.to_thread(kept_out.wait, PATIENCE) == 1
            assert shim.lent is not None
            shim.lent[1].write(b"welcome")
            shim.close()
            heard = await asyncio.to_thread(let_in.communicate, timeout=PATIENCE)
            assert (let_in.returncode, heard) == (0, (b"welcome", b""))


@bounded
async def test_what_it_lends_is_read_and_written_without_changing_what_others_see() -> None:
    """Whether a pipe or a socket blocks belongs to all who share it."""
    async with hall() as here:
        (theirs_in, ours_in), (ours_out, theirs_out) = os.pipe(), os.pipe()
        ours, theirs = socket.socketpair()
        here.enter("files", theirs_in, theirs_out)
        here.enter("github", theirs.fileno(), theirs.fileno())
        shims = {shim.name: shim for shim in [await here.shim(), await here.shim()]}
        with ours, theirs:
            for shim, write, read in (
                (shims["files"], partial(os.write, ours_in), partial(os.read, ours_out, 100)),
                (shims["github"], ours.send, partial(ours.recv, 100)),
            ):
                assert isinstance(shim.source, Lent) and isinstance(shim.sink, Lent)
                with pytest.raises(BlockingIOError):
                    shim.source.read(100)
                write(b"ask\n")
                assert shim.source.read(100) == b"ask\n"
                shim.sink.write(b"an")
                shim.sink.writev([b"swer", b"\n"])
                assert read() == b"answer\n"
                with pytest.raises(BlockingIOError):
                    while shim.sink.write(b"x" * 65536):
                        pass
                assert [os.get_blocking(each) for each in (theirs_in, theirs_out, theirs.fileno())] == [True] * 3
                shim.close()
        for descriptor in (theirs_in, theirs_out, ours_in, ours_out):
            os.close(descriptor)


@bounded
async def test_without_proc_what_it_lends_blocks_again_when_it_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS, where a pipe cannot be opened anew."""
    opened = os.open

    def refused(path: str, flags: int, *rest: Any, **knobs: Any) -> int:
        if str(path).startswith("/proc/self/fd"):
            raise FileNotFoundError(path)
        return opened(path, flags, *rest, **knobs)

    monkeypatch.setattr(os, "open", refused)
    async with hall() as here:
        (theirs, ours), (_, other) = pairs = os.pipe(), os.pipe()
        here.enter("files", theirs, other)
        shim = await here.shim()
        assert not os.get_blocking(theirs)
        assert isinstance(shim.source, Lent)
        os.write(ours, b"ask\n")
        assert shim.source.read(100) == b"ask\n"
        shim.close()
        assert os.get_blocking(theirs)
        for descriptor in (*pairs[0], *pairs[1]):
            os.close(descriptor)


@pytest.mark.parametrize("count", [1, 3])
@bounded
async def test_what_is_neither_pipe_nor_socket_or_too_much_is_not_taken(count: int) -> None:
    async with hall() as here:
        with open(os.devnull, "rb") as file:  # noqa: ASYNC230, PTH123
            here.enter("files", *[file.fileno()] * count)
            assert await here.refusals.get() == "it passed neither its pipes nor the mark for copying"


@bounded
async def test_who_does_not_wait_for_an_answer_is_refused() -> None:
    async with hall() as here:
        here.say(here.greeting() + b'{"jsonrpc":')
        assert await here.refusals.get() == "it did not wait for an answer"


# Being refused

OTHER_SHIM = "this acp-launch version 2; if acp-launch was upgraded, start the launch again"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("acp-launch 2 guessed github", "its token is not the one of this launch"),
        ("acp-launch 2  github", "its token is not the one of this launch"),
        ("acp-launch 2 github", "its token is not the one of this launch"),
        ("acp-launch 2 TOKEN", "its token is not the one of this launch"),
        ("acp-launch 2 TOKENx github", "its token is not the one of this launch"),
        ("acp-launch 2 TOKEN other", "it asked for 'other', which is not a server of this launch"),
        ("acp-launch 2 TOKEN ", "it asked for '', which is not a server of this launch"),
        ("acp-launch 2 TOKEN github ", "it asked for 'github ', which is not a server of this launch"),
        (
            "acp-launch 2 TOKEN \x1b[31m" + 100 * "x",
            "it asked for '\\x1b[31m" + 75 * "x" + "...', which is not a server of this launch",
        ),
        ("acp-launch 1 TOKEN github", f"its shim speaks version '1', {OTHER_SHIM}"),
        ("acp-launch", f"its shim speaks version '', {OTHER_SHIM}"),
        ("GET / HTTP/1.1", "its first line is not a shim's greeting"),
        ("", "its first line is not a shim's greeting"),
    ],
)
@bounded
async def test_who_does_not_is_refused_with_a_reason_and_closed_without_a_word(line: str, why: str) -> None:
    async with hall() as here:
        client = here.say(line.replace("TOKEN", here.at.token).encode() + b"\n")
        assert await here.refusals.get() == why
        assert await ended(client)
        here.enter()
        assert (await here.shim()).name == "github"
        assert here.refusals.empty()


def test_bytes_that_are_no_text_are_refused_like_any_other() -> None:
    with pytest.raises(GreetingRefused, match=r"^its token is not the one of this launch$"):
        check_greeting(b"acp-launch 2 \xff\x00 github", {"t0ken": NAMES})
    with pytest.raises(GreetingRefused, match=r"^it asked for '\\ufffd', which is not a server of this launch$"):
        check_greeting(b"acp-launch 2 t0ken \xff", {"t0ken": NAMES})


@bounded
async def test_who_hangs_up_first_is_noted() -> None:
    async with hall() as here:
        here.connect().close()
        assert await here.refusals.get() == "it closed the connection before it sent a greeting"
        here.say(b"acp-la").close()
        assert await here.refusals.get() == "it closed the connection before it sent a greeting"


@bounded
async def test_a_silent_connection_is_refused_in_the_end_and_does_not_delay_others() -> None:
    async with hall(GREETING_TIMEOUT=BRIEF) as here:
        silent, stammering = here.connect(), here.say(here.greeting()[:-1])
        here.enter()
        assert (await here.shim()).name == "github"
        why = "it sent no greeting within 0.05 s"
        assert [await here.refusals.get(), await here.refusals.get()] == [why, why]
        assert await ended(silent) and await ended(stammering)


@bounded
async def test_a_line_without_an_end_is_read_up_to_a_limit() -> None:
    async with hall() as here:
        client = here.say(b"x" * MAX_GREETING_BYTES)
        assert await here.refusals.get() == "its first line is longer than 4096 bytes"
        assert await ended(client)


@bounded
async def test_another_user_is_refused_before_saying_anything() -> None:
    me = os.geteuid()
    async with hall(peer_uid=lambda _: me + 1) as here:
        client = here.connect()
        assert await here.refusals.get() == f"it came from user {me + 1}, not from user {me}"
        assert await ended(client)


@bounded
async def test_where_the_kernel_does_not_say_who_it_is_the_token_decides() -> None:
    async with hall(peer_uid=lambda _: None) as here:
        here.enter()
        assert (await here.shim()).name == "github"


# Many at once


@bounded
async def test_two_hundred_shims_at_once_are_all_let_in() -> None:
    async with hall() as here:
        for _ in range(200):
            here.enter()
        for _ in range(200):
            await here.shim()
        assert here.refusals.empty()


@bounded
async def test_without_a_descriptor_left_they_wait_until_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ACCEPT_PAUSE", BRIEF)
    async with hall() as here:
        client = here.connect()
        free = os.dup(client.fileno())
        os.close(free)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
        try:
            assert await here.refusals.get() == "it must wait: Too many open files"
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        client.sendall(here.greeting())
        here.goes_on(client)
        assert (await here.shim()).name == "github"


# Leaving


@bounded
async def test_leaving_closes_the_door_and_who_has_not_greeted_yet() -> None:
    made = Hall()
    async with listen_for_shims(NAMES, made.shims.put_nowait, made.refusals.put_nowait) as made.at:
        waiting = [made.connect() for _ in range(3)]
        made.enter()
        await made.shim()  # so the others have been met
    assert [await ended(client) for client in waiting] == [True] * 3
    assert made.refusals.empty()
    made.close()


@bounded
async def test_a_launch_that_fails_leaves_nothing(a_place_of_its_own: Path) -> None:
    with pytest.raises(LaunchError, match=r"^no$"):
        async with hall() as here:
            assert here.at.path.parent.parent == a_place_of_its_own
            raise LaunchError("no")


@bounded
async def test_a_directory_that_was_removed_is_not_an_error() -> None:
    async with hall(POLL_SECONDS=PATIENCE) as here:
        here.at.path.unlink()
        here.at.path.parent.rmdir()


@bounded
async def test_a_shim_that_cannot_be_taken_is_closed() -> None:
    """Our own bug, and the loop is told of it; the connection is not left open."""
    told = asyncio.Event()
    asyncio.get_running_loop().set_exception_handler(lambda *_: told.set())

    def on_shim(shim: ShimConnection) -> None:
        raise AssertionError("a bug")

    made = Hall()
    async with listen_for_shims(NAMES, on_shim, made.refusals.put_nowait) as made.at:
        client = made.enter()
        await told.wait()
        assert await ended(client)
    made.close()


@bounded
async def test_tokens_are_long_and_no_two_are_alike_and_none_is_shown() -> None:
    async with hall() as here, hall() as there:
        assert len(here.at.token) == len(there.at.token) == 48
        assert here.at.token != there.at.token
        assert here.at.path != there.at.path
        assert repr(here.at) == f"ShimListener({here.at.path})"
        here.enter()
        assert repr(await here.shim()) == "ShimConnection(github)"


# The directory


@pytest.fixture(params=[0o000, 0o022, 0o777], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(path: Path) -> tuple[int, int]:
    return stat.S_IMODE(path.parent.stat().st_mode), stat.S_IMODE(path.stat().st_mode)


def seated(state: Path | None = None) -> AbstractAsyncContextManager[ShimListener]:
    return listen_for_shims(NAMES, ShimConnection.close, lambda _: None, state=state)


@bounded
async def test_whatever_the_umask_only_our_user_can_connect(umask: None) -> None:
    async with hall() as here:
        assert modes(here.at.path) == (0o700, 0o600)
        here.enter()
        await here.shim()


@pytest.fixture
def runtime(short: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = short / "run"
    directory.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(directory))
    return directory


@pytest.mark.parametrize("outlives_login", [False, True])
@bounded
async def test_it_goes_into_the_state_directory_if_it_outlives_a_login_else_into_the_runtime_directory(
    short: Path, runtime: Path, outlives_login: bool
) -> None:
    state = short / "state"
    home, start = (state / "sockets", "") if outlives_login else (runtime / "acp-launch", f"{os.getpid()}-")
    async with seated(state if outlives_login else None) as at:
        assert (at.path.parent.parent, at.path.parent.name.startswith(start)) == (home, True)
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        assert modes(at.path) == (0o700, 0o600)
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("why", ["its name is too long", "it takes no socket", "it cannot be made"])
def test_a_state_directory_that_is_of_no_use_is_passed_over(
    short: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    state = short / ("x" * 90 if "long" in why else "state")
    if "made" in why:
        state.write_text("")
    if "socket" in why:
        monkeypatch.setattr(private, "SOCKET", "no/seat")
    with private.directory(state) as made:
        assert made.parent == runtime / "acp-launch"
    assert not list(state.glob("sockets/*"))


def test_what_a_killed_launch_left_in_the_state_directory_is_taken_away_later(short: Path) -> None:
    """The directory may be shared by machines, and a socket of another one cannot be told from a deserted one."""
    home = short / "state" / "sockets"
    home.mkdir(0o700, parents=True)
    left = [home / f"999999999-{made_up}" for made_up in ("abc12345", "def12345")]
    for directory in left:
        directory.mkdir(0o700)
        with socket.socket(socket.AF_UNIX) as deaf:
            deaf.bind(str(directory / private.SOCKET))
    os.utime(left[0], (0, 0))
    with private.directory(short / "state") as ours:
        assert {*home.iterdir()} == {left[1], ours}


@pytest.mark.parametrize("depth", [0, 1, 2])
@bounded
async def test_what_is_removed_of_its_path_is_made_again_and_a_shim_waits_for_it(runtime: Path, depth: int) -> None:
    async with hall(POLL_SECONDS=BRIEF) as here:
        place = here.at.path.parent
        shutil.rmtree((place, *place.parents)[depth])
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", shim_program.__file__, str(here.at.path), "github"),
            env={"ACP_LAUNCH_SEAT": here.at.token},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert (await here.shim()).lent
        assert modes(here.at.path) == (0o700, 0o600)
        here.close()
        await process.wait()


def test_what_another_user_could_exchange_is_not_made_again(
    a_place_of_its_own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with private.directory() as made:
        made.rmdir()
        me = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: me + 1)
        with pytest.raises(PermissionError):
            private.restore(made)
        monkeypatch.undo()
        made.chmod(0o755)
        with pytest.raises(PermissionError):
            private.restore(made)
        made.chmod(0o700)
        private.restore(made)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda runtime: runtime.chmod(0o750), id="it is open to others"),
        pytest.param(lambda runtime: (runtime / "acp-launch").mkdir(0o755), id="ours is"),
        pytest.param(lambda runtime: (runtime / "acp-launch").symlink_to("/tmp"), id="ours is a link"),
        pytest.param(lambda runtime: (runtime / "acp-launch").write_text(""), id="ours is a file"),
        pytest.param(lambda runtime: runtime.rmdir(), id="it is gone"),
    ],
)
@bounded
async def test_one_that_is_not_private_is_not_used(
    runtime: Path, a_place_of_its_own: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(runtime)
    async with seated() as at:
        assert at.path.parent.parent == a_place_of_its_own


def test_a_directory_of_another_user_is_not_used(
    runtime: Path, a_place_of_its_own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    with private.directory() as made:
        assert made.parent == a_place_of_its_own


def test_a_relative_one_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, a_place_of_its_own: Path) -> None:
    (tmp_path / "run").mkdir(mode=0o700)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "run")
    with private.directory() as made:
        assert made.parent == a_place_of_its_own


@pytest.mark.parametrize("excess", [0, 1])
@bounded
async def test_a_name_is_too_long_exactly_when_the_kernel_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, excess: int
) -> None:
    rest = len(os.fsencode(f"/acp-launch-{os.getpid()}-12345678/{private.SOCKET}"))
    long = Path(str(tmp_path / "x").ljust(private.MAX_SOCKET_PATH_BYTES - rest + excess, "x"))
    long.mkdir()  # noqa: ASYNC240 - nothing else runs in the loop
    monkeypatch.setenv("TMPDIR", str(long))
    async with seated() as at:
        assert at.path.parent.parent == (Path("/tmp") if excess else long)


def test_a_place_that_cannot_be_written_to_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "gone"))
    with private.directory() as made:
        assert made.parent == Path("/tmp")


def test_without_any_place_it_is_said_where_it_looked(
    monkeypatch: pytest.MonkeyPatch, a_place_of_its_own: Path
) -> None:
    monkeypatch.setattr(private, "MAX_SOCKET_PATH_BYTES", 10)
    with pytest.raises(LaunchError) as raised, private.directory():
        pytest.fail("there is none")
    assert (raised.value.message, raised.value.fix, raised.value.detail) == (
        "there is no place for the socket that connects agent and servers",
        "set TMPDIR to a directory with a short name that you may write to",
        (f"{a_place_of_its_own}: its name is too long for a socket", "/tmp: its name is too long for a socket"),
    )


KILLED = """
import asyncio, sys
from acp_launch.bridge.seat import listen_for_shims

async def main():
    async with listen_for_shims({"x"}, print, print) as at:
        print(at.path, flush=True)
        await asyncio.sleep(1000)

asyncio.run(main())
"""


@pytest.mark.parametrize("is_runtime", [True, False])
def test_what_a_killed_launch_left_is_taken_away_and_what_others_use_is_not(
    runtime: Path, short: Path, monkeypatch: pytest.MonkeyPatch, is_runtime: bool
) -> None:
    home, start = runtime / "acp-launch", ""
    if not is_runtime:
        monkeypatch.delenv("XDG_RUNTIME_DIR")
        home, start = short / "tmp", "acp-launch-"
        monkeypatch.setenv("TMPDIR", str(home))
        home.mkdir()
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", KILLED], stdout=subprocess.PIPE, cwd=root, env=dict(os.environ)
    ) as launch:
        assert launch.stdout
        left = Path(launch.stdout.readline().decode().strip())
        launch.kill()
    elsewhere = home / f"{start}999999999-abc12345"  # of a container: its process id says nothing here
    fresh = home / f"{start}999999999-def12345"
    starting = home / f"{start}{os.getpid()}-ghi12345"  # of a launch that does not listen yet
    unrelated = home / f"{start}notes"
    for directory in (elsewhere, fresh, starting, unrelated):
        directory.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as deaf:
        listener.bind(str(elsewhere / private.SOCKET))
        listener.listen()
        deaf.bind(str(starting / private.SOCKET))
        assert left.parent.parent == home and left.exists()
        with private.directory() as ours, private.directory() as ours_too:
            assert set(home.iterdir()) == {elsewhere, fresh, starting, unrelated, ours, ours_too}


@pytest.mark.parametrize("left", ["a file", "a link", "a pipe", "a socket and a file", "a name of another shape"])
def test_what_is_not_what_a_killed_launch_leaves_is_not_taken_away(left: str, a_place_of_its_own: Path) -> None:
    is_ours = left != "a name of another shape"
    directory = a_place_of_its_own / f"acp-launch-999999999-{'notes123' if is_ours else 'notes'}"
    directory.mkdir(mode=0o700)
    place = directory / private.SOCKET
    with socket.socket(socket.AF_UNIX) as deaf, socket.socket(socket.AF_UNIX) as elsewhere:
        match left:
            case "a file":
                place.write_text("mine")
            case "a link":
                elsewhere.bind(str(a_place_of_its_own / "socket"))
                place.symlink_to(a_place_of_its_own / "socket")
            case "a pipe":
                os.mkfifo(place)
            case _:
                deaf.bind(str(place))
        if left == "a socket and a file":
            (directory / "notes").write_text("mine")
        before = {*directory.iterdir()}
        with private.directory():
            pass
    assert {*directory.iterdir()} == before
    shutil.rmtree(directory)
    (a_place_of_its_own / "socket").unlink(missing_ok=True)


# Who it is


def test_the_kernel_says_who_connected() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert peer_uid(ours) == os.geteuid()


class Told(socket.socket):
    """Answers as macOS does."""

    asked: tuple[int, int, int] | None = None

    def getsockopt(self, level: int, name: int, size: int = 0) -> bytes:  # type: ignore[override]
        self.asked = (level, name, size)
        if size == 0:
            raise AssertionError("a buffer is needed")
        return struct.pack("2Ih16I", 0, 501, 1, *([20] * 16))


def test_macos_says_it_in_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PLATFORM", "darwin")
    with Told(socket.AF_UNIX) as told:
        assert peer_uid(told) == 501
        assert told.asked == (0, 1, 76)  # SOL_LOCAL, LOCAL_PEERCRED, sizeof(struct xucred)


def test_who_has_gone_on_macos_and_who_is_anywhere_else_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX) as alone:
        monkeypatch.setattr(module, "PLATFORM", "darwin")
        assert peer_uid(alone) is None
        monkeypatch.setattr(module, "PLATFORM", "sunos5")
        assert peer_uid(alone) is None
