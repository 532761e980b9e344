"""
The rules of a profile that types cannot express: names, addresses, credentials, and values without effect. Pure.

Each rule looks at raw values and skips any of the wrong type, which `check` reports. So all rules run even when half
of the profile is wrong.
"""

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from acp_launch.document.faults import REQUIRED, Fault, choose
from acp_launch.document.flow import command_words, inline, words
from acp_launch.document.nodes import Plain, section, shorten
from acp_launch.problem import KeyPath
from acp_launch.profile.agents import started
from acp_launch.profile.keys import server_keys
from acp_launch.profile.leaks import slug
from acp_launch.profile.model import Match, Profile
from acp_launch.profile.values import (
    CLEAR,
    CLEAR_FIX,
    HEADER_FIX,
    LITERAL,
    LOGIN_CLEAR_FIX,
    SESSION_NAME_FIX,
    URL_FIX,
    USER_FIX,
    VARIABLE_HEADER,
    header_fault,
    header_name_fault,
    host,
    is_in_the_clear,
    scope_fault,
    session_name_fault,
    templates,
    url_fault,
    user_fault,
    variable_headers,
)
from acp_launch.regex import regex
from acp_launch.secret.detect import masked, noun
from acp_launch.secret.value import (
    PASSPHRASE,
    PREFIX,
    BadReference,
    Part,
    SecretReference,
    VariableReference,
    is_private,
    parse,
    place,
)

# Permission rules. A rule that does less than its author thinks is worse than a missing rule, so a rule is reported
# before the launch if it matches everything, nothing, or a kind that agents also use for other decisions.
ANSWERS = ("allow", "deny", "ask")
RULE_KINDS = ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other")  # ACP v1
TRAPS = ("switch_mode", "fetch", "think", "other")  # adapters ask for other things under these names
WILD = frozenset("*?[")
_OTHER_KINDS = {  # names of tools in agents
    **dict.fromkeys(("write", "create", "patch", "update", "modify"), "edit"),
    **dict.fromkeys(("bash", "shell", "command", "run", "exec", "terminal"), "execute"),
    **dict.fromkeys(("grep", "glob", "find"), "search"),
    **dict.fromkeys(("rm", "remove", "unlink"), "delete"),
    **dict.fromkeys(("web", "http", "url", "download"), "fetch"),
    **dict.fromkeys(("rename", "mv"), "move"),
    "plan": "switch_mode",
}


def broken_rules(root: Mapping[str, Plain]) -> Iterator[Fault]:
    """Yield a fault for everything that is wrong with the permission rules."""
    for path, rule in _rules(root):
        written = [answer for answer in ANSWERS if answer in rule]
        if not rule:
            yield Fault(path, "this rule is empty", "write one of allow, deny or ask: {kind: ...}")
        for second in written[1:]:
            what = f"a rule has one answer, but this one has {' and '.join(written)}"
            yield Fault((*path, second), what, "make it two rules; the first that matches decides", at_key=True)
        for answer in written:
            if isinstance(match := rule[answer], dict):
                yield from _match((*path, answer), answer, match)


def patterns(root: Mapping[str, Plain]) -> Iterator[tuple[KeyPath, str]]:
    """Yield the texts of permission rules in which references are allowed."""
    for path, rule in _rules(root):
        for answer in ANSWERS:
            for key in ("path", "command"):
                yield from _items((*path, answer, key), section(rule, answer).get(key))


def _rules(root: Mapping[str, Plain]) -> Iterator[tuple[KeyPath, Mapping[str, Plain]]]:
    rules = section(root, "permissions").get("rules")
    for index, rule in enumerate(rules if isinstance(rules, list) else []):
        if isinstance(rule, dict):
            yield ("permissions", "rules", index), rule


def _items(path: KeyPath, written: Plain) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(written, str):
        yield path, written
    for index, item in enumerate(written if isinstance(written, list) else []):
        if isinstance(item, str):
            yield (*path, index), item


def _match(path: KeyPath, answer: str, match: Mapping[str, Plain]) -> Iterator[Fault]:
    if _is_everything(match):
        yield Fault(path, "this rule matches everything", f"write permissions.default: {answer}", at_key=True)
        return
    for key in Match.__struct_fields__:
        if match.get(key) == []:
            yield Fault((*path, key), "an empty list matches nothing", "write a glob, or remove the key")
        for where, glob in _items((*path, key), match.get(key)):
            yield from _glob(where, key, glob)
    if answer == "allow":
        yield from _trap_kinds(path, match)


