"""`run`: one prompt, or a session to sit in front of."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Output(StrEnum):
    text = "text"
    json = "json"
    quiet = "quiet"


class Approve(StrEnum):
    all = "all"
    reads = "reads"
    none = "none"


def run(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[PROFILE] [PROMPT]...", help="A profile and what to ask its agent.")
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Read the prompt from a file; - is stdin.")] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="Run this agent command without any profile.")] = None,
    session: Annotated[
        str | None, typer.Option("--session", "-s", help="The named session: opened the first time, then continued.")
    ] = None,
    continue_: Annotated[bool, typer.Option("--continue", "-c", help="Continue the latest session.")] = False,
    new: Annotated[bool, typer.Option("--new", help="Open a fresh session, even if the name has one.")] = False,
    no_replay: Annotated[bool, typer.Option("--no-replay", help="Continue without the history.")] = False,
    cwd: Annotated[Path | None, typer.Option("--cwd", help="The session's working directory.")] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="How to show the turn.")] = Output.text,
    approve: Annotated[
        Approve | None, typer.Option("--approve", help="Answer permission questions: all, only reads, or none.")
    ] = None,
    timeout: Annotated[
        list[str] | None,
        typer.Option(
            "--timeout",
            metavar="DURATION|WAIT=DURATION",
            help="How long the run may take: 30s, 2m; a bare number is seconds. With a WAIT, how long that may take:"
            " initialize, session, silence. Again for more.",
        ),
    ] = None,
    attach: Annotated[
        list[Path] | None,
        typer.Option("--attach", "-a", help="Add a file: text, image, audio. Again for more."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="OPTION=VALUE", help="Set an option of the agent: model=opus. Again for more."),
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Run a project's profile this once, as in CI, without accepting it.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the agent's stderr as it comes.")] = False,
) -> None:
    """Start an agent and ask it one thing, or sit down with it.

    The prompt is the words after the profile, or --file, or stdin. Without one, on a terminal, the session is
    interactive.
    """
    from acp_launch.cli.job import carry_out
    from acp_launch.cli.timeout import limits
    from acp_launch.cli.wish import Wish

    wish = Wish(
        words=tuple(words or ()),
        file=file,
        agent=agent,
        session=session,
        latest=continue_,
        new=new,
        replay=not no_replay,
        cwd=cwd,
        output=output.value,
        approve=approve.value if approve else None,
        timeouts=limits(timeout or ()),
        verbose=verbose,
        attach=tuple(attach or ()),
        sets=tuple(set_ or ()),
        trust=trust,
    )
    raise typer.Exit(carry_out(wish))
