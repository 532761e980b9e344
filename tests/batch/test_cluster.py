"""The Dask engine: attempts on workers of a cluster, and what is left when a part of it dies."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, closing, contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from acp_launch import __version__
from acp_launch.batch import cluster
from acp_launch.batch import engine as engine_module
from acp_launch.batch.cluster import DaskEngine
from acp_launch.batch.engine import EngineGone, read_address
from acp_launch.batch.model import Account, Item, Limits
from acp_launch.batch.store import BatchDirectory
from acp_launch.errors import MachineError, UsageError
from acp_launch.plan.installation import add_extra
from tests.batch import standin
from tests.batch.made import make_directory
from tests.looped import looped
from tests.patience import PATIENCE, until

ROOT = Path(__file__).parents[2]
SECRET, PROMPT = "planted-secret-5d2f", "planted-prompt-77c1"
PRELOAD = {"DASK_DISTRIBUTED__WORKER__PRELOAD": '["tests.batch.standin"]', "PYTHONPATH": str(ROOT)}


# What `--engine` says.


@pytest.mark.parametrize(
    ("engine", "address"),
    [
        ("dask", ""),
        ("dask:tls://node7.example:8786", "tls://node7.example:8786"),
        ("dask:wss://node7.example:8786", "wss://node7.example:8786"),
        ("dask:tls://[::1]:8786", "tls://[::1]:8786"),
    ],
)
def test_a_scheduler_has_tls(engine: str, address: str) -> None:
    assert read_address(engine, may_be_insecure=False) == address


@pytest.mark.parametrize("address", ["tcp://10.0.0.5:8786", "node7:8786", "ws://[::1]:8786", "tcp://127.0.0.1:8786"])
def test_a_scheduler_without_tls_needs_a_word_in_the_settings_also_on_loopback(address: str) -> None:
    with pytest.raises(UsageError) as raised:
        read_address(f"dask:{address}", may_be_insecure=False)
    assert (
        raised.value.message
        == f"--engine: {address} has no TLS: all that can reach it could run commands on its workers"
    )
    assert raised.value.fix.startswith(
        "give tls://HOST:PORT, or allow it in your settings: acp-launch config set batch."
    )
    assert read_address(f"dask:{address}", may_be_insecure=True).endswith(address)


@pytest.mark.parametrize(
    "engine", ["ray", "dask:", "dask:tls://host", "dask:http://host:1", "dask:tls://u:p@host:1", "dask:tls://host:1/x"]
)
def test_another_engine_is_not_known(engine: str) -> None:
    with pytest.raises(UsageError) as raised:
        read_address(engine, may_be_insecure=True)
    assert raised.value.message == f'--engine: unknown engine "{engine}"'
    assert raised.value.fix == "give dask, or dask:tls://HOST:PORT"


def test_an_extra_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "find_spec", lambda name: None)
    with pytest.raises(UsageError) as raised:
        read_address("dask", may_be_insecure=False)
    assert raised.value.fix == add_extra("dask")


def test_dask_is_imported_only_when_it_is_used() -> None:
    told = "import sys, acp_launch.batch.submit; print({'dask', 'distributed'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", told], text=True) == "set()\n"


# Clusters of the user.

dask = pytest.mark.skipif(find_spec("distributed") is None, reason="distributed is not installed")


def keys_of(directory: Path) -> dict[str, str]:
    """Write keys for TLS into a directory; return Dask's settings for them."""
    from distributed.security import Security

    security = Security.temporary()
    certificate, key = directory / "cert.pem", directory / "key.pem"
    certificate.write_text(security.tls_ca_file)
    key.write_text(security.tls_client_key)
    found = {"ca-file": certificate}
    for role in ("scheduler", "worker", "client"):
        found |= {f"{role}.cert": certificate, f"{role}.key": key}
    return {f"distributed.comm.tls.{name}": str(path) for name, path in found.items()}


def as_variable(setting: str) -> str:
    return "DASK_" + setting.upper().replace(".", "__").replace("-", "_")


