"""
The check of a `Document`: it becomes a `Profile`, or every Problem at once. Before it the parsing of layers: each file
as YAML, and all of them merged. Pure. A profile that comes from the cache needs none of this.

`model` has the shapes and `rules` what shapes cannot express; here the faults of both get their places in the text.
pydantic only supplies messages, for values that `build` declines. MCP servers are then validated one by one with the
class that their `type` names, because the errors of a union of three would not help the user.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from acp_launch.document.faults import (
    REQUIRED,
    UNKNOWN_KEY,
    Fault,
    choose,
    described,
    misplaced,
    named_entries,
    placed,
    unknown_key,
)
from acp_launch.document.flow import inline
from acp_launch.document.nodes import (
    OVERLAY,
    PROFILE,
    Node,
    Plain,
    found,
    number_text,
    shorten,
)
from acp_launch.document.shape import Shape, build, mapping_meant, shape_at, validate
from acp_launch.document.yaml import Document, parse
from acp_launch.problem import KeyPath, Problem, errors, likeliest
from acp_launch.profile.agents import AGENTS
from acp_launch.profile.keys import other_kind
from acp_launch.profile.layers import (
    EXTENDS,
    Extends,
    Layer,
    LayerSet,
    ParsedLayer,
    dropped_rules,
    merge,
    relaxed_confinement,
    rule_sources,
    without,
    without_rules,
)
from acp_launch.profile.leaks import discreet, in_comments, leaks, literals
from acp_launch.profile.model import SERVERS, Match, McpServer, Profile, StdioServer
from acp_launch.profile.rules import ANSWERS, RULE_KINDS, broken, check_expansions, program_meant
from acp_launch.regex import regex
from acp_launch.secret.detect import masked

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

# Messages for single faults; `document.faults` has those that all formats share. Only these tables know which keys may
# come in a later version, and which belong to the user's settings: such keys get their own sentence instead of a
# misleading "did you mean". A name that another tool uses for a key is a better guess than a similar name.
NO_VERSION = "the profile does not state its version"
_USERS = ("secrets", "max_line")
_OTHER_KEYS = {  # names in other tools and formats
    **dict.fromkeys(("cmd", "executable", "program"), "command"),
    **dict.fromkeys(("arguments", "argv"), "args"),
    **dict.fromkeys(("environment", "envs", "env_vars", "environment_variables"), "env"),
    **dict.fromkeys(("directory", "workdir", "working_dir", "working_directory", "workingdirectory"), "cwd"),
    **dict.fromkeys(("mcpservers", "servers", "mcp"), "mcp_servers"),
    **dict.fromkeys(("uri", "endpoint", "serverurl", "server_url"), "url"),
}


def describe(error: "ErrorDetails", shape: type[Shape], path: KeyPath) -> Fault:
    """Describe a pydantic error; `shape` was validated at `path`."""
    inner, value = error["loc"], error["input"]
    if error["type"] in UNKNOWN_KEY:
        return _unknown_key((*path, *inner), shape_at(shape, inner[:-1]))
    fault = described(error, path, shape)
    if isinstance(value, list) and inner[-1] == "command" and all(isinstance(each, str) for each in value):
        return replace(fault, fix=_split(value))
    if not isinstance(value, str):
        return fault
    if shape is Profile and inner == ("agent",):
        known = AGENTS.get(value.strip())
        is_own = known is None or not known.is_built_in
        written = f"write agent: {inline(program_meant(value))}"
        return replace(fault, fix=written if is_own else f"use extends: {value} instead of agent")
    if shape_at(shape, inner) is Match and inner[-1] in ANSWERS and value not in RULE_KINDS:
        return replace(fault, fix=f"write {inner[-1]}: {inline({'command': value})}")
    return fault


def _split(command: list[Plain]) -> str:
    """Say how to write a command line that is a list, as in compose files."""
    program, *args = command or ["..."]
    return f"write command: {inline(program)}" + (f" and args: {inline(args)}" if args else "")


def is_misspelt(fault: Fault, others: Iterable[Fault]) -> bool:
    """Whether a required key is missing only because it is misspelt, which is already reported."""
    *above, key = fault.path or ("",)
    is_written = any([*other.path[:-1]] == above and other.fix == f"write {key}" for other in others)
    return fault.message in (REQUIRED, NO_VERSION) and is_written


def _unknown_key(path: KeyPath, shape: type[Shape]) -> Fault:
    key = str(path[-1])
    if shape is Profile and key in _USERS:
        what = f'"{key}" belongs to your own settings; a profile cannot set it'
        return Fault(path, what, "move it to config.yaml in your configuration directory", at_key=True)
    if other := other_kind(shape, key):
        fix = f"remove it, or remove the type if the server has a {other}"
        return Fault(path, f'"{key}" is only for a server with a {other}', fix, at_key=True)
    return unknown_key(path, shape.__struct_fields__, _OTHER_KEYS)


VERSION = 1
_S = TypeVar("_S", bound=Shape)
_OTHER_NAMES = dict.fromkeys(("streamable-http", "streamable_http", "streamablehttp", "https", "remote"), "http")


def check(document: Document) -> tuple[Profile | None, tuple[Problem, ...]]:
    """Check a document; return the profile, None if a problem is an error, and all problems.

    Problems come in the order of the document's lines; of merged layers, file by file.
    """
    root = document.root
    unsaid = () if "version" in root else (Fault(("version",), NO_VERSION, "add: version: 1"),)
    faults = [*unsaid, *version(root), *broken(root)]
    profile = _profile(root, faults)
    faults += check_expansions(profile) if profile else ()
    faults = [fault for fault in faults if not is_misspelt(fault, faults)]
    problems = sorted(_problems(document, faults), key=lambda problem: (problem.file, problem.line, problem.column))
    return None if errors(problems) else profile, tuple(problems)


def _profile(root: Mapping[str, Plain], faults: list[Fault]) -> Profile | None:
    """Build the profile; the faults of its shape are added to `faults`."""
    try:
        return build(Profile, root)
    except ValueError:
        profile = _validate(Profile, {**root, "version": VERSION, "mcp_servers": {}}, (), faults)
        servers = _servers(root.get("mcp_servers", {}), faults)
        return replace(profile, mcp_servers=servers) if profile else None


def _problems(document: Document, faults: list[Fault]) -> Iterable[Problem]:
    if not faults:
        return ()

    return placed(document, (discreet(fault, document.root) for fault in faults))


def version(root: Mapping[str, Plain]) -> Iterable[Fault]:
    """Yield the faults of a document's `version`, if it has one."""
    if "version" in root and (root["version"] != VERSION or isinstance(root["version"], bool)):
        written = found(root["version"])
        yield Fault(("version",), f"expected version 1, found {written}", "write: version: 1")


