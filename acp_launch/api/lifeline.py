"""The private host as its program has it: a child process that ends when the program ends it, or has ended."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from weakref import WeakSet

from acp_launch.api.order import Order
from acp_launch.errors import LaunchError, UsageError
from acp_launch.waits import stretch

DOWN_TIMEOUT = stretch(15.0)  # for the private host to end its agent and servers
MAX_STDERR_LINES = 20

_ours: WeakSet[socket.socket] = WeakSet()


def _close_in_child() -> None:
    """Keep the lifelines of this process out of a fork of it, which may outlive it."""
    for each in list(_ours):
        each.close()


os.register_at_fork(after_in_child=_close_in_child)


class PrivateHost:
    """The private host, from its start to its end."""

    def __init__(self, order: Order, cwd: str, env: Mapping[str, str]) -> None:
        """Start it; `env` goes over the environment of the program.

        Raises:
            UsageError: `cwd` is not a directory that can be entered, or `env` has no names of variables.
        """
        ours, theirs = _socketpair()
        _ours.add(ours)
        self.line, self._stderr = ours, tempfile.TemporaryFile()  # noqa: SIM115 - closed at its end
        descriptor = theirs.fileno()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "acp_launch.api.child", str(descriptor)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                pass_fds=[descriptor],
                cwd=cwd,
                env={**_environment(), **env},
                start_new_session=True,  # Ctrl-C is for the program, and there is no terminal to ask on
            )
            ours.sendall(json.dumps(order._asdict()).encode() + b"\n")
        except (OSError, ValueError) as error:  # a null byte
            ours.close()
            self._stderr.close()
            reason = error.strerror if isinstance(error, OSError) else str(error)
            fix = "name a directory" if isinstance(error, OSError) else ""
            raise UsageError(f"cannot start the agent in {cwd}: {reason}", fix=fix) from None
        finally:
            theirs.close()
        ours.setblocking(False)

    def listen(self) -> socket.socket:
        """Return the line for a loop to read, which has to close it: `end` closes the other one in a thread."""
        line = self.line.dup()
        _ours.add(line)
        return line

    def end(self) -> None:
        """Have it end, and wait for that; if it does not end it is killed, and its guards end the rest."""
        with suppress(OSError):
            self.line.shutdown(socket.SHUT_WR)
        poll = select.poll()
        poll.register(self.line, 0)  # its end alone
        if not poll.poll(1000 * DOWN_TIMEOUT):
            self._process.kill()
        self._process.wait()
        self.line.close()
        self._stderr.close()

    def describe_end(self) -> LaunchError:
        """Return the error of a process that has ended without a word."""
        status = self._process.wait(DOWN_TIMEOUT)
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").splitlines()
        how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return LaunchError(f"the process of the agent has ended ({how})", detail=lines[-MAX_STDERR_LINES:])


def _socketpair() -> tuple[socket.socket, socket.socket]:
    """Return sockets with descriptors beyond stdin, stdout and stderr, which a program may lack."""
    with ExitStack() as taken:
        descriptor = 0
        while descriptor < 3:
            descriptor = os.open(os.devnull, os.O_RDONLY)
            taken.callback(os.close, descriptor)
        return socket.socketpair()


def _environment() -> dict[str, str]:
    """Return the environment of the process: entries of PYTHONPATH mean what they mean here, not in its directory."""
    given = os.environ.get("PYTHONPATH")
    path = {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, given.split(os.pathsep)))} if given else {}
    return {**os.environ, **path}
