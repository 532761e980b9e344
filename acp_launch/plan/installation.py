"""
The files of a program: the links that lead to it, its interpreter, the directory it is installed in, and for a package
runner what its cache has of the package; and how acp-launch itself is installed. Nothing is started.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha512
from importlib import metadata, util
from pathlib import Path
from shlex import join, quote

from msgspec import Struct

from acp_launch.plan.executable import CannotRun, find, list_interpreters
from acp_launch.private import MAX_LINKS, Unfit, read_bounded, real
from acp_launch.registry.index import NAMING, RUNNERS, VALUED, Source, parse_package

# ruff: noqa: PTH110, PTH112, PTH113, PTH114 - methods of Path raise in a directory that we may not enter
MAX_MANIFEST_BYTES = 4 * 1024 * 1024
MODULES = "node_modules"
SCRIPTS = (".js", ".mjs", ".cjs", ".ts", ".mts")  # files that look for packages in the directories above them
NPX_DIGITS = 16  # of the hash that names a directory of its cache

IsBroad = Callable[[Path], bool]


def list_hops(program: Path, search: str | None) -> Iterator[Path]:
    """Yield a program, each link on the way to it, and the same of the programs that run it if it is a script.

    The directory of each is real. `search` is the PATH of the child.
    """
    waiting, seen = [program], set[Path]()
    while waiting and len(seen) < MAX_LINKS:
        hop = waiting.pop()
        hop = real(hop.parent) / hop.name
        if hop in seen:
            continue
        seen.add(hop)
        yield hop
        if os.path.islink(hop):
            waiting.append(hop.parent / hop.readlink())
        else:
            waiting += _interpreters(hop, search)


def _interpreters(script: Path, search: str | None) -> Iterator[Path]:
    for word in list_interpreters(script):
        found = find(word, project=script.parent, path=search)
        if isinstance(found, Path):
            yield found
    if (environment := _environment_of(script)) is not None and not script.name.startswith("python"):
        yield environment / "bin" / "python"  # scripts of uv begin with /bin/sh


def _environment_of(program: Path) -> Path | None:
    """Return the virtual environment that a program lies in."""
    top = program.parent.parent
    return top if program.parent.name == "bin" and os.path.isfile(top / "pyvenv.cfg") else None


def installed_in(file: Path, is_broad: IsBroad) -> Path:
    """Return the directory in which a program or script is installed; itself if that `is_broad`.

    The directory of `file` is real.
    """
    if MODULES in file.parts:
        return Path(*file.parts[: file.parts.index(MODULES) + 1])
    top = file.parent.parent
    if file.parent.name == "bin":
        made = top if os.path.isdir(top / "lib") else file
    elif file.suffix in SCRIPTS:
        made = next((each for each in file.parents if os.path.isfile(each / "package.json")), file.parent)
    else:
        made = file.parent
    return file if is_broad(made) else made


# The packages of npx and uvx. A runner locks and asks the registry at each start, which a place that only shows its
# cache does not allow; so the program in the cache is started directly.


class Runner(Struct, frozen=True):
    """The package that a runner starts: what it is told to fetch, its program if that is named, and the number of
    arguments before the program's own."""

    source: Source
    specs: tuple[str, ...]
    program: str
    skipped: int


def read_runner(command: Path, words: Sequence[str]) -> Runner | None:
    """Read the command line of npx or uvx; None for any other program, and if it names no package."""
    source = RUNNERS.get(command.name)
    if source is None:
        return None
    specs, index = list[str](), 0
    while index < len(words):
        option, joined, value = words[index].partition("=")
        if option in NAMING[source]:
            index += not joined
            specs.append(value if joined else "".join(words[index : index + 1]))
        elif words[index] in VALUED[source]:
            index += 1
        elif not words[index].startswith("-"):
            break
        index += 1
    first = "".join(words[index : index + 1])
    if not first:
        return None
    return Runner(source, tuple(specs) or (first,), first if specs else "", index + 1)


