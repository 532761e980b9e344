"""What Tab and the menu offer: our `:` commands and their values, the agent's `/` commands, files after `@`."""

import asyncio
import re
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from acp_launch.console.stderr import harmless, is_harmless
from acp_launch.interactive.front import Vocabulary, Word
from acp_launch.interactive.paths import found

MENTION = re.compile(r'(?:^|\s)@("[^"\n]*|[^\s"]*)$')
PATIENCE = 2.0  # seconds for a disk; the menu simply stays away after that


class Completing(Completer):
    def __init__(self) -> None:
        self.vocabulary = Vocabulary()
        self._disk = Disk()

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Words only: files are looked for by `get_completions_async`, which does not wait in the event loop."""
        yield from _words(document.text_before_cursor, self.vocabulary)

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        mention = MENTION.search(document.text_before_cursor)
        if mention is None:
            for completion in self.get_completions(document, complete_event):
                yield completion
            return
        typed = mention[1]
        for path in await self._disk.look(typed.removeprefix('"'), self.vocabulary.directories):
            yield Completion(_quoted(path, typed.startswith('"')), -len(typed), display=path)

    def hint(self, text: str) -> str:
        """What comes after the command that is all that was typed yet: `/plan ` or `:mode `."""
        command = text.removesuffix(" ")
        if command == text or " " in command:
            return ""
        words = (*self.vocabulary.slash, *self.vocabulary.commands)
        return next((_clean(word.hint) for word in words if word.text == command), "")


class Disk:
    """Looks for files in a thread, one at a time. A disk that hangs keeps that thread, which is a daemon and holds up
    nobody's exit, and nothing is offered until it has come back."""

    def __init__(self) -> None:
        self._is_busy = threading.Lock()

    async def look(self, typed: str, roots: Sequence[Path]) -> list[str]:
        if not roots or not self._is_busy.acquire(blocking=False):
            return []
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[str]] = loop.create_future()

        def work() -> None:
            try:
                paths = found(typed, roots)
            finally:
                self._is_busy.release()
            try:
                loop.call_soon_threadsafe(_settle, answer, paths)
            except RuntimeError:  # the loop has ended meanwhile: nobody wants to know
                return

        try:
            threading.Thread(target=work, name="completion", daemon=True).start()
        except RuntimeError:  # the user may have no further thread
            self._is_busy.release()
            return []
        try:
            return await asyncio.wait_for(answer, PATIENCE)
        except TimeoutError:
            return []


def _settle(answer: "asyncio.Future[list[str]]", paths: list[str]) -> None:
    if not answer.done():
        answer.set_result(paths)


def _words(text: str, vocabulary: Vocabulary) -> Iterator[Completion]:
    """For the beginning of a prompt only: anywhere else these are ordinary words."""
    if "\n" in text:
        return
    if text.startswith("/") and " " not in text:
        yield from _offered(vocabulary.slash, text)
    elif text.startswith(":"):
        *before, typed = text.split(" ")
        words = vocabulary.values.get(tuple(filter(None, before)), ()) if before else vocabulary.commands
        yield from _offered(words, typed)


def _offered(words: Iterable[Word], typed: str) -> Iterator[Completion]:
    """Those that begin with what was typed, then those that hold it."""
    folded = typed.casefold()
    rank: Callable[[Word], bool] = lambda word: not word.text.casefold().startswith(folded)  # noqa: E731
    fitting = [word for word in words if folded.lstrip(":/") in word.text.casefold() and is_harmless(word.text)]
    for word in sorted(fitting, key=rank):
        display = f"{word.text} {_clean(word.hint)}".rstrip()
        yield Completion(word.text, -len(typed), display=display, display_meta=_clean(word.meaning))


def _clean(text: str) -> str:
    """One line, whatever an agent put there."""
    return " ".join(harmless(text).split())


def _quoted(path: str, is_quoted: bool) -> str:
    """A path with blanks stands in quotes; those of a directory stay open for what comes below it."""
    if not is_quoted and not any(map(str.isspace, path)):
        return path
    return f'"{path}' if path.endswith("/") else f'"{path}"'
