"""Many processes at one sealed file, and processes that die or have no room: nothing is ever lost, or half."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_launch.secret.sealedfile import SealedFile, open_file
from acp_launch.secret.value import Secret
from acp_launch.settings.model import FileSettings
from tests.patience import PATIENCE


def store(config: Path, key_file: str | None = None) -> SealedFile:
    """As the processes below have it."""
    return open_file(
        FileSettings(key_file=key_file), config, {"ACP_LAUNCH_PASSPHRASE": "correct horse"}, lambda prompt: None
    )


def text(store: SealedFile, name: str) -> str:
    secret = store.read([name])[name].secret
    assert secret is not None
    return secret.expose()


def files(config: Path) -> set[str]:
    return {entry.name for entry in config.iterdir()}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "config"


SCRIPT = """
import sys
from pathlib import Path
from acp_launch.secret.value import StoreFault
from acp_launch.secret.sealedfile import open_file
from acp_launch.secret.value import Secret
from acp_launch.settings.model import FileSettings
config, key_file, *rest = sys.argv[1:]
environ = {"ACP_LAUNCH_PASSPHRASE": "correct horse"}
store = open_file(FileSettings(key_file=key_file or None), Path(config), environ, input)
"""


def process(code: str, *arguments: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", SCRIPT + code, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.fixture
def processes() -> Iterator[list["subprocess.Popen[str]"]]:
    """Ended after the test, whatever happens."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for each in started:
        each.kill()
        each.communicate()


WRITE_THREE = """
print("ready", flush=True)
sys.stdin.readline()
for number in range(3):
    store.write(f"{rest[0]}-{number}", Secret(f"value of {rest[0]}-{number}"))
"""


@pytest.mark.whole
@pytest.mark.sample(1)
@pytest.mark.parametrize("key_file", ["", "key"], ids=["passphrase", "key file"])
def test_ten_processes_that_write_at_once_lose_nothing(
    config: Path, key_file: str, processes: list["subprocess.Popen[str]"]
) -> None:
    """The file and the key file do not exist yet: who is first makes them."""
    processes += [process(WRITE_THREE, config, key_file, number) for number in range(10)]
    for each in processes:
        assert each.stdout is not None and each.stdout.readline() == "ready\n"
    assert [each.communicate("go\n", PATIENCE)[0] for each in processes] == [""] * 10
    there = store(config, key_file or None)
    names = [f"{process}-{number}" for process in range(10) for number in range(3)]
    assert {name: text(there, name) for name in names} == {name: f"value of {name}" for name in names}
    assert files(config) == {"secrets.sealed", "secrets.sealed.lock", *([key_file] if key_file else [])}


WRITE_FOR_EVER = """
number = 0
while True:
    store.write("github", Secret(f"gho_{number}" * 5000))
    print(number, flush=True)
    number += 1
"""


def test_who_reads_while_another_writes_sees_the_old_or_the_new(
    config: Path, processes: list["subprocess.Popen[str]"]
) -> None:
    processes.append(writer := process(WRITE_FOR_EVER, config, "key"))
    assert writer.stdout is not None
    there = store(config, "key")
    seen = set()
    for _ in range(20):
        writer.stdout.readline()  # it has written once more
        seen |= {text(there, "github") for _ in range(15)}
    assert all(value == value[: len(value) // 5000] * 5000 for value in seen)
    assert len(seen) > 1


def test_a_writer_that_is_killed_leaves_a_whole_file_and_no_lock(
    config: Path, processes: list["subprocess.Popen[str]"]
) -> None:
    for round_ in range(5):
        processes.append(writer := process(WRITE_FOR_EVER, config, "key"))
        assert writer.stdout is not None
        for _ in range(round_ + 1):
            writer.stdout.readline()
        writer.kill()
        writer.wait(PATIENCE)
        there = store(config, "key")
        there.write("mine", Secret(str(round_)))
        assert text(there, "mine") == str(round_)
        assert text(there, "github").startswith("gho_")


WITHOUT_ROOM = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (int(rest[0]), resource.RLIM_INFINITY))
try:
    store.write("big", Secret("v" * 60_000))
except StoreFault as fault:
    print(fault.state, fault.reason, fault.fix, sep="\\n")
"""


def test_without_room_the_old_file_stays_and_nothing_is_left_beside_it(config: Path) -> None:
    store(config).write("github", Secret("gho_1"))
    path = config / "secrets.sealed"
    before = path.read_bytes()
    said, _ = process(WITHOUT_ROOM, config, "", 1000).communicate(timeout=PATIENCE)
    assert said.splitlines() == [
        "unavailable",
        f"cannot write {path}: file too large",
        f"check the owner, the mode and the free space of {config}",
    ]
    assert path.read_bytes() == before
    assert files(config) == {"secrets.sealed", "secrets.sealed.lock"}


def test_without_room_no_half_key_file_is_left(config: Path) -> None:
    said, _ = process(WITHOUT_ROOM, config, "key", 10).communicate(timeout=PATIENCE)
    assert said.splitlines()[1] == f"cannot create {config}/key: file too large"
    assert files(config) == {"secrets.sealed.lock"}