class Dask:
    """A scheduler of the user, with workers that have two slots each. Their output is in a directory."""

    def __init__(self, home: Path, stack: ExitStack, scheme: str = "tls", temper: str = "") -> None:
        self.home, self._stack = home, stack
        self.keys = keys_of(home)
        self.environ = os.environ | PRELOAD | {as_variable(name): value for name, value in self.keys.items()}
        self.mark = home / "mark"
        self.environ |= {"ACP_LAUNCH_SECRET_X": SECRET, "TMPDIR": str(home), "STANDIN_MARK": str(self.mark)}
        self.workers: list[subprocess.Popen[bytes]] = []
        words = ("--host", f"{scheme}://127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0")
        preload = ("--preload", "tests.batch.standin") if temper else ()
        self.scheduler = self._start("scheduler", *words, *preload, STANDIN_TEMPER=temper)
        self.address = self.told("scheduler", rf"Scheduler at: +({scheme}://\S+)")

    def add_worker(self, temper: str = "", *words: str) -> str:
        """Start a worker; return its address."""
        name = f"worker{len(self.workers)}"
        words = (self.address, "--nthreads", "2", "--host", "127.0.0.1", *words)
        self.workers.append(self._start(name, *words, STANDIN_TEMPER=temper))
        self.told(name, "Starting established connection|Registered to")
        return self.told(name, r"Start worker at: +(\S+)")

    def _start(self, name: str, *words: str, **environ: str) -> subprocess.Popen[bytes]:
        program = f"distributed.cli.dask_{name.rstrip('0123456789')}"
        with (self.home / f"{name}.log").open("wb") as log:
            child = subprocess.Popen(
                [sys.executable, "-m", program, *words],
                env=self.environ | environ,
                stdout=log,
                stderr=log,
                cwd=self.home,
            )
        self._stack.callback(end, child)
        return child

    def marks(self) -> list[str]:
        """The processes that have unpickled an object of a hostile worker or scheduler."""
        return self.mark.read_text().split() if self.mark.exists() else []

    def told(self, name: str, pattern: str) -> str:
        """Wait until a log says something; return it."""
        found = until(lambda: re.search(pattern, (self.home / f"{name}.log").read_text(), re.DOTALL))
        return str(found.group(found.re.groups))


def end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        top = psutil.Process(child.pid)
        everything = [top, *top.children(recursive=True)]
        for each in reversed(everything):
            try:
                each.kill()
            except psutil.NoSuchProcess:
                continue
        child.wait()


async def came(look: Callable[[], Any]) -> Any:
    return await asyncio.to_thread(until, look)


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dask]:
    """A scheduler with two workers."""
    with ExitStack() as stack:
        user = Dask(tmp_path_factory.mktemp("dask"), stack)
        user.add_worker()
        user.add_worker()
        yield user


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Dask]:
    """A scheduler that a test may kill, with one worker."""
    home = tmp_path / "dask"
    home.mkdir()
    with ExitStack() as stack:
        user = Dask(home, stack)
        user.add_worker()
        yield user


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dask]:
    """One without workers."""
    with ExitStack() as stack:
        yield Dask(tmp_path_factory.mktemp("dask"), stack)


def end_last(user: Dask, ended: int) -> None:
    """End the worker that came last, the so many-th of these."""
    end(user.workers[-1])
    user.told("scheduler", f"(?:Remove worker addr.*){{{ended}}}")


@pytest.fixture
def hostile(scheduler: Dask) -> Iterator[Dask]:
    """A scheduler of which a worker is hostile, which ends with the test."""
    yield scheduler
    end_last(scheduler, len(scheduler.workers))


@pytest.fixture
def joined(user: Dask) -> Iterator[Dask]:
    """The scheduler with two workers, which a third one joins until the end of the test."""
    yield user
    end_last(user, len(user.workers) - 2)


@pytest.fixture
def batch(tmp_path: Path) -> BatchDirectory:
    return make_batch(tmp_path / "batch", 8)


def make_batch(directory: Path, number: int, accounts: Mapping[str, Account] | None = None) -> BatchDirectory:
    ids = [f"t{index}.p" for index in range(number)]
    items = [Item(id=id, index=index, task="t", profile="p", prompt=PROMPT, repo="/") for index, id in enumerate(ids)]
    return make_directory(directory, ids, Limits(accounts=accounts or {}), items=tuple(items))


@contextmanager
def configure(settings: Mapping[str, object]) -> Iterator[None]:
    """Change settings of Dask in this process."""
    import distributed  # noqa: F401 - its defaults, which would be lost otherwise
    from dask import config

    with config.set(settings):
        yield


def keys(user: Dask) -> AbstractContextManager[None]:
    """Tell Dask in this process of the user's keys."""
    return configure(user.keys)


def lines_of(batch: BatchDirectory, name: str = "starts", at_least: int = 0) -> list[list[str]]:
    """The lines of a file that items write; none if there are fewer."""
    file = batch.path / name
    lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
    return lines if len(lines) >= at_least else []


