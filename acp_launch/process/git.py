"""
Our git: how it is called, and what it believes.

Hooks of a repository never run, the caller's `GIT_DIR` and its like do not count, git asks nothing on the terminal, and
each call has a limit in time. There are three kinds of calls:

    `git`                           uses a repository and settings of the user, after trust
    `ask`                           a question before trust: no program and no server that a repository names
    `git` in `closed_environment`   nothing counts but our repository, on files that an agent may have written
"""

import os
import select
import signal
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

from acp_launch import shutdown
from acp_launch.errors import StateError
from acp_launch.plan.written import make_safe_environment
from acp_launch.process.table import NO_PIDFD, open_pid
from acp_launch.regex import regex
from acp_launch.waits import seconds, stretch

QUESTION_TIMEOUT = stretch(60.0)  # to git, or to a server
TREE_TIMEOUT = stretch(1800.0)  # to write or to read a whole tree; a clone may come from far away
MAX_OUTPUT_BYTES = 128 * 1024 * 1024  # names of files
STDERR_LINES = 5  # in a message
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.autocrlf": "false",  # a tree has the bytes that its commit asks for
    "core.fsmonitor": "false",  # a program, or a daemon
    "core.splitIndex": "false",
    "core.untrackedCache": "false",
    "core.quotePath": "false",
    "gc.auto": "0",
    "submodule.recurse": "false",
    "safe.bareRepository": "explicit",  # a directory of a clone may look like one; older git: see `ask`
    "http.lowSpeedLimit": "1000",  # a server that stalls for a minute is given up
    "http.lowSpeedTime": "60",
}
_KEPT_VARIABLES = ("GIT_SSH", "GIT_SSL_", "GIT_PROXY_", "GIT_ASKPASS", "GIT_CONFIG_")  # of the caller, for git
# A clone in which objects are missing would fetch them by the command that its configuration names.
_NO_TRANSPORT = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0"}
_URL = regex(r"[A-Za-z][A-Za-z0-9+.-]*://.+|[^/:\s]+@[^/:\s]+:.+")  # the second as in git@host:path
_HEX = regex(r"[0-9a-f]{2}|[0-9a-f]{38}|[0-9a-f]{62}")
_LOGIN = regex(r"(?<=://)[^/\s@]*@")


class Done(NamedTuple):
    """How a call of git ended: its exit status, what it printed, and its errors."""

    status: int
    out: str
    err: str


def is_url(repo: str) -> bool:
    """Whether git would fetch from there; else it is a path."""
    return _URL.fullmatch(repo) is not None


def resolve_commit(repo: str, ref: str) -> str | None:
    """Return the commit that a branch, a tag or any other revision names; None if there is none of this name.

    `repo` is a URL, or a directory that has a `.git`.

    Raises:
        StateError: git is not there, or cannot tell.
    """
    if not ref or ref.startswith("-"):  # git would take it for an option
        return None
    if is_url(repo):
        known: dict[str, str] = {}
        for line in git("ls-remote", "--", repo, cwd=Path("/"), limit=QUESTION_TIMEOUT).splitlines():
            commit, _, place = line.partition("\t")
            known[place] = commit
        name = ref.removeprefix("origin/")
        places = (name, f"refs/{name}", f"refs/tags/{name}", f"refs/heads/{name}")
        found = (known.get(each + peeled) for each in places for peeled in ("^{}", ""))
        is_commit = len(ref) in (40, 64) and not set(ref) - set("0123456789abcdef")
        return next(filter(None, found), ref if is_commit else None)
    done = ask("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}", cwd=Path(repo))
    if done.status > 1 and "not a git repository" not in done.err:
        raise _failure("rev-parse", Path(repo), done.err)
    return None if done.status else done.out.strip()


def ask(*words: str, cwd: Path) -> Done:
    """Ask the repository whose `.git` is in `cwd`: so it is found before one that `cwd` itself looks like.

    Raises:
        StateError: as `call`.
    """
    return call(*words, cwd=cwd, limit=QUESTION_TIMEOUT, env={**make_environment(), **_NO_TRANSPORT})


def git(*words: str, cwd: Path, refused: Collection[str] = (), **how: Any) -> str:
    """Return what git prints; `how` is as for `call`.

    Raises:
        StateError: it failed, or warned with words of `refused`; or as `call`.
    """
    done = call(*words, cwd=cwd, **how)
    if done.status or any(word in done.err for word in refused):
        raise _failure(next(word for word in words if not word.startswith("-")), cwd, done.err)
    return done.out


