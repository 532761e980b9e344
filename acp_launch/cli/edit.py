"""
The verb `edit`, and `profile add-server`, `profile set` and `profile remove`, each of which makes one change in a
profile's file.

With these everything else in the file stays as it is, comments included, and a change that would make the profile wrong
is refused. `edit` opens the file in the user's editor.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from acp_launch.app.correct import edit_text
from acp_launch.app.spec import find_profile, load_settings
from acp_launch.cli.verb import Argument, Group, Option, ProfileName
from acp_launch.console import problems
from acp_launch.console.interop import note, show_change, warn
from acp_launch.document.yaml import parse
from acp_launch.errors import ProblemsError, ProfileError, UsageError
from acp_launch.interop.merge import replace_file, require_changeable
from acp_launch.problem import KeyPath, Problem, dotted, errors, ours
from acp_launch.profile import edit as edits
from acp_launch.profile.discover import Found
from acp_launch.profile.edit import CannotEdit, NoKey, Revision, meant, parse_key, put, revised
from acp_launch.profile.load import Loaded, inspect, read, shown
from acp_launch.profile.trust import accept, trust_state

TOKEN = "this looks like "  # the beginning of the message about a literal credential
app = Group("Change a profile's file: add-server, set, remove.")

Key = Annotated[str, Argument("KEY", "For example mcp_servers.github.timeouts.start, or agent.args[0].")]
Pairs = Annotated[tuple[str, ...], Option("--env", "A variable; repeatable.", "NAME=VALUE")]
Headers = Annotated[tuple[str, ...], Option("--header", "A header; repeatable.", "NAME=VALUE")]
DryRun = Annotated[bool, Option("--dry-run -n", "Show what would change without changing it.")]


def edit(profile: ProfileName) -> None:
    """Edit a profile's file in $VISUAL or $EDITOR. It is checked when you save it."""
    found = editable(profile)
    before, unreadable = read(found.file)
    if before is None:
        raise ProfileError(unreadable)
    text = edit_text(found.file, before, lambda text: edits.problems(found, text), may_save=True)
    if text is None:
        return
    trusted = _find_trusted(found)
    replace_file(found.file, text, instead_of=before)
    remaining = len(errors(edits.problems(found, text)))
    _remarks(profile, edits.Revision(found, before, text, (), remaining), trusted)


@app.verb("add-server")
def add_server(
    profile: ProfileName,
    name: Annotated[str, Argument("NAME", "The server's name.")],
    command: Annotated[tuple[str, ...], Argument("[-- COMMAND ARGS...]", "The command that starts the server.")] = (),
    url: Annotated[str | None, Option("--url", "The address of a remote server.", "URL")] = None,
    kind: Annotated[str | None, Option("--type", "The transport of a remote server.", "http|sse")] = None,
    headers: Headers = (),
    env: Pairs = (),
    dry_run: DryRun = False,
) -> int:
    """Add an MCP server: a command after --, or a --url. Its tokens are references: --env 'TOKEN=${secret:github}'."""
    entry = server_entry(command, url, kind, _pairs(headers, "--header"), _pairs(env, "--env"))
    path = ("mcp_servers", name)
    return _change(profile, path, lambda text: _add_server(text, profile, name, entry), dry_run=dry_run)


@app.verb("set")
def set_(
    profile: ProfileName,
    key: Key,
    value: Annotated[str, Argument("VALUE", "Text, a number, true, null; [a, b] or {a: b}.")],
    dry_run: DryRun = False,
) -> int:
    """Set one value, or add it if it is missing."""
    path, given = _path(key), meant(value)
    return _change(profile, path, lambda text: put(text, path, given), dry_run=dry_run)


@app.verb()
def remove(profile: ProfileName, key: Key, dry_run: DryRun = False) -> int:
    """Remove a key with everything below it, or one item of a list."""
    path = _path(key)
    return _change(profile, path, lambda text: edits.remove(text, path), dry_run=dry_run)


