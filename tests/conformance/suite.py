"""The published suite as a process: which scenarios a server passes, by name."""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.cli.launcher import ROOT
from tests.realservers.published import suite

# Each way to run it: the package, and the version of MCP it speaks; None if it is for the package to say.
WAYS: Mapping[str, tuple[str, str | None]] = {
    "0.1.16": ("legacy", None),
    "0.2 at 2025-11-25": ("modern", "2025-11-25"),
}
LIMIT = 240.0  # seconds for all scenarios of a way
LINE = re.compile(r"^[✓✗] (?P<name>\S+): (?P<passed>\d+) passed, (?P<failed>\d+) failed", re.MULTILINE)


@dataclass(frozen=True)
class Score:
    passed: int
    failed: int
    said: str = ""  # what the suite wrote of it

    @property
    def is_good(self) -> bool:
        """Also if all of it was only worth a remark, as resuming a stream is before 2025-11-25."""
        return self.failed == 0


def against(url: str, way: str) -> dict[str, Score]:
    """Run all server scenarios of this way against a server."""
    era, version = WAYS[way]
    options = ["server", "--url", url, "--suite", "all", *(["--spec-version", version] if version else [])]
    with TemporaryDirectory() as cwd:
        done = subprocess.run(
            [*suite(era), *options], cwd=cwd, capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL
        )
    return scores(done.stdout + done.stderr)


def scores(text: str) -> dict[str, Score]:
    """The summary, with what was said while each scenario ran."""
    spoken = dict(re.findall(r"=== Running scenario: (\S+) ===\n(.*?)(?==== )", text, re.DOTALL))
    found = {
        match["name"]: Score(int(match["passed"]), int(match["failed"]), spoken.get(match["name"], "")[-3000:])
        for match in LINE.finditer(text)
    }
    assert found, f"the suite ran nothing:\n{text[-2000:]}"
    return found


def lost(alone: Mapping[str, Score], through: Mapping[str, Score], *apart: str) -> dict[str, str]:
    """The scenarios that the server passes alone, and not so, or only in part, which is enough for those `apart`."""
    return {
        name: through[name].said if name in through else "it did not run"
        for name, score in alone.items()
        if score.is_good and not _is_kept(score, through.get(name), name in apart)
    }


def _is_kept(score: Score, other: Score | None, is_apart: bool) -> bool:
    return other is not None and other.is_good and (is_apart or other.passed >= score.passed)


def all_against(urls: Sequence[str], way: str) -> list[dict[str, Score]]:
    """Two at a time."""
    with ThreadPoolExecutor(2) as two:
        return list(two.map(lambda url: against(url, way), urls))


@dataclass(frozen=True)
class Fixture:
    port: int
    socket: Path

    @property
    def url(self) -> str:
        """By name: the suite tells servers on `localhost` apart."""
        return f"http://localhost:{self.port}/mcp"

    @property
    def argv(self) -> list[str]:
        """The same server over stdio."""
        return [sys.executable, "-I", "-S", str(ROOT / "tests/servers/connector.py"), str(self.socket)]


@contextmanager
def listening(module: str, *arguments: str, stderr: int | None = None) -> Iterator[str]:
    """A program of ours that lives until its stdin ends; its first line, which says where it listens."""
    argv = [sys.executable, "-m", module, *arguments]
    process = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().decode().strip()
    finally:
        process.stdin.close()
        try:
            process.wait(10)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


@contextmanager
def fixture() -> Iterator[Fixture]:
    """Our server with all the suite asks for, running."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "s"
        with listening("tests.conformance.fixture", str(path), stderr=subprocess.DEVNULL) as port:
            yield Fixture(int(port), path)