def _is_everything(match: Mapping[str, Plain]) -> bool:
    kinds = [kind for _, kind in _items((), match.get("kind"))]
    return not match or (set(match) == {"kind"} and any(kind and not kind.strip("*") for kind in kinds))


def _glob(path: KeyPath, key: str, glob: str) -> Iterator[Fault]:
    if not glob.strip():
        yield Fault(path, "the pattern is empty", "write a glob, or remove it")
    elif key == "kind" and not WILD & set(glob) and glob not in RULE_KINDS:
        yield choose(path, glob, RULE_KINDS, _OTHER_KINDS.get(glob.lower()))
    elif key == "path" and glob.startswith("~"):
        what = f'"{shorten(glob)}": acp-launch does not expand "~"'
        yield Fault(path, what, f"write ${{home}}{shorten(glob[1:])}")


def _trap_kinds(path: KeyPath, match: Mapping[str, Plain]) -> Iterator[Fault]:
    """Warn about kinds behind which agents hide other decisions. Not an error: the user may know the agent."""
    if set(match) != {"kind"}:
        return
    for where, glob in _items((*path, "kind"), match["kind"]):
        if hidden := [kind for kind in TRAPS if fnmatchcase(kind, glob)]:
            what = f"agents also ask for other decisions with the kind {hidden[0]}, and this allows them unseen"
            yield Fault(where, what, "add the tool or the title, or write ask", severity="warning")


SERVER_NAME = r"^[A-Za-z0-9_.-]+$"
HEADER_NAME = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"  # RFC 9110 "token"
ENVIRONMENT_NAME = r"^[^=\s\x00-\x1f\x7f]+$"
KINDS = ("stdio", "http", "sse")
WORKDIR = VariableReference("workdir")
INHERITED_NAME = r"^[^=*\s\x00-\x1f\x7f]+\*?$"


def broken(root: Mapping[str, Plain]) -> Iterator[Fault]:
    """Yield a fault for every rule that the profile breaks."""
    if isinstance(agent := root.get("agent"), dict):
        yield from _agent(agent)
    yield from _workspace(section(root, "workspace"))
    yield from _session(section(root, "session"))
    yield from _runtime(section(root, "runtime"))
    yield from _elsewhere(root, section(root, "runtime"))
    for path, text in patterns(root):
        yield from _not_from_secrets(path, text, "a pattern")
    yield from broken_rules(root)
    for name, server in section(root, "mcp_servers").items():
        path = ("mcp_servers", name)
        if not re.fullmatch(SERVER_NAME, name):
            fix = "use letters, digits, _ . and - only"
            yield Fault(path, f'"{shorten(name)}" is not a server name', fix, at_key=True)
        if isinstance(server, dict):
            yield from _program(server, path)
            yield from _inherit_env(server, path)
            yield from _supervision(server, path)
            yield from _remote(server, path)
    yield from _untakeable(root)


def _untakeable(root: Mapping[str, Plain]) -> Iterator[Fault]:
    """Warn about servers that the agent is known not to accept. Not an error: the table of agents may be outdated.

    Bridged servers reach the agent over stdio or HTTP, as it takes them, unless `agent.mcp` says which.
    """
    agent = section(root, "agent")
    command = agent.get("command")
    found = started(command, [arg for _, arg in _items((), agent.get("args"))]) if isinstance(command, str) else None
    if found is None or not found.takes:
        return
    what = f"{found.title} takes MCP servers over {' and '.join(found.takes)} only, as far as is known"
    for name, server in section(root, "mcp_servers").items():
        if not isinstance(server, dict):
            continue
        kind = server.get("type", "stdio" if "command" in server else "")
        fix = "give the server's http url, or use another agent"
        if kind in KINDS and server.get("bridge") is not False:
            mcp = agent.get("mcp", "auto")
            kind = "http" if mcp == "auto" and "http" in found.takes else "stdio" if mcp == "auto" else mcp
            fix = "remove agent.mcp, or use another agent"
        if kind in KINDS and kind not in found.takes:
            yield Fault(("mcp_servers", name), what, fix, at_key=True, severity="warning")


