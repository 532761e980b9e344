"""
A program that keeps answers and says which: `answer_writer STATE_DIR WHO ROUNDS`.

It says `ready`, waits for a line, then keeps the same few answers in each round, printing the number of each when
`keep` has returned.
"""

import sys
from pathlib import Path

from acp_launch.session.permission.audit import AnswerStore, keep
from acp_launch.session.permission.policy import Remembered

ANSWERS = 20


def answer(who: str, number: int) -> Remembered:
    return Remembered(
        answer="allow",
        kind="execute",
        tool="",
        title="",
        paths=(),
        commands=(f"{who} {number} " + "x" * 300,),
        directories=(),
        addresses=(),
        since=float(number),
        input="",
    )


def main(state: str, who: str, rounds: str) -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in (number for _ in range(int(rounds)) for number in range(ANSWERS)):
        keep(AnswerStore(Path(state), "/p", "work"), answer(who, number))
        print(number, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
