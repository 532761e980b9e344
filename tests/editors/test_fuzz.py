"""Nonsense of both sides does no harm: each request is answered once, with its own id, and the rest still passes."""

import json
import random
import re
from collections import Counter
from typing import Any

import pytest

from tests.cli.launcher import Launcher
from tests.editors import nonsense
from tests.editors.editor import edited, initialize, serving
from tests.realservers.recorder import Json, Recorder

LINES = 250
ID = re.compile(rb'"id"\s*:\s*("(?:[^"\\]|\\.)*"|[^\s,}]+)')
N = re.compile(rb'"n":(\d+)')


class Fuzzer(Recorder):
    """An editor that reads only what it must of a line, which may be nested too deeply."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.answers: Counter[tuple[bytes, bytes]] = Counter()  # id and n; n is empty where any answer will do
        self.refusals: list[int] = []  # the codes of lines that were not read
        self.notices = 0
        self.dice = random.Random(0)
        self.report: Json | None = None

    def _take(self, line: bytes) -> None:
        self.lines.append(line)
        identity, n = ID.search(line), N.search(line)
        if b'"method"' in line:
            self._asked_for(line, identity, n)
        elif b'"asked"' in line:
            self.report = json.loads(line)["result"]
        elif identity and identity[1] == b"null" and b'"error"' in line:
            self.refusals.append(json.loads(line)["error"]["code"])
        else:
            assert identity
            self.answers[identity[1], n[1] if n else b""] += 1

    def _asked_for(self, line: bytes, identity: "re.Match[bytes] | None", n: "re.Match[bytes] | None") -> None:
        if identity and n:
            self._put(b'{"jsonrpc":"2.0","id":%s,"result":{"n":%s}}' % (identity[1], n[1]))
        elif identity:
            said = self.dice.choice((b'"result":', b'"error":')) + nonsense.members(self.dice)
            self._put(b'{"jsonrpc":"2.0","id":%s,%s}' % (identity[1], said))
        else:
            self.notices += 1

    def settle(self, requests: "Counter[tuple[bytes, bytes]]") -> Json:
        """Wait for the answers, and for the agent's report."""
        self.write(b'{"jsonrpc":"2.0","id":1,"method":"_fuzz/report"}')
        while self.report is None or requests - self.answers:
            self._step(f"the report {self.report}, or the answers to {requests - self.answers}")
        return self.report


def babble(editor: Fuzzer, dice: random.Random) -> tuple[Counter[tuple[bytes, bytes]], list[int]]:
    """Say nonsense; what must be answered, and with which codes."""
    requests: Counter[tuple[bytes, bytes]] = Counter()
    codes = []
    for number in range(LINES):
        kind = dice.randrange(12)
        if kind == 0:
            editor.write(nonsense.garbage(dice))
            codes.append(-32700)
        elif kind == 1:
            editor.write(nonsense.odd(dice))
            codes.append(-32600)
        elif kind < 6:
            editor.write(unanswered(dice))
        elif kind < 8:
            identity, method = b'"k%d"' % number, dice.choice(nonsense.OF_AGENTS)
            requests[identity, b""] += 1
            params = nonsense.members(dice)
            editor.write(b'{"jsonrpc":"2.0","id":%s,"method":"%s","params":%s}' % (identity, method, params))
        else:
            identity, n = nonsense.identity(dice), b"%d" % number
            requests[identity, n] += 1
            parts = [b'"id":' + identity, b'"method":"_fuzz/x"']
            params = b'"params":{"n":%s,"x":%s}' % (n, nonsense.value(dice))
            editor.write(b'{"jsonrpc": "2.0", %s}' % b" , ".join([*dice.sample(parts, 2), params]))
    return requests, codes


def unanswered(dice: random.Random) -> bytes:
    """A line to which nothing is said: an answer to nothing, a notification, or a blank one."""
    withdrawn = dice.choice((b"null", b"[]", b'{"requestId":{}}', b'{"requestId":%s}' % nonsense.foreign(dice)))
    return dice.choice(
        (
            b'{"jsonrpc":"2.0","id":%s,"error":{"code":1}}' % nonsense.foreign(dice),
            b'{"jsonrpc":"2.0","method":"$/cancel_request","params":%s}' % withdrawn,
            b'{"jsonrpc":"2.0","method":"session/cancel","params":%s}' % nonsense.members(dice),
            b'{"jsonrpc":"2.0","method":"_fuzz/x","params":%s}' % nonsense.value(dice),
            *(b"", b" \t", b"\r"),
        )
    )


@pytest.mark.sample(0, 4)
@pytest.mark.parametrize("seed", range(40))
def test_nonsense_of_both_sides(launch: Launcher, seed: int) -> None:
    dice = random.Random(seed)
    launch.profile("fuzzy", str(seed), agent={"env": {"TOKEN": "${secret:token}"}})  # so that all lines are searched
    with edited(serving("p"), launch, kind=Fuzzer, is_judged=False, ACP_LAUNCH_SECRET_TOKEN="s3cr3t-s3cr3t") as found:
        editor = found.recorder
        assert isinstance(editor, Fuzzer)
        initialize(editor)
        requests, codes = babble(editor, dice)
        report = editor.settle(requests)
    assert editor.answers - Counter({(b'"initialize"', b""): 1}) == requests
    assert sorted(editor.refusals) == sorted(codes)
    assert report["wrong"] == []
    assert report["answered"] == report["asked"] > 0
    assert editor.notices > 0
    assert "bug" not in found.log.read_text()
