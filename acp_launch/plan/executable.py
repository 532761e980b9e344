"""
Programs and directories on this machine, and the environment of a program. `find` resolves a command, `usable` a
directory. Else they say why not.

A program is found as the child's system call will find it. Links are not resolved: a virtual environment's python and
every busybox tool are links that must be called by their own names. `taken_over` says why a command line would run
something that the project brought, instead of the program that it names.

A child inherits variables, and those that the profile sets come over them. `ACP_LAUNCH_SECRET_*` and the passphrase are
never inherited: a secret reaches only the child whose plan names it.
"""

import json
import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os.path import exists, isfile
from pathlib import Path, PurePath

from msgspec import Struct

from acp_launch.document.nodes import shorten
from acp_launch.plan.model import INHERITED, OURS, Value
from acp_launch.private import Unfit, read_bounded, real
from acp_launch.problem import count
from acp_launch.profile.agents import how_to_install
from acp_launch.profile.discover import Found, repository_of
from acp_launch.profile.values import Inherit
from acp_launch.regex import regex
from acp_launch.secret.value import VariableReference, is_private, parse
from acp_launch.settings.load import grounds, lies_in

# ruff: noqa: PTH110, PTH113 - methods of Path raise in a folder that we may not enter
# How to install the runners of agents and servers.
_RUNTIMES = {
    "npx": "install Node.js, which brings npx",
    "node": "install Node.js",
    "uvx": "pip install uv, which brings uvx",
}
_ALONE = "put the arguments under args; command is the program alone"


class CannotRun(Struct, frozen=True):
    """Why a program or a directory cannot be used, and the fix. `absent` is the name of a program that PATH lacks."""

    message: str
    fix: str
    absent: str = ""


def find(command: str, *, project: Path, path: str | None) -> Path | CannotRun:
    """Find the program of a command. `path` is the PATH of the child; a relative path is relative to `project`."""
    if command.startswith("~"):
        return CannotRun(f'"{command}": acp-launch does not expand "~"', f"write ${{home}}{command[1:]}")
    if "\0" in command:
        return CannotRun("the command holds a NUL character", "remove it")
    if os.sep in command or "/" in command:
        return _check_file(Path(os.path.normpath(project / command)), command, path)
    folders = _folders(path)
    candidates = [folder / command for folder in folders]
    if runnable := next(filter(_is_runnable, candidates), None):
        return _check_file(runnable, command, path)
    if blocked := next(filter(isfile, candidates), None):
        return _not_executable(blocked)
    what = f'"{command}" is not on PATH (looked in {count(len(folders), "folder")})'
    if " " in command.strip():
        return CannotRun(what, _ALONE)
    if advice := how_to_install(command) or _RUNTIMES.get(command, ""):
        return CannotRun(what, f"{advice}, or give an absolute path", command)
    fix = "install it, or give an absolute path; aliases and functions of a shell do not work here"
    return CannotRun(what, fix, command)


def _folders(path: str | None) -> list[Path]:
    """Return the absolute folders of PATH. In relative ones the project would choose what runs, so they are skipped."""
    folders = map(Path, filter(None, (os.defpath if path is None else path).split(os.pathsep)))
    return [folder for folder in folders if folder.is_absolute()]


def _is_runnable(file: Path) -> bool:
    return isfile(file) and os.access(file, os.X_OK)