def _agent(agent: Mapping[str, Plain]) -> Iterator[Fault]:
    if agent.get("registry") is None and agent.get("command") is None:
        key = next((key for key in ("command", "registry") if key in agent), "command")
        yield Fault(("agent", key), REQUIRED, f"add: {key}: ...")
    elif agent.get("registry") is not None and agent.get("command") is not None:
        what = "an agent has a command, or an id in the registry, not both"
        fix = "keep the command (a program of yours) or the registry's id; null removes what another profile says"
        yield Fault(("agent", "registry"), what, fix, at_key=True)
    yield from _program(agent, ("agent",))
    yield from _inherit_env(agent, ("agent",))


def _inherit_env(program: Mapping[str, Plain], path: KeyPath) -> Iterator[Fault]:
    names = program.get("inherit_env")
    for where, name in _items((*path, "inherit_env"), names if isinstance(names, list) else None):
        if not re.fullmatch(INHERITED_NAME, name):
            what = f'"{shorten(name)}" is neither a variable\'s name nor a PREFIX_* pattern'
            yield Fault(where, what, "write NAME or PREFIX_*")


def _supervision(server: Mapping[str, Plain], path: KeyPath) -> Iterator[Fault]:
    """Check the keys of a server that acp-launch starts: its directory, its restarts, its tools."""
    yield from _not_from_secrets((*path, "cwd"), server.get("cwd"), "a directory")
    for where, text in _items((*path, "data"), server.get("data")):
        yield from _not_from_secrets(where, text, "a path")
        if text.startswith("~") or not text.strip():
            yield Fault(where, f'"{shorten(text)}" is not a path', "write ${home}/NAME, or an absolute path")
    tools = section(server, "tools")
    for key in ("allow", "deny"):
        for where, glob in _items((*path, "tools", key), tools.get(key)):
            if not glob.strip():
                yield Fault(where, "the tool's name is empty", "write a name, or a glob: get_*")
    yield from _sharing(server, path)
    if server.get("bridge") is False:
        yield from _idle_supervision(server, path)


def _sharing(server: Mapping[str, Plain], path: KeyPath) -> Iterator[Fault]:
    share = server.get("share")
    if share in (True, "launch", "user") and server.get("session_elevation", "off") != "off":
        what = "the sessions of a shared server have one conversation with it, which none of them can resume alone"
        yield Fault((*path, "session_elevation"), what, "remove it, or share", at_key=True)
    if share == "user" and "url" in server:
        what = "only a server that acp-launch starts has one process for all launches"
        yield Fault((*path, "share"), what, "write launch: one connection for all sessions of the agent")


def _idle_supervision(server: Mapping[str, Plain], path: KeyPath) -> Iterator[Fault]:
    """Report supervision keys of a server that the agent starts or connects to itself.

    Hidden tools are an error, since the restriction would not be enforced; so is a process for all launches. Other keys
    are only without effect.
    """
    for key in server_keys(lambda key: key.is_idle):
        if key not in server:
            continue
        does = "connects to" if "url" in server else "starts"
        what = f"the agent {does} this server itself (bridge: false), so "
        if key == "tools":
            yield Fault(
                (*path, key), what + "acp-launch cannot hide its tools", "remove tools, or bridge: false", at_key=True
            )
        elif server[key] == "user":
            yield Fault((*path, key), what + "launches cannot share it", "remove share, or bridge: false", at_key=True)
        else:
            yield Fault((*path, key), what + f'"{key}" has no effect', "remove it", at_key=True, severity="warning")


def _program(program: Mapping[str, Plain], path: KeyPath) -> Iterator[Fault]:
    command = program.get("command")
    if isinstance(command, str) and not command.strip():
        yield Fault((*path, "command"), "the command is empty", "write the program to start")
    yield from _not_from_secrets((*path, "command"), command, "a command")
    if isinstance(command, str):
        yield from _command_line((*path, "command"), command, program.get("args"))
    for where, argument in _items((*path, "args"), program.get("args")):
        yield from _visible_secrets(where, argument, "in ps")
    for name in section(program, "env"):
        where = (*path, "env", name)
        if not re.fullmatch(ENVIRONMENT_NAME, name):
            fix = "use a name without spaces and ="
            yield Fault(where, f'"{shorten(name)}" is not a variable\'s name', fix, at_key=True)
        elif is_private(name):
            which = PASSPHRASE if name.upper() == PASSPHRASE else f"{PREFIX}*"
            what = f"{which} is reserved for acp-launch's secrets; children never receive it"
            yield Fault(where, what, "choose another name", at_key=True)


