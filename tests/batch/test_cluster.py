"""The Dask engine: attempts on workers of a cluster, and what is left when a part of it dies."""

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from acp_launch.batch import cluster
from acp_launch.batch.cluster import DaskEngine, read_address
from acp_launch.batch.model import Account, Batch, Isolation, Item, Limits
from acp_launch.batch.store import BatchDirectory, encode, open_batch
from acp_launch.errors import UsageError
from tests.looped import looped
from tests.patience import PATIENCE

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
        ("dask:tcp://127.0.0.1:8786", "tcp://127.0.0.1:8786"),
        ("dask:localhost:8786", "tcp://localhost:8786"),
        ("dask:ws://[::1]:8786", "ws://[::1]:8786"),
    ],
)
def test_a_scheduler_has_tls_or_is_on_loopback(engine: str, address: str) -> None:
    assert read_address(engine, may_be_insecure=False) == address


@pytest.mark.parametrize(
    "address", ["tcp://10.0.0.5:8786", "ws://node7:8786", "node7:8786", "127.0.0.1.evil.example:1"]
)
def test_a_scheduler_without_tls_elsewhere_needs_a_word_in_the_settings(address: str) -> None:
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
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    with pytest.raises(UsageError) as raised:
        read_address("dask", may_be_insecure=False)
    assert raised.value.fix == "pip install 'acp-launch[dask]'"


def test_dask_is_imported_only_when_it_is_used() -> None:
    told = "import sys, acp_launch.batch.cluster; print({'dask', 'distributed'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", told], text=True) == "set()\n"


# Clusters of the user.

dask = pytest.mark.skipif(cluster.find_spec("distributed") is None, reason="distributed is not installed")


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

    def __init__(self, home: Path, stack: ExitStack, scheme: str = "tls") -> None:
        self.home, self._stack = home, stack
        self.keys = keys_of(home)
        self.environ = os.environ | PRELOAD | {as_variable(name): value for name, value in self.keys.items()}
        self.environ |= {"ACP_LAUNCH_SECRET_X": SECRET, "TMPDIR": str(home)}
        self.workers: list[subprocess.Popen[bytes]] = []
        words = ("--host", f"{scheme}://127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0")
        self.scheduler = self._start("scheduler", *words)
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

    def told(self, name: str, pattern: str) -> str:
        """Wait until a log says something; return it."""
        found = seen(lambda: re.search(pattern, (self.home / f"{name}.log").read_text()))
        return str(found.group(found.re.groups))


def end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        everything = [child, *psutil.Process(child.pid).children(recursive=True)]
        for each in reversed(everything):
            try:
                each.kill()
            except psutil.NoSuchProcess:
                continue
        child.wait()


def seen(look: Callable[[], Any]) -> Any:
    """Wait until something is true."""
    deadline = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)
    return found


async def came(look: Callable[[], Any]) -> Any:
    return await asyncio.to_thread(seen, look)


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


@pytest.fixture
def batch(tmp_path: Path) -> BatchDirectory:
    return make_batch(tmp_path / "batch", 8)


def make_batch(directory: Path, number: int, accounts: Mapping[str, Account] | None = None) -> BatchDirectory:
    names = [f"t{index}.p" for index in range(number)]
    items = (Item(id=id, index=index, task="t", profile="p", prompt=PROMPT, repo="/") for index, id in enumerate(names))
    given: dict[str, Any] = dict.fromkeys(("name", "created", "acp_launch", "file", "directory"), "")
    given |= dict.fromkeys(("check", "approve", "retry")) | {"profiles": {}, "isolation": Isolation()}
    directory.mkdir()
    (directory / "batch.json").write_bytes(
        encode(Batch(items=tuple(items), limits=Limits(accounts=accounts or {}), **given))
    )
    return open_batch(directory)


@contextmanager
def keys(user: Dask) -> Iterator[None]:
    """Tell Dask in this process of the user's keys."""
    from dask import config

    with config.set(user.keys):
        yield


def lines_of(batch: BatchDirectory, name: str = "starts") -> list[list[str]]:
    file = batch.path / name
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def start(
    engine: DaskEngine, batch: BatchDirectory, number: int, account: str | None = None
) -> list[asyncio.Task[int]]:
    return [asyncio.create_task(engine.submit(item.id, 1, account)) for item in batch.batch.items[:number]]


@dask
@pytest.mark.slow
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
