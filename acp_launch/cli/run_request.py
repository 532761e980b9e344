"""The request of `run`: its arguments and options, `--timeout`, and the text of its prompt."""

import os
import select
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from acp_launch.cli.verb import TRACE, Argument, Option
from acp_launch.console.stderr import DIM, say
from acp_launch.document.scalars import Duration
from acp_launch.errors import UsageError

# `--timeout` takes a duration as in a profile, or a plain number of seconds. With the name of a wait before it, as in
# `initialize=5m`, it limits that wait.

WAITS = ("initialize", "session", "silence")  # of `agent.timeouts`
NAMED = ", ".join(f"{wait}=DURATION" for wait in WAITS)
Limit = tuple[str, Duration]  # the wait, empty for all of the run


def seconds(text: str, option: str = "--timeout") -> Duration:
    """Parse a duration such as `2m`, `1.5s` or `1.5`, the value of `option`.

    Raises:
        UsageError: the text is not a duration.
    """
    try:
        return Duration.parse(f"{text}s" if text[-1:].isdigit() else text)
    except ValueError:
        fix = "write a positive number and its unit, seconds without one: 90, 500ms, 2m, 1h"
        raise UsageError(f'{option}: expected a duration, found "{text}"', fix=fix) from None


def limit(text: str) -> Limit:
    """Parse a limit such as `2m` or `silence=2m`.

    Raises:
        UsageError: the wait is unknown, or the duration is wrong.
    """
    wait, mark, length = text.rpartition("=")
    if mark and wait not in WAITS:
        fix = f"give a DURATION for the whole run, or {NAMED}"
        raise UsageError(f'--timeout: unknown wait "{wait}"', fix=fix)
    return wait, seconds(length)


def _keep(text: str) -> Duration:
    return seconds(text, "--keep")