def start(
    engine: DaskEngine, batch: BatchDirectory, number: int, account: str | None = None
) -> list[asyncio.Task[int]]:
    return [asyncio.create_task(engine.submit(item.id, 1, account)) for item in batch.batch.items[:number]]


@dask
@looped
async def test_every_attempt_is_carried_out_once_by_two_submitters(user: Dask, batch: BatchDirectory) -> None:
    (batch.path / "go").touch()
    with keys(user):
        async with DaskEngine(batch, user.address, 4) as one, DaskEngine(batch, user.address, 4) as other:
            codes = await asyncio.gather(*start(one, batch, 8), *start(other, batch, 8))
    assert codes == [0] * 16
    assert sorted(line[:2] for line in lines_of(batch)) == [[item.id, "1"] for item in batch.batch.items]
    assert sorted(file.name for file in batch.path.iterdir()) == ["batch.json", "ends", "go", "items", "starts"]
    assert {file.name for file in batch.directory_of("t0.p").iterdir()} == {"1", "1.log", "lock"}


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """In an account without room an attempt gives its slot to others soon."""
    monkeypatch.setattr(cluster, "SLOT_SECONDS", 0.2)


@dask
@looped
async def test_what_runs_and_what_waits_for_a_slot_is_cancelled(user: Dask, batch: BatchDirectory) -> None:
    with keys(user):
        async with DaskEngine(batch, user.address, 8) as engine:
            tasks = start(engine, batch, 8)
            await came(lambda: len(lines_of(batch)) == 4)
            engine.cancel()
            assert await asyncio.gather(*tasks) == [130] * 8
    started = {line[0] for line in lines_of(batch)}
    assert {id: batch.read_record(id, 1).outcome for id in started} == dict.fromkeys(started, "cancelled")
    assert [item.id for item in batch.batch.items if batch.attempts(item.id)] == sorted(started)


@dask
@looped
async def test_an_item_of_a_killed_worker_begins_again_and_a_scheduler_that_dies_is_told(
    own: Dask, batch: BatchDirectory
) -> None:
    """As the same attempt; and nothing waits for what is gone."""
    with keys(own):
        async with DaskEngine(batch, own.address, 2) as engine:
            (task,) = start(engine, batch, 1)
            ((_, _, pid, worker),) = await came(lambda: lines_of(batch))
            os.kill(int(worker), signal.SIGKILL)
            await came(lambda: len(lines_of(batch)) == 2)
            await came(lambda: not psutil.pid_exists(int(pid)) or psutil.Process(int(pid)).status() == "zombie")
            (batch.path / "go-t0.p").touch()
            assert await task == 0
            assert [line[:2] for line in lines_of(batch)] == [["t0.p", "1"]] * 2
            assert {each.name for each in batch.directory_of("t0.p").iterdir()} == {"1", "1.lost-1", "1.log", "lock"}

            tasks = [asyncio.create_task(engine.submit(f"t{number}.p", 1, None)) for number in range(1, 5)]
            await came(lambda: len(lines_of(batch)) == 4)
            own.scheduler.kill()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            (batch.path / "go").touch()
            with pytest.raises(EngineGone):
                await engine.submit("t7.p", 1, None)
    resume = f"acp-launch batch run --resume {batch.path} --engine dask:{own.address}"
    assert {str(end) for end in ends} == {f"the scheduler at {own.address} is gone; start it, then {resume}"}
    assert all(isinstance(end, EngineGone) for end in ends)
    await came(lambda: len([id for id, _ in lines_of(batch, "ends") if id != "t0.p"]) == 2)
    assert not any(batch.is_running(item.id) for item in batch.batch.items)


SUBMITTER = """
import asyncio, sys
from pathlib import Path
from acp_launch.batch.cluster import DaskEngine
from acp_launch.batch.store import open_batch

async def main(directory, address, jobs):
    batch = open_batch(Path(directory))
    async with DaskEngine(batch, address, int(jobs)) as engine:
        await asyncio.gather(*(engine.submit(item.id, 1, None) for item in batch.batch.items))

if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
"""


@contextmanager
def submitter(batch: BatchDirectory, address: str, environ: Mapping[str, str]) -> Iterator[psutil.Popen]:
    """A submitter of its own, as Ctrl-C and kill reach one."""
    file = batch.path.parent / "submitter.py"
    file.write_text(SUBMITTER)
    words = [sys.executable, str(file), str(batch.path), address, "2"]
    with psutil.Popen(words, env=environ, start_new_session=True) as child:
        try:
            yield child
        finally:
            child.kill()


