"""The shape of the house is a test: layers, purity, no cycles, light imports (docs/contributing.md "Layers")."""

import ast
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.patience import PATIENCE

PACKAGE = Path(__file__).parents[1] / "acp_launch"

# A row may import the rows below it and its own package.
ROWS = [
    {"cli", "__main__"},
    {"api"},  # the Python API
    {"batch"},  # many runs
    {"app"},  # what assembles a launch, for every front; the Python API
    {"interactive"},
    {"served"},  # a launch that outlives its terminal; a profile as an agent for editors
    {"engine", "console"},
    {"checks"},  # what `doctor` looks at
    {"session", "bridge"},
    {"oauth"},  # logging in to remote MCP servers
    {"mcp"},
    {"trace"},
    {"rpc"},
    {"process"},
    {"interop"},  # other tools' configuration
    {"plan"},
    {"registry"},  # agents that the registry publishes, and those that are installed
    {"http"},
    {"profile"},  # knows what a reference looks like, and where the user keeps profiles
    {"secret"},  # goes to the store the user chose
    {"protocol", "settings"},
    {"document"},
    {"private", "shutdown"},  # files for the user alone; how this process ends
    {"descent"},  # the way to a file, which no link bends
    {"waits"},
    {"errors", "problem"},
    {"regex"},  # patterns
    {"__init__"},
]
SAME = {
    **dict.fromkeys(("errors", "problem"), "errors"),
    "__main__": "cli",
}

PURE = [
    "batch/check",
    "batch/model",
    "batch/outcome",
    "batch/schedule",
    "regex",
    "problem",
    "document/[!c]*",
    "settings/model",
    "plan/place",
    "plan/shared",
    "profile/model",
    "profile/check",
    "profile/leaks",
    "profile/agents",
    "profile/scaffold",
    "profile/edit",
    "profile/keys",
    "profile/layers",
    "profile/rules",
    "profile/yamledit",
    "secret/value",
    "secret/forms",
    "protocol/*",
    "oauth/metadata",
    "process/lifecycle",
    "process/seccomp",
    "mcp/http/connection",
    "mcp/http/site",
    "mcp/http/stream",
    "mcp/http/wire",
    "session/permission/globs",
    "session/elicitation",
    "session/permission/policy",
    "session/permission/subject",
    "checks/check",
    "served/handshake",
    "bridge/conversation",
    "bridge/elevation",
    "bridge/elsewhere",
    "bridge/exchange",
    "bridge/http/gate",
    "bridge/http/session",
    "bridge/ledger",
    "bridge/offer",
    "bridge/toolpolicy",
    "mcp/adapter",
    "mcp/message",
    "settings/address",
    "settings/check",
    "document/yaml",
    "document/nodes",
    "document/scalars",
    "interop/formats",
    "protocol/conversation",
    "session/options",
    "session/state",
    "profile/values",
    "secret/redact",
    "secret/detect",
]
IMPURE = {"asyncio", "anyio", "os", "subprocess", "time", "random", "keyring", "psutil"}

MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.stem != "__init__")


def place(path: Path) -> str:
    """`session` for acp_launch/session/turn.py, `errors` for acp_launch/errors.py."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All that a module is made of; each of these tests looks for something else in it."""
    return tuple(ast.walk(parsed(path)))