# What a shell would expand, and acp-launch does not. In an argument only where a value begins, since programs have a
# notation of their own, and not for a shell, which expands its own arguments.
_VARIABLE = regex(r"(?<![$\\])\$(?P<name>[A-Z_][A-Z0-9_]+)")
_VALUE = regex(r"(?:\A|=)(?:\$(?P<name>[A-Z_][A-Z0-9_]+)|~(?=/|\Z)|\$\(|`)")
_SHELL = regex(r"(?:.*/)?(?:ba|da|z|fi)?sh")


def check_expansions(profile: Profile) -> Iterator[Fault]:
    """Warn about each text that names a variable, the home or a command's output, as a shell would."""
    for path, text in templates(profile):
        owner = profile.mcp_servers[str(path[1])] if path[0] == "mcp_servers" else profile.agent
        key = path[-2]
        if path[0] == "permissions" and "path" not in path:  # a command may well hold `$HOME`
            continue
        if key == "args" and _SHELL.fullmatch(getattr(owner, "command", None) or ""):
            continue
        found = (key != "args" and _VARIABLE.search(text)) or (key in ("args", "env") and _VALUE.search(text))
        if found:
            name, written = found["name"], found[0].lstrip("=")
            meant = "${home}" if name in (None, "HOME") else f"${{env:{name}}}"
            fix = "the value itself: no command is run" if written in ("$(", "`") else f"{meant} in its place"
            what = f'"{written}" stays as it is: acp-launch expands nothing but ${{...}}'
            yield Fault(path, what, f"write {fix}", offset=text.index(written), severity="warning")


def program_meant(command_line: str) -> dict[str, Plain]:
    """Return the keys of the program that a command line starts."""
    split = words if "${" in command_line else command_words
    program, *args = split(command_line) or [""]
    return {"command": program, "args": args} if args else {"command": program}


def _command_line(path: KeyPath, command: str, others: Plain) -> Iterator[Fault]:
    """Report arguments in a command. In a path they are only likely, because a directory's name may hold spaces."""
    try:
        text = "".join(part if isinstance(part, str) else "/_" for part in parse(command))
    except BadReference:  # `check` reports it
        return
    program, *args = text.split() or [""]
    is_path = "/" in program or "\\" in program
    if not args or (is_path and not any(word.startswith("-") for word in args)):
        return
    what = f'"{shorten(command)}" holds arguments; command is the program alone'
    meant = program_meant(command)
    args = [*meant.get("args", ()), *(arg for _, arg in _items((), others))]
    fix = f"write command: {inline(meant['command'], in_flow=True)}, args: {inline(args)}"
    yield Fault(path, what, masked(fix), severity="warning" if is_path else "error")


def _workspace(workspace: Mapping[str, Plain]) -> Iterator[Fault]:
    path, cwd = ("workspace", "cwd"), workspace.get("cwd")
    yield from _not_from_secrets(path, cwd, "a directory")
    if isinstance(cwd, str) and WORKDIR in _references(cwd):
        what = f"{WORKDIR} is this directory itself"
        yield Fault(path, what, "write ${cwd} or ${project}", offset=place(cwd, WORKDIR))
    further = "additional_directories"
    for where, directory in _items(("workspace", further), workspace.get(further)):
        yield from _not_from_secrets(where, directory, "a directory")


