"""
What a fix advises, held against the program: the commands of ours that a text names, and what is wrong with them.

A command in a text begins with `acp-launch` and ends with its line, at a `;`, a `,` or a bracket, before a pipe, or at
a word that only a sentence goes on with (`acp-launch list shows the profiles`). Words in capitals are placeholders.
"""

import functools
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from typer.main import get_command

from acp_launch.cli.app import app
from acp_launch.errors import LaunchError
from acp_launch.process.logs import logs
from acp_launch.profile.discover import find
from acp_launch.settings.model import Settings

# What follows a command in a sentence.
PROSE = {"and", "asks", "ends", "lists", "or", "prints", "removes", "says", "shows", "then", "keeps", "will", "tells"}
SHELL = {"|", "<", ">", "&&"}
# What follows the program's name where it is no command.
PLAIN = {
    *(
        "again",
        "alone",
        "and",
        "can",
        "cannot",
        "does",
        "does:",
        "finds",
        "has",
        "instead",
        "inside",
        "is",
        "is:",
        "itself",
    ),
    *(
        "expands",
        "knows",
        "lets",
        "runs",
        "sealed",
        "speaks",
        "starts",
        "supervises",
        "there",
        "told",
        "until",
        "version",
        "was",
        "without",
    ),
}
NAME = re.compile(r"(?<![\w./~-])acp-launch (?=[a-z])")
WORD = re.compile(r"""(?:'[^']*'|"[^"]*"|[^\s'"])+""")
CLOSING = re.compile(r"[;,:)`]+\.?$")
TITLE = ["profile"]  # of the schema: an acp-launch profile
PLACEHOLDER = re.compile(r"[A-Z]+…?|\.\.\.")


def commands(text: str) -> Iterator[list[str]]:
    """The words of each command of ours in `text`, without the program's name."""
    for line in text.splitlines():
        yield from _in_line(line)


def _in_line(line: str) -> Iterator[list[str]]:
    for found in NAME.finditer(line):
        words = list(_words(line[found.end() :]))
        if words and words[0] not in PLAIN and words != TITLE:
            yield words


def _words(text: str) -> Iterator[str]:
    for found in WORD.finditer(text):
        raw = found[0]
        word = CLOSING.sub("", raw)
        if raw in PROSE | SHELL or not word:
            return
        yield from _split(word)
        if word != raw:
            return


def _split(word: str) -> list[str]:
    try:
        return shlex.split(word)
    except ValueError:  # a quote without its end, which no verb has
        return [word]


@functools.cache
def _parser() -> Any:
    return get_command(app)


def fault(words: list[str]) -> str:
    """Why our own parser would not take this command; empty when it does."""
    command = _parser()
    context = command.context_class(command, info_name="acp-launch")
    rest = list(words)
    while hasattr(command, "get_command"):
        if not rest and command.invoke_without_command:  # `acp-launch session` is a command by itself
            return ""
        name, *rest = rest or [""]
        found = command.get_command(context, name)
        if found is None:
            return f"there is no verb {name!r}"
        command, context = found, found.context_class(found, info_name=name, parent=context)
    return _refusal(command, context, rest) and _refusal(command, context, [_number(word) for word in rest])


def _refusal(command: Any, context: Any, rest: list[str]) -> str:
    try:
        command.make_context(context.info_name, list(rest), parent=context.parent)
    except Exception as error:  # whichever click typer brings, its errors have this
        if not hasattr(error, "format_message"):
            raise
        return str(error.format_message())
    return ""


def _number(word: str) -> str:
    return "1" if PLACEHOLDER.fullmatch(word) else word


def named(words: list[str]) -> list[str]:
    """The profiles that a command names; placeholders are none."""
    command = _parser()
    context = command.context_class(command, info_name="acp-launch")
    rest = list(words)
    while hasattr(command, "get_command"):
        if not rest and command.invoke_without_command:
            return []
        name, *rest = rest
        command = command.get_command(context, name)
        context = command.context_class(command, info_name=name, parent=context)
    params = command.make_context(context.info_name, [_number(word) for word in rest], parent=context.parent).params
    given: list[str] = []
    for parameter in command.params:
        value = params.get(parameter.name)
        metavar = parameter.metavar or ""
        if "PROFILE" in metavar and value:
            several = value if isinstance(value, list | tuple) else [value]
            given += several[:1] if "PROMPT" in metavar else several
    return [each for each in given if each != "1" and not each.startswith("-")]


def misleading(text: str, project: Path, env: Mapping[str, str]) -> list[str]:
    """What is wrong with the commands that a run in `project` has advised."""
    said = ((words, fault(words) or _unknown(words, project, env)) for words in commands(text))
    return [f"acp-launch {shlex.join(words)}: {wrong}" for words, wrong in said if wrong]


def _unknown(words: list[str], project: Path, env: Mapping[str, str]) -> str:
    """Why a profile it names cannot be meant, or has none of the logs that are to be shown."""
    home = Path(env.get("HOME", "/nonexistent"))
    config, state, cache = (Path(env.get(f"ACP_LAUNCH_{kind}_DIR", home)) for kind in ("CONFIG", "STATE", "CACHE"))
    for name in named(words):
        name = re.sub("^~", str(home), name)
        if words[0] == "logs":
            known = {(each.profile, each.server or "agent") for each in logs(state / "log").values()}
            if not any(profile == Path(name).stem and words[2:] in ([], [part]) for profile, part in known):
                return f"there are no such logs, but {sorted(known)}"
            continue
        try:
            found = find(name, start=project, settings=Settings(config=config, state=state, cache=cache))
        except LaunchError as error:
            return error.message
        if not found.file.exists():
            return f"there is no {found.file}"
    return ""


def advised(out: bytes, err: str) -> str:
    """The fixes that a run has shown, on stderr for people or on stdout as JSON."""
    shown = [line for line in err.splitlines() if line.startswith("    fix: ")]
    for line in out.splitlines():
        if line.startswith(b"{"):
            try:
                shown += _members(json.loads(line))
            except ValueError:
                continue  # an answer that begins like JSON
    return "\n".join(shown)


def _members(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(fix := value.get("fix"), str):
            yield fix
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _members(each)
