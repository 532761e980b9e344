"""
The front of an interactive session without drawing: on a dumb terminal, or when stdout is a pipe.

Prompts are lines. A line that ends with a backslash continues in the next. The terminal itself edits and echoes them.
Everything but the answer goes to stderr.
"""

import asyncio
import codecs
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from acp_launch.console.ask.terminal import StillClock, TerminalQuestions
from acp_launch.console.stderr import DIM, ask, harmless, paint, put, say
from acp_launch.interactive.terminal import Activity, Event, Interrupted, Left, Phase, Status, Submitted, Vocabulary
from acp_launch.session.events import Choice, Person

STDIN = 0
CHUNK_BYTES = 65536
PROMPT = "> "
READY: tuple[Phase, ...] = ("idle", "down")  # when a prompt is expected


class LineFront(TerminalQuestions):
    """A `Front`, and its `Person`, line by line."""

    def __init__(self, clock: StillClock | None = None) -> None:
        super().__init__(lambda: None, clock)
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self.person: Person = self
        self.canvas = None
        self._closed = asyncio.Event()
        self._answer: asyncio.Future[str] | None = None
        self._keys: asyncio.Queue[str] | None = None  # typed for a question that one key answers
        self._begun = ""  # the beginning of a prompt of several lines
        self._queued = 0  # prompts
        self._unread = ""
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._phase: Phase = "starting"
        self._is_invited = False

    async def run(self) -> None:
        self._listen()
        try:
            await self._closed.wait()
        finally:
            asyncio.get_running_loop().remove_reader(STDIN)

    def close(self) -> None:
        self._closed.set()

    def status(self, status: Status) -> None:
        """Show the prompt sign when ready, once per entered text: it is the only sign that an answer is complete."""
        self._phase = status.phase
        if self._phase in READY and not self._is_invited and not self._queued:
            self._invite()

    def watch(self, activity: Callable[[], Activity | None]) -> None:
        """Do nothing: a line that changes cannot be shown here."""

    def vocabulary(self, vocabulary: Vocabulary) -> None:
        """Do nothing: there is no completion here."""

    def queued(self, prompts: Sequence[str]) -> None:
        if len(prompts) > self._queued:  # else a queued prompt is being sent
            say(f"queued: {harmless(prompts[-1])}", style=DIM)
        self._queued = len(prompts)

    def offer(self, text: str) -> None:
        """Show the text for copying, because it cannot be put into the terminal's line."""
        say("not sent:", style=DIM)
        say(harmless(text))

    take_back = offer  # no key asks for it here

    def interrupt(self) -> None:
        """Handle SIGINT, which Ctrl-C sends here."""
        self._begun = ""
        self.events.put_nowait(Interrupted())

    @asynccontextmanager
    async def suspended(self) -> AsyncIterator[None]:
        asyncio.get_running_loop().remove_reader(STDIN)
        try:
            yield
        finally:
            self._listen()

    async def choose(self, prompt: str, choices: Sequence[Choice]) -> str | None:
        """Choose by one key; a line with the key alone does as well."""
        self._keys, self._unread = asyncio.Queue(), ""
        try:
            return await super().choose(prompt, choices)
        finally:
            self._keys = None

    async def read_keys(self) -> str:
        return await self._keys.get() if self._keys else ""

    async def read_line(self, prompt: str) -> str:
        """Return a line; text typed before the question is discarded."""
        self._unread = ""
        ask(prompt)
        self._answer = asyncio.get_running_loop().create_future()
        try:
            return await self._answer
        except asyncio.CancelledError:
            put("\n")
            raise
        finally:
            self._answer = None

    def _listen(self) -> None:
        asyncio.get_running_loop().add_reader(STDIN, self._read)

    def _read(self) -> None:
        try:
            data = os.read(STDIN, CHUNK_BYTES)
        except OSError:  # EIO: the terminal is gone
            data = b""
        if not data:
            self._end_input()
            return
        if self._keys is not None:
            self._keys.put_nowait(self._decode(data))
            return
        *lines, self._unread = (self._unread + self._decode(data)).split("\n")
        for line in lines:
            self._enter_line(line.removesuffix("\r"))

    def _end_input(self) -> None:
        """Handle Ctrl-D, after which a terminal can be read again, or the end of a pipe or terminal, which is final."""
        if os.isatty(STDIN):
            put("\n")
        else:
            asyncio.get_running_loop().remove_reader(STDIN)
        if self._keys is not None:
            self._keys.put_nowait("")
        elif self._answer and not self._answer.done():
            self._answer.set_result("")
        else:
            self.events.put_nowait(Left())

    def _enter_line(self, line: str) -> None:
        if self._answer and not self._answer.done():
            self._answer.set_result(f"{line}\n")
        elif line.endswith("\\"):
            self._begun += f"{line[:-1]}\n"
        else:
            text, self._begun = self._begun + line, ""
            self._is_invited = False
            if text.strip():
                self.events.put_nowait(Submitted(text))
            elif self._phase in READY:
                self._invite()

    def _invite(self) -> None:
        self._is_invited = True
        put(paint(PROMPT, DIM))
