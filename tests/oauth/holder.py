"""
A process with a keeper, for tests of many: `python -m tests.oauth.holder DIRECTORY [STEP]`.

It reads a line for each call, `{"now": …, "refused": …}`, and answers with `{"token": …}` or `{"how": …}`. At STEP it
says so, as `{"at": STEP}`, and goes no further. `locking` is said only.
"""

import asyncio
import json
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from acp_launch.mcp.http.wire import NoToken
from acp_launch.oauth import keeper as module
from acp_launch.oauth.grant import Logins
from acp_launch.oauth.keeper import TokenStore
from acp_launch.private import locked
from acp_launch.secret.sealedfile import SealedFile, open_file
from acp_launch.secret.value import Outcome, Secret
from acp_launch.settings.model import FileSettings

ITEM = "oauth/mcp.example/1"


def sealed(directory: Path) -> SealedFile:
    return open_file(FileSettings(key_file="key"), directory, {}, lambda prompt: None)


def say(**members: Any) -> None:
    print(json.dumps(members), flush=True)


class Stopping:
    """The sealed file; its second write is that of new tokens, the first one the rehearsal."""

    def __init__(self, directory: Path, step: str) -> None:
        self._file, self._step, self._writes = sealed(directory), step, 0
        self.label = self._file.label

    def reached(self, step: str) -> None:
        if step == self._step:
            say(at=step)
            threading.Event().wait()

    def prepare(self, *, writing: bool = False) -> None:
        self._file.prepare(writing=writing)

    def read(self, names: Sequence[str]) -> Mapping[str, Outcome]:
        return self._file.read(names)

    def write(self, name: str, secret: Secret) -> None:
        self._writes += 1
        if self._writes == 2:
            self.reached("before the write")
        self._file.write(name, secret)
        self.reached("after the write" if self._writes == 2 else "after the rehearsal")

    def remove(self, name: str) -> bool:
        return self._file.remove(name)

    def names(self) -> Mapping[str, float | None] | None:
        return self._file.names()


def main(directory: Path, step: str = "") -> None:
    store, now = Stopping(directory, step), 0.0

    @contextmanager
    def observed(path: Path, patience: float | None = None) -> Iterator[None]:
        store.reached("before the lock")
        if step == "locking":
            say(at=step)
        with locked(path, patience):
            store.reached("after the lock")
            yield

    if step:
        vars(module)["locked"] = observed
    keeper = TokenStore(ITEM, lambda: store, Logins(directory), command="log in", clock=lambda: now)
    say(at="ready")
    for line in sys.stdin:
        call = json.loads(line)
        now, refused = call["now"], call.get("refused")
        try:
            say(token=asyncio.run(keeper.token(Secret(refused) if refused else None)).expose())
        except NoToken as error:
            say(how=error.how)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