def _validate(shape: type[_S], value: Plain, path: KeyPath, faults: list[Fault]) -> _S | None:
    return validate(shape, value, lambda error: faults.append(_as_written(describe(error, shape, path), value, path)))


def _as_written(fault: Fault, value: Plain, path: KeyPath) -> Fault:
    """Point at the text itself where a text stands for a list of one."""
    for step in fault.path[len(path) : -1]:
        known = dict(enumerate(value)) if isinstance(value, list) else value
        value = known.get(step) if isinstance(known, dict) else None
    return replace(fault, path=fault.path[:-1]) if isinstance(value, str) else fault


def _servers(written: Plain, faults: list[Fault]) -> dict[str, McpServer]:
    if not isinstance(written, dict):
        named = {name: _server_meant(server) for name, server in named_entries(written).items()}
        faults.append(misplaced(("mcp_servers",), "a mapping of names to servers", written, named))
        return {}
    servers = {}
    for name, server in written.items():
        path = ("mcp_servers", name)
        kind = _kind(server, path, faults)
        if kind and (valid := _validate(SERVERS[kind], {**server, "type": kind}, path, faults)):
            servers[name] = valid
    return servers


def _server_meant(written: Plain) -> Plain:
    """Return the server for which a text or a list most likely stands: its url, or its command line."""
    if isinstance(written, list):
        return mapping_meant(StdioServer, written) or {"command": "..."}
    if not isinstance(written, str) or not written.strip():
        return written if isinstance(written, dict) else {"command": "..."}
    return {"type": "http", "url": written} if "://" in written.split()[0] else program_meant(written)