@dask
def test_items_of_a_killed_submitter_end_and_queued_ones_are_dropped(user: Dask, batch: BatchDirectory) -> None:
    with submitter(batch, user.address, user.environ) as child:
        running = until(lambda: len(lines_of(batch)) == 4 and lines_of(batch))
        child.kill()
    (batch.path / "go").touch()
    until(lambda: len(lines_of(batch, "ends")) == 4)
    for id, *_ in running:
        with batch.lock(id):
            assert batch.read_record(id, 1).outcome == "passed"
    assert lines_of(batch) == running


@dask
def test_nothing_is_left_of_a_cluster_of_this_machine_whose_submitter_is_killed(batch: BatchDirectory) -> None:
    with submitter(batch, "", os.environ | PRELOAD) as child:
        until(lambda: len(lines_of(batch)) == 2)
        family = child.children(recursive=True)
        assert {int(line[2]) for line in lines_of(batch)} == {each.pid for each in family}
        child.kill()
    _, alive = psutil.wait_procs(family, PATIENCE)
    assert alive == []


def list_listening() -> set[Any]:
    """The addresses on which this process and those below it listen."""
    found = set[Any]()
    for one in (psutil.Process(), *psutil.Process().children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # one of another test that ends
            found |= {each.laddr for each in one.net_connections("tcp") if each.status == "LISTEN"}
    return found


@dask
@looped
async def test_a_cluster_of_this_machine_is_reached_by_no_other_process(
    batch: BatchDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dask listens for its pages, of which it has none; the rest is memory. No user's keys and settings change that."""
    monkeypatch.setattr(engine_module, "COMMAND", (sys.executable, standin.__file__))
    environ = dict(os.environ)
    (batch.path / "go-t0.p").touch()
    before = list_listening()  # of other tests
    settings = {"require-encryption": True, "tls.ca-file": "/missing", "tls.client.cert": "/missing"}
    with configure({f"distributed.comm.{name}": value for name, value in settings.items()}):
        async with DaskEngine(batch, "", 2) as engine:
            assert await engine.submit("t0.p", 1, None) == 0
            listening = list_listening() - before
            assert {address.ip for address in listening} == {"127.0.0.1"}
            pages = [f"http://127.0.0.1:{address.port}/info/main/workers.html" for address in listening]
            assert {await asyncio.to_thread(fetch, page) for page in pages} == {"404"}
            tasks = start(engine, batch, 3)[1:]
            await came(lambda: len(lines_of(batch)) == 3)
            engine.end_now()
            assert await asyncio.gather(*tasks) == [130, 130]
    assert dict(os.environ) == environ


@dask
@pytest.mark.parametrize("submitters", [1, 2])
@looped
async def test_an_account_has_room_for_its_jobs_on_all_workers(
    user: Dask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patient: None, submitters: int
) -> None:
    """Of one submitter in a cluster of this machine, and of two in the user's."""
    monkeypatch.setattr(engine_module, "COMMAND", (sys.executable, standin.__file__))
    batch = make_batch(tmp_path / "batch", 3, {"a": Account(profiles=("p",), jobs=1)})
    with keys(user):
        async with AsyncExitStack() as stack:
            engines = [DaskEngine(batch, user.address if submitters == 2 else "", 3) for _ in range(submitters)]
            tasks = list[asyncio.Task[int]]()
            for engine in engines:
                tasks += start(await stack.enter_async_context(engine), batch, 3, "a")
            for number in range(1, 4):
                running = await came(partial(lines_of, batch, at_least=number))
                assert len(running) == number
                (batch.path / f"go-{running[-1][0]}").touch()
                await came(partial(lines_of, batch, "ends", number))
            assert await asyncio.gather(*tasks) == [0] * 3 * submitters


@dask
@pytest.mark.parametrize("trust", [True, False])
@looped
async def test_trust_is_given_to_each_item_and_not_read_from_the_directory(
    batch: BatchDirectory, monkeypatch: pytest.MonkeyPatch, trust: bool
) -> None:
    """An agent may be able to write there."""
    monkeypatch.setattr(engine_module, "COMMAND", (sys.executable, standin.__file__))
    (batch.path / "go").touch()
    async with DaskEngine(batch, "", 1, trust=trust) as engine:
        (note,) = batch.path.glob(".acp-launch-*")
        assert note.read_text() == __version__
        assert await engine.submit("t0.p", 1, None) == 0
    assert (batch.path / "given--trust").exists() == trust


HOSTILE_MODULE = "import os; os.mkdir(os.environ['HOSTILE_MARK'])"
MODULES = ("multiprocessing", "distributed", "dask", "tlz", "yaml", "msgpack", "tornado", "psutil", "ssl", "_ctypes")


@dask
@pytest.mark.parametrize("start", [("-m", "acp_launch"), (str(Path(sys.executable).with_name("acp-launch")),)])
def test_a_cluster_of_this_machine_imports_nothing_of_the_current_directory_and_of_other_users(
    tmp_path: Path, start: tuple[str, ...]
) -> None:
    """A clone may have any module, and each user of the machine may make `dask-scratch-space` first."""
    clone, shared, mark = tmp_path / "clone", tmp_path / "shared", tmp_path / "mark"
    for place in (clone, shared / "dask-scratch-space"):
        place.mkdir(parents=True)
        for name in MODULES:
            (place / f"{name}.py").write_text(HOSTILE_MODULE)
    (clone / "dask.yaml").write_text("distributed: {scheduler: {preload: [yaml]}}")
    (clone / "batch.yaml").write_text('version: 1\nprofiles: [demo]\ntasks: [{id: a, prompt: "add 2 3"}]\n')
    private = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path / "none"), "TMPDIR": str(shared)}
    environ = os.environ | private | {"HOSTILE_MARK": str(mark), "DASK_TEMPORARY_DIRECTORY": str(shared)}
    words = ("batch", "run", "batch.yaml", "--engine", "dask", "--out", str(tmp_path / "out"))
    run = subprocess.run([sys.executable, *start, *words], cwd=clone, env=environ, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert not mark.exists()
    assert [file.name for file in shared.iterdir()] == ["dask-scratch-space"]
    assert len(list((shared / "dask-scratch-space").iterdir())) == len(MODULES)


def fetch(page: str) -> str:
    """Fetch a page; return its text, its status if that says no, or nothing if it does not speak HTTP."""
    try:
        answer = httpx2.get(page, timeout=PATIENCE)
    except httpx2.HTTPError:
        return ""
    return answer.text if answer.is_success else str(answer.status_code)


# Faults.


@pytest.mark.sample(0, 1)
@dask
@pytest.mark.parametrize(
    ("temper", "fault"),
    [
        ("blind", "on {host} does not see {directory}; all hosts must, at the same path"),
        ("old", "on {host} has acp-launch 0.0.1; the submitter has {version}"),
        ("bare", "cannot import acp-launch {version}; install it there"),
    ],
)
@looped
async def test_a_worker_that_cannot_carry_out_items_is_named(
    joined: Dask, batch: BatchDirectory, temper: str, fault: str
) -> None:
    (batch.path / "go-t0.p").touch()
    told = fault.format(host=socket.gethostname(), directory=batch.path, version=__version__)
    with keys(joined):
        async with DaskEngine(batch, joined.address, 2) as engine:
            assert await engine.submit("t0.p", 1, None) == 0
            worker = joined.add_worker(temper)
            if temper != "bare":  # Dask ends such a worker, and others go on
                with pytest.raises(EngineGone) as gone:
                    await asyncio.gather(*start(engine, batch, 8))
                assert str(gone.value) == f"worker {worker} {told}"
        with pytest.raises(MachineError) as raised:
            async with DaskEngine(batch, joined.address, 2):
                pytest.fail("it was taken")
    assert str(raised.value) == f"--engine: worker {worker} {told}"
    assert not list(batch.path.glob(".acp-launch-*"))


@dask
@looped
async def test_a_scheduler_that_does_not_answer_is_named(
    batch: BatchDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "ANSWER_TIMEOUT", 0.5)
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(MachineError) as raised:
            async with DaskEngine(batch, address, 2):
                pytest.fail("it was taken")
    assert raised.value.problems[0].message == f"the scheduler at {address} does not answer"


@dask
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "Dask has no keys for tls://127.0.0.1:1"),
        ({"tls.ca-file": "/missing", "tls.client.cert": "/missing"}, "Dask cannot use its keys for TLS: "),
        ({"tls.min-version": 7}, "Dask cannot use its keys for TLS: "),
        ({"tls.ca-file": __file__, "tls.client.cert": __file__}, "Dask cannot use its keys for TLS: "),
    ],
)
@looped
async def test_keys_for_tls_that_dask_does_not_have_or_cannot_use_are_told(
    batch: BatchDirectory, settings: dict[str, object], told: str
) -> None:
    with (
        configure({f"distributed.comm.{name}": value for name, value in settings.items()}),
        pytest.raises(UsageError) as raised,
    ):
        async with DaskEngine(batch, "tls://127.0.0.1:1", 2):
            pytest.fail("it was taken")
    assert raised.value.message.startswith(f"--engine: {told}")
    assert settings or "distributed.comm.tls" in raised.value.fix