@cache
def imports(path: Path) -> set[str]:
    """Every module named in an import, lazy ones included."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
    return found


def row(name: str) -> int:
    return next(index for index, names in enumerate(ROWS) if name in names)


def test_every_module_has_a_row() -> None:
    known = set().union(*ROWS)
    assert {place(path) for path in MODULES} <= known | {"demo"}


def test_a_module_imports_only_its_own_package_and_the_rows_below() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)} may not import {name}"
        for path in MODULES
        for name in imports(path)
        if name.startswith("acp_launch.") and not may_import(place(path), name.split(".")[1])
    ]
    assert wrong == []


def may_import(here: str, there: str) -> bool:
    if there == "__version__":
        return True
    if "demo" in (here, there):
        return here == there  # the demo programs stand alone
    return SAME.get(here, here) == SAME.get(there, there) or row(there) > row(here)


def test_the_pure_set_does_nothing_but_think() -> None:
    found = {pattern: list(PACKAGE.glob(f"{pattern}.py")) for pattern in PURE}
    assert [pattern for pattern, paths in found.items() if not paths] == [], "there is nothing of this name"
    touched = {
        str(path.relative_to(PACKAGE)): {name.split(".")[0] for name in imports(path)} & IMPURE
        for path in {path for paths in found.values() for path in paths}
    }
    assert {name: modules for name, modules in touched.items() if modules} == {}


def test_there_is_no_import_cycle() -> None:
    """Lazy imports included."""
    names = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in MODULES}
    edges = {
        name: {other for other in imports(path) if other in names and other != name} for name, path in names.items()
    }
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " → ".join([*trail[trail.index(name) :], name])
        if name not in done:
            for other in edges[name]:
                visit(other, (*trail, name))
            done.add(name)

    for name in edges:
        visit(name, ())


def test_the_demo_needs_the_standard_library_only() -> None:
    for path in (PACKAGE / "demo").glob("*.py"):
        for name in imports(path):
            top = name.split(".")[0]
            assert top in sys.stdlib_module_names or name.startswith("acp_launch.demo") or name == "acp_launch", name


# A constant says its thing and its unit (MAX_GRANT_BYTES, LOCK_TIMEOUT); these names say neither.
VAGUE = ("LONGEST", "MOST", "PATIENCE", "AGAIN", "LAST_WORDS", "KEPT", "LINGER", "LARGEST", "CHUNK", "LIMIT", "LEAST")


def test_a_constant_says_its_thing_and_its_unit() -> None:
    defined = Counter(
        found.id.lstrip("_")
        for path in MODULES
        for line in parsed(path).body
        if isinstance(line, ast.Assign)
        for found in ast.walk(line)
        if isinstance(found, ast.Name) and isinstance(found.ctx, ast.Store)
    )
    assert {name: defined[name] for name in VAGUE if defined[name] > 3} == {}


# What differs between fronts is in the value that each brings (docs/internals.md), so few places ask which one it is.
FRONT_KINDS = 4
KIND = re.compile("(is|of)_(an_)?(editor|host|hosted|interactive)|outlives_terminal|_?(host|editor)")
KIND_CLASSES = re.compile("(Hosted|Served|Editor|Host).*")


def asks_for_kind(node: ast.AST) -> bool:
    """Whether it asks which kind of front there is: by a flag, by one that may be None, or by its class."""
    match node:
        case ast.Compare(left=ast.Attribute(attr=name), ops=[ast.Is() | ast.IsNot()]):
            return KIND.fullmatch(name) is not None
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, ast.Name(id=name)]):
            return KIND_CLASSES.fullmatch(name) is not None
        case ast.Attribute(attr=name, ctx=ast.Load()):
            return KIND.fullmatch(name) is not None and name.strip("_") not in ("host", "editor")
    return False


def test_few_places_ask_which_kind_of_front_it_is() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in MODULES
        for node in nodes(path)
        if isinstance(node, ast.expr) and asks_for_kind(node)
    ]
    assert len(found) == FRONT_KINDS, found


# A function is named by what it does or gives; a participle alone says neither. The ceiling only falls.
PARTICIPLES = 600
IRREGULAR = (
    "begun|bound|broken|brought|built|caught|chosen|done|drawn|driven|found|given|gone|grown|heard|held|hidden|kept|known"
    "|learnt|led|left|lost|made|meant|met|paid|said|seen|sent|shown|sought|spent|taken|taught|thought|told|undone"
    "|understood|withdrawn|woken|worn|written"
)
NOUNS = {"feed", "mapping", "need", "ring", "seed", "setting", "string", "thing", "nothing"}


def is_participle(name: str) -> bool:
    bare = name.strip("_")
    return bare not in NOUNS and re.fullmatch(f"[a-z]+(?:ed|ing)|{IRREGULAR}", bare) is not None


def test_fewer_functions_have_a_participle_for_their_whole_name() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}: {each.name}"
        for path in MODULES
        for each in nodes(path)
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and is_participle(each.name)
    ]
    assert len(found) <= PARTICIPLES, "rename some, and lower the ceiling"


# Public classes of one name are two things to keep apart. The ceiling only falls.
NAMESAKES = 38


def test_fewer_public_classes_share_a_name() -> None:
    names = Counter(
        each.name
        for path in MODULES
        for each in nodes(path)
        if isinstance(each, ast.ClassDef) and not each.name.startswith("_")
    )
    assert sum(count > 1 for count in names.values()) <= NAMESAKES, "rename some, and lower the ceiling"


# An import inside a function is a border, with a reason; all others stand at the top. The ceiling only falls.
BORDERS = 250
REASONS = {
    "the process answers, or forks its guards, before it imports more": (
        "__main__ api/calls api/child app/exits app/serverhost app/up batch/item cli/main cli/run cli/up waits"
    ),
    "only once the agent is started": "app/host_start app/operation app/screen app/serve app/spec app/start",
    "only in a host, or where a host is asked": (
        "app/attach app/front app/overview app/sessions cli/machine cli/serve served/connect served/registry"
    ),
    "only where something is missing, wrong, or asked on a terminal": (
        "app/choose app/newprofile app/planning app/questions app/secretvalue app/stores secret/hidden_input"
    ),
    "each verb, or way of a verb, has its own": (
        "batch/masks batch/submit batch/trees batch/trust cli/agents cli/app cli/batch cli/completion cli/config"
        " cli/help cli/login cli/mcp cli/profiles cli/sessions console/plans console/profiles console/servers"
    ),
    "only for a server of this kind": "bridge/conversation bridge/relay bridge/servers engine/servers",
    "only where an agent asks for it, or is confined": (
        "app/context engine/context engine/loop engine/run plan/resolve process/workdir session/login"
    ),
    "run as a program, without the package": "bridge/shim demo/servers",
    "pydantic, which only a profile or a settings file with a fault needs": (
        "document/scalars document/shape profile/load profile/values settings/load"
    ),
    "rich and pygments": "app/output console/draw/markdown console/stdout",
    "difflib, for a difference or a likely word": ("console/draw/difflines problem profile/trust"),
    "psutil and ctypes, for what /proc or Python does not tell": (
        "process/guard_client process/leftovers process/prepare process/program process/spawn process/table"
    ),
    "a store, and its cryptography, when it is opened": "secret/isolate secret/keyring secret/sealed",
    "the HTTP client": "mcp/program oauth/exchange registry/download",
    "rarely needed, of the standard library or for credentials": "plan/model private process/logs process/tree",
}


@cache
def borders(path: Path) -> int:
    """The imports inside functions of a module."""
    functions = [each for each in nodes(path) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    return len({node for each in functions for node in ast.walk(each) if isinstance(node, ast.Import | ast.ImportFrom)})


def test_fewer_imports_stand_inside_functions() -> None:
    assert sum(map(borders, MODULES)) <= BORDERS, "move them to the top, or split the module; and lower the ceiling"


def test_every_border_has_a_reason() -> None:
    with_borders = {str(path.relative_to(PACKAGE).with_suffix("")) for path in MODULES if borders(path)}
    assert with_borders == {name for names in REASONS.values() for name in names.split()}


def test_no_module_is_hidden_from_an_import() -> None:
    """A library is imported as it is installed: none of its own imports is made to fail."""
    poisoned = [path for path in MODULES if re.search(r"sys\.modules\[\w+\] = None", path.read_text())]
    assert poisoned == []


def loaded(*arguments: str, **env: str) -> set[str]:
    """The modules the interpreter holds after running the command line, in a process of its own."""
    code = (
        "import sys, atexit\n"
        "atexit.register(lambda: sys.stderr.write('\\n'.join(['MODULES', *sys.modules])))\n"
        f"sys.argv = ['acp-launch', *{list(arguments)!r}]\n"
        "from acp_launch.__main__ import main\n"
        "main()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return set(ended.stderr.split("MODULES\n", 1)[1].splitlines())


def brought_by_asyncio() -> set[str]:
    """The modules of a bare event loop: from Python 3.14 on its tracebacks hold dataclasses."""
    code = "import asyncio, sys; print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


HEAVY = {"pydantic", "ruamel.yaml", "keyring", "psutil", "asyncio", "rich", "msgspec", "sqlite3"}


def test_help_imports_nothing_heavy() -> None:
    """docs/internals.md "Budgets"."""
    assert not HEAVY & loaded("--help")


def test_the_version_imports_no_command_line() -> None:
    assert not {"typer", "click", *HEAVY} & loaded("--version")


# Who turns a Secret back into text. Two of them use it: for a child's environment, and for what servers are sent.
EXPOSED = {
    "plan/model": "an argument, a variable or a header of a plan",
    "plan/shared": "what the server host gets over its socket: its redactor must know the secrets",
    "app/execute": "the environment of a command that was asked for by name",
    "oauth/flow": "headers of the profile for a request to the server itself",
    "oauth/grant": "the item of the store that holds the tokens",
    "app/credentials": "the header that carries the token of a login, and the token in it",
    "mcp/remote": "the headers of each request that prove to a server who its user is",
    "oauth/exchange": "the form and the header of a request to a token endpoint",
}
KEEPERS = {"secret"}  # stores and the redactor
REVEALED = {
    "app/credentials",  # the address of a server, without its secrets
    "app/mcplogin",  # the address of a server to log in to
    "app/start",
    "bridge/offer",
    "mcp/program",
    "process/program",
    "plan/shared",
    "plan/model",  # a client's secret, which becomes a secret again; else only to look at
    "plan/resolve",  # only to look at
    "served/entries",  # the PATH of a server
}


def calls(path: Path, name: str) -> bool:
    """Whether the module calls a method of this name."""
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name
        for node in nodes(path)
    )


def test_a_secret_becomes_text_in_few_places_only() -> None:
    """Its use sites are a child's environment and an HTTP header."""
    modules = {str(path.relative_to(PACKAGE).with_suffix("")): path for path in MODULES}
    exposing = {name for name, path in modules.items() if calls(path, "expose") and place(path) not in KEEPERS}
    assert exposing == {*EXPOSED, "app/secretvalue"}  # the last one: what a person has just typed
    assert {name for name, path in modules.items() if calls(path, "reveal")} == REVEALED


