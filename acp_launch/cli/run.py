"""The verbs `run` and `attach`: one prompt, or an interactive session. Nothing starts before all checks have passed."""

import array
import fcntl
import os
import sys
import termios
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from acp_launch import shutdown
from acp_launch.app.attach import run_in_host
from acp_launch.app.screen import Screen
from acp_launch.app.spec import RunSpec, load_settings
from acp_launch.cli.verb import (
    Approve,
    Argument,
    Lifeline,
    Locked,
    Option,
    Output,
    Plain,
    TraceFile,
    Trust,
    read_duration,
    read_keep,
)
from acp_launch.console.stderr import DIM, tell
from acp_launch.document.scalars import Duration
from acp_launch.errors import NotLoggedIn, UsageError
from acp_launch.problem import ours
from acp_launch.served.registry import any_host
from acp_launch.settings.model import Settings
from acp_launch.waits import AGENT_WAITS

if TYPE_CHECKING:
    from acp_launch.engine.prepared import PreparedPlan


NAMED = ", ".join(f"{wait}=DURATION" for wait in AGENT_WAITS)
WAYS = "give it after the profile, with --file FILE, or on stdin"
Limit = tuple[str, Duration]  # the wait, empty for all of the run


def read_limit(text: str) -> Limit:
    """Parse a limit such as `2m` or `silence=2m`.

    Raises:
        UsageError: the wait is unknown, or the duration is wrong.
    """
    wait, mark, length = text.rpartition("=")
    if mark and wait not in AGENT_WAITS:
        fix = f"give a DURATION for the whole run, or {NAMED}"
        raise UsageError(f'--timeout: unknown wait "{wait}"', fix=fix)
    return wait, read_duration(length)


