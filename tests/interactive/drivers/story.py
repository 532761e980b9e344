"""
A story without an agent: each line that is entered is a command to it.

    say WORDS          print, for good          choose                 ask with a key
    show N             N rows, drawn again      line WORDS             ask for a line
    stream N           N rows appear and go     form                   two lines and a key
    many N             N updates in a turn      withdrawn              take the question back
    status WORDS       the agent's name         deaf PIPE              hear nothing, then ask
    stray WORDS        write to stderr          child                  run a program on the terminal
    crash              break                    mood MOOD, queue WORDS, offer WORDS, quit
"""

import asyncio
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from rich.text import Text

from acp_launch.console.draw.live_region import Canvas
from acp_launch.interactive.session import choose_front
from acp_launch.interactive.terminal import (
    Event,
    Front,
    Left,
    Pressed,
    Status,
    Submitted,
    Unqueued,
    Vocabulary,
    Word,
)
from acp_launch.session.events import BACK, Choice

CHOICES = (Choice("y", "Allow once"), Choice("a", "Allow always"), Choice("n", "Reject"))
VOCABULARY = Vocabulary(
    commands=(Word(":help", "what there is"), Word(":mode", "how it works", "MODE")),
    slash=(
        Word("/batch", "Do it to each", "<what is to be done to each of the files that are named after it>"),
        *(Word("/plan", "Think first", "topic"), Word("/probe", "Look around")),
    ),
    values={(":mode",): (Word("careful"), Word("quick"))},
    directories=(Path.cwd(),),
)


class Story:
    def __init__(self, seat: Front) -> None:
        self.seat = seat
        self.asked: list[asyncio.Task[None]] = []
        self.waiting: list[str] = []

    def tell(self, text: str) -> None:
        if self.seat.canvas:
            self.seat.canvas.print(Text(text))
        else:
            print(text, flush=True)

    @property
    def canvas(self) -> Canvas:
        assert self.seat.canvas is not None
        return self.seat.canvas

    async def say(self, words: str) -> None:
        self.tell(f"said {words}")

    async def show(self, count: str) -> None:
        self.canvas.show(Text("\n".join(f"row {number}" for number in range(int(count)))))

    async def stream(self, count: str) -> None:
        for number in range(int(count)):
            self.canvas.show(Text("\n".join(f"live {number} {row}" for row in range(number % 7))))
            if number % 3 == 0:
                self.tell(f"line {number}")
            await asyncio.sleep(0)
        self.canvas.close()
        self.tell("streamed")

    async def many(self, count: str) -> None:
        """Updates as fast as they can be had; a hundred came with each read."""
        for number in range(int(count)):
            self.canvas.show(Text(f"update {number}"))
            if number % 100 == 0:
                self.tell(f"line {number}")
                await asyncio.sleep(0)
        self.canvas.close()
        self.tell("all said")

    async def stray(self, words: str) -> None:
        print(f"stray {words}", file=sys.stderr)

    async def status(self, words: str) -> None:
        self.seat.status(Status(agent=words.encode().decode("unicode_escape"), session="fix-42", phase="idle"))

    async def mood(self, mood: str) -> None:
        self.seat.status(Status(agent="agent", phase=mood))  # type: ignore[arg-type]

    async def queue(self, words: str) -> None:
        self.waiting = words.split()
        self.seat.queued(self.waiting)

    def pressed(self, event: Event) -> None:
        """Tell which key it was; what is queued is taken back."""
        if not isinstance(event, Unqueued):
            self.tell(f"Pressed {event.key}" if isinstance(event, Pressed) else type(event).__name__)
            return
        text = self.waiting.pop()
        self.seat.queued(self.waiting)
        self.seat.take_back(text)

    async def offer(self, words: str) -> None:
        self.seat.offer(words)

    async def choose(self, words: str) -> None:
        async with self.seat.person.floor():
            self.seat.person.say("It wants to remove x", "heading")
            key = await self.seat.person.choose("Allow it?", CHOICES)
        self.tell(f"chosen {key}")

    async def line(self, words: str) -> None:
        async with self.seat.person.floor():
            text = await self.seat.person.line("Your name?", default=words)
        self.tell(f"named {'back' if text == BACK else text}")

    async def form(self, words: str) -> None:
        person = self.seat.person
        async with person.floor():
            first, second = await person.line("First?"), await person.line("Second?")
            key = await person.choose("Send it?", CHOICES)
        self.tell(f"form {first} {second} {key}")

    async def withdrawn(self, words: str) -> None:
        self.asked[-1].cancel()
        self.tell("withdrawn")

    async def deaf(self, pipe: str) -> None:
        """Hear nothing until somebody has written to the pipe, then ask at once."""
        Path(pipe).read_bytes()  # noqa: ASYNC240 - the loop is to be deaf
        await self.choose("")

    async def child(self, words: str) -> None:
        async with self.seat.suspended():
            self.tell("printed meanwhile")
            code = "import sys; print('child: tty', sys.stdin.isatty(), flush=True); print('child: heard', input())"
            process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
            await process.wait()
        self.tell(f"child ended {process.returncode}")

    async def crash(self, words: str) -> None:
        raise RuntimeError("the story broke")


async def play(seat: Front) -> None:
    story = Story(seat)
    async with asyncio.TaskGroup() as group:
        while True:
            event = await seat.events.get()
            if not isinstance(event, Submitted):
                story.pressed(event)
                if isinstance(event, Left):
                    break
                continue
            word, _, rest = event.text.partition(" ")
            if word == "quit":
                break
            act: Callable[[str], Awaitable[None]] | None = getattr(story, word, None)
            if act is None:
                lines = event.text.splitlines()
                story.tell(
                    f"submitted {len(lines)} lines {len(event.text)} characters: {lines[0][:50]} ... {lines[-1][:50]}"
                )
            elif word in ("crash", "withdrawn"):
                await act(rest)
            else:
                story.asked.append(group.create_task(_run(act, rest)))
        for task in story.asked:
            task.cancel()
    seat.close()


async def _run(act: Callable[[str], Awaitable[None]], rest: str) -> None:
    await act(rest)


async def main(arguments: Sequence[str]) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    seat = choose_front(Path(arguments[0]))
    seat.vocabulary(VOCABULARY)
    seat.status(Status(agent="agent", session="fix-42", phase="idle"))
    async with asyncio.TaskGroup() as group:
        group.create_task(seat.run())
        await play(seat)
    print("the end", flush=True)


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1:]))
    except asyncio.CancelledError:
        print("cancelled")
    print("threads", threading.active_count())