def _kind(server: Plain, path: KeyPath, faults: list[Fault]) -> str | None:
    """Return the kind of server, which chooses the class that validates it; None if that is not clear."""
    if not isinstance(server, dict):
        faults.append(misplaced(path, "a mapping with a command or a url", server, _server_meant(server)))
        return None
    if "command" in server and "url" in server:
        fix = "keep the command (a local program) or the url (a server on the network)"
        faults.append(Fault((*path, "url"), "a server has a command or a url, not both", fix, at_key=True))
        return None
    if "type" in server:
        return _named_kind(server["type"], path, faults)
    meant = {
        likeliest(key.lower(), ("command", "url")) for key in server
    }  # the validation of that kind reports a misspelt key
    if "command" in meant:
        return "stdio"
    if "url" in meant:
        faults.append(Fault((*path, "type"), "a server with a url needs a type", "add: type: http"))
        return "http"
    faults.append(Fault(path, "a server needs a command or a url", "add: command: ...", at_key=True))
    return None


def _named_kind(written: Plain, path: KeyPath, faults: list[Fault]) -> str | None:
    if isinstance(written, str) and written in SERVERS:
        return written
    meant = _OTHER_NAMES.get(written.lower()) if isinstance(written, str) else None
    faults.append(choose((*path, "type"), written, tuple(SERVERS), meant))
    return None


# The value of `extends`. An entry is a name, or a path that begins with ./ or ../ and is relative to the file. A path
# that is absolute or begins with ~ is refused, because a profile is shared, and the path differs on other machines.
MAX_ENTRIES = 63
ENTRY = r"^(?:\.\.?/[^\\$]+|[^./\\$~][^/\\$]*)$"  # as far as a pattern can tell
_PATH = regex(r"\.\.?(?:/|$)")  # no name begins with a dot
_ABSOLUTE = regex(r"/|[A-Za-z]:[\\/]|\\\\")
_ELSEWHERE = "copy the file beside this one and write ./NAME.yaml, or put it among your own profiles and write its name"


def _extends_entries(written: Plain) -> list[tuple[KeyPath, str]]:
    """List each entry with its path in the document, including wrong ones."""
    if isinstance(written, str):
        return [((EXTENDS,), written)]
    items = enumerate(written) if isinstance(written, list) else ()
    return [((EXTENDS, index), item) for index, item in items if isinstance(item, str)]


def extends_faults(written: Plain) -> Iterator[Fault]:
    """Yield everything that is wrong with the value of `extends`, without looking for the files."""
    if not isinstance(written, str | list):
        yield _wrong_entry_type((EXTENDS,), "a profile's name, a ./path or a list of them", written)
    elif not written:
        yield Fault((EXTENDS,), "this does not name a profile", "name one, or remove the key")
    elif isinstance(written, list) and len(written) > MAX_ENTRIES:
        what = f"{len(written):,} profiles to extend; at most {MAX_ENTRIES} are allowed"
        yield Fault((EXTENDS,), what, "merge some of them")
    else:
        for index, item in enumerate(written) if isinstance(written, list) else ():
            if not isinstance(item, str):
                yield _wrong_entry_type((EXTENDS, index), "a profile's name or a ./path", item)
        for path, entry in _extends_entries(written):
            if fault := _entry_fault(entry):
                yield Fault(path, *fault)


def _wrong_entry_type(path: KeyPath, expected: str, value: Plain) -> Fault:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    fix = f'quote it: "{number_text(value)}"' if number else "write the name of a profile, or remove the key"
    return Fault(path, f"expected {expected}, found {found(value)}", fix)


def _entry_fault(entry: str) -> tuple[str, str] | None:
    quoted, stem = f'"{shorten(entry)}"', re.sub(r"\.ya?ml$", "", entry)
    if not entry.strip():
        return "this does not name a profile", "name one, or remove the key"
    if entry.startswith("~") or _ABSOLUTE.match(entry):
        return f"{quoted} is a path that other machines do not have", _ELSEWHERE
    if stem.endswith(".local"):
        return f"{quoted} is an overlay, which cannot be extended", "write the name of its profile"
    is_name = stem == entry and "/" not in entry and not entry.startswith(".")
    is_plain = entry.isprintable() and not {"$", "\\"} & set(entry)
    if is_plain and (is_name or _PATH.match(entry)):
        return None
    fix = f"write ./{entry}" if is_plain else "write a profile's name or a ./path"
    return f"{quoted} is neither a profile's name nor a ./path", fix