def _check_file(file: Path, command: str, path: str | None) -> Path | CannotRun:
    try:
        is_directory = stat.S_ISDIR(file.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        is_directory = False
    except OSError as fault:  # as for a directory
        return CannotRun(f'the program "{shorten(str(file))}" cannot be used: {fault.strerror}', "choose another one")
    if is_directory:
        return CannotRun(f'"{file}" is a directory, not a program', "name the program in it")
    if not isfile(file):
        fix = _ALONE if " " in command.strip() else "correct the path; a relative path begins at the project"
        return CannotRun(f'the program "{file}" does not exist', fix)
    if not os.access(file, os.X_OK):
        return _not_executable(file)
    return _without_interpreter(file, path) or file


def _command(*words: str | Path) -> str:
    """Build a command for a fix, quoted for a shell."""
    return shlex.join(map(str, words))


def _not_executable(file: Path) -> CannotRun:
    return CannotRun(f'"{file}" is not executable', _command("chmod", "+x", file))


def _without_interpreter(file: Path, path: str | None) -> CannotRun | None:
    """Check the `#!` of a script. A script without its interpreter fails with "No such file", which is misleading."""
    line, words = _first_line(file), list_interpreters(file)
    if not words:
        return None
    if line.endswith(b"\r"):
        return CannotRun(
            f'"{file}" has Windows line ends, so its "#!" line names no program', _command("dos2unix", file)
        )
    if not exists(words[0]):
        what = f'"{file}" needs {words[0]}, which does not exist'
        return CannotRun(what, f"install {Path(words[0]).name}, or correct the first line of the script")
    if not words[1:] or any(_is_runnable(folder / words[1]) for folder in _folders(path)):
        return None
    return CannotRun(f'"{file}" needs {words[1]}, which is not on PATH', f"install {words[1]}")


def list_interpreters(file: Path) -> list[str]:
    """Return the program that runs a script, and if that is `env` the name of what it looks for; empty for others."""
    line = _first_line(file)
    words = line[2:].decode(errors="replace").split() if line.startswith(b"#!") else []
    named = next((word for word in words[1:] if not word.startswith("-") and "=" not in word), "")
    is_env = bool(words) and Path(words[0]).name == "env" and named and "/" not in named
    return [*words[:1], *([named] if is_env else [])]


def _first_line(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(256).split(b"\n", 1)[0]
    except OSError:  # executable but not readable is legal for a program
        return b""


def usable(text: str, *, base: Path) -> Path | CannotRun:
    """Check a directory of a session, since agents do not check it reliably themselves.

    It must exist, and be readable. A relative path is relative to `base`, which is absolute.
    """
    if text.startswith("~"):
        return CannotRun(f'"{text}": acp-launch does not expand "~"', f"write ${{home}}{text[1:]}")
    if not text.strip() or "\0" in text:
        return CannotRun("expected a directory, found no path", "write a path, or remove the key")
    directory = Path(os.path.normpath(base / text))
    try:
        if not directory.exists():
            return CannotRun(f'the directory "{directory}" does not exist', _command("mkdir", "-p", directory))
        if not directory.is_dir():
            return CannotRun(f'"{directory}" is not a directory', "name a directory")
        if not os.access(directory, os.R_OK | os.X_OK):
            return CannotRun(f'cannot enter the directory "{directory}"', _command("chmod", "u+rx", directory))
        return directory
    except OSError as fault:  # a name too long, a parent we may not enter
        return CannotRun(f'the directory "{directory}" cannot be used: {fault.strerror}', "choose another directory")


def distinct(directories: Iterable[Path], *, besides: Path) -> tuple[Path, ...]:
    """Return each real directory once, without `besides` (ACP "additional directories")."""
    kept = {os.path.realpath(besides): besides}
    for directory in directories:
        kept.setdefault(os.path.realpath(directory), directory)
    return tuple(kept.values())[1:]


# Programs that run files of their working directory: Python adds it to its path for `-m` and `-c`, and npx prefers a
# project's package to the published one. These functions read a command line, also inside `env` and `sh -c`. They are
# for programs that must work in a project that the user has not accepted; other programs do not start there (`reach`).
MAX_MANIFEST_BYTES = 4 * 1024 * 1024
SETTINGS = (".npmrc", "bunfig.toml")  # choose where a package comes from and which program runs it
PACKAGE = ("-p", "--package")
_PYTHON = regex(r"(?:python|pypy)[0-9.]*(?:\.exe)?", re.IGNORECASE)
_FLAGS = regex(r"-(?P<flags>[A-Za-z]*?)(?P<code>[mc].*)?")  # -m NAME, -c CODE: also `-um`, `-cpass`
_SAFE = frozenset("IP")  # flags that keep the working directory off the path
_BETWEEN = regex(r"[\s'\"();&|]+")
_TAKES_VALUE = ("-W", "-X", "--check-hash-based-pycs")
_RUNNERS = {"npx": (), "bunx": (), "npm": ("exec", "x"), "bun": ("x",)}  # pnpx and yarn dlx ignore the project


def imports_from_here(words: Sequence[str]) -> bool:
    """Whether this command line has Python run code with the working directory on its path."""
    flat = _flat(words)
    return any(
        _PYTHON.fullmatch(PurePath(word).name) and _is_code(flat[index + 1 :]) for index, word in enumerate(flat)
    )


def taken_over(words: Sequence[str], cwd: Path) -> CannotRun | None:
    """Say why this command line, started in this directory, would run something else than it names; None if it would
    not."""
    for runner, name in _runners(_flat(words)):
        fix = f"install {name or 'it'} and name its command; or, for a server, leave out cwd and bridge"
        if name and (found := next(_in_its_place(name, cwd), None)):
            what = f"{runner} would run {found} from this project, and not the published {name}"
            return CannotRun(what, fix)
        settings = (directory / each for directory in _around(cwd) for each in SETTINGS)
        if found := next(filter(os.path.lexists, settings), None):
            return CannotRun(f"{runner} would follow {found} from this project", fix)
    return None


def _flat(words: Sequence[str]) -> list[str]:
    """Split words at shell syntax too; enough to recognise a program."""
    return [piece for word in words for piece in _BETWEEN.split(word) if piece]


def _is_code(options: Sequence[str]) -> bool:
    """Whether these words after Python's name are options up to `-m` or `-c`, without one that makes those safe."""
    words = iter(options)
    for word in words:
        if word in _TAKES_VALUE:
            next(words, "")
        elif not word.startswith("--"):
            option = _FLAGS.fullmatch(word)
            if option is None or word == "-" or _SAFE & set(option["flags"]):
                return False
            if option["code"]:
                return True
        elif word == "--":
            return False
    return False


def _runners(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the runners in a command line with the names of what they run; an empty name if that is not clear."""
    for index, word in enumerate(words):
        runner, rest = PurePath(word).stem, words[index + 1 :]
        verbs = _RUNNERS.get(runner)
        if verbs:
            at = next((place for place, each in enumerate(rest) if each in verbs), None)
            rest = [] if at is None else rest[at + 1 :]
        if verbs is not None:
            yield from ((runner, name) for name in dict.fromkeys(_names(rest)) or [""])


def _names(args: Sequence[str]) -> Iterator[str]:
    """Yield the names of the packages and of the program that a runner starts, without versions."""
    words = iter(args)
    for word in words:
        if word in PACKAGE:
            yield _bare(next(words, ""))
        elif word.startswith("--package="):
            yield _bare(word.partition("=")[2])
        elif not word.startswith("-"):
            yield _bare(word)
            return


def _bare(package: str) -> str:
    name = package.rpartition("@")[0] or package
    return name if name.rpartition("/")[0].startswith("@") or "/" not in name else ""


def _in_its_place(name: str, cwd: Path) -> Iterator[Path]:
    """Yield the files of this project that a runner prefers to the published `name`."""
    for directory in _around(cwd):
        modules = directory / "node_modules"
        yield from filter(os.path.lexists, (modules / name, modules / ".bin" / name))
        if _is_named(name, directory / "package.json"):
            yield directory / "package.json"


def _is_named(name: str, file: Path) -> bool:
    """Whether a package.json claims `name`, as its own name or as a program; also if it cannot be read."""
    try:
        found = read_bounded(file, MAX_MANIFEST_BYTES)
    except (OSError, Unfit):
        return True

    try:
        package = json.loads(found[0]) if found else None
    except (ValueError, RecursionError):
        return True
    if not isinstance(package, dict):
        return False
    called, programs, folders = package.get("name"), package.get("bin"), package.get("directories")
    if isinstance(folders, dict) and "bin" in folders:  # every file in it is a program
        return True
    if isinstance(programs, str):  # the program has the name of the package, without the scope
        return name in (called, str(called).rpartition("/")[2])
    return name == called or (isinstance(programs, dict) and name in programs)


def _around(cwd: Path) -> Iterator[Path]:
    """Yield the directories from here up to the root of the outermost project, without the user's home."""
    projects = [*grounds(cwd)] or [cwd]
    return (each for each in (cwd, *cwd.parents) if lies_in(each, projects))


# The reach of a project: which of its files could run in the programs that a profile starts there.
#
# Most programs search their working directory first for modules, packages and settings. A profile that came with the
# project was accepted together with it. The user's own profile starts the same programs in any project, and the user
# has not accepted the project. So its servers run in empty directories unless the profile says otherwise, and programs
# that must run in the project, above all the agent, are protected from its files as far as possible.


OWN = ("user", "built-in")  # origins of profiles that are used in any project
_SAFE_PATH = {"PYTHONSAFEPATH": Value(("1",), OURS)}


def speaks_for(found: Found, session: Path, *, is_named: bool) -> bool:
    """Whether accepting the profile also accepted the session's directory: it belongs to the profile's project, or
    `is_named` by the profile or by `--cwd`."""
    if found.origin in OWN:
        return False
    project, session = real(found.project), real(session)
    if is_named or session == project:
        return True
    around = repository_of(project)
    return repository_of(session) == around and lies_in(session, [around or project])


def names_project(path: str, found: Found) -> bool:
    """Whether a path in the profile names a place in the project that the user works in.

    That is `${cwd}` or `${workdir}`, or, in a profile without its own project, `${project}` or a relative path.
    """
    is_own = found.origin in OWN
    first = next(iter(parse(path)), "/")
    if isinstance(first, VariableReference):
        return first.name in ("cwd", "workdir") or (is_own and first.name == "project")
    return is_own and isinstance(first, str) and not Path(first).is_absolute()


def is_of_session(argument: str, session: Path) -> bool:
    """Whether an argument, or the value it assigns, names a file relative to the session's directory."""
    path = argument.rpartition("=")[2]
    if path in (".", "..") or path.startswith(("./", "../")):
        return True
    is_path = ("/" in path or "." in path) and not Path(path).is_absolute()
    return is_path and os.path.lexists(session / path)


def kept_out(program: Path, args: Sequence[Value]) -> Mapping[str, Value]:
    """Return the variables that keep a program from running files of the project, as far as there are any."""
    return _SAFE_PATH if imports_from_here(words(program, args)) else {}


def words(program: Path, args: Sequence[Value]) -> list[str]:
    """Return the command line in words; secrets stay references."""
    return [str(program), *("".join(map(str, argument.parts)) for argument in args)]


# `inherit_env: minimal`, the default of MCP servers: what a program needs to find its files, its language, its screen,
# the network and certificates, and what runners of servers (npx, uvx, docker, deno, ...) need to find their data.
#
# Too small a list breaks Nix, proxies and private certificates in ways that are hard to trace. Credentials are never
# inherited: a listed variable that holds one stays behind. Left out on purpose: `SSH_AUTH_SOCK` and the session bus,
# which open the user's keys and keyring; `NODE_OPTIONS`, `NODE_PATH`, `PYTHONPATH`, `VIRTUAL_ENV` and
# `LD_LIBRARY_PATH`, which change what runs next; `AWS_*` and similar names, which hold or choose credentials.

# Each also in lower case, as npm sets them. Not `npm_config_*`, with which npx tells a nested npx what to run.
_NPM = (
    *("REGISTRY", "CACHE", "PREFIX", "USERCONFIG", "GLOBALCONFIG", "OFFLINE", "PREFER_OFFLINE"),
    *("PROXY", "HTTPS_PROXY", "NOPROXY", "CAFILE", "STRICT_SSL"),
)
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
MINIMAL = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "COLORTERM", "TZ", "TMPDIR", "TMP", "TEMP", "XDG_*"),
    *("LANG", "LANGUAGE", "LC_*", "LOCALE_ARCHIVE", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "WSL_*"),
    *_PROXIES,
    *(name.lower() for name in _PROXIES),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE", "GIT_SSL_CAINFO"),
    *("NODE_EXTRA_CA_CERTS", "NODE_USE_SYSTEM_CA", "NODE_USE_ENV_PROXY", "PIP_CERT", "DENO_CERT", "DENO_TLS_CA_STORE"),
    "NIX_*",
    # Version managers put shims on PATH that find the real node or python through these.
    *("NVM_DIR", "NVM_BIN", "VOLTA_HOME", "FNM_*", "ASDF_*", "MISE_*", "PYENV_ROOT", "RBENV_ROOT"),
    *("CARGO_HOME", "RUSTUP_HOME", "GOPATH", "GOROOT", "JAVA_HOME", "DOTNET_ROOT"),
    # Where runners of servers store their downloads, and where they may download from.
    *(f"NPM_CONFIG_{name}" for name in _NPM),
    *(f"npm_config_{name.lower()}" for name in _NPM),
    *("COREPACK_HOME", "PNPM_HOME", "YARN_CACHE_FOLDER", "BUN_INSTALL", "BUN_INSTALL_CACHE_DIR", "DENO_DIR"),
    *("UV_*", "PIP_INDEX_URL", "PIP_CONFIG_FILE", "PIPX_HOME", "PIPX_BIN_DIR"),
    *("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"),
)
# Exceptions from the families above. NIX_CONFIG may hold access tokens, and a user name may be one.
_WITHHELD = regex(r"NIX_CONFIG|.*_(?:TOKENS?|PASSWORD|SECRET|AUTH|CREDENTIALS?|KEY|OTP|USERNAME)", re.IGNORECASE)
_LOGIN = regex(r"://[^/\s?#]*@")  # user:password@host, or a token for the user


def is_withheld(name: str, value: str) -> bool:
    """Whether this variable holds a credential. A proxy address may have one, since there is no network without it."""
    if _WITHHELD.fullmatch(name):
        return True
    return not name.upper().endswith("_PROXY") and _LOGIN.search(value) is not None


def inherited(environ: Mapping[str, str], inherit: Inherit) -> dict[str, str]:
    """Return the part of `environ` that a child inherits."""
    public = {name: value for name, value in environ.items() if not is_private(name)}
    if inherit == "all":
        return public
    listed = MINIMAL if inherit == "minimal" else inherit
    names, families = frozenset(listed), tuple(pattern[:-1] for pattern in listed if pattern.endswith("*"))
    chosen = {name: value for name, value in public.items() if name in names or name.startswith(families)}
    if inherit != "minimal":
        return chosen
    return {name: value for name, value in chosen.items() if not is_withheld(name, value)}


def environment(environ: Mapping[str, str], inherit: Inherit, own: Mapping[str, Value]) -> dict[str, Value]:
    """Return a child's whole environment; `own` is what its profile sets."""
    return {**{name: Value((text,), INHERITED) for name, text in inherited(environ, inherit).items()}, **own}


def search_path(environ: Mapping[str, str], inherit: Inherit, *own: Mapping[str, Value]) -> str | None:
    """Return the PATH of a child; of several `own` layers the last wins. A secret in it stays a reference."""
    for layer in reversed(own):
        if "PATH" in layer:
            return "".join(str(part) for part in layer["PATH"].parts)
    path = {name: environ[name] for name in ("PATH",) if name in environ}
    return inherited(path, inherit).get("PATH")


# What differs from one terminal, login or shell to the next, and says nothing of what a server works with.
_TERMINAL_VARIABLES = regex(
    r"_|PWD|OLDPWD|SHLVL|PS[0-4]|PROMPT(_.*)?|R?PROMPT|HIST(FILE|SIZE|FILESIZE|CONTROL|IGNORE)|LINES|COLUMNS|LS_COLORS"
    r"|LESS(OPEN|CLOSE)?|MAIL|DIRENV_.*|STARSHIP_.*|__MISE_.*|TMPDIR|TMP|TEMP|ACP_LAUNCH_ID"
    r"|TERM|TERM_.*|TERM(INFO|INFO_DIRS|CAP|INAL_EMULATOR)|COLORTERM|COLORFGBG|LC_TERMINAL(_VERSION)?|WINDOWID|WINDOW|STY"
    r"|(TMUX|ZELLIJ)(_.*)?|(VTE|KITTY|WEZTERM|ALACRITTY|ITERM|GHOSTTY|KONSOLE|GNOME_TERMINAL|VSCODE)_.*"
    r"|WT_(SESSION|PROFILE_ID)|ZED_TERM|INSIDE_EMACS|NVIM(_.*)?|VIM(RUNTIME)?|MYVIMRC|GPG_TTY|SSH_(TTY|CONNECTION|CLIENT|AGENT_PID)"
    r"|XDG_(?!.*_HOME).*|DISPLAY|WAYLAND_DISPLAY|XAUTHORITY|SESSION_MANAGER|DESKTOP_(SESSION|STARTUP_ID)|GIO_LAUNCHED_.*"
    r"|INVOCATION_ID|JOURNAL_STREAM|SYSTEMD_EXEC_PID|MANAGERPID"
)


def list_compared(env: Mapping[str, Value], inherit: Inherit) -> tuple[str, ...]:
    """Return the names of variables that make a server another one, if it is shared by launches: those that the profile
    sets or names, and all others but a terminal's, a login's or a shell's."""
    named = {} if isinstance(inherit, str) else inherited(dict.fromkeys(env, ""), inherit)
    return tuple(
        name
        for name, value in sorted(env.items())
        if value.origin != INHERITED or name in named or not _TERMINAL_VARIABLES.fullmatch(name)
    )
