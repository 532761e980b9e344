"""The entry point of the command line."""

import errno
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from functools import partial

from acp_launch.app.exits import end_in_code, stdout_is_full
from acp_launch.cli.verb import SYNONYMS, VERBS, Group, Verb, carry_out, load, plain
from acp_launch.console.stderr import DIM, tell
from acp_launch.errors import LaunchError, UsageError
from acp_launch.problem import ours
from acp_launch.waits import reading

HELP = {"-h", "--help"}
# Options and verbs of earlier versions by the verb before them, and what to do instead.
REMOVED: Mapping[tuple[str, str], str] = {
    ("batch report", "--otlp"): "feed a collector from results.jsonl in its directory: it has a line for each attempt",
    ("agents", "update"): "install the newest version: acp-launch agents install ID",
    ("agents", "--from"): "the profile starts a package itself; its line: acp-launch agents show ID",
    ("doctor", "--gui"): 'try it without your shell\'s variables: env -i HOME="$HOME" acp-launch doctor PROFILE',
    ("trace", "--server"): "each step is one line: acp-launch trace FILE | grep NAME",
    ("trace", "--method"): "each step is one line: acp-launch trace FILE | grep METHOD",
    ("trace", "--json"): "read the file itself: it has one JSON object per line",
    ("serve", "--proxy"): "let the conductor start as its agent: acp-launch serve PROFILE",
}
# Options and verbs of other tools, and what to type instead.
MEANT: Mapping[tuple[str, str], str] = {
    ("run", "--mode"): "--set mode={}",
    **dict.fromkeys((("run", "--resume"), ("run", "-r")), "--continue, or --session NAME"),
    **dict.fromkeys((("run", "--print"), ("run", "-p")), "a run with a prompt prints its answer and ends"),
    **dict.fromkeys(
        (("run", "--yolo"), ("run", "--dangerously-skip-permissions"), ("run", "--approve-all")), "--approve all"
    ),
    ("run", "--approve-reads"): "--approve reads",
    ("run", "--deny-all"): "--approve none",
    **dict.fromkeys((("run", "--format"), ("run", "--output-format")), "--output {}"),
    ("run", "--json"): "--output json",
    ("run", "--prompt"): "write the prompt after the profile: acp-launch run PROFILE {}",
    ("run", "--dry-run"): "acp-launch plan PROFILE",
    ("run", "--session-id"): "--session NAME, a name of: acp-launch session list",
    ("run", "--no-wait"): "--detach",
    ("up", "--detach"): "leave it out: up returns when the agent runs",
}
VERBS_MEANT: Mapping[str, str] = {
    **dict.fromkeys(("ask", "chat", "new", "prompt", "start"), "acp-launch run PROFILE [PROMPT...]"),
    **dict.fromkeys(("add", "add-server"), "acp-launch profile add-server PROFILE NAME [-- COMMAND ARGS...]"),
    **dict.fromkeys(
        ("rm", "remove", "delete"),
        "acp-launch session rm NAME, secret rm NAME, agents rm ID, or profile remove PROFILE KEY",
    ),
    "kill": "acp-launch session cancel NAME ends a turn, down PROFILE a host, reap what is left over",
    "cancel": "acp-launch session cancel NAME, or batch cancel DIR",
    "history": "acp-launch session history NAME",
    **dict.fromkeys(("continue", "resume"), "acp-launch run --continue"),
    "install": "acp-launch agents install ID; an agent of npm is offered by run",
    "restart": "acp-launch reload PROFILE, or down and up",
    "tools": "acp-launch mcp tools PROFILE SERVER",
    "version": "acp-launch --version",
    "batch list": "acp-launch batch status",
    "batch resume": "acp-launch batch run --resume DIR",
    "batch start": "acp-launch batch run FILE",
    "mcp add": "acp-launch profile add-server PROFILE NAME [-- COMMAND ARGS...]",
    "mcp rm": "acp-launch profile remove PROFILE mcp_servers.NAME",
    "mcp restart": "acp-launch reload PROFILE",
    "permission rm": "acp-launch permission forget PROFILE NUMBER",
    "profile add": "acp-launch init NAME",
    "profile list": "acp-launch list",
    "profile show": "acp-launch show PROFILE",
    "secret get": "no verb prints a secret; to see whether it is there: acp-launch secret check",
    **dict.fromkeys(("session new", "session resume"), "acp-launch run PROFILE --session NAME"),
}
# In a group, words of other tools for one of its verbs, the likeliest first.
WITHIN_MEANT: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("delete", "remove", "rm"), ("rm", "remove", "clean", "unset")),
    **dict.fromkeys(("abort", "kill", "stop"), ("cancel",)),
    **dict.fromkeys(("log", "logs", "messages"), ("history", "report")),
    "add": ("set", "install"),
    "ls": ("list", "show", "status"),
    "mv": ("rename",),
}


