"""Says nonsense between sensible messages, and answers late and in any order; argv is the seed.

Answers each request with the `n` of its params, or with nonsense if it has none. For each line it reads it may write a
line of its own: no JSON, an
answer to nothing, an answer a second time, a notification of an unknown method, or a request with an id of any shape.
`_fuzz/report` is answered last, with what became of its requests: `asked`, `answered`, and `wrong` for each answer that
does not have the id and the `n` of an open request.
"""

import random
import re
import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script
from tests.editors import nonsense

dice = random.Random(int(sys.argv[1]))
held: list[tuple[bytes, bytes]] = []  # requests not answered yet: id and n
answered: list[bytes] = []  # ids
open_requests: list[tuple[bytes, bytes]] = []  # n is empty where any answer will do
asked = settled = 0
wrong: list[str] = []

ID = re.compile(rb'"id"\s*:\s*("(?:[^"\\]|\\.)*"|[^\s,}]+)')
N = re.compile(rb'"n":(\d+)')


def answer_some(least: int) -> None:
    while len(held) > least:
        identity, n = held.pop(dice.randrange(len(held)))
        script.write(b'{"jsonrpc":"2.0","id":%s,"result":{"n":%s}}\n' % (identity, n))
        answered.append(identity)


def babble() -> None:
    global asked
    kind = dice.randrange(10)
    if kind == 0:
        script.write(nonsense.garbage(dice) + b"\n")
    elif kind == 1:
        script.write(b'{"jsonrpc":"2.0","id":%s,"result":{"n":0}}\n' % nonsense.foreign(dice))
    elif kind == 2 and answered:
        script.write(b'{"jsonrpc":"2.0","id":%s,"result":{"n":0}}\n' % dice.choice(answered))
    elif kind == 3:
        script.write(b'{"jsonrpc":"2.0","method":"_fuzz/notice","params":%s}\n' % nonsense.value(dice))
    elif kind == 4:
        asked += 1
        identity, n = nonsense.identity(dice), b"%d" % asked
        open_requests.append((identity, n))
        params = b'{"n":%s,"x":%s}' % (n, nonsense.value(dice))
        script.write(b'{"jsonrpc":"2.0","id":%s,"method":"_fuzz/ask","params":%s}\n' % (identity, params))
    elif kind == 5:
        method = dice.choice((b"session/update", b"elicitation/complete", b"session/cancel"))
        script.write(b'{"jsonrpc":"2.0","method":"%s","params":%s}\n' % (method, nonsense.members(dice)))
    elif kind == 6:
        asked += 1
        identity, method = b'"a%d"' % asked, dice.choice(nonsense.OF_EDITORS)
        open_requests.append((identity, b""))
        line = b'{"jsonrpc":"2.0","id":%s,"method":"%s","params":%s}\n' % (identity, method, nonsense.members(dice))
        script.write(line)


def take_answer(line: bytes) -> None:
    global settled
    identity, n = ID.search(line), N.search(line)
    found = (identity[1] if identity else b"", n[1] if n else b"")
    if found not in open_requests:
        found = (found[0], b"")
    if found in open_requests:
        open_requests.remove(found)
        settled += 1
    else:
        wrong.append(repr(line[:200]))


def main() -> None:
    initialize = script.expect("initialize")
    script.initialize(initialize)
    report = b""
    for line in sys.stdin.buffer:
        identity, n = ID.search(line[:4096]), N.search(line)
        if b'"method"' not in line[:4096]:
            take_answer(line)
        elif identity and b'"_fuzz/report"' in line[:4096]:
            report = identity[1]
            answer_some(0)
        elif identity and n:
            held.append((identity[1], n[1]))
            answer_some(dice.randrange(8))
            babble()
        elif identity:
            kind = dice.choice((b"result", b"result", b"result", b"error"))
            script.write(b'{"jsonrpc":"2.0","id":%s,"%s":%s}\n' % (identity[1], kind, nonsense.members(dice)))
            babble()
        if report and not open_requests:
            script.send({"id": int(report), "result": {"asked": asked, "answered": settled, "wrong": wrong}})
            report = b""


main()
