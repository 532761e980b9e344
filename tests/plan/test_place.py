"""How a place becomes the command line of bubblewrap (pure)."""

from collections.abc import Mapping
from pathlib import Path

from acp_launch.plan.model import OURS, Access, Direct, Mount, Place, ProcessPlan, Reason, Value
from acp_launch.plan.place import add_seat, arrange, can_write, enclose, place, shows
from tests.plan.places import list_paths

BOX = Path("/usr/bin/bwrap")
P = Path("/p")


def mount(path: str, access: Access, reason: Reason = "read") -> Mount:
    return Mount(Path(path), access, reason)


def value(text: str) -> Value:
    return Value((text,), OURS)


def process(*args: str, env: Mapping[str, str] | None = None) -> ProcessPlan:
    variables = {name: value(text) for name, text in (env or {}).items()}
    return ProcessPlan(name="agent", command=Path("/bin/a"), args=tuple(map(value, args)), env=variables, cwd=P)


def line(made: ProcessPlan) -> str:
    return " ".join([str(made.command), *(argument.display() for argument in made.args)])


def test_the_command_line_says_all_of_the_place() -> None:
    where = Place(
        program=BOX,
        mounts=arrange([mount("/p", "write", "session"), mount("/h", "empty", "system"), mount("/usr", "read")]),
        links={Path("/bin"): Path("/usr/bin")},
        network="none",
    )
    assert line(place(process("-x"), where)) == (
        "/usr/bin/bwrap --die-with-parent --new-session --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try"
        " --unshare-net --seccomp 3 --cap-drop ALL --proc /proc --dev /dev --ro-bind /dev/null /proc/1/mem"
        " --tmpfs /proc/1/task --ro-bind-try /proc/sys /proc/sys"
        " --ro-bind-try /proc/sysrq-trigger /proc/sysrq-trigger --ro-bind-try /proc/irq /proc/irq"
        " --ro-bind-try /proc/bus /proc/bus --ro-bind-try /proc/fs /proc/fs --ro-bind-try /proc/acpi /proc/acpi"
        " --ro-bind-try /proc/scsi /proc/scsi --tmpfs /h --bind /p /p --ro-bind /usr /usr --symlink /usr/bin /bin"
        " --remount-ro / --chdir /p -- /bin/a -x"
    )
    shared = Place(program=BOX, mounts=where.mounts)
    assert "--unshare-net" not in line(place(process(), shared))


def test_bubblewrap_obeys_no_variable_that_names_code() -> None:
    """The agent may have written that code, and names such variables for the commands that are run for it."""
    where = Place(program=BOX, mounts=())
    made = place(process(env={"A": "1", "LD_PRELOAD": "/p/x.so", "GCONV_PATH": "/p"}), where)
    assert set(made.env) == {"A"}
    assert "--setenv LD_PRELOAD /p/x.so --setenv GCONV_PATH /p --chdir" in line(made)
    argv, env = enclose(("ls", "-l"), {"A": "1", "LD_LIBRARY_PATH": "/p"}, P, where)
    assert argv[0] == str(BOX) and argv[-7:] == ("LD_LIBRARY_PATH", "/p", "--chdir", "/p", "--", "ls", "-l")
    assert env == {"A": "1"}


def test_a_program_in_the_cache_of_a_runner_is_started_without_it() -> None:
    where = Place(program=BOX, mounts=(), direct=Direct(Path("/cache/a"), 2))
    assert line(place(process("-y", "pkg", "--acp"), where)).endswith("--chdir /p -- /cache/a --acp")


def test_directories_above_what_may_only_be_read_become_mounts() -> None:
    mounts = arrange([mount("/p/a/b/c", "read"), mount("/p", "write", "session"), mount("/p/x", "read")])
    assert [(str(each.path), each.access, each.reason) for each in mounts] == [
        ("/p", "write", "session"),
        ("/p/a", "write", "between"),
        ("/p/x", "read", "read"),
        ("/p/a/b", "write", "between"),
        ("/p/a/b/c", "read", "read"),
    ]
    where = Place(program=BOX, mounts=mounts)
    assert can_write(where, Path("/p/a/b/new")) and not can_write(where, Path("/p/a/b/c/new"))
    assert list_paths(where, "session", "read") == (Path("/p"), Path("/p/x"), Path("/p/a/b/c"))


def test_of_two_mounts_of_a_path_the_first_counts_and_programs_hide_nothing() -> None:
    given = [mount("/p", "read"), mount("/p", "write", "session"), mount("/q", "write"), mount("/h", "empty", "system")]
    mounts = arrange([*given, mount("/q/bin", "read", "agent"), mount("/h/prefix", "read", "agent")])
    shown = {str(each.path): each.access for each in mounts}
    assert shown == {"/h": "empty", "/p": "read", "/q": "write", "/h/prefix": "read"}
    where = Place(program=BOX, mounts=mounts)
    assert shows(where, Path("/p/x")) and shows(where, Path("/h/prefix/x"))
    assert not shows(where, Path("/h/x")) and not shows(where, Path("/other"))


def test_the_seat_of_a_launch_is_shown_and_no_other() -> None:
    where = Place(program=BOX, mounts=arrange([mount("/run", "empty", "system"), mount("/p", "write", "session")]))
    seated = add_seat(where, Path("/run/1/acp-launch/7-a"))
    assert seated.seat == Path("/run/1/acp-launch/7-a")
    assert "--tmpfs /run --ro-bind /run/1/acp-launch/7-a /run/1/acp-launch/7-a" in line(place(process(), seated))
    within = add_seat(where, Path("/p/tmp/7-a"))
    assert "--bind /p /p --tmpfs /run --bind /p/tmp /p/tmp --ro-bind /p/tmp/7-a /p/tmp/7-a" in line(
        place(process(), within)
    )
