"""
Shell completion: typer's, with our candidates for the words that name something.

`completion` prints typer's script for a shell. The script asks at every press of the tab key, by starting this program
with `_ACP_LAUNCH_COMPLETE` in its environment. typer knows verbs, options and choices; `offer` adds the candidates of
other parameters, by the placeholder that help shows for them.

It only reads files: it writes nothing, asks no keyring and starts no program. On an error there is no answer, because a
message would appear in the middle of the line that is being typed.
"""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from acp_launch.regex import regex

if TYPE_CHECKING:
    from acp_launch.settings.model import Settings

VARIABLE = "_ACP_LAUNCH_COMPLETE"
MOST = 500  # candidates for one word
WIDEST = 100  # characters of a description
# A name with other characters is not offered: typer's scripts quote nothing, and that for zsh evaluates its candidates.
_NAME = regex(r"[\w@%+=,./][\w@%+=,./:-]{0,199}")
_PLAIN = regex(r"[^\w @%+=,.;/()-]")
_BRACKETS = str.maketrans("", "", "[].")
LATEST = f"SELECT name, profile, title FROM session WHERE project = ? ORDER BY last_used DESC LIMIT {MOST}"
Candidates = Iterable[tuple[str, str]]


class Candidate(NamedTuple):
    """A word that may be typed here, as typer's shells print it."""

    value: str
    help: str


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], typer.Argument(metavar="bash|zsh|fish", help="The shell of the script.")
    ],
) -> None:
    """Print a completion script for your shell, as `acp-launch help commands` has it. Nothing is installed."""
    from typer._completion_shared import get_completion_script

    script = get_completion_script(prog_name="acp-launch", complete_var=VARIABLE, shell=shell)
    # bash would run what is typed, and so a repository's own ./acp-launch at the press of a key.
    typer.echo(script.replace("=complete_bash $1 ", "=complete_bash acp-launch "))


def offer(command: Any, path: str) -> None:
    """Give the parameters of the verb at `path` (`secret set`) their candidates."""
    for parameter in command.params:
        placeholder = (parameter.metavar or parameter.name.upper()).translate(_BRACKETS)
        for key in (f"{path} {placeholder}", f"{path.partition(' ')[0]} {placeholder}", placeholder):
            if key in SOURCES:
                parameter.shell_complete = partial(_candidates, SOURCES[key], parameter.name)
                break


def _candidates(
    source: Callable[[Any, "Settings"], Candidates], parameter: str, context: Any, typed: str
) -> list[Candidate]:
    """Return the candidates that begin with what is typed, each once, without those that are on the line already."""
    from acp_launch.settings.load import directory
    from acp_launch.settings.model import Settings

    # Only the directories, because reading the other settings may import pydantic.
    settings = Settings(config=directory("CONFIG"), state=directory("STATE"), cache=directory("CACHE"))
    given = context.params.get(parameter) or ()
    found = [each for each in source(context, settings) if each[0].startswith(typed) and _NAME.fullmatch(each[0])]
    about = {name: _PLAIN.sub("", " ".join(text.split()))[:WIDEST] for name, text in reversed(found)}
    return [Candidate(name, about[name]) for name in dict(found) if name not in given][:MOST]


def _profiles(context: Any, settings: "Settings") -> Candidates:
    from acp_launch.profile.discover import discover

    found = discover(start=Path.cwd(), settings=settings)[:MOST]
    return ((each.name, each.origin) for each in found if not each.shadowed_by)


def _on_line(context: Any) -> str:
    """Return the profile that is named before the word; typer leaves arguments aside while an option has no value."""
    return str(context.params.get("profile") or [*(context.params.get("words") or ()), *context.args, ""][0])


def _sessions(context: Any, settings: "Settings") -> Candidates:
    """
    List the sessions of this project, of one profile if that is named. The registry is read without writing a file: by
    default SQLite creates its log and index to read.
    """
    import sqlite3
    from contextlib import closing

    from acp_launch.private import sqlite_uri
    from acp_launch.profile.discover import project_of
    from acp_launch.session.store import store_file

    profile, file = _on_line(context) if context.info_name == "run" else "", store_file(settings.state)
    how = "readonly_shm=1" if file.with_name(f"{file.name}-wal").exists() else "immutable=1"
    with closing(sqlite3.connect(f"{sqlite_uri(file)}?mode=ro&{how}", uri=True, timeout=0)) as store:
        found = store.execute(LATEST, (str(project_of(Path.cwd())),)).fetchall()
    return ((name, f"{of}: {title}") for name, of, title in found if profile in ("", of))


def _servers(context: Any, settings: "Settings") -> Candidates:
    """List the servers of the profile on the line."""
    from acp_launch.profile.discover import find
    from acp_launch.profile.load import inspect

    loaded, _ = inspect(find(_on_line(context), start=Path.cwd(), settings=settings))
    return ((name, loaded.found.name) for name in loaded.profile.mcp_servers) if loaded else ()


def _secrets(context: Any, settings: "Settings") -> Candidates:
    from acp_launch.secret.lookup import stored_names

    return stored_names(settings.state)


def _agents(context: Any, settings: "Settings") -> Candidates:
    from acp_launch.profile.agents import AGENTS

    return ((agent.name, agent.title) for agent in AGENTS.values())


def _tools(context: Any, settings: "Settings") -> Candidates:
    from acp_launch.interop.tools import PRINTED, TOOLS

    return ((name, "") for name in (*TOOLS, *(PRINTED if context.info_name == "export" else ())))


def _topics(context: Any, settings: "Settings") -> Candidates:
    from acp_launch.cli.help import about, topics

    return ((topic, about(topic)) for topic in topics())


# By the placeholder of a parameter; where it does not say enough, after the verb or the group of verbs.
SOURCES: dict[str, Callable[[Any, "Settings"], Candidates]] = {
    "PROFILE": _profiles,
    # The first word alone: the others are the prompt.
    "PROFILE PROMPT": lambda context, settings: () if context.params.get("words") else _profiles(context, settings),
    "logs SERVER": lambda context, settings: (("agent", "the agent's own"), *_servers(context, settings)),
    "SESSION": _sessions,
    "session NAME": _sessions,
    "SERVER": _servers,
    "secret NAME": _secrets,
    "NAME|COMMAND": _agents,
    "import SOURCE": _tools,
    "import TOOL": _tools,
    "export TOOL": _tools,
    "TOPIC": _topics,
}