# What writes to the terminal's streams by itself, and why nothing of others gets through there.
WRITERS = {
    "console/stdout": "the answer, made harmless",
    "console/stderr": "everything else; its callers have made it harmless",
    "console/doctor": "colours its own lines; texts pass `one_line`",
    "console/trace": "colours its own lines; texts pass `plain`",
    "console/logs": "colours the names of logs; lines pass `on_terminal`",
    "cli/app": "the version",
    "__main__": "the version",
    "cli/completion": "a script of typer's",
    "cli/help": "pages of ours",
}


def test_what_others_say_has_few_ways_to_a_terminal() -> None:
    """One function decides what of it a terminal gets."""

    def writes(path: Path) -> bool:
        return any(
            isinstance(node, ast.Attribute)
            and node.attr in ("write", "buffer", "echo")
            and ast.unparse(node) in ("sys.stdout.write", "sys.stdout.buffer", "sys.stderr.write", "typer.echo")
            for node in nodes(path)
        )

    modules = {str(path.relative_to(PACKAGE).with_suffix("")): path for path in MODULES if place(path) != "demo"}
    assert {name for name, path in modules.items() if writes(path)} == set(WRITERS)


# What changes files by a path, and why no project has laid a link there. All others do it by `private` and `descent`.
STATE, OWN = "the user's state directory", "a directory that it has just made"
FILE_WRITERS = {
    "batch/baseline": "beside a tree, in a directory that it has just made, which no confined agent can write",
    "batch/cluster": OWN,
    "batch/worktree": "what git and an agent have written; a link is removed as such",
    "bridge/askpass": "the user's terminal",
    "bridge/half": "elsewhere, in a directory that it has just made",
    "bridge/seat": "a socket in the runtime directory",
    "cli/trust": OWN,
    "app/place": "the user's cache directory",
    "document/cache": "the user's cache directory",
    "served/registry": STATE,
    "interactive/editor": OWN,
    "oauth/grant": STATE,
    "plan/written": STATE,
    "private": "sockets in the runtime directory",
    "process/cgroup": "control groups",
    "process/guard_process": STATE,
    "process/leftovers": STATE,
    "process/logs": STATE,
    "process/records": STATE,
    "process/workdir": STATE,
    "registry/install": f"{STATE}; what is unpacked there is examined",
    "session/hold": STATE,
    "session/permission/audit": STATE,
    "session/store": STATE,
}
CHANGES = (
    "write_text|write_bytes|touch|mkdir|makedirs|rmdir|unlink|rmtree|symlink|symlink_to|hardlink_to|chmod|copy2"
    "|copyfile|copytree|extract|extractall|TemporaryDirectory|NamedTemporaryFile|mkdtemp|mkstemp"
)
NAMESAKE_OWNERS = r"^(?:self|signal)$|(?:canvas|formatter|outlet|registry)$"  # their methods change no file
FLAGS = re.compile("O_(?:CREAT|WRONLY|RDWR|APPEND|TRUNC)")