ADD = "add: "  # begins the fix for every missing key, which another file may have


def parse_layer(layer: Layer) -> ParsedLayer:
    """Parse one layer on its own: its YAML, its version, and what it extends."""
    document, problems = parse(layer.text, layer.label, OVERLAY if layer.role == "overlay" else PROFILE)
    if document is None:
        return ParsedLayer(layer, problems=tuple(problems))
    wrong = list(_extends(document, layer))
    faults = [*version(document.root), *wrong]
    entries = () if wrong else _extends_entries(document.root.get(EXTENDS))
    follow = tuple(Extends(entry, document.where(path)) for path, entry in entries)
    return ParsedLayer(layer, follow, document, (*problems, *placed(document, faults)))


def _extends(document: Document, layer: Layer) -> Iterator[Fault]:
    if EXTENDS not in document.root:
        return
    if layer.role == "overlay":
        what = "an overlay cannot extend; it is merged over the profile and all that the profile extends"
        yield Fault((EXTENDS,), what, "move it to the profile", at_key=True)
    else:
        yield from extends_faults(document.root[EXTENDS])


def merge_layers(gathered: LayerSet) -> tuple[Document | None, Profile | None, tuple[Problem, ...]]:
    """Merge and check the layers; return them without `extends`, None if the profile has no content.

    If a layer is missing, missing keys are not reported, since it may have them.
    """
    problems = [*gathered.problems, *(problem for part in gathered.parsed_layers for problem in part.problems)]
    own = next((part.document for part in gathered.parsed_layers if part.layer.role == "profile"), None)
    if own is None:
        return None, None, tuple(problems)
    ruled = rule_sources(gathered.parsed_layers)
    trees = [(_inheritable(part), part.real in ruled) for part in gathered.parsed_layers if part.document]
    document, idle = _merge(own, trees)
    idle = (*idle, *dropped_rules(gathered.parsed_layers), *relaxed_confinement(gathered.parsed_layers))
    profile, found = check(document)
    missing = (part for part in gathered.parsed_layers if part.document is None and part.problems)
    cut_off = (
        part for part in gathered.parsed_layers if part.document and EXTENDS in part.document.root and not part.extends
    )
    if not gathered.problems and not any((*missing, *cut_off)):
        return document, profile, tuple(dict.fromkeys((*problems, *idle, *found)))
    known = (problem for problem in found if not problem.fix.startswith(ADD))
    return document, None, tuple(dict.fromkeys((*problems, *known)))


def _inheritable(part: ParsedLayer) -> Node:
    """Return a layer's content; of a parent without its description, which is about the parent."""
    assert part.document, "the caller has left out the others"
    tree = part.document.tree
    return without(tree, "description") if part.layer.role == "parent" else tree


def _merge(own: Document, trees: Sequence[tuple[Node, bool]]) -> tuple[Document, tuple[Problem, ...]]:
    """Merge layers; with each, whether its permission rules hold."""
    if len(trees) == 1 and EXTENDS not in own.root:
        return own, ()
    given = [(without(tree, EXTENDS), rules) for tree, rules in trees]
    tree, idle = merge([tree if rules else without_rules(tree) for tree, rules in given])
    tree.place = own.tree.place  # missing keys are reported for the profile itself
    return Document(own.file, tree), idle


def exposed(parts: Iterable[ParsedLayer]) -> tuple[Problem, ...]:
    """Return the credentials in each layer as problems, also those that another layer replaces (see `leaks`)."""
    return tuple(problem for part in parts for problem in _exposed(part))


def _exposed(part: ParsedLayer) -> Iterator[Problem]:
    def told(document: Document) -> Iterator[tuple[tuple[int, int], int, str]]:
        for path, offset, literal in literals(document.root):
            at = document.where(path, offset=offset)
            yield (at.line, at.column), offset, literal

    for problem in placed(part.document, leaks(part.document.root)) if part.document else ():
        yield problem._replace(path=masked(problem.path))
    text = part.layer.text.removeprefix("\ufeff")  # as `parse` counts
    for (line, column), stray in in_comments(text, told(part.document) if part.document else ()):
        yield Problem(part.layer.label, line, column, "", stray.message, stray.fix, stray.severity)
