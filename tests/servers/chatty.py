"""Writes 1 MB to stderr before it reads anything, banners to stdout at every turn, and works."""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.servers import script, toolbox


def talkative(answer: script.Answer) -> script.Answer:
    def both(message: script.Message) -> None:
        script.write(b"DEBUG handling a message\n{not json}\n[]\n\n\xff\xfe\n")
        answer(message)

    return both


script.hello(script.name("chatty"))
for _ in range(10_000):
    script.complain("x" * 99)
script.write(b"Welcome to the chatty server!\n42\n")
script.serve({method: talkative(answer) for method, answer in toolbox.answers().items()})
