"""
A command that the agent asked us to run (ACP v1 "terminals"): not a real terminal, but a program's output in order.

Its stdin is /dev/null, stdout and stderr are one pipe. It may print without end: the stored output is bounded, reports
come in steps, and more than `MAX_STEP_BYTES` a step are left in the pipe, so that the writer waits.

The command is over when its process has ended (C-71), even if what it started lives on and prints, as a server behind
`&` does; `end` ends all of that. The caller must ensure that `end` or `drop` is called.
"""

import asyncio
import codecs
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from acp_launch.process import watch
from acp_launch.process.spawn import STATUS_LOST, spawn
from acp_launch.process.tree import Exit, Tree, end_now, from_wait_status, kill_tree, terminate
from acp_launch.secret.redact import StreamRedactor
from acp_launch.waits import first_of, stretch

# The last output of a command as text, within a limit (C-72). Secrets are hidden before anything is cut, so that each
# is recognized whole.


class Scrollback:
    def __init__(self, limit: int) -> None:
        """Store at most `limit` bytes of UTF-8; the stored text begins with a whole character."""
        self.is_cut = False
        self._limit = limit
        self._kept = bytearray()
        self._redacting = StreamRedactor()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> str:
        """Return the text that `data` completes. Bytes that may become a character or a secret are held back."""
        return self._keep(self._decoder.decode(self._redacting.feed(data)))

    def pause(self) -> str:
        """Return a mask for a held-back secret, because nothing may follow."""
        return self._keep(self._decoder.decode(self._redacting.cover()))

    def end(self) -> str:
        """Return the rest, because nothing follows."""
        return self._keep(self._decoder.decode(self._redacting.end(), final=True))

    def text(self) -> str:
        return self._kept.decode()

    def _keep(self, text: str) -> str:
        self._kept += text.encode()
        if (over := len(self._kept) - self._limit) > 0:
            self.is_cut = True
            while over < len(self._kept) and self._kept[over] & 0xC0 == 0x80:  # within a character
                over += 1
            del self._kept[:over]
        return text


REPORT_SECONDS = 0.05  # between two reports: more often than a user can follow
MAX_STEP_BYTES = 1024 * 1024  # read in one step
MAX_STEP_CHARS = 64 * 1024  # that are reported of one step: far more than a screen holds
CHUNK_BYTES = 64 * 1024  # the size of a pipe
MAX_LEFTOVER_BYTES = 1024 * 1024  # read after its end: more than a pipe holds, less than a flood
GRACE_SECONDS = 1.0  # after TERM, for a command to clean up
STATUS_TIMEOUT = stretch(1.0)  # until the wait status of a killed process must have arrived


class Terminal:
    """A command in the running loop. `said` gets the new output, `ended` is called once."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        name: str,
        limit: int,
        is_boxed: bool = False,
        is_client: bool = False,
        said: Callable[[str], None],
        ended: Callable[[Exit], None],
    ) -> None:
        """Start it. `name` is its name in `ps`, `limit` the bytes of output to store. `is_boxed`, `is_client`: as in
        `spawn`.

        Raises:
            AgentError: it could not be started.
        """
        self.exit: Exit | None = None
        self.hurry = asyncio.Event()  # set: no more grace for ending it
        self.spawned = spawn(
            argv, env=env, cwd=cwd, name=name, is_output_only=True, is_boxed=is_boxed, is_client=is_client
        )
        self._said, self._ended = said, ended
        self._loop = asyncio.get_running_loop()
        self._scrollback = Scrollback(limit)
        self._fresh: list[str] = []  # not reported yet
        self._room = MAX_STEP_BYTES
        self._is_listening = False
        self._step: asyncio.TimerHandle | None = None
        self._over = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None
        self._unwatch = watch.on_exit(self.spawned, self._died)
        self._listen()

    @property
    def is_gone(self) -> bool:
        """Whether `end` is over."""
        return self._ending is not None and self._ending.done()

    def output(self) -> tuple[str, bool]:
        """Return the last of its output, and whether there was more."""
        return self._scrollback.text(), self._scrollback.is_cut

    async def wait(self) -> Exit:
        """Wait until its process has ended."""
        await self._over.wait()
        assert self.exit is not None
        return self.exit

    async def end(self) -> None:
        """Send TERM to everything of it that lives, and after `GRACE_SECONDS` KILL. Its output can still be read.

        Done once, however often this is called, and completed even if the caller is cancelled. At most `GRACE_SECONDS`,
        `tree.KILL_TIMEOUT` and `STATUS_TIMEOUT`.
        """
        if self._ending is None:
            self._ending = asyncio.create_task(self._end())
        await asyncio.shield(self._ending)

    def drop(self) -> None:
        """Do what `end` does, at once and blocking, if `end` was interrupted; else nothing."""
        self._rest()
        self._unwatch()
        end_now(self.spawned)

    async def _end(self) -> None:
        tree = Tree(self.spawned)
        if left := tree.alive_for_sure():
            terminate(left)
            await first_of(watch.until_gone(left, within=GRACE_SECONDS), self.hurry.wait())
        await kill_tree(tree)
        self.spawned.mark_ended()
        try:
            async with asyncio.timeout(STATUS_TIMEOUT):
                await self._over.wait()
        except TimeoutError:  # not even SIGKILL gets it out of the kernel
            self._finish(from_wait_status(STATUS_LOST))
        self._take_leftover()
        self._hang_up()

    def _died(self) -> None:
        assert self.spawned.status is not None
        self._take_leftover()
        self._print(self._scrollback.pause())
        self._finish(from_wait_status(self.spawned.status))

    def _finish(self, exit: Exit) -> None:
        self._tell()
        self._unwatch()
        self.exit = exit
        self._over.set()
        self._ended(exit)

    def _listen(self) -> None:
        if self.spawned.stdout >= 0 and not self._is_listening:
            self._is_listening = True
            self._loop.add_reader(self.spawned.stdout, self._readable)

    def _rest(self) -> None:
        if self._is_listening:
            self._is_listening = False
            self._loop.remove_reader(self.spawned.stdout)

    def _readable(self) -> None:
        self._room -= self._take()
        if self._step is None:
            self._step = self._loop.call_later(REPORT_SECONDS, self._next_step)
        if self._room <= 0:
            self._rest()

    def _next_step(self) -> None:
        self._step, self._room = None, MAX_STEP_BYTES
        self._tell()
        self._listen()

    def _take(self) -> int:
        """Read and return the number of bytes; at the end of the pipe close it."""
        try:
            chunk = os.read(self.spawned.stdout, CHUNK_BYTES) if self.spawned.stdout >= 0 else b""
        except BlockingIOError:
            return 0
        if chunk:
            self._print(self._scrollback.feed(chunk))
        else:
            self._hang_up()
        return len(chunk)

    def _take_leftover(self) -> None:
        """Read the command's own output, which is in the pipe by now. Other processes may continue to fill it."""
        taken = 0
        while taken < MAX_LEFTOVER_BYTES and (got := self._take()):
            taken += got

    def _print(self, text: str) -> None:
        if text and self.exit is None:
            self._fresh.append(text)

    def _tell(self) -> None:
        text = "".join(self._fresh)
        self._fresh.clear()
        if len(text) > MAX_STEP_CHARS:
            text = f"\n[... {len(text) - MAX_STEP_CHARS:,} characters not shown ...]\n{text[-MAX_STEP_CHARS:]}"
        if text:
            self._said(text)

    def _hang_up(self) -> None:
        if self.spawned.stdout < 0:
            return
        self._rest()
        self.spawned.close("stdout")
        self._print(self._scrollback.end())
