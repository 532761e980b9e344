"""What `run` takes from the command line, and what is found out about it before anything starts."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from acp_launch.cli.quick import Argument, Option
from acp_launch.cli.timeout import Limit, limit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from acp_launch.document.duration import Duration
    from acp_launch.secret.value import Secret
    from acp_launch.session.store.registry import Record, Registry
    from acp_launch.settings.model import Settings


class RunRequest(NamedTuple):
    """What the command line asks for."""

    words: Annotated[tuple[str, ...], Argument("[PROFILE] [PROMPT]...", "A profile and what to ask its agent.")] = ()
    file: Annotated[Path | None, Option("--file -f", "Read the prompt from a file; - is stdin.")] = None
    agent: Annotated[str | None, Option("--agent", "Run this agent command without any profile.")] = None
    session: Annotated[
        str | None, Option("--session -s", "The named session: opened the first time, then continued.")
    ] = None
    latest: Annotated[bool, Option("--continue -c", "Continue the latest session.")] = False
    new: Annotated[bool, Option("--new", "Open a fresh session, even if the name has one.")] = False
    no_replay: Annotated[bool, Option("--no-replay", "Continue without the history.")] = False
    cwd: Annotated[Path | None, Option("--cwd", "The session's working directory.")] = None
    output: Annotated[Literal["text", "json", "quiet"], Option("--output -o", "How to show the turn.")] = "text"
    approve: Annotated[
        Literal["all", "reads", "none"] | None,
        Option("--approve", "Answer permission questions: all, only reads, or none."),
    ] = None
    timeouts: Annotated[
        tuple[Limit, ...],
        Option(
            "--timeout",
            "How long the run may take: 30s, 2m; a bare number is seconds. With a WAIT, how long that may take:"
            " initialize, session, silence. Again for more.",
            "DURATION|WAIT=DURATION",
            limit,
        ),
    ] = ()
    attach: Annotated[tuple[Path, ...], Option("--attach -a", "Add a file: text, image, audio. Again for more.")] = ()
    sets: Annotated[
        tuple[str, ...], Option("--set", "Set an option of the agent: model=opus. Again for more.", "OPTION=VALUE")
    ] = ()
    trust: Annotated[bool, Option("--trust", "Run a project's profile this once, as in CI, without accepting it.")] = (
        False
    )
    verbose: Annotated[bool, Option("--verbose -v", "Show the agent's stderr as it comes.")] = False

    @property
    def replay(self) -> bool:
        return not self.no_replay

    @property
    def timeout(self) -> float | None:
        """Seconds for the whole run; the last that was given counts."""
        return dict(self.timeouts).get("")

    @property
    def limits(self) -> "dict[str, Duration]":
        """Of the waits that were named."""
        return {wait: length for wait, length in self.timeouts if wait}


class RunContext(NamedTuple):
    """What was found out before the start. `secrets` by name; `record` of the session that is continued."""

    settings: "Settings"
    secrets: "Mapping[str, Secret]"
    registry: "Registry"
    name: str
    record: "Record | None"
