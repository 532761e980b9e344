"""
The verbs `profile add-server`, `profile set` and `profile remove`: one change of a profile's own file.

Everything else in the file stays as it is, comments and all. A change that would make the profile wrong is not made.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from acp_launch.errors import ProblemsError, ProfileError, UsageError
from acp_launch.problem import ours

if TYPE_CHECKING:
    from acp_launch.problem import KeyPath
    from acp_launch.profile.discover import Found
    from acp_launch.profile.edit import Revision

TOKEN = "this looks like "  # begins what is said of a literal credential
app = typer.Typer(help="Change a profile's file: add-server, set, remove.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="PROFILE", help="A profile's name, or the path of its file.")]
Key = Annotated[str, typer.Argument(metavar="KEY", help="As in mcp_servers.github.timeouts.start, or agent.args[0].")]
Pairs = Annotated[list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="A variable; repeatable.")]
Headers = Annotated[list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="A header; repeatable.")]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Show what would change, and change nothing.")]


@app.command("add-server")
def add_server(
    profile: Name,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the server is to be called.")],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND ARGS...]", help="The program that is the server.")
    ] = None,
    url: Annotated[str | None, typer.Option("--url", metavar="URL", help="The address of a remote server.")] = None,
    kind: Annotated[str | None, typer.Option("--type", metavar="http|sse", help="How it is spoken to.")] = None,
    headers: Headers = None,
    env: Pairs = None,
    dry_run: DryRun = False,
) -> None:
    """Add an MCP server: a program after --, or a --url. Its tokens are references: --env 'TOKEN=${secret:github}'."""
    entry = server(command or [], url, kind, _pairs(headers, "--header"), _pairs(env, "--env"))
    path = ("mcp_servers", name)
    _change(profile, path, lambda text: _added(text, profile, name, entry), dry_run=dry_run)


@app.command("set")
def set_(
    profile: Name,
    key: Key,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="Text, a number, true, null; [a, b] or {a: b}.")],
    dry_run: DryRun = False,
) -> None:
    """Set one value; it is added where it is missing."""
    from acp_launch.profile.edit import put

    path, given = _path(key), meant(value)
    _change(profile, path, lambda text: put(text, path, given), dry_run=dry_run)


@app.command()
def remove(profile: Name, key: Key, dry_run: DryRun = False) -> None:
    """Remove one key with all below it; or one item of a list."""
    from acp_launch.profile import edit

    path = _path(key)
    _change(profile, path, lambda text: edit.remove(text, path), dry_run=dry_run)


def server(
    command: Sequence[str], url: str | None, kind: str | None, headers: dict[str, str], env: dict[str, str]
) -> dict[str, Any]:
    """The entry under `mcp_servers`.

    Raises:
        UsageError: it is neither a program nor an address, or both.
    """
    if bool(command) == bool(url):
        what = "a server is a program or an address, not both" if url else "what is the server?"
        raise UsageError(what, fix="give its program after --, as in -- npx -y PACKAGE, or its address: --url URL")
    if url:
        return {"type": kind or "http", "url": url, **({"headers": headers} if headers else {})} | _env(env)
    if headers:
        raise UsageError("--header goes with --url", fix="give a program its token in a variable: --env NAME=VALUE")
    args = {"args": list(command[1:])} if command[1:] else {}
    return {**({"type": kind} if kind else {}), "command": command[0], **args, **_env(env)}


def meant(value: str) -> object:
    """What is typed for a value: YAML within brackets, braces or quotes, else one scalar as it stands.

    Raises:
        UsageError: it is no YAML.
    """
    from acp_launch.document.nodes import scalar
    from acp_launch.document.yaml import parse

    if not value or value[0] not in "[{\"'":
        return scalar(value) if value else ""
    document, problems = parse(f"value: {value}", "")
    if document is None or problems or document.root.keys() != {"value"}:
        what = f": {problems[0].message}" if problems else ""
        raise UsageError(f"VALUE cannot be read{what}", fix="""quote a text that begins so: '"[a"'""")
    return document.root["value"]


def _env(env: dict[str, str]) -> dict[str, Any]:
    return {"env": env} if env else {}


def _pairs(written: Sequence[str] | None, option: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in written or ()]
    if not all(name and equals for name, equals, _ in pairs):  # what was typed instead may be a token
        raise UsageError(f"{option} takes NAME=VALUE", fix=f"{option} 'TOKEN=${{secret:NAME}}'")
    return {name: value for name, _, value in pairs}


def _path(key: str) -> "KeyPath":
    from acp_launch.profile.edit import NoKey, parse_key

    try:
        return parse_key(key)
    except NoKey:
        fix = """write it as in agent.args[0], or mcp_servers."my.server".url"""
        raise UsageError(f'"{key[:60]}" is not a key', fix=fix) from None


def _added(text: str, profile: str, name: str, entry: dict[str, Any]) -> str:
    from acp_launch.document.yaml import parse
    from acp_launch.profile.edit import put

    document, _ = parse(text, "")
    servers = document.root.get("mcp_servers") if document else None
    if isinstance(servers, dict) and name in servers:
        fix = f"choose another name, or first: {ours('profile', 'remove', profile, f'mcp_servers.{name}')}"
        raise UsageError(f'there is a server "{name}" already', fix=fix)
    return put(text, ("mcp_servers", name), entry)


def _change(profile: str, path: "KeyPath", change: Callable[[str], str], *, dry_run: bool) -> None:
    """Make the change if it does no harm, and show it.

    Raises:
        LaunchError: it is not made.
    """
    from acp_launch.console.interop import note, show_change
    from acp_launch.interop import files
    from acp_launch.profile.edit import revised

    found = editable(profile)
    try:
        revision = revised(found, lambda text: _edited(found, text, change))
    except ProblemsError as error:
        _refuse(error)
        raise typer.Exit(ProfileError.exit_code) from None
    if revision.before == revision.after:
        note("it says so already; nothing was changed")
        return
    show_change(found.file, revision.before, revision.after)
    if not dry_run:
        was_trusted = _is_trusted(found)
        files.put(found.file, revision.after, instead_of=revision.before)
        _remarks(profile, revision, was_trusted=was_trusted)


def editable(profile: str) -> "Found":
    """The file that a change goes to.

    Raises:
        UsageError: there is none, or it is not for changing.
    """
    from acp_launch.cli.planning import here
    from acp_launch.interop.merge import refuse_escaping_link
    from acp_launch.profile.discover import find, origin_of
    from acp_launch.settings.load import load

    found = find(profile, start=here(), settings=load())
    if origin_of(found.file, found.origin, user=found.user) == "built-in":
        fix = f"begin one of your own that extends it: acp-launch init my-{found.name} --extends {found.name}"
        raise UsageError(f'"{found.name}" comes with acp-launch and cannot be changed', fix=fix)
    refuse_escaping_link(found.file, found.project)
    return found


def _edited(found: "Found", text: str, change: Callable[[str], str]) -> str:
    from acp_launch.problem import Problem, dotted
    from acp_launch.profile.edit import CannotEdit
    from acp_launch.profile.load import shown

    try:
        return change(text)
    except CannotEdit as cannot:
        fix = cannot.fix or _elsewhere(found, cannot.path)
        raise ProfileError([Problem(shown(found.file), 0, 0, dotted(cannot.path), cannot.message, fix)]) from None


def _elsewhere(found: "Found", path: "KeyPath") -> str:
    """Where a key may be that is not in this file."""
    from acp_launch.problem import dotted
    from acp_launch.profile.load import inspect

    loaded, _ = inspect(found)
    value: Any = loaded.merged if loaded else None
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    if value is None:
        return f"{ours('show', found.called)} prints what is there"
    return f"another file has it; to do without: {ours('profile', 'set', found.called, dotted(path), 'null')}"


def _refuse(error: ProblemsError) -> None:
    from acp_launch.console import problems
    from acp_launch.console.interop import note

    problems.show(error.problems, as_json=False, outcome="nothing was changed")
    if any(problem.message.startswith(TOKEN) for problem in error.problems):
        note("your shell keeps what you typed in its history: replace that token")


def _is_trusted(found: "Found") -> bool:
    from acp_launch.profile.load import inspect
    from acp_launch.profile.trust import trust_state
    from acp_launch.settings.load import load

    loaded, _ = inspect(found)
    return loaded is not None and trust_state(loaded, load()).how == "accepted"


def _remarks(profile: str, revision: "Revision", *, was_trusted: bool) -> None:
    from acp_launch.console import problems
    from acp_launch.console.interop import note, warn

    problems.show(revision.warnings, as_json=False)
    if revision.remaining:
        warn(f"something else is wrong with it: {ours('validate', profile)}")
    if was_trusted:
        note(f"before it runs again: {ours('trust', profile)}")