def run(arguments: Sequence[str]) -> int:
    """Run the command line; gives the exit code (docs/scripting.md)."""
    stdout_is_closed = sys.stdout is None
    for descriptor, mode in enumerate(("r", "w", "w")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor, which is this one
            stream = os.fdopen(descriptor, mode, closefd=False)
            setattr(sys, ("stdin", "stdout", "stderr")[descriptor], stream)
    if stdout_is_closed:
        return stdout_is_full(OSError(errno.EBADF, "it is closed"))
    return end_in_code(partial(_run, arguments))


def _run(arguments: Sequence[str]) -> int:
    reading.begin(_say_reading)
    if not arguments:
        from acp_launch.app.overview import show

        return show()

    arguments = [SYNONYMS.get(arguments[0], arguments[0]), *arguments[1:]]
    verb, rest = (None, arguments) if HELP & set(arguments) else _find(arguments)
    if verb and (values := plain(verb, rest)) is not None:
        return carry_out(verb, values)
    _require_existing(arguments)
    _explain_foreign(arguments)
    return _typer(arguments)


def _find(arguments: Sequence[str]) -> tuple[Verb | None, Sequence[str]]:
    """Return the verb that is named, and the arguments after it; None if typer has to find it."""
    name, rest = arguments[0], arguments[1:]
    verb = load(name) if name in VERBS else None
    if not isinstance(verb, Group):
        return verb, rest
    found, given = verb.verbs.get(rest[0] if rest else "", (None, {}))
    return None if given else found, rest[1:]


def _require_existing(arguments: Sequence[str]) -> None:
    """Refuse an option or a verb that was removed, with what to do instead."""
    for word in (*arguments[1:2], *(each for each in arguments[2:] if each.startswith("-"))):
        option = word.partition("=")[0]
        for verb in (arguments[0], " ".join(arguments[:2])):
            if fix := REMOVED.get((verb, option)):
                raise UsageError(f"{verb} {option} was removed", fix=fix)


def _explain_foreign(arguments: Sequence[str]) -> None:
    """Refuse what other tools have, and a profile in the place of a verb, with what to type."""
    name = arguments[0]
    for index, word in enumerate(arguments[1:], 2):
        option, _, value = word.partition("=")
        if fix := MEANT.get((name, option)):
            value = value or next(iter(arguments[index : index + 1]), "NAME")
            raise UsageError(f"{name} has no {option}", fix=fix.format(shlex.quote(value)))
    if name in VERBS:
        return _explain_within(name, arguments[1:])
    if name.startswith("-"):
        return
    if fix := VERBS_MEANT.get(name):
        raise UsageError(f'there is no verb "{name}"', fix=fix)
    from acp_launch.app.spec import find_profile

    try:
        find_profile(name)
    except LaunchError:
        return  # typer names the nearest verb
    raise UsageError(f'"{name}" is a profile, and the verb comes first', fix=ours("run", *arguments))


def _explain_within(group: str, words: Sequence[str]) -> None:
    word = words[0] if words else ""
    if word not in WITHIN_MEANT and f"{group} {word}" not in VERBS_MEANT:
        return

    known = getattr(load(group), "verbs", {word: ()})
    for each in (word, {"remove": "rm", "delete": "rm"}.get(word, word)):
        if word not in known and (fix := VERBS_MEANT.get(f"{group} {each}")):
            raise UsageError(f'{group} has no verb "{word}"', fix=fix)
    if word not in known and (verb := next((each for each in WITHIN_MEANT[word] if each in known), "")):
        instead = (group, verb, *words[1:])
        raise UsageError(f'{group} has no verb "{word}"', fix=ours(*instead))


def _say_reading(file: str, seconds: float) -> None:
    tell(f"still reading {file} after {seconds:.0f} s", style=DIM)


def _typer(arguments: Sequence[str]) -> int:
    from acp_launch.cli.app import app

    stdout = sys.stdout
    try:
        app(args=list(arguments), prog_name="acp-launch")
    except SystemExit as ended:  # typer returns exit codes this way, also for usage errors
        if sys.stdout is not stdout and type(sys.stdout).__name__ == "PacifyFlushWrapper":
            sys.stdout = stdout
            raise BrokenPipeError from None  # click has turned it into an exit with 1
        if ended.__context__ and isinstance(ended.__context__.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from None  # click has turned it into an exit with 130
        return ended.code if isinstance(ended.code, int) else 0
    return 0
