"""The request of `run`, its prompt, and its output. The output is made when there is something to show."""

import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from acp_launch import leave
from acp_launch.cli.verb import (
    Approve,
    Argument,
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
from acp_launch.errors import LaunchError, RunExpired, Stopped, UsageError
from acp_launch.problem import ours
from acp_launch.waits import stretch

if TYPE_CHECKING:
    from acp_launch.console.ask.terminal import StillClock
    from acp_launch.console.stream.redacted import RunOutput
    from acp_launch.launch.context import Elicit
    from acp_launch.launch.run import Prompt
    from acp_launch.plan.model import LaunchPlan
    from acp_launch.problem import KeyPath
    from acp_launch.protocol.acp import Capabilities
    from acp_launch.session.elicitation import Elicitation
    from acp_launch.session.observer import Answer, Ask, Person, ToolQuestion, TurnEnd
    from acp_launch.session.opening import Setting
    from acp_launch.session.permission.policy import Policy
    from acp_launch.session.permission.remembered import AnswerStore
    from acp_launch.session.store import Record
    from acp_launch.settings.model import Settings

ENDED_WELL, ENDED_SHORT, DENIED = 0, 9, 10  # docs/scripting.md
WAITS = ("initialize", "session", "silence")  # of `agent.timeouts`
NAMED = ", ".join(f"{wait}=DURATION" for wait in WAITS)
WAYS = "give it after the profile, with --file FILE, or on stdin"
LIFELINE = "give it a pipe that ends with the caller, in a shell: --lifeline 3 3< PIPE"
LAST_WORDS = stretch(0.5)  # seconds for a reader to take the end of our output after a signal or a time-out
Limit = tuple[str, Duration]  # the wait, empty for all of the run


def read_limit(text: str) -> Limit:
    """Parse a limit such as `2m` or `silence=2m`.

    Raises:
        UsageError: the wait is unknown, or the duration is wrong.
    """
    wait, mark, length = text.rpartition("=")
    if mark and wait not in WAITS:
        fix = f"give a DURATION for the whole run, or {NAMED}"
        raise UsageError(f'--timeout: unknown wait "{wait}"', fix=fix)
    return wait, read_duration(length)


def read_descriptor(text: str) -> int:
    """Parse the value of `--lifeline`.

    Raises:
        UsageError: it is not a number.
    """
    if not (text.isascii() and text.isdecimal()):
        raise UsageError(f'--lifeline: expected the number of a descriptor, found "{text}"', fix=LIFELINE)
    return int(text)


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
    lifeline: Annotated[
        int | None,
        Option("--lifeline", "End as by SIGTERM at the end of file of this descriptor.", "FD", read_descriptor),
    ] = None
    attach: Annotated[tuple[Path, ...], Option("--attach -a", "Attach a file: text, image, audio. Repeatable.")] = ()
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
    def settings(self) -> tuple[str, ...]:
        """All that is set of the agent's options."""
        return (*self.sets, *([] if self.model is None else [f"model={self.model}"]))

    @property
    def limits(self) -> dict[str, Duration]:
        """The limits of named waits."""
        return {wait: length for wait, length in self.timeouts if wait}

    @property
    def prompt_words(self) -> tuple[str, ...]:
        """All words but the profile's name; with `--agent` all belong to the prompt."""
        return self.words if self.agent is not None else self.words[1:]

    @property
    def is_interactive(self) -> bool:
        """Whether the session is interactive: there is no prompt, and stdin is a terminal."""
        return self.output == "text" and sys.stdin is not None and self._lacks_prompt()

    @property
    def may_be_hosted(self) -> bool:
        """Whether a host can carry it out: it has an agent of its profile, and traces what it was told to trace."""
        return self.agent is None and self.trace is None and not self.locked and bool(self.words)

    @property
    def wants_host(self) -> bool:
        """Whether a host is brought up if there is none."""
        return self.detach or self.keep is not None

    def watch_lifeline(self) -> None:
        """Let the end of file of `--lifeline` end this process. Call it before anything is opened under its number.

        Raises:
            UsageError: it is not open, not a pipe or socket to read from, or the prompt is read from it.
        """
        if self.lifeline is None:
            return
        import fcntl

        try:
            mode = os.fstat(self.lifeline).st_mode
            access = fcntl.fcntl(self.lifeline, fcntl.F_GETFL) & os.O_ACCMODE
        except (OSError, OverflowError):
            raise UsageError(f"--lifeline: descriptor {self.lifeline} is not open", fix=LIFELINE) from None
        is_ours = self.lifeline in (1, 2) or access == os.O_WRONLY
        if is_ours or not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            what = f"descriptor {self.lifeline} is not a pipe or socket to read from"
            raise UsageError(f"--lifeline: {what}", fix=LIFELINE)
        if self.lifeline == 0 and (str(self.file) == "-" or not (self.prompt_words or self.file)):
            raise UsageError("--lifeline 0 cannot be combined with a prompt on stdin", fix=LIFELINE)
        leave.watch_lifeline(self.lifeline)

    def check(self) -> None:
        """Raise UsageError for options that do not go together."""
        if self.latest and (self.session or self.new):
            raise UsageError("--continue cannot be combined with --session or --new")
        if self.locked and self.agent is not None:
            raise UsageError("--locked cannot be combined with --agent", fix="a lock file is for profiles; name one")
        if self.confined and self.agent is None:
            raise UsageError("--confined is for --agent", fix="in the profile: runtime: {confined: true}")
        if self.wants_host:
            self._check_background("--detach" if self.detach else "--keep")
        if self.is_interactive and self.timeout is not None:
            raise UsageError("--timeout needs a prompt", fix=WAYS)
        if self.is_interactive and self.attach:
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
        if self.detach and self.is_interactive:
            raise UsageError(f"{option} needs a prompt", fix=WAYS)
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

    def prompt(self, plan: "LaunchPlan", name: str, record: "Record | None", text: str) -> "Prompt":
        """Return the prompt `text` in the session of this name; `record` is that of a session to resume."""
        from acp_launch.launch.run import Prompt, SessionRequest

        wishes = settings_of(plan, self.settings)
        session = SessionRequest(name=name, continued=record, replay=not self.no_replay, wishes=wishes)
        return Prompt(request=session, blocks=self._blocks(plan, text), timeout=self.timeout)

    def _blocks(self, plan: "LaunchPlan", text: str) -> "Callable[[Capabilities], list[dict[str, Any]]]":
        """Return what makes the prompt's blocks, one for each `--attach`, in a form that the agent supports."""

        def make(able: "Capabilities") -> "list[dict[str, Any]]":
            said: dict[str, Any] = {"type": "text", "text": text}
            if not self.attach:
                return [said]
            from acp_launch.session.attachments import attach

            roots = (plan.cwd, *plan.additional_directories)
            return [said, *(attach(path, able, roots=roots) for path in self.attach)]

        return make

    def asker(self, person: "Person", plan: "LaunchPlan") -> "Ask":
        """Return what asks the user about a tool call."""

        async def ask(question: "ToolQuestion") -> "Answer":
            from shlex import quote  # most runs ask nothing

            from acp_launch.console.ask.permission import permission_asker
            from acp_launch.profile.discover import project_of

            if self.agent is None:
                listing = ours("permission", "list", self.words[0])
            else:
                is_here = plan.project == project_of(Path.cwd())
                listing = ours("permission", "list", "--", plan.profile)
                listing = listing if is_here else f"cd {quote(str(plan.project))}; {listing}"
            return await permission_asker(person, listing, str(plan.cwd))(question)

        return ask


def _read_file(file: Path) -> bytes:
    from acp_launch.session.safepath import Denied, open_named

    try:
        with os.fdopen(open_named(file, [Path.cwd()]), "rb") as opened:
            return opened.read()
    except Denied:
        from acp_launch.session.attachments import leads_out

        raise leads_out(file) from None
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
    import array
    import fcntl
    import termios

    waiting = array.array("i", [0])
    with suppress(OSError):
        fcntl.ioctl(0, termios.FIONREAD, waiting)
    return waiting[0] > 0 and not sys.stdin.isatty()


def elicitor(person: "Person") -> "Elicit":
    """Return what makes the forms and links of an agent."""

    def make(agent: str, note: Callable[[str], None]) -> "Elicitation":
        from acp_launch.console.ask.forms import Forms
        from acp_launch.console.ask.links import Links
        from acp_launch.session.elicitation import Elicitation

        fill, visit = Forms(person, agent).fill, Links(person, agent).visit
        return Elicitation(agent, fill=fill, visit=visit, note=note)

    return make


def settings_of(plan: "LaunchPlan", sets: Sequence[str] = ()) -> "list[Setting]":
    """Collect the mode and options of the profile and of `--set`."""
    from acp_launch.session.opening import wishes

    def place(path: "KeyPath") -> str:
        origin = plan.origins[path]
        return f"{origin} {origin.path}"

    return wishes(plan.mode, plan.config, sets, place=place)


def rules_of(plan: "LaunchPlan", settings: "Settings", approve: "Approve | None") -> "Policy":
    """Return the rules about tool calls of a plan, with the answers that were kept until now."""
    from acp_launch.session.permission.policy import policy
    from acp_launch.session.permission.remembered import load

    return policy(plan, approve=approve, remembered=load(shelf_of(plan, settings)), home=os.environ.get("HOME", ""))


def shelf_of(plan: "LaunchPlan", settings: "Settings") -> "AnswerStore":
    from acp_launch.session.permission.remembered import AnswerStore

    return AnswerStore(settings.state, str(plan.project), plan.profile, plan.called)


def exit_code(end: "TurnEnd") -> int:
    """Return the exit code for a turn's end."""
    if end.denied:
        return DENIED
    return ENDED_WELL if end.stop_reason == "end_turn" else ENDED_SHORT


class Screen:
    """The output of a run, and the user at its terminal."""

    def __init__(self, output: str, *, has_links: bool = True) -> None:
        """`output` is text, json or quiet."""
        self._output = output
        self._has_links = has_links
        self.roots: Sequence[Path] = ()  # the directories of the session, once they are known
        self._observer: RunOutput | None = None
        self._clock: StillClock | None = None  # of what is drawn

    @property
    def observer(self) -> "RunOutput":
        if self._observer is None:
            from acp_launch.secret.redact import redactor

            self._observer = self._make()
            if not redactor.is_empty:
                from acp_launch.console.stream.redacted import RedactedOutput

                self._observer = RedactedOutput(self._observer)
        return self._observer

    def _make(self) -> "RunOutput":
        if self._output == "text" and sys.stdout.isatty():
            from acp_launch.console.ask.terminal import StillClock
            from acp_launch.console.draw.live import Live

            self._clock = StillClock()
            return Live(clock=self._clock, roots=self.roots, has_links=self._has_links)
        from acp_launch.console.stream.outlet import Outlet

        if self._output == "json":
            from acp_launch.console.stream.ndjson import Ndjson

            return Ndjson(Outlet())
        from acp_launch.console.stream.text import Plain, Quiet

        return Quiet(Outlet()) if self._output == "quiet" else Plain(Outlet())

    def person(self) -> "Person | None":
        """Return the user at the terminal; None if there is no terminal to ask on."""
        if sys.stdin is None or not sys.stdin.isatty():
            return None
        from acp_launch.console.ask.terminal import TerminalQuestions, possible

        if not possible():
            return None
        return TerminalQuestions(self.observer.pause, self._clock)

    def show_wait(self, what: str, waited: float, limit: float) -> None:
        """Report a wait that happens before the run has an observer."""
        if self._output != "json":
            from acp_launch.cli.stores import say_waiting

            say_waiting(what, waited, limit)
            return
        import asyncio

        observer = self._make()  # not the run's own, which needs to know the secrets it must mask
        observer.waiting(what, waited, limit)
        asyncio.run(observer.drain())

    @contextmanager
    def report_failures(self) -> Iterator[None]:
        """Report a failure in the block, or the signal that ended it, and raise it again."""
        try:
            yield
        except LaunchError as error:
            self._show_failure(error)
            raise
        except KeyboardInterrupt:
            stopped = Stopped("stopped", signal_number=leave.code() - 128)
            self._show_failure(stopped)
            raise stopped from None

    def _show_failure(self, error: LaunchError) -> None:
        """Finish the output so far, and report the failure to a script."""
        if self._observer is None and self._output != "json":
            return
        import asyncio

        from acp_launch.console.stream.outlet import OutputClosed

        if isinstance(error, Stopped | RunExpired):
            leave.within(LAST_WORDS, error.exit_code)
        self.observer.failed(error)
        try:
            asyncio.run(self.observer.drain())
        except OutputClosed:
            return  # the reader is gone
