"""What a started process gets, what it does not get, and what is said when it cannot be started."""

import errno
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from acp_launch.errors import AgentError
from acp_launch.process import prepare
from acp_launch.process.spawn import STATUS_LOST, Spawned, explain, spawn
from acp_launch.process.table import block_until_gone
from acp_launch.process.tree import end_now
from tests.confined import needs_box
from tests.patience import PATIENCE

from .liveness import Liveness, program


def everything_from(spawned: Spawned) -> bytes:
    """Read stdout to its end."""
    poll = select.poll()
    poll.register(spawned.stdout, select.POLLIN | select.POLLHUP)
    chunks = []
    while poll.poll(PATIENCE * 1000) and (chunk := os.read(spawned.stdout, 65536)):
        chunks.append(chunk)
    return b"".join(chunks)


def refusal(argv: list[str], cwd: Path, env: dict[str, str] | None = None) -> AgentError:
    before = prepare.table().children(os.getpid())
    with pytest.raises(AgentError) as raised:
        spawn(argv, env=env or {}, cwd=cwd)
    assert prepare.table().children(os.getpid()) == before, "a failed start left a process"
    return raised.value


def test_a_child_leads_its_own_session_and_gets_three_pipes_its_directory_and_exactly_its_environment(
    tmp_path: Path,
) -> None:
    leaked = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(leaked, True)
    spawned = spawn(program("report"), env={"ONLY": "this"}, cwd=tmp_path)
    try:
        seen = json.loads(everything_from(spawned))
    finally:
        end_now(spawned)
        os.close(leaked)
    del seen["env"]["LC_CTYPE"]  # Python's own doing (PEP 538)
    limit = seen.pop("descriptor_limit")
    assert seen == {
        "descriptors": [0, 1, 2],
        "is_leader": True,
        "cwd": str(tmp_path),
        "env": {"ONLY": "this", "ACP_LAUNCH_ID": spawned.mark},
        "blocking": [True, True, True],
    }
    assert limit >= 3


def test_the_child_keeps_the_descriptor_limit_we_were_started_with(tmp_path: Path) -> None:
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (128, 4096))\n"
        "from pathlib import Path; from acp_launch.process.spawn import spawn; import os, select, sys\n"
        "s = spawn(['/bin/sh', '-c', 'read _; ulimit -Sn'], env={}, cwd=Path('/'))\n"
        "os.write(s.stdin, b'go\\n'); select.select([s.stdout], [], [], 10)\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], os.read(s.stdout, 100).decode().strip())\n"
        "from acp_launch.process.tree import end_now; end_now(s)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stdout.strip(), done.stderr) == ("4096 128", "")


def test_our_ends_are_not_inheritable_and_do_not_block() -> None:
    spawned = spawn(["/bin/cat"], env={}, cwd=Path("/"))
    ends = (spawned.stdin, spawned.stdout, spawned.stderr)
    assert [os.get_inheritable(end) for end in ends] == [False] * 3
    assert [os.get_blocking(end) for end in ends] == [False] * 3
    end_now(spawned)


def test_starting_imports_no_event_loop_and_no_psutil() -> None:
    code = (
        "import sys; from pathlib import Path; from acp_launch.process.spawn import spawn\n"
        "from acp_launch.process.tree import end_now\n"
        "before = set(sys.modules); end_now(spawn(['/bin/cat'], env={}, cwd=Path('/')))\n"
        "print([name for name in ('asyncio', 'psutil', 'pydantic', 'rich') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_the_popen_inside_neither_warns_nor_reaps_when_it_is_forgotten(alive: Liveness) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        spawned = spawn(program("polite"), env=alive.env, cwd=Path("/"))
        alive.hear("polite")
        spawned.close("stdin")
        alive.assert_all_dead()
        subprocess._cleanup()  # type: ignore[attr-defined]  # what the next Popen would do
    assert warned == []
    os.waitid(os.P_PID, spawned.pid, os.WEXITED | os.WNOWAIT)
    assert spawned.poll() == 0
    end_now(spawned)


def test_a_status_that_another_took_is_known_to_be_lost() -> None:
    spawned = spawn(["/bin/true"], env={}, cwd=Path("/"))
    os.waitpid(spawned.pid, 0)
    assert spawned.poll() == STATUS_LOST
    end_now(spawned)


def test_a_box_ends_as_its_program_does_and_has_a_filter_also_without_guards(tmp_path: Path) -> None:
    """bubblewrap makes an exit status of a signal. In a box the kernel has no keyrings (process/seccomp.py)."""
    needs_box()
    look = f"{sys.executable} -I -S {Path(__file__).parents[1] / 'children' / 'keyring.py'}"
    options = ("--unshare-pid", "--seccomp", "3", "--ro-bind", "/", "/", "--chdir", str(tmp_path))
    box = (str(shutil.which("bwrap")), *options, "--")
    spawned = spawn([*box, "/bin/sh", "-c", f"pwd; {look}; kill -9 $$"], env={}, cwd=Path("/"), is_boxed=True)
    said = everything_from(spawned).decode().splitlines()
    block_until_gone([spawned.process], within=PATIENCE)
    end_now(spawned)
    assert said == [str(tmp_path), *["Operation not permitted"] * 2]
    assert spawned.status == signal.SIGKILL


@pytest.mark.parametrize(
    ("argv", "cwd", "said"),
    [
        (["{0}/nothing"], "", "{0}/nothing could not be started: there is no such file"),
        (["/bin/cat"], "gone", "/bin/cat could not be started in {0}/gone: no such file or directory"),
        (["{0}"], "", "{0} could not be started: permission denied"),
        (["/bin/cat", "a\0b"], "", "'/bin/cat' could not be started: embedded null byte"),
        (
            ["{0}/without-interpreter"],
            "",
            "{0}/without-interpreter could not be started: its interpreter, or the loader it was built for, "
            "does not exist",
        ),
        (
            ["{0}/without-line"],
            "",
            "{0}/without-line could not be started: it is not a program for this machine, and not a script with a "
            "#! line",
        ),
    ],
)
def test_why_a_program_cannot_be_started_is_said(tmp_path: Path, argv: list[str], cwd: str, said: str) -> None:
    for name, text in (("without-interpreter", "#!/opt/no/python -u\n"), ("without-line", "echo hello\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    error = refusal([word.format(tmp_path) for word in argv], tmp_path / cwd)
    assert (error.message, error.exit_code) == (said.format(tmp_path), 4)


def test_too_much_environment_says_so(tmp_path: Path) -> None:
    error = refusal(["/bin/cat"], tmp_path, {f"V{number}": "x" * 100_000 for number in range(100)})
    assert error.message == "/bin/cat could not be started: its arguments and environment together are too long"


def test_no_descriptor_left_says_so_and_leaves_none_open(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.open("/dev/null", os.O_RDONLY)]
    following = os.open("/dev/null", os.O_RDONLY)
    os.close(following)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (taken[0] + 4, hard))
        with pytest.raises(AgentError, match="no file descriptors are left"):
            spawn(["/bin/cat"], env={}, cwd=tmp_path)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        again = os.open("/dev/null", os.O_RDONLY)
        taken.append(again)
        assert again == following
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)


def test_an_unforeseen_error_keeps_the_systems_words() -> None:
    error = explain(OSError(errno.EIO, "Input/output error"), ["/x"], Path("/"))
    assert error.message == "/x could not be started: input/output error"