def call(
    *words: str,
    cwd: Path,
    limit: float = TREE_TIMEOUT,
    env: Mapping[str, str] | None = None,
    held: int | None = None,
    settings: Mapping[str, str] | None = None,
    feed: Iterable[str] = (),
    ending: str = "\0",
) -> Done:
    """Call git. It inherits `held`, a lock; it reads the names `feed`, each with the ending.

    Raises:
        StateError: it is not installed, took too long, or printed too much.
    """
    options = [word for name, value in {**_SETTINGS, **(settings or {})}.items() for word in ("-c", f"{name}={value}")]
    process = None
    # Files: a helper that stays in the background would hold pipes open.
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        given.writelines(os.fsencode(f"{name}{ending}") for name in feed)
        given.seek(0)
        try:
            with shutdown.critical_section():  # a signal within it would lose the process
                process = subprocess.Popen(
                    ["git", *options, *words],
                    cwd=cwd,
                    env=make_environment() if env is None else env,
                    stdin=given,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                    pass_fds=() if held is None else (held,),
                )
            _wait(process, limit)
        except OSError as error:
            what = f"cannot start git in {cwd}: {error.filename}: {error.strerror}"
            raise StateError(what, fix="install git, or leave out isolation") from None
        except subprocess.TimeoutExpired:
            raise StateError(f"git {words[0]} in {cwd} did not end within {seconds(limit)}") from None
        finally:
            if process is not None and process.returncode is None:  # it took too long, or a signal came
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if out.seek(0, os.SEEK_END) > MAX_OUTPUT_BYTES:
            raise StateError(f"git {words[0]} in {cwd} printed more than {MAX_OUTPUT_BYTES // 2**20} MiB")
        out.seek(0)
        err.seek(0)
        return Done(process.returncode, os.fsdecode(out.read()), os.fsdecode(err.read(MAX_OUTPUT_BYTES)))


def _wait(process: subprocess.Popen[bytes], limit: float) -> None:
    """Wait at most so long, and raise TimeoutExpired. `Popen.wait` alone would look every few milliseconds."""
    descriptor = open_pid(process.pid)
    if descriptor is None or descriptor == NO_PIDFD:
        process.wait(limit)
        return
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll(limit * 1000)
    finally:
        os.close(descriptor)
    process.wait(0)


def make_environment() -> dict[str, str]:
    """Return our environment without secrets, and without what would lead git to another repository or index."""
    public = make_safe_environment()  # without what an agent could have put there
    kept = {
        name: value for name, value in public.items() if not name.startswith("GIT_") or name.startswith(_KEPT_VARIABLES)
    }
    return kept | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}


def closed_environment(repository: Path, tree: Path) -> dict[str, str]:
    """Return variables by which only the configuration of `repository` counts, and not the user's or `tree`'s."""
    kept = {name: value for name, value in make_environment().items() if not name.startswith("GIT_")}
    return kept | {
        **_NO_TRANSPORT,
        "GIT_DIR": str(repository),
        "GIT_WORK_TREE": str(tree),
        "HOME": str(repository),  # before 2.32 git does not know GIT_CONFIG_GLOBAL
        "XDG_CONFIG_HOME": str(repository),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
    }


def pack_loose_objects(objects: Path) -> None:
    """Put the objects that have files of their own into a pack: git reads what a pack has from there.

    An agent that may write new objects could else put another content into the place of one.

    Raises:
        StateError: one cannot be read; or as `call`.
    """
    if not (found := list(_list_loose(objects))):
        return
    ask_git = partial(git, cwd=objects, env=closed_environment(objects.parent, objects))
    ask_git("pack-objects", "-q", str(objects / "pack" / "loose"), feed=found, ending="\n")
    ask_git("prune-packed", "-q")


def _list_loose(objects: Path) -> Iterator[str]:
    for directory in os.scandir(objects):
        if len(directory.name) == 2 and _HEX.fullmatch(directory.name) and directory.is_dir(follow_symlinks=False):
            for file in os.scandir(directory):  # a file that is not git's can be an agent's
                if _HEX.fullmatch(file.name) and file.is_file(follow_symlinks=False):
                    yield f"{directory.name}{file.name}"


def _failure(what: str, where: Path, err: str) -> StateError:
    lines = [_LOGIN.sub("", line) for line in err.splitlines() if line.strip()]
    first = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1] if lines else "it failed")
    return StateError(f"git {what} in {where}: {first}", detail=lines[-STDERR_LINES:])
