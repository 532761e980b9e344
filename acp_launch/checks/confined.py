"""
Checks of an agent's place: whether bubblewrap can confine it here, or an engine has a container for it, and what lacks.

`probe` starts nothing but bubblewrap, `ask_engine` nothing but the engine's client. `offer_shim` finds out whether the
agent opens a shim in its place.
"""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from acp_launch.bridge.offer import make_entry, shim_command
from acp_launch.bridge.seat import ShimConnection, listen_for_shims
from acp_launch.checks.check import Check, ok, problem, warning
from acp_launch.errors import LaunchError
from acp_launch.plan.confinement import INSTALL
from acp_launch.plan.model import InContainer, Place
from acp_launch.plan.written import make_safe_environment
from acp_launch.process.capture import capture, captured
from acp_launch.process.containers import ID_LENGTH, label_arguments
from acp_launch.waits import stretch

PLATFORM: str = sys.platform
NAME = "confinement"
TRIAL = "acp-launch-trial"  # the name of the shim
TRIAL_TIMEOUT = stretch(10.0)
KERNEL = Path("/proc/sys")
# Settings of Linux that keep a user from having namespaces: the file, the value that does, and what changes it.
OBSTACLES = (
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor denies it",
        "apt-get install apparmor-profiles; cp /usr/share/apparmor/extra-profiles/bwrap-userns-restrict"
        " /etc/apparmor.d/; apparmor_parser -r /etc/apparmor.d/bwrap-userns-restrict (as root)",
    ),
    (
        "kernel/unprivileged_userns_clone",
        "0",
        "the kernel denies it to users",
        "sysctl -w kernel.unprivileged_userns_clone=1 (as root)",
    ),
    (
        "user/max_user_namespaces",
        "0",
        "the kernel allows no user namespace",
        "sysctl -w user.max_user_namespaces=10000 (as root)",
    ),
)
ELSEWHERE = "in a container, start that one so that it may make user namespaces"
FACTS = {"podman": "{{.Version.Version}}", "docker": "{{.ServerVersion}} {{.SecurityOptions}}"}  # of `info`
# Security options of docker by which a user there is another one here; by the second, root there is the user here.
MAPPINGS = ("name=userns", "name=rootless")
DIGESTS = "{{.Id}}{{range .RepoDigests}} {{.}}{{end}}"  # with podman the last is of all platforms, if there are some
LOCAL, _ID = "localhost/", "sha256:"  # what podman names an image by that no registry has; how docker begins an id
_TRIAL = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL", "--ro-bind", "/", "/")


def probe(*, is_needed: bool = False) -> Check:
    """Check whether agents can be confined here. It is a problem only if the profile's agent is."""
    program = shutil.which("bwrap")
    if PLATFORM != "linux":
        why, fix = "it needs Linux", "run it on Linux, or without runtime.confined"
    elif program is None:
        why, fix = "bubblewrap is not installed", INSTALL
    elif said := _try_namespaces(program):
        why, fix = f"bubblewrap cannot make namespaces ({said})", ELSEWHERE
        for name, bad, what, cure in OBSTACLES if os.geteuid() else ():
            if _read(KERNEL / name) == bad:
                why, fix = f"bubblewrap cannot make namespaces: {what} ({said})", cure
                break
    else:
        return ok(NAME, "", "possible, by bubblewrap", possible=True, program=program)
    if is_needed:
        return problem(NAME, "agent", f"not possible: {why}", fix, possible=False)
    return ok(NAME, "", f"not possible: {why}", possible=False)


