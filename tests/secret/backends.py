"""Backends of the keyring library, named for their temper; tests choose them by full name, as a user would."""

import getpass
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError

from tests.patience import PATIENCE


class Memory(KeyringBackend):
    """Keeps everything in this process; `items` is what it holds."""

    priority: ClassVar[float] = 1
    items: ClassVar[dict[tuple[str, str], str]] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.items.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.items[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if (service, username) not in self.items:
            raise PasswordDeleteError("Password not found")
        del self.items[service, username]


class Raising(Memory):
    """Raises `error` whatever it is asked; with `{}` in a text argument, the value being written is put there."""

    error: ClassVar[BaseException] = RuntimeError()

    def get_password(self, service: str, username: str) -> str | None:
        raise self.error

    def set_password(self, service: str, username: str, password: str) -> None:
        filled = [text.replace("{}", password) if isinstance(text, str) else text for text in self.error.args]
        raise type(self.error)(*filled)

    def delete_password(self, service: str, username: str) -> None:
        raise self.error


class Keeping(Memory):
    """Does not let go of anything."""

    def delete_password(self, service: str, username: str) -> None:
        raise PasswordDeleteError("this is kept for seven years")


class Prompting(Memory):
    """Asks on stdin, as the encrypted file of keyrings.alt does without a terminal."""

    def get_password(self, service: str, username: str) -> str | None:
        return input()


class Hiding(Memory):
    """Asks with getpass, as the same file does with one."""

    def get_password(self, service: str, username: str) -> str | None:
        return getpass.getpass("Please enter password for encrypted keyring: ")


class Listening(Memory):
    """Reads stdin to its end."""

    heard: ClassVar[list[str]] = []

    def get_password(self, service: str, username: str) -> str | None:
        import sys

        self.heard.extend([sys.stdin.read(), *sys.stdin, sys.stdin.readline()])
        return None


class PlaintextMemory(Memory):
    pass


class Openly(Memory):
    scheme = "no encyption"  # spelt as keyrings.alt spells it


class Quoting(Memory):
    """Gives bytes, against the library's contract."""

    def get_password(self, service: str, username: str) -> str | None:
        return b"bytes"  # type: ignore[return-value]


class Ending(Memory):
    """Ends the process, as a library does that thinks it is a program."""

    def get_password(self, service: str, username: str) -> str | None:
        sys.exit(0)

    def set_password(self, service: str, username: str, password: str) -> None:
        sys.exit(0)


class Pooling(Memory):
    """Hangs in a thread of its own, for which the interpreter waits at its end."""

    def set_password(self, service: str, username: str, password: str) -> None:
        ThreadPoolExecutor().submit(threading.Event().wait).result()


class Delegating(Memory):
    """Leaves the work to a program, which hangs."""

    def set_password(self, service: str, username: str, password: str) -> None:
        subprocess.run(["sleep", "50"], check=True)


class NotABackend:
    pass


Alias = PlaintextMemory


def acp_launch(
    *arguments: str, backend: str, cwd: Path, stdin: bytes = b"", limit: str = "10s"
) -> "subprocess.CompletedProcess[bytes]":
    """acp-launch as a program, with one of the backends here and `limit` for it."""
    env = os.environ | {
        "PYTHON_KEYRING_BACKEND": f"tests.secret.{backend}",
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "ACP_LAUNCH_SECRETS__TIMEOUT": limit,
    }
    command = [sys.executable, "-m", "acp_launch", *arguments]
    return subprocess.run(command, env=env, cwd=cwd, input=stdin, capture_output=True, timeout=PATIENCE, check=False)