def changes_files(node: ast.AST, flags: set[str]) -> bool:
    """Whether this calls what changes a file by its path. `flags` are names of flags that open a file for writing."""
    if not isinstance(node, ast.Call) or any((each.arg or "").endswith("dir_fd") for each in node.keywords):
        return False
    if not re.fullmatch(f"open|replace|rename|{CHANGES}", getattr(node.func, "attr", getattr(node.func, "id", ""))):
        return False
    called, words = ast.unparse(node.func), [ast.unparse(each) for each in (*node.args, *node.keywords)]
    owner, _, name = called.rpartition(".")
    match name:
        case "open" if owner == "os":
            asked = set(re.findall(r"\w+", " ".join(words[1:])))
            return bool(asked & flags or any(map(FLAGS.fullmatch, asked))) and not re.search("[/.]dev", words[0])
        case "open":
            return any(re.fullmatch("(?:mode=)?'[rbt]*[wax+][rbt+]*'", word) for word in words) and words[0] != "1"
        case "replace" | "rename":  # a text has two arguments for the first one
            return owner == "os" or (bool(owner) and len(words) == len(node.args) == 1)
    return not re.search(NAMESAKE_OWNERS, owner)


def change_files(path: Path) -> bool:
    named = (each for each in nodes(path) if isinstance(each, ast.Assign) and FLAGS.search(ast.unparse(each.value)))
    flags = {ast.unparse(each.targets[0]) for each in named}
    return any(changes_files(each, flags) for each in nodes(path))