def _try_namespaces(program: str) -> str:
    """Return the words of bubblewrap if it cannot do what it does for an agent; else an empty text."""
    trial = (*_TRIAL, "--seccomp", "3", "--proc", "/proc", "--dev", "/dev")
    argv = [program, *trial, "--", sys.executable, "-I", "-S", "-c", ""]
    try:
        done = capture(argv, TRIAL_TIMEOUT, env={}, cwd=Path("/"))
    except LaunchError as error:
        return error.message
    if done.ending.status == 0 and not done.timed_out:
        return ""
    return done.err[-1].removeprefix("bwrap: ") if done.err else str(done.ending)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def ask_engine(program: Path, there: InContainer) -> Check:
    """Ask an engine whether it has the image, and whether the agent would be in the container who we are here."""
    name, fix = there.engine, "choose another one: runtime.container.engine"
    try:
        version, _, options = _ask(program, "info", "--format", FACTS[name]).partition(" ")
    except LaunchError as error:
        what = f"{name} does not answer: {error.message}"
        return problem("container", "agent", what, f"start its daemon, or {fix}")
    mappings = MAPPINGS if "--user" in there.user else MAPPINGS[:1]
    if maps := next((each for each in mappings if each in options), ""):
        what = f"{name} gives the agent another user than you ({maps}), who may not open the socket of its servers"
        return problem("container", "agent", what, f"start its daemon without that, or {fix}")
    try:
        image = _ask(program, "image", "inspect", "--format", "{{.Id}}", there.image)
    except LaunchError as error:
        if there.pull == "never":
            what = f"{name} does not have the image {there.image}: {error.message}"
            cure = f"fetch it: {name} pull {there.image}; or write pull: missing"
            cure = "load it; or lock the one that is here" if there.image.startswith(_ID) else cure
            return problem("container", "agent", what, cure)
        image = ""
    has = image.removeprefix(_ID)[:ID_LENGTH] or "is fetched by the start"
    return ok(
        "container", "agent", f"{name} {version}; {there.image}: {has}", engine=name, version=version, image=image
    )


def find_digest(program: Path, image: str) -> str:
    """Return what names the engine's image wherever it is: `NAME@sha256:HASH` if a registry has it, else its id.

    Raises:
        LaunchError: the engine does not answer, or does not have it.
    """
    id, *known = _ask(program, "image", "inspect", "--format", DIGESTS, image).split()
    name = image if ":" not in image.rpartition("/")[2] else image.rpartition(":")[0]
    fetched = [each for each in known if f"/{name}@" in f"/{each}" and not each.startswith(LOCAL)]
    return fetched[-1] if fetched else _ID + id.removeprefix(_ID)


def _ask(program: Path, *words: str) -> str:
    """Return what the engine's client says. Raise LaunchError if it fails."""
    argv = [str(program), *words]
    done = capture(argv, TRIAL_TIMEOUT, env=make_safe_environment(), cwd=Path("/"))
    if done.timed_out:
        raise LaunchError(f"no answer within {TRIAL_TIMEOUT:g} s")
    if done.ending.status:
        raise LaunchError(done.err[-1] if done.err else f"it {done.ending}")
    return done.out.decode(errors="replace").strip()


def examine_state(where: Place) -> Iterator[Check]:
    """Report what an agent cannot replace in its place."""
    for mount in where.mounts:
        if mount.reason in ("state", "write") and mount.path.is_file():
            what = "one file, so a program that replaces it by renaming another one fails"
            yield warning(NAME, str(mount.path), what, "name its directory instead, unless the agent writes in place")


@asynccontextmanager
async def offer_shim(where: Place) -> AsyncIterator[tuple[Mapping[str, object], asyncio.Event]]:
    """Offer a shim to an agent in its place, which has a seat: its entry, and an event for its opening."""
    opened = asyncio.Event()

    def receive(connection: ShimConnection) -> None:
        opened.set()
        connection.close()

    async with listen_for_shims([TRIAL], receive, lambda why: None, where.seat) as address:
        way = shim_command(where, address.path, address.session_token("doctor"))
        yield make_entry(TRIAL, way), opened


async def await_shim(opened: asyncio.Event, where: Place) -> Check:
    """Report whether the agent opens the shim that it was offered; some do so some time after the session's opening."""
    words = where.words
    try:
        async with asyncio.timeout(TRIAL_TIMEOUT):
            await opened.wait()
    except TimeoutError:
        what = f"the agent has not opened {TRIAL}, a shim that it was offered in its place, within {TRIAL_TIMEOUT:g} s"
        return warning("shims", words, what, f"compare with a run that is not {words}: some agents drop servers")
    by = await _name_interpreter(where, where.elsewhere) if isinstance(where.elsewhere, InContainer) else ""
    text = "the agent opens them in its place"
    return ok("shims", words, f"{text}, by {by}", interpreter=by) if by else ok("shims", words, text)


async def _name_interpreter(where: Place, there: InContainer) -> str:
    """Return what runs shims in a container of the image, with its version; as `bridge/start.sh` chooses it."""
    script = "python3 -V 2>/dev/null || echo Node.js $(node -v)"
    words = ("run", "--rm", "--network=none", "--pull=never", *label_arguments(), "--entrypoint", "/bin/sh")
    argv = (str(where.program), *words, there.image, "-c", script)
    done = await captured(argv, TRIAL_TIMEOUT, env=make_safe_environment(), cwd=Path("/"))
    return done.out.decode(errors="replace").strip()
