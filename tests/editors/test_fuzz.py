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
        self.answers: Counter[tuple[bytes, bytes]] = Counter()  # id and n
        self.refusals: list[int] = []  # the codes of lines that were not read
        self.notices = 0
        self.report: Json | None = None

    def _take(self, line: bytes) -> None:
        self.lines.append(line)
        identity, n = ID.search(line), N.search(line)
        if b'"method"' in line:
            self._asked_for(line, identity, n)
        elif b'"asked"' in line:
            self.report = json.loads(line)["result"]
        elif b'"error"' in line:
            message = json.loads(line)
            assert message["id"] is None, line
            self.refusals.append(message["error"]["code"])
        elif n is None:
            assert b'"protocolVersion"' in line, line
        else:
            assert identity
            self.answers[identity[1], n[1]] += 1

    def _asked_for(self, line: bytes, identity: "re.Match[bytes] | None", n: "re.Match[bytes] | None") -> None:
        if identity and n:
            self._put(b'{"jsonrpc":"2.0","id":%s,"result":{"n":%s}}' % (identity[1], n[1]))
        else:
            self.notices += 1

    def settle(self) -> Json:
        """Wait for the agent's report, which is its last line."""
        self.write(b'{"jsonrpc":"2.0","id":1,"method":"_fuzz/report"}')
        while self.report is None:
            self._step("the report")
        return self.report


def babble(editor: Fuzzer, dice: random.Random) -> tuple[Counter[tuple[bytes, bytes]], list[int]]:
    """Say nonsense; what must be answered, and with which codes."""
    requests: Counter[tuple[bytes, bytes]] = Counter()
    codes = []
    for number in range(LINES):
        kind = dice.randrange(10)
        if kind == 0:
            editor.write(nonsense.garbage(dice))
            codes.append(-32700)
        elif kind == 1:
            editor.write(nonsense.odd(dice))
            codes.append(-32600)
        elif kind == 2:
            editor.write(b'{"jsonrpc":"2.0","id":%s,"error":{"code":1}}' % nonsense.foreign(dice))
        elif kind == 3:
            params = dice.choice((b"null", b"[]", b'{"requestId":{}}', b'{"requestId":%s}' % nonsense.foreign(dice)))
            editor.write(b'{"jsonrpc":"2.0","method":"$/cancel_request","params":%s}' % params)
        elif kind == 4:
            editor.write(dice.choice((b"", b" \t", b"\r")))
        else:
            identity, n = nonsense.identity(dice), b"%d" % number
            requests[identity, n] += 1
            parts = [
                b'"id":' + identity,
                b'"method":"_fuzz/x"',
                b'"params":{"n":%s,"x":%s}' % (n, nonsense.value(dice)),
            ]
            parts = [*dice.sample(parts[:2], 2), parts[2]]
            editor.write(b'{"jsonrpc": "2.0", %s}' % b" , ".join(parts))
    return requests, codes


@pytest.mark.sample(2, 10)
@pytest.mark.parametrize("seed", range(40))
def test_nonsense_of_both_sides(launch: Launcher, seed: int) -> None:
    dice = random.Random(seed)
    launch.profile("fuzzy", str(seed))
    with edited(serving("p"), launch, kind=Fuzzer, is_judged=False) as found:
        editor = found.recorder
        assert isinstance(editor, Fuzzer)
        initialize(editor)
        requests, codes = babble(editor, dice)
        report = editor.settle()
    assert editor.answers == requests
    assert sorted(editor.refusals) == sorted(codes)
    assert report["wrong"] == []
    assert report["answered"] == report["asked"] > 0
    assert editor.notices > 0