@dask
@looped
async def test_no_log_and_no_page_of_dask_has_a_secret_or_a_prompt(user: Dask, batch: BatchDirectory) -> None:
    pages = user.told("scheduler", r"dashboard at: +(http://\S+)/status")
    with keys(user):
        async with DaskEngine(batch, user.address, 4) as engine:
            tasks = start(engine, batch, 8)
            await came(lambda: len(lines_of(batch)) == 4)
            shown = [
                await asyncio.to_thread(fetch, f"{pages}/{page}")
                for page in ("info/main/workers.html", "json/counts.json", "json/identity.json", "metrics")
            ]
            engine.cancel()
            await asyncio.gather(*tasks)
            story = json.dumps(await engine._client.get_events(), default=str)
    assert PROMPT in (batch.directory_of("t0.p") / "1.log").read_text()
    logs = [file.read_text() for file in user.home.glob("*.log")]
    assert any("workers" in page.lower() for page in shown)
    for text in [*logs, *shown, story]:
        assert SECRET not in text
        assert PROMPT not in text


# Hostile schedulers and workers.


@pytest.mark.sample(0, 2)
@dask
@pytest.mark.parametrize(
    ("temper", "told"),
    [
        (
            "answers",
            "an answer from the scheduler at {address} is refused: it holds builtins.exec, which is not unpickled",
        ),
        ("raises", "the scheduler at {address} or a worker raised an error; each needs acp-launch {version}"),
        ("mistakes", "an answer from the scheduler at {address} is refused: it is not an exit code"),
    ],
)
@looped
async def test_objects_of_a_worker_are_not_unpickled_by_a_submitter(
    hostile: Dask, batch: BatchDirectory, temper: str, told: str
) -> None:
    hostile.add_worker(temper)
    with keys(hostile):
        async with DaskEngine(batch, hostile.address, 2) as engine:
            with pytest.raises(EngineGone) as gone:
                await engine.submit("t0.p", 1, None)
    assert str(gone.value) == told.format(address=hostile.address, version=__version__)
    assert str(os.getpid()) not in hostile.marks()