class RunRequest(NamedTuple):
    """The arguments and options of `run`."""

    words: Annotated[tuple[str, ...], Argument("[PROFILE] [PROMPT]...", "A profile and what to ask its agent.")] = ()
    file: Annotated[Path | None, Option("--file -f", "Read the prompt from a file; - is stdin.")] = None
    agent: Annotated[str | None, Option("--agent", "Run this agent command without a profile.")] = None
    confined: Annotated[bool, Option("--confined", "With --agent: it sees this directory and its own state.")] = False
    session: Annotated[
        str | None, Option("--session -s", "The session's name: resumed if it exists, else created.")
    ] = None
    latest: Annotated[bool, Option("--continue -c", "Resume the latest session.")] = False
    new: Annotated[bool, Option("--new", "Start a new session, even if the name has one.")] = False
    no_replay: Annotated[bool, Option("--no-replay", "Resume without showing the history.")] = False
    cwd: Annotated[Path | None, Option("--cwd", "The session's working directory.")] = None
    output: Output = "text"
    approve: Annotated[
        Approve | None, Option("--approve", "Approve permission requests: all, only reads, or none.")
    ] = None
    timeouts: Annotated[
        tuple[Limit, ...],
        Option(
            "--timeout",
            "End the run after this long: 30s, 2m; a plain number is seconds. WAIT=DURATION limits one wait:"
            " initialize, session, silence. Repeatable.",
            "DURATION|WAIT=DURATION",
            read_limit,
        ),
    ] = ()
    detach: Annotated[bool, Option("--detach -d", "Start the turn in a host; `session wait` waits.")] = False
    keep: Annotated[
        Duration | None, Option("--keep", "How long a host stays up after its last use.", "DURATION", read_keep)
    ] = None
    lifeline: Lifeline = None
    attach: Annotated[
        tuple[Path, ...], Option("--attach -a", "Attach a file: text, image, audio. Repeatable.", "FILE")
    ] = ()
    sets: Annotated[
        tuple[str, ...], Option("--set", "Set an option of the agent: model=opus. Repeatable.", "OPTION=VALUE")
    ] = ()
    model: Annotated[str | None, Option("--model -m", "The same as --set model=MODEL.", "MODEL")] = None
    trust: Trust = False
    locked: Locked = False
    verbose: Annotated[bool, Option("--verbose -v", "Show the agent's stderr as it comes.")] = False
    trace: TraceFile = None
    plain: Plain = False

    @property
    def timeout(self) -> float | None:
        """Seconds for the whole run; the last given value counts."""
        return dict(self.timeouts).get("")

    @property
    def spec(self) -> "RunSpec":
        """What runs, without the prompt and the output."""
        return RunSpec(
            profile=self.words[0] if self.agent is None and self.words else "",
            agent=self.agent,
            is_confined=self.confined,
            session=self.session,
            latest=self.latest,
            is_new=self.new,
            replay=not self.no_replay,
            cwd=self.cwd,
            approve=self.approve,
            timeout=self.timeout,
            limits={wait: length for wait, length in self.timeouts if wait},
            options=(*self.sets, *([] if self.model is None else [f"model={self.model}"])),
            attach=self.attach,
            trust=self.trust,
            locked=self.locked,
            is_verbose=self.verbose,
            trace=self.trace,
            has_links=not self.plain,
            detach=self.detach,
            keep=self.keep,
        )

    @property
    def prompt_words(self) -> tuple[str, ...]:
        """All words but the profile's name; with `--agent` all belong to the prompt."""
        return self.words if self.agent is not None else self.words[1:]

    @property
    def is_interactive(self) -> bool:
        """Whether the session is interactive: there is no prompt, and stdin is a terminal."""
        return self.output == "text" and sys.stdin is not None and self._lacks_prompt()

    def watch_lifeline(self) -> None:
        """Let the end of file of `--lifeline` end this process. Call it before anything is opened under its number.

        Raises:
            UsageError: as `shutdown.check_lifeline`; or the prompt is read from it.
        """
        if self.lifeline is None:
            return
        shutdown.check_lifeline(self.lifeline)
        if self.lifeline == 0 and (str(self.file) == "-" or not (self.prompt_words or self.file)):
            raise UsageError("--lifeline 0 cannot be combined with a prompt on stdin", fix=shutdown.LIFELINE)
        shutdown.watch_lifeline(self.lifeline)

    def check(self) -> None:
        """Raise UsageError for options that do not go together."""
        if self.latest and (self.session or self.new):
            raise UsageError("--continue cannot be combined with --session or --new")
        if self.locked and self.agent is not None:
            raise UsageError("--locked cannot be combined with --agent", fix="a lock file is for profiles; name one")
        if self.confined and self.agent is None:
            raise UsageError("--confined is for --agent", fix="in the profile: runtime: {confined: true}")
        if self.spec.wants_host:
            self._check_background("--detach" if self.detach else "--keep")
        if self.is_interactive:
            self._check_without_prompt()

    def _check_without_prompt(self) -> None:
        if self.detach:
            raise UsageError("--detach needs a prompt", fix=WAYS)
        if self.timeout is not None:
            raise UsageError("--timeout needs a prompt", fix=WAYS)
        if self.attach:
            raise UsageError("--attach needs a prompt", fix=f"{WAYS}; or type @FILE in it")

    def _check_background(self, option: str) -> None:
        if self.locked:
            raise UsageError(f"{option} cannot be combined with --locked", fix="acp-launch up PROFILE --locked")
        if self.agent is not None or self.trace is not None:
            other = "--agent" if self.agent is not None else "--trace"
            raise UsageError(
                f"{option} cannot be combined with {other}", fix="a host needs a profile; leave one of them out"
            )
        if not self.words:
            raise UsageError(f"{option} needs a profile", fix=f"acp-launch run {option} PROFILE PROMPT")
        if self.detach and self.timeout is not None:
            raise UsageError("--timeout cannot be combined with --detach", fix="session wait has a --timeout")

    def _lacks_prompt(self) -> bool:
        return not self.prompt_words and not self.file and (sys.stdin is None or sys.stdin.isatty())

    def require_prompt(self) -> None:
        """Raise UsageError if there will be no prompt, before the user is asked for a passphrase."""
        if self._lacks_prompt():
            raise UsageError("there is no prompt", fix=WAYS)

    def read_prompt(self) -> str:
        """Read the prompt: the words, then the file; stdin if there is neither.

        Raises:
            UsageError: there is no prompt, it cannot be read, or a file cannot be attached.
        """
        self.require_prompt()
        words = self.prompt_words
        parts = [_decode(os.fsencode(" ".join(words)), "the command line")] if words else []
        if self.file and str(self.file) != "-":
            parts.append(_decode(_read_file(self.file), str(self.file)))
        elif self.file or not words:
            parts.append(_decode(sys.stdin.buffer.read(), "stdin"))
        text = "\n\n".join(parts)
        if not text.strip():
            raise UsageError("the prompt is empty", fix=WAYS)
        if words and not self.file and _waits_on_stdin():
            tell("stdin is not read, because the command line has a prompt; --file - adds it", style=DIM)
        if self.attach:
            from acp_launch.session.attachments import examine

            for file in self.attach:
                examine(file, [Path.cwd()])
        return text


