"""
The environment of an editor that a desktop starts, and what a profile lacks there.

Such an editor has not read the files of a shell: its PATH is short, and variables that they export are not set. What it
hands to a program that it starts is asked of the session's manager; without one it is what each desktop has.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from acp_launch.checks.check import Check, ok, warning
from acp_launch.checks.profile import ProfilePart
from acp_launch.plan.executable import CannotRun, find
from acp_launch.problem import Problem
from acp_launch.regex import regex
from acp_launch.secret.reference import EnvironmentReference, parse

PATHS = {"darwin": "/usr/bin:/bin:/usr/sbin:/sbin", "linux": "/usr/local/bin:/usr/bin:/bin"}
# Variables that the session itself has, not its shells.
_SESSION = regex(
    r"HOME|USER|LOGNAME|SHELL|LANG|LC_\w+|TMPDIR|(?:WAYLAND_)?DISPLAY|XAUTHORITY|DBUS_SESSION_BUS_ADDRESS|XDG_RUNTIME_DIR"
)
# Variables whose absence is told even if the profile does not name them: agents and their programs read them.
_USUAL = regex(
    r"(?:https?|all|no|HTTPS?|ALL|NO)_(?:proxy|PROXY)|SSH_AUTH_SOCK|SSL_CERT_FILE|NODE_EXTRA_CA_CERTS"
    r"|[A-Z0-9_]+_(?:API_KEY|TOKEN)|ACP_LAUNCH_(?:SECRET|PASSPHRASE|MAX)\w*|PYTHON_KEYRING_BACKEND"
)

Ask = Callable[[Sequence[str]], str]  # runs a command and returns its stdout; empty if it fails


class Desktop(Struct, frozen=True):
    """An environment, and where it comes from. `own` is that of this process."""

    source: str
    environ: Mapping[str, str]
    own: Mapping[str, str]

    @property
    def path(self) -> str:
        return self.environ.get("PATH", "")

    def lacks(self, name: str) -> bool:
        """Whether a variable is set here, and not there."""
        return bool(self.own.get(name)) and not self.environ.get(name)


def desktop(own: Mapping[str, str], platform: str, ask: Ask) -> Desktop:
    """Find out the environment that a desktop gives to an editor. `platform` as in `sys.platform`."""
    if platform == "win32":  # every program gets the user's variables
        return Desktop("this system", own, own)
    kept = {name: value for name, value in own.items() if _SESSION.fullmatch(name)}
    minimal = {**kept, "PATH": PATHS.get(platform, PATHS["linux"])}
    if platform == "darwin":
        told = {name: ask(["launchctl", "getenv", name]).strip() for name in ("PATH", "SSH_AUTH_SOCK")}
        return Desktop("launchd", {**minimal, **{name: value for name, value in told.items() if value}}, own)
    if block := variables(ask(["systemctl", "--user", "show-environment"])):
        return Desktop("systemd", {**minimal, **block}, own)
    return Desktop("a minimal environment", minimal, own)


def variables(block: str) -> dict[str, str]:
    """Parse what `systemctl show-environment` prints: a variable a line, quoted as for a shell if needed."""
    pairs = (line.partition("=") for line in block.splitlines())
    return {name: _plain(value) for name, separator, value in pairs if separator and name.isidentifier()}


def _plain(value: str) -> str:
    if not (value.startswith("$'") and value.endswith("'") and len(value) > 2):
        return value
    try:
        return value[2:-1].encode().decode("unicode_escape").encode("latin-1").decode(errors="surrogateescape")
    except UnicodeError:  # an escape that we do not know
        return value


@contextmanager
def inside(there: Desktop) -> Iterator[None]:
    """Let this process have the desktop's environment for a while."""
    os.environ.clear()
    os.environ.update(there.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(there.own)


def checks(there: Desktop, here: Mapping[str, str], elsewhere: Mapping[str, str]) -> Iterator[Check]:
    """Report the environment. `here` and `elsewhere` are our own directories in this environment and in that one."""
    lost = sorted(name for name in there.own if _USUAL.fullmatch(name) and there.lacks(name))
    facts = {"source": there.source, "path": there.path, "lost": lost}
    found = ok("desktop", "", f"{there.source}, with PATH {there.path}", **facts)
    yield replace(found, detail=(f"set here, and not there: {', '.join(lost)}",)) if lost else found
    for variable in here:
        if here[variable] != elsewhere[variable]:
            text = f"it would be {elsewhere[variable]} there; {here[variable]} is checked"
            yield warning(
                "desktop", variable, text, f"add {variable} to env of the editor's entry", there=elsewhere[variable]
            )


def defaults(there: Desktop, profile: Any) -> Iterator[Check]:
    """Report variables of a profile that have their default there, and another value here."""
    for name, default in sorted(set(_with_default(profile))):
        if there.lacks(name):
            text = f"not set there, so the profile's default is used: {default or 'an empty text'}"
            yield warning("desktop", name, text, _set_it(name), default=default)


def _with_default(profile: Any) -> Iterator[tuple[str, str]]:
    if isinstance(profile, Mapping | list | tuple):
        for value in profile.values() if isinstance(profile, Mapping) else profile:
            yield from _with_default(value)
    elif isinstance(profile, str) and "${env:" in profile:
        references = (part for part in parse(profile) if isinstance(part, EnvironmentReference))
        yield from ((part.name, part.default) for part in references if part.default is not None)


def _set_it(name: str) -> str:
    return f"write its value or a secret instead, or set {name} for the desktop: acp-launch help serve"


def advised(
    parts: Sequence[ProfilePart], own: Sequence[ProfilePart], there: Desktop, project: Path
) -> list[ProfilePart]:
    """Give problems that exist only there a fix that helps there. `own` are the same parts in this environment."""
    return [_advised(part, same, there, project) for part, same in zip(parts, own, strict=True)]


def _advised(part: ProfilePart, same: ProfilePart, there: Desktop, project: Path) -> ProfilePart:
    only_there = [found for found in part.problems if found not in same.problems]
    fixed = {found: found._replace(fix=_fix(found, same, there, project) or found.fix) for found in only_there}
    return replace(part, problems=tuple(fixed.get(found, found) for found in part.problems))


def _fix(found: Problem, same: ProfilePart, there: Desktop, project: Path) -> str:
    if found.path.endswith(".command") and same.plan is not None:
        return _reachable(same.plan.agent.command, there, project)
    named = re.search(r"^the environment variable (\S+) is not set$", found.message)
    return _set_it(named[1]) if named else ""


def _reachable(program: Path, there: Desktop, project: Path) -> str:
    """Say how to name a program that is found here. A script needs its interpreter on PATH, too."""
    if not isinstance(find(str(program), project=project, path=there.path), CannotRun):
        return f"write command: {_portable(str(program), there)}"
    for folder in (str(program.parent), *there.own.get("PATH", "").split(os.pathsep)):
        longer = os.pathsep.join((folder, there.path))
        if folder and not isinstance(find(str(program), project=project, path=longer), CannotRun):
            folders = dict.fromkeys(_portable(each, there) for each in (str(program.parent), folder))
            return f'add env: {{PATH: "{os.pathsep.join(folders)}:${{env:PATH}}"}} to it'
    return ""


def _portable(path: str, there: Desktop) -> str:
    """Write a path as a profile does, since a report may not name the home directory."""
    home = there.own.get("HOME", "").rstrip("/")
    return f"${{home}}{path[len(home) :]}" if home and path.startswith(f"{home}/") else path