def _runtime(runtime: Mapping[str, Plain]) -> Iterator[Fault]:
    if "confined" in runtime and runtime["confined"] is None:
        fix = "write confined: true, or a mapping; false runs the agent as you"
        yield Fault(("runtime", "confined"), "confined has no value", fix, at_key=True)
    for kind, fix in (
        ("container", "write container: {image: NAME}"),
        ("ssh", "write ssh: {host: NAME, directory: /PATH}"),
    ):
        if kind in runtime and runtime[kind] is None:
            yield Fault(("runtime", kind), f"{kind} has no value", f"{fix}, or remove it", at_key=True)
    places = [key for key in ("confined", "container", "ssh") if runtime.get(key) not in (None, False)]
    for key in places[1:]:
        what = f"the agent runs in one place, and {places[0]} is one already"
        yield Fault(("runtime", key), what, f"remove {key}, or write {places[0]}: null", at_key=True)
    paths = [("confined", key) for key in ("state", "read", "write")] + [("container", "mounts")]
    for kind, key in paths:
        for where, path in _items(("runtime", kind, key), section(runtime, kind).get(key)):
            yield from _not_from_secrets(where, path, "a path")
            if not path.strip() or "\n" in path or (path.startswith("~") and path[1:2] not in ("", "/")):
                yield Fault(where, f'"{shorten(path)}" is not a path', "write ~/NAME, or an absolute path")
            elif key == "state" and not path.startswith(("~", "/", "$")):
                what = f'"{shorten(path)}": state lies in your home, and this path begins at the project'
                yield Fault(where, what, f"write ~/{shorten(path)}, or write: for a path of the project")
            elif kind == "container" and ":" in path.removesuffix(":ro"):
                what = f'"{shorten(path)}" has a colon, but each path is there at its own place'
                yield Fault(where, what, "write the path alone, or PATH:ro")


# The words that are given to the engine and to ssh, of which none may be an option.
_PLACE_WORDS = {
    ("container", "image"): (regex(r"[^\s-]\S*"), "the name of an image", "write it as in `podman images`"),
    ("ssh", "host"): (
        regex(r"[\w.:@%+][\w.:@%+-]*"),
        "a host",
        "write an alias of ~/.ssh/config, with all options there",
    ),
    ("ssh", "directory"): (regex(r"/[^\0\n]*"), "an absolute path there", "write a path such as /srv/shop"),
    ("ssh", "python"): (regex(r"[\w./+][\w./+-]*"), "a program", "write a name such as python3, or an absolute path"),
}


def _elsewhere(root: Mapping[str, Plain], runtime: Mapping[str, Plain]) -> Iterator[Fault]:
    """Check an agent in a container, or on another machine: its words, and what cannot be done for it from here."""
    for (kind, key), (pattern, what, fix) in _PLACE_WORDS.items():
        text = section(runtime, kind).get(key)
        if isinstance(text, str) and not pattern.fullmatch(text):
            yield Fault(("runtime", kind, key), f'"{shorten(text)}" is not {what}', fix)
        if isinstance(text, str):
            yield from _not_from_secrets(("runtime", kind, key), text, what)
    is_remote = bool(section(runtime, "ssh"))
    if not (is_remote or section(runtime, "container")):
        return
    where = "on another machine" if is_remote else "in a container"
    client, agent = section(root, "client"), section(root, "agent")
    if agent.get("inherit_env") in ("all", "minimal"):
        what = f"the agent is {where}, where your PATH and HOME are not"
        yield Fault(("agent", "inherit_env"), what, "name the variables that it needs: [LANG]")
    if client.get("terminal") is True:
        what = f"the agent is {where}, and its commands would run here"
        yield Fault(("client", "terminal"), what, "remove it: agents have tools of their own to run commands")
    if is_remote and client.get("fs") not in (None, False):
        what = "the agent is on another machine, and its files would be read here"
        yield Fault(("client", "fs"), what, "remove it: agents read and write files by themselves")
    if is_remote and section(root, "workspace").get("additional_directories"):
        what = "the agent is on another machine, which has no directory of this one"
        yield Fault(("workspace", "additional_directories"), what, "remove it", at_key=True)
    if agent.get("registry") is not None:
        what = f"the agent is {where}, and the registry installs on this machine"
        yield Fault(("agent", "registry"), what, "install it there, and name its program with command", at_key=True)
    for name, server in section(root, "mcp_servers").items():
        if isinstance(server, dict) and server.get("bridge") is False and "command" in server:
            what = f"the agent is {where}, and would start this server there"
            yield Fault(
                ("mcp_servers", name, "bridge"), what, "remove bridge: false: it runs here, and the agent reaches it"
            )


def _not_from_secrets(path: KeyPath, text: Plain, what: str) -> Iterator[Fault]:
    """Refuse secrets in a value that is resolved before any secret is looked up."""
    for secret in _secrets(text) if isinstance(text, str) else ():
        where = place(text, secret)
        yield Fault(path, f"{what} cannot come from a secret", "write it as text, or use ${env:NAME}", offset=where)