def _read_file(file: Path) -> bytes:
    from acp_launch.session.attachments import read_inside

    try:
        return read_inside(file, [Path.cwd()])
    except OSError as error:
        raise UsageError(f"cannot read the prompt from {file}: {error.strerror}", fix="name a file of text") from None


def _decode(raw: bytes, source: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"the prompt from {source} is not UTF-8 (byte {error.start})", fix="convert it: iconv -t UTF-8"
        ) from None


def _waits_on_stdin() -> bool:
    """Tell whether there is unread input on stdin, without reading it: it may be of the script that runs us."""
    waiting = array.array("i", [0])
    with suppress(OSError):
        fcntl.ioctl(0, termios.FIONREAD, waiting)
    return waiting[0] > 0 and not sys.stdin.isatty()


class Run(RunRequest):
    """Run a prompt, or start an interactive session.

    The prompt is the words after the profile, or --file, or stdin. Without one, on a terminal, the session is
    interactive.
    """

    __slots__ = ()

    def carry_out(self) -> int:
        return carry_out(self)


def attach(
    session: Annotated[str | None, Argument("[SESSION]", "A session that is open in a host.")] = None,
    profile: Annotated[str | None, Option("--profile -p", "Its profile, if several have one.")] = None,
    plain: Plain = False,
) -> int:
    """Attach this terminal to a session of a host, also in the middle of a turn."""
    if not RunRequest().is_interactive:
        raise UsageError("attach needs a terminal", fix=f"without one: {ours('run', 'PROFILE', 'PROMPT')}")
    from acp_launch.app.choose import session_of_host

    note, name = session_of_host(load_settings(), session, profile)
    os.chdir(note.here)  # where the profile has the name that `up` was given
    return carry_out(RunRequest(words=(note.called,), session=name, cwd=Path(note.cwd), plain=plain))


def carry_out(request: RunRequest) -> int:
    """Carry out the request and return the exit code."""
    if request.plain:
        os.environ["NO_COLOR"] = "1"  # known to everything that draws, also in the programs we start
    screen = Screen(request.output, has_links=not request.plain)
    with screen.report_failures():
        return _carry_out(request, screen)


def _carry_out(request: RunRequest, screen: Screen) -> int:
    request.watch_lifeline()

    settings = load_settings()
    request.check()
    read_prompt, spec = None if request.is_interactive else request.read_prompt, request.spec
    may_go_to_host = spec.may_be_hosted and (spec.wants_host or any_host(settings.state))
    if may_go_to_host and (code := run_in_host(spec, settings, screen, read_prompt)) is not None:
        return code
    from acp_launch.app.planning import prepare_launch

    prepare_launch()
    from acp_launch.app.start import launch_session

    if request.agent is None and (request.latest or not request.words):
        from acp_launch.app.choose import complete

        spec = complete(spec, settings)
    planned = _plan(request, spec, settings, screen)
    text = "" if read_prompt is None else read_prompt()
    with launch_session(spec, settings, planned) as (started, chosen, held):
        if read_prompt is not None:  # the rest is imported while the agent starts
            from acp_launch.app.context import run_turn

            return run_turn(spec, started, chosen, text, screen)
        from acp_launch.app.interactive_run import run_interactive

        return run_interactive(spec, started, chosen, held)


def _plan(request: RunRequest, spec: "RunSpec", settings: Settings, screen: Screen) -> "PreparedPlan":
    from acp_launch.app.planning import adhoc_plan, loaded_profile, prepare_plan, resolve_trusted

    if spec.agent is not None:
        return adhoc_plan(spec.agent, cwd=spec.cwd, session=spec.session, is_confined=spec.is_confined)
    resolved = resolve_trusted(
        loaded_profile(spec.profile, settings),
        settings,
        cwd=spec.cwd,
        session=spec.session,
        trust=spec.trust,
        locked=spec.locked,
    )
    if resolved.plan is not None and request.output != "text":
        request.require_prompt()
    try:
        return prepare_plan(resolved, settings, waiting=screen.show_wait)
    except NotLoggedIn as error:
        from acp_launch.app.consent import log_in_now

        if not log_in_now(error.servers, spec.profile, trust=spec.trust):
            raise
    return prepare_plan(resolved, settings, waiting=screen.show_wait)
