"""
Shell completion: typer's, with our candidates for the words that name something.

`completion` prints typer's script for a shell. The script asks at every press of the tab key, by starting this program
with `_ACP_LAUNCH_COMPLETE` in its environment. typer knows verbs, options and choices; `offer` adds the candidates of
other parameters, by the placeholder that help shows for them.

It only reads files: it writes nothing, asks no keyring and starts no program. On an error there is no answer, because a
message would appear in the middle of the line that is being typed.
"""

from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import typer
from typer._completion_shared import get_completion_script

from acp_launch.cli.verb import Argument
from acp_launch.private import sqlite_uri
from acp_launch.profile.discover import discover, find, project_of
from acp_launch.profile.load import inspect
from acp_launch.regex import regex
from acp_launch.secret.lookup import stored_names
from acp_launch.settings.load import directory
from acp_launch.settings.model import Settings

MAX_CANDIDATES = 500  # for one word
# A name with other characters is not offered: typer's scripts quote nothing, and that for zsh evaluates its candidates.
_NAME = regex(r"[\w@%+=,./][\w@%+=,./:-]{0,199}")
_BRACKETS = str.maketrans("", "", "[].")


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Argument("bash|zsh|fish", "The shell of the script.")],
) -> None:
    """Print a completion script for your shell, as `acp-launch help commands` has it. Nothing is installed."""
    script = get_completion_script(prog_name="acp-launch", complete_var="_ACP_LAUNCH_COMPLETE", shell=shell)
    # bash would run the typed words, and so a repository's own ./acp-launch at the press of a key.
    typer.echo(script.replace("=complete_bash $1 ", "=complete_bash acp-launch "))


def offer(command: Any, path: str) -> None:
    """Give the parameters of the verb at `path` (`secret set`) their candidates."""
    for parameter in command.params:
        placeholder = (parameter.metavar or parameter.name.upper()).translate(_BRACKETS)
        for key in (f"{path.partition(' ')[0]} {placeholder}", placeholder):
            if key in SOURCES:
                parameter.shell_complete = partial(_candidates, SOURCES[key], parameter.name)
                break


def _candidates(
    source: Callable[[Any, "Settings"], Iterable[str]], parameter: str, context: Any, typed: str
) -> list[Any]:
    # Only the directories, because reading the other settings may import pydantic.
    settings = Settings(config=directory("CONFIG"), state=directory("STATE"), cache=directory("CACHE"))
    given = context.params.get(parameter) or ()
    found = dict.fromkeys(name for name in source(context, settings) if name.startswith(typed) and name not in given)
    return [SimpleNamespace(value=name, help="") for name in found if _NAME.fullmatch(name)][:MAX_CANDIDATES]


def _profiles(context: Any, settings: "Settings") -> Iterable[str]:
    return (each.name for each in discover(start=Path.cwd(), settings=settings))


def _on_line(context: Any) -> str:
    """Return the profile that is named before the word; typer leaves arguments aside while an option has no value."""
    return str(context.params.get("profile") or [*(context.params.get("words") or ()), *context.args, ""][0])


def _sessions(context: Any, settings: "Settings") -> Iterable[str]:
    """List the sessions of this project. SQLite writes no file, as it would by default to read."""
    import sqlite3

    from acp_launch.session.store import store_file

    profile, file = _on_line(context) if context.info_name == "run" else "", store_file(settings.state)
    how = "readonly_shm=1" if file.with_name(f"{file.name}-wal").exists() else "immutable=1"
    with closing(sqlite3.connect(f"{sqlite_uri(file)}?mode=ro&{how}", uri=True, timeout=0)) as store:
        wanted = "SELECT name FROM session WHERE project = ? AND ? IN ('', profile) ORDER BY last_used DESC"
        found = store.execute(wanted, (str(project_of(Path.cwd())), profile)).fetchmany(MAX_CANDIDATES)
    return (name for (name,) in found)


def _servers(context: Any, settings: "Settings") -> Iterable[str]:
    """List the servers of the profile on the line."""
    loaded, _ = inspect(find(_on_line(context), start=Path.cwd(), settings=settings))
    return loaded.profile.mcp_servers if loaded else ()


def _secrets(context: Any, settings: "Settings") -> Iterable[str]:
    return (name for name, _ in stored_names(settings.state))


# By the placeholder of a parameter; where it does not say enough, after the verb or the group of verbs.
SOURCES: dict[str, Callable[[Any, "Settings"], Iterable[str]]] = {
    "PROFILE": _profiles,
    # The first word alone: the others are the prompt.
    "PROFILE PROMPT": lambda context, settings: () if context.params.get("words") else _profiles(context, settings),
    "SESSION": _sessions,
    "session NAME": _sessions,
    "SERVER": _servers,
    "secret NAME": _secrets,
}
