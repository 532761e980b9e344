"""What the system allows us runs out: a clear line and exit 3 before anything starts, and an answer is never lost."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.launcher import DEMO_SERVER, ROOT, Launcher
from tests.patience import PATIENCE

STRANGER = 54321  # a user id that nobody has, so that its processes can be counted
NO_MORE = ("no more processes are allowed", "no more threads are allowed")


def limited(limit: str) -> tuple[str, ...]:
    return ("sh", "-c", f'ulimit {limit}; exec "$@"', "sh")


def ends(launch: Launcher, *arguments: str, prefix: tuple[str, ...]) -> tuple[int, str, str]:
    with launch.start(*arguments, prefix=prefix) as running:
        done = running.end()
    assert "Traceback" not in done.err
    return done.code, done.out.decode(), done.err


@pytest.mark.parametrize(("servers", "descriptors", "needed"), [(1, 46, 47), (1, 47, 0), (6, 60, 71)])
def test_too_few_descriptors_are_told_before_anything_starts(
    launch: Launcher, servers: int, descriptors: int, needed: int
) -> None:
    launch.profile("mcp_client", mcp_servers={f"s{number}": DEMO_SERVER for number in range(servers)})
    code, out, err = ends(launch, "run", "p", "hi", prefix=limited(f"-n {descriptors}"))
    if needed:
        assert (code, out) == (3, "")
        assert err == (
            f"acp-launch: at most {descriptors} files can be open at a time, and this takes {needed}\n"
            "    fix: raise the limit with `ulimit -n`; above its hard limit, that takes root\n"
        )
    else:
        assert code == 0, err


def test_a_soft_limit_is_raised_and_does_not_stop_a_run(launch: Launcher) -> None:
    launch.profile("polite")
    assert ends(launch, "run", "p", "hi", prefix=limited("-Sn 12"))[0] == 0


def test_verbs_that_start_nothing_do_with_few(launch: Launcher) -> None:
    launch.profile("polite")
    for verb in ("list", "validate", "plan p", "ps", "logs", "doctor"):
        code, _, err = ends(launch, *verb.split(), prefix=limited("-n 7"))
        assert code in (0, 3), err


def test_what_is_refused_later_on_is_a_line_too() -> None:
    """Whatever lets one of these through, a bug among it, comes to the one place that knows the words."""
    code = (
        "import errno, os\n"
        "from acp_launch.cli import main\n"
        "def fail(*arguments): raise {}\n"
        "main.carry_out = fail\n"
        "raise SystemExit(main.run(['ps']))\n"
    )
    for error, said in (
        ("OSError(errno.EMFILE, os.strerror(errno.EMFILE), 'x')", "no file descriptors are left for acp-launch"),
        ('RuntimeError("can\'t start new thread")', "no more threads are allowed for acp-launch"),
        ("BlockingIOError(errno.EAGAIN, 'fork')", "no more processes are allowed for acp-launch"),
        ("ExceptionGroup('', [OSError(errno.ENFILE, 'x')])", "no file descriptors are left for acp-launch"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code.format(error)], capture_output=True, text=True, timeout=PATIENCE
        )
        assert (done.returncode, done.stdout) == (3, ""), done.stderr
        assert done.stderr.startswith(f"acp-launch: {said}\n    fix: raise the limit with `ulimit -")


def summary(events: bytes) -> tuple[set[str], str]:
    """The types and the answer, without what depends on who is first: whether two chunks are read as one, how often a
    server says something, and `waiting`.
    """
    found = [json.loads(line) for line in events.splitlines()]
    chunks = (event["update"].get("content", {}) for event in found if event["type"] == "update")
    return {event["type"] for event in found} - {"waiting"}, "".join(chunk.get("text", "") for chunk in chunks)


@pytest.mark.parametrize(("stderr", "output"), [("/dev/full", "json"), ("a reader that has gone", "text")])
def test_the_answer_comes_where_stderr_cannot_be_written(launch: Launcher, output: str, stderr: str) -> None:
    redirected = 'exec "$@" 2>/dev/full' if stderr == "/dev/full" else 'exec "$@" 2> >(:)'
    shell = shutil.which("bash")
    if shell is None:
        pytest.skip("no bash")
    launch.profile("chatty", mcp_servers={"notes": DEMO_SERVER})
    prefix = (shell, "-c", redirected, "bash")
    with launch.start("run", "p", "hi", "--verbose", "--output", output, prefix=prefix) as running:
        done = running.end()
    said = launch("run", "p", "hi", "--output", output)
    assert (done.code, done.err) == (0, "")
    assert done.out
    if output == "json":
        assert summary(done.out) == summary(said.out)
        assert "loud and clear" in summary(done.out)[1]
    else:
        assert done.out == said.out


def test_a_failure_keeps_its_code_where_stderr_cannot_be_written(launch: Launcher) -> None:
    launch.profile("polite")
    prefix = ("sh", "-c", 'exec "$@" 2>/dev/full', "sh")
    assert ends(launch, "validate", "nosuch", prefix=prefix)[0] == 2
    assert ends(launch, "run", "--agent", "false", "hi", prefix=prefix)[0] == 4


# As a user who may have so and so many processes; root may have any number. In a mount namespace of its own, where
# what lies below a directory that is closed to others (/root) can be reached.
AS_STRANGER = """
top=/$(echo "$1" | cut -d/ -f2); shift
if [ "$(stat -c %A "$top" | cut -c10)" != x ]; then
    mount --bind "$top" "$HOME/behind" && mount -t tmpfs -o mode=755 none "$top" || exit 99
    for each in "$HOME"/behind/* "$HOME"/behind/.[!.]*; do
        [ -d "$each" ] || continue
        mkdir "$top/${each##*/}" && mount --rbind "$each" "$top/${each##*/}" || exit 99
    done
fi
exec setpriv --reuid STRANGER --regid STRANGER --clear-groups sh -c "ulimit -u LIMIT; "'exec "$@"' sh "$@"
"""


def as_stranger(limit: int) -> tuple[str, ...]:
    script = AS_STRANGER.replace("STRANGER", str(STRANGER)).replace("LIMIT", str(limit))
    return ("unshare", "-m", "sh", "-c", script, "sh", str(ROOT))


@pytest.fixture
def stranger(launch: Launcher) -> Iterator[Launcher]:
    """A launcher whose files belong to a user who is not root, and lie where that user can go."""
    if os.geteuid() != 0 or not (shutil.which("unshare") and shutil.which("setpriv")):
        pytest.skip("takes root, unshare and setpriv")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        home = Path(place)
        for each in (home, home / "behind", home / "project", home / "project" / ".acp-launch"):
            each.mkdir(exist_ok=True)
            os.chown(each, STRANGER, STRANGER)
        kinds = {f"ACP_LAUNCH_{kind}_DIR": str(home / kind.lower()) for kind in ("CONFIG", "STATE", "CACHE")}
        launch.env |= {**kinds, "HOME": place, "ACP_DEMO_HOME": str(home / "demo")}
        launch.env |= {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        launch.project = home / "project"
        python = (sys.executable, "-P", "-c", "import acp_launch.cli.main; print('here')")
        tried = subprocess.run(
            [*as_stranger(10), *python], env=launch.env, cwd=home, capture_output=True, text=True, timeout=PATIENCE
        )
        if tried.stdout != "here\n":
            pytest.skip(f"no namespace of its own: {tried.stderr[-200:]}")
        yield launch


@pytest.mark.parametrize("limit", [1, 2, 4, 40])
def test_too_few_processes_are_told_in_a_line(stranger: Launcher, limit: int) -> None:
    """Whoever is refused a process or a thread says so: we, the server, or the demo agent in its answer."""
    code, out, err = ends(stranger, "run", "demo", "add 2 3", prefix=as_stranger(limit))
    assert code in (0, 4, 8)
    assert code == 0 or any(said in err for said in NO_MORE), err
    assert limit < 40 or (code, out) == (0, "5\n")
    for verb in ("secret list", "doctor demo", "mcp tools demo notes"):
        code, _, err = ends(stranger, *verb.split(), prefix=as_stranger(limit))
        assert code in (0, 3, 4, 8), err