def test_what_a_project_may_have_laid_a_link_to_is_written_by_one_door() -> None:
    """docs/trust.md: what a repository brings is not followed."""
    modules = {str(path.relative_to(PACKAGE).with_suffix("")): path for path in MODULES if place(path) != "demo"}
    assert {name for name, path in modules.items() if change_files(path)} == set(FILE_WRITERS)


@pytest.mark.parametrize(
    "line",
    [
        "path.write_text(text)",
        "open(path, 'w')",
        "path.open('ab')",
        "path.open(mode='x')",
        "os.open(path, os.O_RDWR | os.O_CREAT)",
        "os.open(path, HOW)",
        "os.replace(fresh, path)",
        "fresh.replace(path)",
        "self._made.touch()",
        "shutil.rmtree(path)",
        "rmtree(path)",
        "TemporaryDirectory(dir=path)",
    ],
)
def test_a_way_past_the_door_is_seen(line: str) -> None:
    assert changes_files(ast.parse(line).body[0].value, {"HOW"})  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "line",
    [
        "text.replace('a', 'b')",
        "replace(path, content)",
        "path.open('rb')",
        "os.open(path, os.O_RDONLY)",
        "os.open(name, os.O_CREAT, dir_fd=directory)",
        "os.open(os.devnull, os.O_WRONLY)",
        "os.replace(fresh, name, src_dir_fd=at, dst_dir_fd=at)",
        "self.touch()",
    ],
)
def test_what_reads_or_goes_by_the_door_is_not_taken_for_another_way(line: str) -> None:
    assert not changes_files(ast.parse(line).body[0].value, {"HOW"})  # type: ignore[attr-defined]


