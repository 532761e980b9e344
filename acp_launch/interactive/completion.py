"""The completions of the prompt: our `:` commands and their values, the agent's `/` commands, files after `@`."""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from acp_launch.console.draw.sanitize import one_line
from acp_launch.console.stderr import is_harmless
from acp_launch.interactive.terminal import Vocabulary, Word
from acp_launch.regex import regex
from acp_launch.waits import stretch

# Files to mention as `@path`. Each component of the typed path is a prefix (`@s/m` finds `src/main.py`).
#
# Nothing outside the session's directories is listed, even through links, and no tree is searched: one search reads at
# most `LOOKS` directories with `ENTRIES` entries each. A slow disk may still take long, so it runs in a thread.


LOOKS = 20  # directories
ENTRIES = 5_000  # of one directory
OFFERED = 100


def find_files(typed: str, roots: Sequence[Path]) -> list[str]:
    """Return paths that complete `typed`, directories with a `/` at the end, the first root's first.

    Paths below the first root are relative to it, unless `typed` is absolute; the others are absolute.
    """
    real_roots = [Path(os.path.realpath(root)) for root in roots]
    offered: list[str] = []
    for number, root in enumerate(roots):
        if Path(typed).is_absolute():
            start = str(root).rstrip("/") + "/"
            below = typed[len(start) :] if typed.startswith(start) else None
            prefix = f"{root}/"
        else:
            below, prefix = typed, "" if number == 0 else f"{root}/"
        if below is not None:
            offered += [prefix + path for path in _matches(root, below, real_roots)]
    return list(islice(dict.fromkeys(offered), OFFERED))


def _matches(root: Path, typed: str, roots: Sequence[Path]) -> Iterator[str]:
    *through, last = typed.split("/")
    if ".." in through:
        return
    places = [""]
    for part in through:
        places = [place for place in _deeper(root, places, part, roots) if place.endswith("/")]
    yield from _deeper(root, places, last, roots)


def _deeper(root: Path, places: Iterable[str], part: str, roots: Sequence[Path]) -> list[str]:
    """Return the entries of `places`, which are directories below `root`, that begin with `part`."""
    return [place + name for place in islice(places, LOOKS) for name in _names(root / place, part, roots)]


def _names(directory: Path, part: str, roots: Sequence[Path]) -> list[str]:
    """Return matching names: the exact one first, then the same case."""
    if not _is_inside(directory, roots):
        return []
    try:
        with os.scandir(directory) as entries:
            named = [_entry_name(entry) for entry in islice(entries, ENTRIES) if _fits(entry, part, roots)]
    except OSError:  # not a directory, or not readable
        return []
    return sorted(named, key=lambda name: (name.rstrip("/") != part, not name.startswith(part), name.casefold()))


def _fits(entry: "os.DirEntry[str]", part: str, roots: Sequence[Path]) -> bool:
    name = entry.name
    if not name.casefold().startswith(part.casefold()) or not is_harmless(name) or '"' in name:
        return False
    if name.startswith(".") and not part.startswith("."):
        return False
    return not entry.is_symlink() or _is_inside(Path(entry.path), roots)


def _entry_name(entry: "os.DirEntry[str]") -> str:
    try:
        is_directory = entry.is_dir()
    except OSError:  # a loop of links
        is_directory = False
    return f"{entry.name}/" if is_directory else entry.name


def _is_inside(path: Path, roots: Sequence[Path]) -> bool:
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(root) for root in roots)


MENTION = regex(r'(?:^|\s)@("[^"\n]*|[^\s"]*)$')
DISK_TIMEOUT = stretch(2.0)  # after that there is no menu


class Completing(Completer):
    """A completer for prompt_toolkit."""

    def __init__(self) -> None:
        self.vocabulary = Vocabulary()
        self._disk = Disk()

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Yield words, at the beginning of a prompt only: anywhere else these are ordinary text. For files there is
        `get_completions_async`, because their search must not block the event loop.
        """
        text, vocabulary = document.text_before_cursor, self.vocabulary
        if "\n" in text:
            return
        if text.startswith("/") and " " not in text:
            yield from _complete_words(vocabulary.slash, text)
        elif text.startswith(":"):
            *before, typed = text.split(" ")
            words = vocabulary.values.get(tuple(filter(None, before)), ()) if before else vocabulary.commands
            yield from _complete_words(words, typed)

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
            yield Completion(_quote_path(path, typed.startswith('"')), -len(typed), display=path)

    def hint(self, text: str) -> str:
        """Return the hint for a complete command at the end of the text, as in `/plan ` or `:mode `."""
        command = text.removesuffix(" ")
        if command == text or " " in command:
            return ""
        words = (*self.vocabulary.slash, *self.vocabulary.commands)
        return next((one_line(word.hint) for word in words if word.text == command), "")


class Disk:
    """Searches files in a thread, one search at a time. A hanging disk keeps its thread, which is a daemon and does not
    delay the exit; until it returns there are no completions."""

    def __init__(self) -> None:
        self._is_busy = threading.Lock()

    async def look(self, typed: str, roots: Sequence[Path]) -> list[str]:
        if not roots or not self._is_busy.acquire(blocking=False):
            return []
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[str]] = loop.create_future()

        def work() -> None:
            try:
                paths = find_files(typed, roots)
            finally:
                self._is_busy.release()
            try:
                loop.call_soon_threadsafe(_settle, answer, paths)
            except RuntimeError:  # the loop has ended, so the result is not needed
                return

        threading.Thread(target=work, name="completion", daemon=True).start()
        try:
            return await asyncio.wait_for(answer, DISK_TIMEOUT)
        except TimeoutError:
            return []


def _settle(answer: "asyncio.Future[list[str]]", paths: list[str]) -> None:
    if not answer.done():
        answer.set_result(paths)


def _complete_words(words: Iterable[Word], typed: str) -> Iterator[Completion]:
    """Yield words that begin with the typed text, then those that contain it."""
    folded = typed.casefold()
    rank: Callable[[Word], bool] = lambda word: not word.text.casefold().startswith(folded)  # noqa: E731
    fitting = [word for word in words if folded.lstrip(":/") in word.text.casefold() and is_harmless(word.text)]
    for word in sorted(fitting, key=rank):
        display = f"{word.text} {one_line(word.hint)}".rstrip()
        yield Completion(word.text, -len(typed), display=display, display_meta=one_line(word.meaning))


def _quote_path(path: str, is_quoted: bool) -> str:
    """Quote a path with blanks; the quotes of a directory stay open for the next component."""
    if not is_quoted and not any(map(str.isspace, path)):
        return path
    return f'"{path}' if path.endswith("/") else f'"{path}"'