@dask
@looped
async def test_an_object_of_a_worker_that_is_asked_for_its_faults_is_not_unpickled(
    hostile: Dask, batch: BatchDirectory
) -> None:
    hostile.add_worker("asked")
    with keys(hostile), pytest.raises(MachineError) as raised:
        async with DaskEngine(batch, hostile.address, 2):
            pytest.fail("it was taken")
    held = "it holds builtins.exec, which is not unpickled"
    assert raised.value.problems[0].message == f"an answer from the scheduler at {hostile.address} is refused: {held}"
    assert str(os.getpid()) not in hostile.marks()


@dask
@looped
async def test_events_of_a_worker_are_neither_unpickled_nor_printed(
    hostile: Dask, batch: BatchDirectory, capfd: pytest.CaptureFixture[str]
) -> None:
    hostile.add_worker("warns")
    with keys(hostile):
        async with DaskEngine(batch, hostile.address, 2) as engine:
            assert [await engine.submit(item.id, 1, None) for item in batch.batch.items] == [0] * 8
            story = await engine._client.get_events("print")
    assert len(story) == 8
    assert str(os.getpid()) not in hostile.marks()
    assert capfd.readouterr() == ("", "")


@pytest.mark.sample(0, 1)
@dask
@pytest.mark.parametrize("temper", ["introduces", "reports"])
@looped
async def test_objects_of_a_scheduler_are_not_unpickled_by_a_submitter(
    tmp_path: Path, batch: BatchDirectory, temper: str, capfd: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "dask"
    home.mkdir()
    with ExitStack() as stack:
        hostile = Dask(home, stack, temper=temper)
        hostile.add_worker()
        (batch.path / "go").touch()
        with keys(hostile), pytest.raises((EngineGone, MachineError)) as raised:
            async with DaskEngine(batch, hostile.address, 2) as engine:
                await engine.submit("t0.p", 1, None)
        assert "is refused: it holds builtins.exec, which is not unpickled" in str(raised.value)
        assert str(os.getpid()) not in hostile.marks()
    assert capfd.readouterr() == ("", "")