SECRETIVE = {"keyring", "secretstorage", "jeepney", "cryptography", "pydantic", "pydantic_settings", "ruamel.yaml"}
UNUSED = (  # by a run that is neither confined, elsewhere, traced nor a batch, shares no server, and has no session
    *("acp_launch.batch", "acp_launch.interactive", "acp_launch.trace", "distributed", "dask", "prompt_toolkit"),
    *(f"acp_launch.plan.{name}" for name in ("confinement", "elsewhere", "exposure", "installation", "place")),
    *("acp_launch.app.serverhost", "acp_launch.bridge.multiplexer", "acp_launch.plan.shared"),
    *("acp_launch.served.serverhost", "acp_launch.served.shared"),
)


def test_a_run_imports_only_what_it_uses() -> None:
    """The second time the profile is known, and nothing is validated either."""
    for name in UNUSED:
        path = PACKAGE.parent / name.replace(".", "/")
        assert not name.startswith("acp_launch") or path.is_dir() or path.with_suffix(".py").is_file(), name
    first = loaded("run", "demo", "add 2 3", "--output", "json")
    assert not {"keyring", "secretstorage", "cryptography", "pydantic_settings"} & first
    second = loaded("run", "demo", "add 2 3", "--output", "text")
    assert not SECRETIVE & second
    assert not [name for name in first | second if name.startswith(UNUSED)]


LOGINS = ("aiohttp", "acp_launch.oauth")


@pytest.mark.parametrize(
    "arguments", [("mcp", "list", "demo"), ("mcp", "tools", "demo", "notes"), ("list",)], ids=" ".join
)
def test_only_what_concerns_a_login_imports_its_code(arguments: tuple[str, ...]) -> None:
    assert not [name for name in loaded(*arguments) if name.startswith(LOGINS)]


def test_showing_logins_imports_nothing_that_logs_in() -> None:
    """docs/login.md "Log in to a remote server": the records are read, and nothing else."""
    unneeded = ("aiohttp", "cryptography", "keyring")
    assert not [name for name in loaded("mcp", "status", "demo") if name.startswith(unneeded)]


UNNEEDED = {
    "typer",
    "dataclasses",
    "pydantic",
    "hashlib",
    "difflib",
    "keyring",
    "psutil",
    "rich",
}  # where all is well


def test_a_profile_without_mistakes_needs_neither_typer_nor_pydantic_and_the_second_time_no_yaml() -> None:
    """docs/internals.md "Budgets"."""
    unknown, *known = (loaded(verb, "demo") for verb in ("plan", "plan", "validate"))
    lighter = {*UNNEEDED, "asyncio", "sqlite3", "ssl", "subprocess"}
    assert not lighter & unknown.union(*known)
    assert not {"ruamel.yaml", "acp_launch.document.yaml"} & set().union(*known)
    assert not [name for name in unknown if name.startswith(LOGINS)]


def test_a_plain_run_loads_no_hash_makes_no_dataclass_and_needs_no_typer() -> None:
    """docs/internals.md; a server's shim is greeted with one, so this agent has none."""
    agent = shlex.join([sys.executable, "-P", "-m", "acp_launch.demo.agent"])
    run = loaded("run", "--agent", agent, "help", "--output", "quiet")
    assert not ({*UNNEEDED, "ruamel.yaml"} - brought_by_asyncio()) & run


def test_only_a_session_of_a_user_and_a_hidden_prompt_import_prompt_toolkit() -> None:
    for path in MODULES:
        if place(path) != "interactive" and path.name != "hidden_input.py":
            assert not [name for name in imports(path) if name.split(".")[0] == "prompt_toolkit"], path


def test_importing_the_package_costs_nothing() -> None:
    assert at_import_time(PACKAGE / "__init__.py") == set()
    code = "import sys; before = set(sys.modules); import acp_launch; print(*set(sys.modules) - before)"
    new = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert new == ["acp_launch"]


def at_import_time(path: Path) -> set[str]:
    """The tops of the modules that are imported by statements of the module itself."""
    names: set[str] = set()
    for node in parsed(path).body:
        names |= {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()
        names |= {str(node.module)} if isinstance(node, ast.ImportFrom) else set()
    return {name.split(".")[0] for name in names}