class RunRequest(NamedTuple):
    """The arguments and options of `run`."""

    words: Annotated[tuple[str, ...], Argument("[PROFILE] [PROMPT]...", "A profile and what to ask its agent.")] = ()
    file: Annotated[Path | None, Option("--file -f", "Read the prompt from a file; - is stdin.")] = None
    agent: Annotated[str | None, Option("--agent", "Run this agent command without a profile.")] = None
    session: Annotated[
        str | None, Option("--session -s", "The session's name: resumed if it exists, else created.")
    ] = None
    latest: Annotated[bool, Option("--continue -c", "Resume the latest session.")] = False
    new: Annotated[bool, Option("--new", "Start a new session, even if the name has one.")] = False
    no_replay: Annotated[bool, Option("--no-replay", "Resume without showing the history.")] = False
    cwd: Annotated[Path | None, Option("--cwd", "The session's working directory.")] = None
    output: Annotated[Literal["text", "json", "quiet"], Option("--output -o", "The output format.")] = "text"
    approve: Annotated[
        Literal["all", "reads", "none"] | None,
        Option("--approve", "Approve permission requests: all, only reads, or none."),
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
    detach: Annotated[bool, Option("--detach -d", "Start the turn in a host; `session wait` waits.")] = False
    keep: Annotated[
        Duration | None, Option("--keep", "Leave a host up for so long after its last use.", "DURATION", _keep)
    ] = None
    attach: Annotated[tuple[Path, ...], Option("--attach -a", "Attach a file: text, image, audio. Repeatable.")] = ()
    sets: Annotated[
        tuple[str, ...], Option("--set", "Set an option of the agent: model=opus. Repeatable.", "OPTION=VALUE")
    ] = ()
    trust: Annotated[bool, Option("--trust", "Run a project's profile once without trusting it, as in CI.")] = False
    locked: Annotated[bool, Option("--locked", "Refuse packages that differ from the project's lock file.")] = False
    verbose: Annotated[bool, Option("--verbose -v", "Show the agent's stderr as it comes.")] = False
    trace: Annotated[Path | None, TRACE] = None
    plain: Annotated[bool, Option("--plain", "Use no colours and no animation, as with NO_COLOR, and no links.")] = (
        False
    )

    @property
    def replay(self) -> bool:
        return not self.no_replay

    @property
    def timeout(self) -> float | None:
        """Seconds for the whole run; the last given value counts."""
        return dict(self.timeouts).get("")

    @property
    def limits(self) -> dict[str, Duration]:
        """The limits of named waits."""
        return {wait: length for wait, length in self.timeouts if wait}


# A host: whether the run may use the one of its profile, and whether it brings one up.


def may_be_hosted(request: RunRequest) -> bool:
    """Tell whether a host can carry it out: it has an agent of its profile, and traces what it was told to trace."""
    return request.agent is None and request.trace is None and not request.locked and bool(request.words)


def wants_host(request: RunRequest) -> bool:
    """Tell whether a host is brought up if there is none."""
    return request.detach or request.keep is not None


def check_background(request: RunRequest) -> None:
    """Raise UsageError for options that do not go with a host."""
    option = "--detach" if request.detach else "--keep"
    if not wants_host(request):
        return
    if request.locked:
        raise UsageError(f"{option} cannot be combined with --locked", fix="acp-launch up PROFILE --locked")
    if request.agent is not None or request.trace is not None:
        other = "--agent" if request.agent is not None else "--trace"
        raise UsageError(f"{option} cannot be combined with {other}", fix="a host is of a profile; leave one out")
    if not request.words:
        raise UsageError(f"{option} needs a profile", fix=f"acp-launch run {option} PROFILE PROMPT")
    if request.detach and is_left_open(request.words[1:], request.file):
        raise UsageError(f"{option} needs a prompt", fix=WAYS)
    if request.detach and request.timeout is not None:
        raise UsageError("--timeout cannot be combined with --detach", fix="session wait has a --timeout")


# The prompt: the words, then the file; stdin if there is neither.

WAYS = "give it after the profile, with --file FILE, or on stdin"


def read(words: Sequence[str], file: Path | None) -> str:
    """Read the prompt; the text of a file comes after the words.

    Raises:
        UsageError: there is no prompt, or it cannot be read.
    """
    parts = [_decoded(os.fsencode(" ".join(words)), "the command line")] if words else []
    if file:
        parts.append(_from_file(file))
    text = "\n\n".join(parts) if parts else _from_stdin()
    if not text.strip():
        raise UsageError("the prompt is empty", fix=WAYS)
    if words and not file and _waits_on_stdin():
        say("acp-launch: stdin is not read, because the command line has a prompt; --file - adds it", style=DIM)
    return text


def examine(files: tuple[Path, ...]) -> None:
    """Raise UsageError for a file that cannot be attached."""
    if files:
        from acp_launch.session.attachments import examine

        for file in files:
            examine(file)


def require_one_session(request: RunRequest) -> None:
    """Raise UsageError for options that name different sessions."""
    if request.latest and (request.session or request.new):
        raise UsageError("--continue cannot be combined with --session or --new")


def require_nothing_one_shot(request: RunRequest) -> None:
    """Raise UsageError for options that make sense only with a prompt."""
    if request.timeout is not None:
        raise UsageError("--timeout needs a prompt", fix=WAYS)
    if request.attach:
        raise UsageError("--attach needs a prompt", fix=f"{WAYS}; or type @FILE in it")


def is_left_open(words: Sequence[str], file: Path | None) -> bool:
    """Tell whether the session is interactive: there is no prompt, and stdin is a terminal."""
    return not words and not file and _is_terminal() and sys.stdin is not None


def require(words: Sequence[str], file: Path | None) -> None:
    """Check that there will be a prompt, before the user is asked for a passphrase.

    Raises:
        UsageError: no prompt is given, and stdin is a terminal.
    """
    if not words and not file and _is_terminal():
        raise _none()


def _is_terminal() -> bool:
    return sys.stdin is None or sys.stdin.isatty()


def _none() -> UsageError:
    return UsageError("there is no prompt", fix=WAYS)


def _waits_on_stdin() -> bool:
    """Tell whether there is unread input on stdin, without reading it, which might never end."""
    try:
        mode = os.fstat(0).st_mode
        if stat.S_ISREG(mode):
            return os.fstat(0).st_size > 0
        return stat.S_ISFIFO(mode) and bool(select.select([0], [], [], 0)[0]) and _holds_bytes()
    except OSError:
        return False


def _holds_bytes() -> bool:
    """Tell whether the pipe holds bytes, because `select` also reports its end."""
    import array
    import fcntl
    import termios

    waiting = array.array("i", [0])
    fcntl.ioctl(0, termios.FIONREAD, waiting)
    return waiting[0] > 0


def _from_file(file: Path) -> str:
    if str(file) == "-":
        return _decoded(sys.stdin.buffer.read(), "stdin")
    try:
        return _decoded(file.read_bytes(), str(file))
    except OSError as error:
        raise UsageError(f"cannot read the prompt from {file}: {error.strerror}", fix="name a file of text") from None


def _from_stdin() -> str:
    if _is_terminal():
        raise _none()
    return _decoded(sys.stdin.buffer.read(), "stdin")


def _decoded(raw: bytes, source: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"the prompt from {source} is not UTF-8 (byte {error.start})", fix="convert it: iconv -t UTF-8"
        ) from None