def find_cached(runner: Runner, environ: Mapping[str, str], cwd: Path) -> Path | CannotRun:
    """Return the program of a package in the runner's cache, or in the project that npx prefers to it."""
    spec = runner.specs[0]
    name, version = parse_package(runner.source, spec) or (spec.rpartition("@")[0] or spec, "")
    look = _find_npx if runner.source == "npm" else _find_uvx
    found = look(runner, name, version, environ, cwd)
    if found is not None:
        return found
    options = " ".join(f"{'-p' if runner.source == 'npm' else '--from'} {each}" for each in runner.specs)
    fetch = f"npx -y {options} true" if runner.source == "npm" else f"uvx {options} python -c ''"
    return CannotRun(f"{spec} is not in the cache of {'npx' if runner.source == 'npm' else 'uvx'}", fetch)


def cache_of(source: Source, environ: Mapping[str, str]) -> Path:
    home = Path(environ.get("HOME", "/"))
    if source == "npm":
        return Path(environ.get("npm_config_cache") or environ.get("NPM_CONFIG_CACHE") or home / ".npm")
    cache = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
    return Path(environ.get("UV_CACHE_DIR") or cache / "uv")


def _find_npx(runner: Runner, name: str, version: str, environ: Mapping[str, str], cwd: Path) -> Path | None:
    digest = sha512("\n".join(sorted(runner.specs)).encode()).hexdigest()[:NPX_DIGITS]
    places = (*(each / MODULES for each in (cwd, *cwd.parents)), cache_of("npm", environ) / "_npx" / digest / MODULES)
    for modules in places:
        package = _read_package(modules / name / "package.json")
        if package and version in ("", package.get("version")):
            program = modules / ".bin" / (runner.program or _program_of(name, package.get("bin")))
            return program if os.path.exists(program) else None
    return None


def _read_package(file: Path) -> Mapping[str, object]:
    try:
        found = read_bounded(file, MAX_MANIFEST_BYTES)
        package = json.loads(found[0]) if found else None
    except (OSError, Unfit, ValueError, RecursionError):
        return {}
    return package if isinstance(package, dict) else {}


def _program_of(name: str, programs: object) -> str:
    """Return the program that npx starts of a package."""
    names = list(programs) if isinstance(programs, dict) else []
    return str(names[0]) if len(names) == 1 else name.rpartition("/")[2]


def _find_uvx(runner: Runner, name: str, version: str, environ: Mapping[str, str], cwd: Path) -> Path | None:
    """Find it in the newest environment of the cache that has the package."""
    wanted = _plain(name.partition("[")[0])
    every = (cache_of("pypi", environ) / "archive-v0").glob("*/lib/python*/site-packages")
    for packages in sorted(every, key=lambda path: path.stat().st_mtime, reverse=True):
        parts = [each.name.removesuffix(".dist-info").rpartition("-") for each in packages.glob("*.dist-info")]
        program = packages.parents[2] / "bin" / (runner.program or name.partition("[")[0])
        if any(_plain(one) == wanted and version in ("", number) for one, _, number in parts) and os.path.exists(
            program
        ):
            return program
    return None


def _plain(name: str) -> str:
    """Return the name of a Python package as it is compared."""
    return name.lower().replace("-", "_").replace(".", "_")


# acp-launch itself.


def add_extra(extra: str) -> str:
    """Return the command that installs an extra for this acp-launch, by the tool that installed it."""
    own = metadata.distribution("acp-launch")
    parts = [line.partition(";") for line in own.requires or ()]
    wanted = [what.strip() for what, _, condition in parts if f"'{extra}'" in condition.replace('"', "'")]
    prefix = Path(sys.prefix)
    if (prefix / "pipx_metadata.json").exists():
        return f"pipx inject {prefix.name} {join(wanted)}"
    if (prefix / "uv-receipt.toml").exists():
        origin = json.loads(own.read_text("direct_url.json") or "{}")
        source = f"{'git+' if 'vcs_info' in origin else ''}{origin.get('url', own.name)}"
        return f"uv tool install {' '.join(f'--with {quote(each)}' for each in wanted)} {quote(source)}"
    python = quote(sys.executable)
    return (
        f"{python} -m pip install {join(wanted)}"
        if util.find_spec("pip")
        else (f"uv pip install --python {python} {join(wanted)}")
    )
