"""Who is alive, and who has died, from the kernel: every program of tests/servers holds a line to us for its life."""

import os
import select
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.patience import PATIENCE


class Voice:
    """One process: it has said its name and its pid, and says in single words what a test waits for."""

    def __init__(self, line: socket.socket) -> None:
        line.settimeout(PATIENCE)
        self._line = line
        self._text = line.makefile("rw", encoding="utf-8", newline="\n")
        self.name, pid = self._text.readline().split()
        self.pid = int(pid)

    def hears(self) -> str:
        """The next line it says."""
        said = self._read()
        assert said, f"{self.name} has died"
        return said.rstrip("\n")

    def says(self, text: str) -> None:
        assert self.hears() == text

    def tell(self, text: str) -> None:
        self._text.write(text + "\n")
        self._text.flush()

    def kill(self, number: int = signal.SIGKILL) -> None:
        """The kernel knows that it lives while its line is open, so that the pid is its own.

        Raises:
            ProcessLookupError: it does not.
        """
        if not self.is_alive:
            raise ProcessLookupError(f"{self.name} has died already")
        os.kill(self.pid, number)

    def dies(self) -> None:
        """Return once it is dead."""
        while self._read():
            pass

    def _read(self) -> str:
        try:
            return self._text.readline()
        except ConnectionResetError:  # it died with something of ours unread
            return ""
        except TimeoutError:
            raise AssertionError(f"{self.name} ({self.pid}) lives and says nothing") from None

    @property
    def is_alive(self) -> bool:
        """Whether its end of the line is open, however much is still to be read."""
        ends = select.poll()
        ends.register(self._line, select.POLLRDHUP)
        return not ends.poll(0)

    def close(self) -> None:
        """A test that failed leaves nothing behind either."""
        try:
            if self.is_alive:
                os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            return  # between the two
        finally:
            self._close()

    def _close(self) -> None:
        self._text.close()
        self._line.close()


class Roll:
    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._early: list[Voice] = []  # nobody has asked for them yet
        self.port = str(listener.getsockname()[1])
        self.voices: list[Voice] = []
        self.witnesses: list[int] = []  # nobody comes any more once one of these can be read

    def hear(self, name: str) -> Voice:
        """The next process with this name, whoever says hello meanwhile."""
        for voice in self._early:
            if voice.name == name:
                self._early.remove(voice)
                return voice
        while (voice := self._next(name)).name != name:
            self._early.append(voice)
        return voice

    def heard(self, name: str) -> list[Voice]:
        """All so far, dead ones too."""
        self._accept_the_rest()
        return [voice for voice in self.voices if voice.name == name]

    def all_die(self, since: float | None = None) -> float:
        """Return once everybody who ever said hello is dead, and how long that took since `since` (monotonic)."""
        self._accept_the_rest()
        began = time.monotonic() if since is None else since
        for voice in self.voices:
            voice.dies()
        return time.monotonic() - began

    def close(self) -> None:
        self._accept_the_rest()
        for voice in self.voices:
            voice.close()

    def _next(self, name: str) -> Voice:
        ready, _, _ = select.select([self._listener.fileno(), *self.witnesses], [], [], PATIENCE)
        assert self._listener.fileno() in ready, f"{name} never came; there are {[voice.name for voice in self.voices]}"
        return self._accept()

    def _accept(self) -> Voice:
        line, _ = self._listener.accept()
        voice = Voice(line)
        self.voices.append(voice)
        return voice

    def _accept_the_rest(self) -> None:
        while select.select([self._listener], [], [], 0)[0]:
            self._early.append(self._accept())


class Watched:
    """A process that has no line to us: the shim, the guard, a shell. To be made while it surely lives."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)

    def kill(self, number: int = signal.SIGKILL) -> None:
        signal.pidfd_send_signal(self._descriptor, number)

    def dies(self) -> None:
        """Return once it is dead, reaped or not."""
        ready, _, _ = select.select([self._descriptor], [], [], PATIENCE)
        assert ready, f"{self.pid} lives"

    @property
    def is_alive(self) -> bool:
        return not select.select([self._descriptor], [], [], 0)[0]

    def close(self) -> None:
        os.close(self._descriptor)


@contextmanager
def roll() -> Iterator[Roll]:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        listener.settimeout(PATIENCE)
        called = Roll(listener)
        try:
            yield called
        finally:
            called.close()