def server_entry(
    command: Sequence[str], url: str | None, kind: str | None, headers: dict[str, str], env: dict[str, str]
) -> dict[str, Any]:
    """Build the entry under `mcp_servers`.

    Raises:
        UsageError: neither a command nor an address is given, or both are.
    """
    if bool(command) == bool(url):
        fix = "give its command after --, as in -- npx -y PACKAGE, or its address: --url URL"
        raise UsageError("a server has either a command or a --url", fix=fix)
    if headers and not url:
        raise UsageError("--header goes with --url", fix="give a program its token in a variable: --env NAME=VALUE")
    entry: dict[str, Any] = {"type": kind or ("http" if url else ""), "url": url}
    entry |= {"command": "".join(command[:1]), "args": list(command[1:]), "headers": headers, "env": env}
    return {key: value for key, value in entry.items() if value}


def _pairs(written: Sequence[str], option: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in written]
    if not all(name and equals for name, equals, _ in pairs):  # the text is not repeated: it may be a token
        example = "Authorization=Bearer ${secret:NAME}" if option == "--header" else "TOKEN=${secret:NAME}"
        raise UsageError(f"{option} takes NAME=VALUE", fix=f"{option} '{example}'")
    return {name: value for name, _, value in pairs}


def _path(key: str) -> KeyPath:
    try:
        return parse_key(key)
    except NoKey:
        fix = """write it as in agent.args[0], or mcp_servers."my.server".url"""
        raise UsageError(f'"{key[:60]}" is not a key', fix=fix) from None


def _add_server(text: str, profile: str, name: str, entry: dict[str, Any]) -> str:
    document, _ = parse(text, "")
    servers = document.root.get("mcp_servers") if document else None
    if isinstance(servers, dict) and name in servers:
        fix = f"choose another name, or first: {ours('profile', 'remove', profile, f'mcp_servers.{name}')}"
        raise UsageError(f'server "{name}" already exists', fix=fix)
    return put(text, ("mcp_servers", name), entry)


def _change(profile: str, path: KeyPath, change: Callable[[str], str], *, dry_run: bool) -> int:
    """Make the change if the profile stays valid, and show it; return the exit code.

    Raises:
        LaunchError: the change is refused.
    """
    found = editable(profile)
    try:
        revision = revised(found, lambda text: _try_change(found, text, change))
    except ProblemsError as error:
        problems.show(error.problems, as_json=False, outcome="nothing was changed")
        if any(problem.message.startswith(TOKEN) for problem in error.problems):
            note("your shell's history now has the token: rotate it")
        return ProfileError.exit_code
    if revision.before == revision.after:
        note("the profile already says this; nothing was changed")
        return 0
    show_change(found.file, revision.before, revision.after)
    if not dry_run:
        trusted = _find_trusted(found)
        replace_file(found.file, revision.after, instead_of=revision.before)
        _remarks(profile, revision, trusted)
    return 0


def editable(profile: str) -> Found:
    """Find the file to change.

    Raises:
        UsageError: the file does not exist, or may not be changed.
    """
    found = find_profile(profile)
    require_changeable(found)
    return found


def _try_change(found: Found, text: str, change: Callable[[str], str]) -> str:
    try:
        return change(text)
    except CannotEdit as cannot:
        fix = cannot.fix or f"{ours('show', '--merged', found.called)} prints what is there, and which file sets it"
        raise ProfileError([Problem(shown(found.file), 0, 0, dotted(cannot.path), cannot.message, fix)]) from None


def _find_trusted(found: Found) -> Loaded | None:
    """Load the profile; None if the user has not accepted it as it is."""
    loaded, _ = inspect(found)
    return loaded if loaded is not None and trust_state(loaded, load_settings()).how == "accepted" else None


def _keep_trust(revision: Revision, before: Loaded) -> bool:
    """Accept the user's own change; return False if another file of the profile is new or has changed as well."""
    settings = load_settings()
    loaded, _ = inspect(revision.found)
    texts = {layer.file: layer.text for layer in before.layers} | {revision.found.file: revision.after}
    if loaded is None or loaded.lock != before.lock or {each.file: each.text for each in loaded.layers} != texts:
        return False
    how = trust_state(loaded, settings).how
    if how == "changed":
        accept(loaded, settings)
    return how in ("accepted", "changed")


def _remarks(profile: str, revision: Revision, trusted: Loaded | None) -> None:
    """Print what the user should know; `trusted` is the profile before the change, if the user had accepted it."""
    problems.show(revision.warnings, as_json=False)
    if revision.remaining:
        warn(f"the profile has other problems: {ours('validate', profile)}")
    if trusted is not None and not _keep_trust(revision, trusted):
        note(f"trust it again before the next run: {ours('trust', profile)}")