def _secrets(text: str) -> list[SecretReference]:
    return [part for part in _references(text) if isinstance(part, SecretReference)]


def _references(text: str) -> tuple[Part, ...]:
    try:
        return parse(text)
    except BadReference:  # `check` reports it
        return ()


def _visible_secrets(path: KeyPath, text: str, where: str) -> Iterator[Fault]:
    """Warn about a secret where others can read it. Not an error: some programs accept it only there."""
    for secret in _secrets(text):
        if where == "in ps":
            what, fix = f"{secret} is visible to every user of this machine in ps", "pass it in env"
        else:
            what, fix = f"{secret} in a url ends up in logs", "pass it in headers"
        yield Fault(path, what, fix, offset=place(text, secret), severity="warning")


def _session(session: Mapping[str, Plain]) -> Iterator[Fault]:
    name = session.get("name")
    if isinstance(name, str) and (fault := session_name_fault(name)):
        yield Fault(("session", "name"), fault, SESSION_NAME_FIX)
    if isinstance(mode := session.get("mode"), str) and not mode.strip():
        yield Fault(("session", "mode"), "the mode is empty", "write the id of a mode, or remove the key")
    for name in section(session, "config"):
        if not name.strip():
            fix = "write the id of a config option, or its category"
            yield Fault(("session", "config", name), "the option's name is empty", fix, at_key=True)


def _remote(server: Mapping[str, Plain], path: KeyPath) -> Iterator[Fault]:
    if "command" in server:
        return
    headers, env = section(server, "headers"), section(server, "env")
    sent = variable_headers(env, server.get("env_headers"))
    if isinstance(url := server.get("url"), str):
        yield from _visible_secrets((*path, "url"), url, "in a url")
        if fault := url_fault(url):
            yield Fault((*path, "url"), fault, URL_FIX)
        elif user_fault(url):
            yield Fault((*path, "url"), user_fault(url), USER_FIX)
        elif (
            "$" not in host(url)
            and is_in_the_clear(url)
            and server.get("insecure") is not True
            and (names := [*_credentials(headers), *sent])
        ):
            yield Fault((*path, "url"), CLEAR.format(", ".join(names)), CLEAR_FIX)
    for name, value in headers.items():
        yield from _header((*path, "headers", name), name, value)
    for name, value in env.items():
        yield from _remote_variable((*path, "env", name), name, value)
    yield from _twice(path, headers, sent)
    yield from _login(server, path)


def _login(server: Mapping[str, Plain], path: KeyPath) -> Iterator[Fault]:
    """Check the login of a server, and that nothing else about the server contradicts it."""
    if server.get("oauth") is not True and not isinstance(server.get("oauth"), dict):
        return
    yield from _oauth(section(server, "oauth"), (*path, "oauth"))
    if server.get("bridge") is False:
        what = "the agent connects to this server itself (bridge: false), and never gets your login"
        yield Fault((*path, "oauth"), what, "remove bridge: false, or oauth", at_key=True)
    for name in section(server, "headers"):
        if name.lower() == "authorization":
            what = f"the login sets {name}, so it cannot be set here"
            yield Fault((*path, "headers", name), what, "remove it, or oauth", at_key=True)
    url = server.get("url")
    if not isinstance(url, str) or url_fault(url):
        return
    for secret in _secrets(url):
        what = "the address of a server with a login cannot come from a secret"
        yield Fault((*path, "url"), what, "write it as text, or use ${env:NAME}", offset=place(url, secret))
    if "$" not in host(url) and is_in_the_clear(url):
        yield Fault((*path, "url"), CLEAR.format("the tokens of the login"), LOGIN_CLEAR_FIX)


def _oauth(oauth: Mapping[str, Plain], path: KeyPath) -> Iterator[Fault]:
    if oauth.get("scopes") == []:
        yield Fault((*path, "scopes"), "an empty list asks for nothing", "write a scope, or remove the key")
    for where, scope in _items((*path, "scopes"), oauth.get("scopes")):
        if fault := scope_fault(scope):
            several = scope.split()
            yield Fault(where, fault, f"write scopes: {inline(several)}" if several else "write a scope, or remove it")
    yield from _client(oauth, path)
    if isinstance(issuer := oauth.get("issuer"), str):
        is_fit = not is_in_the_clear(issuer) and not any(mark in issuer for mark in "?#$")
        fix = "write the address of the authorization server: https://..."
        yield from _https((*path, "issuer"), issuer, is_fit, "an https url without a query", fix)


def _client(oauth: Mapping[str, Plain], path: KeyPath) -> Iterator[Fault]:
    client_id, secret, document = (oauth.get(key) for key in ("client_id", "client_secret", "client_metadata_url"))
    yield from _not_from_secrets((*path, "client_id"), client_id, "a client id")
    if isinstance(client_id, str) and not client_id.strip():
        yield Fault((*path, "client_id"), "the client id is empty", "write the id of your client, or remove it")
    if isinstance(secret, str):
        yield from _client_secret((*path, "client_secret"), secret)
        if client_id is None:
            what = "a client secret needs a client_id"
            yield Fault((*path, "client_secret"), what, "add: client_id: ...", at_key=True)
    if isinstance(document, str):
        # draft-ietf-oauth-client-id-metadata-document, section 3
        is_fit = document.lower().startswith("https://") and "#" not in document
        is_fit = is_fit and bool(document.partition("://")[2].partition("/")[2])
        fix = "write the https:// address of the document"
        yield from _https((*path, "client_metadata_url"), document, is_fit, "an https url with a path", fix)
        if client_id is not None:
            what = "client_metadata_url has no effect beside a client_id"
            yield Fault((*path, "client_metadata_url"), what, "remove one of them", at_key=True, severity="warning")


def _client_secret(path: KeyPath, text: str) -> Iterator[Fault]:
    try:
        parts = parse(text)
    except BadReference:  # `check` reports it
        return
    if any(isinstance(part, str) and part for part in parts) or not parts:
        name = f"{slug(str(path[1])) or 'server'}/client-secret"
        fix = f'acp-launch secret set {name}, then write "${{secret:{name}}}" here'
        yield Fault(path, LITERAL, fix)


def _https(path: KeyPath, url: str, is_fit: bool, expected: str, fix: str) -> Iterator[Fault]:
    if (fault := url_fault(url) or user_fault(url)) or not is_fit:
        yield Fault(path, fault or f'expected {expected}, found "{shorten(url)}"', fix)


def _header(path: KeyPath, name: str, value: Plain) -> Iterator[Fault]:
    if not re.fullmatch(HEADER_NAME, name):
        yield Fault(path, f'"{shorten(name)}" is not a header\'s name', "use letters, digits and -", at_key=True)
    elif fault := header_name_fault(name):
        yield Fault(path, fault, "remove it", at_key=True)
    if isinstance(value, str) and (fault := header_fault(value)):
        yield Fault(path, fault, HEADER_FIX)


def _remote_variable(path: KeyPath, name: str, value: Plain) -> Iterator[Fault]:
    """Check a variable of a remote server; `_environment_name` reports what no server may get."""
    if not re.fullmatch(HEADER_NAME, name):
        what = f'the variable "{shorten(name)}" cannot be sent as the header {VARIABLE_HEADER}{shorten(name)}'
        yield Fault(path, what, "use letters, digits and _", at_key=True)
    if isinstance(value, str) and (fault := header_fault(value)):
        yield Fault(path, f"it is sent as a header, and {fault}", HEADER_FIX)


def _twice(path: KeyPath, headers: Mapping[str, Plain], sent: Mapping[str, str]) -> Iterator[Fault]:
    """Report headers that are one for the server, because upper and lower case are the same in their names.

    `sent` are the headers of its variables, by their names.
    """
    variables = [("env", name, header) for name, header in sent.items()]
    seen: set[str] = set()
    for key, name, header in [*(("headers", name, name) for name in headers), *variables]:
        if header.lower() in seen:
            what = f"the header {shorten(header)} would be sent twice; upper and lower case are the same"
            yield Fault((*path, key, name), what, "remove one of them", at_key=True)
        seen.add(header.lower())


def _credentials(headers: Mapping[str, Plain]) -> list[str]:
    """List the headers that hold a secret, or whose name says that they hold a credential."""
    texts = {name: value for name, value in headers.items() if isinstance(value, str)}
    return [name for name, value in texts.items() if _secrets(value) or noun(name)]
