"""What Tab and the menu offer: our `:` commands and their values, the agent's `/` commands, files after `@`."""

import asyncio
import os
import re
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from acp_launch.console.stderr import harmless, is_harmless
from acp_launch.interactive.front import Vocabulary, Word

# Files to mention as `@path`: what begins with what is typed, component by component (`@s/m` finds `src/main.py`).
#
# Nothing outside of the session's directories is ever listed, however links lead there, and no tree is walked: a look
# costs at most `LOOKS` directories of `ENTRIES` entries each. It may still take its time on a slow disk, so it is done
# in a thread (`completion`).


LOOKS = 20  # directories
ENTRIES = 5_000  # of one directory
OFFERED = 100


def found(typed: str, roots: Sequence[Path]) -> list[str]:
    """Paths that `typed` may become, directories with a `/` at the end, the nearest first.

    Those under the first root are relative to it, unless `typed` is absolute; the others are absolute.
    """
    real_roots = [Path(os.path.realpath(root)) for root in roots]
    offered: list[str] = []
    for number, root in enumerate(roots):
        if Path(typed).is_absolute():
            below = _below(typed, str(root))
            prefix = f"{root}/"
        else:
            below, prefix = typed, "" if number == 0 else f"{root}/"
        if below is not None:
            offered += [prefix + path for path in _matches(root, below, real_roots)]
    return list(islice(dict.fromkeys(offered), OFFERED))


def _below(typed: str, root: str) -> str | None:
    """What of `typed` comes after `root/`; None when it leads elsewhere."""
    start = root.rstrip("/") + "/"
    return typed[len(start) :] if typed.startswith(start) else None


def _matches(root: Path, typed: str, roots: Sequence[Path]) -> Iterator[str]:
    *through, last = typed.split("/")
    if ".." in through:
        return
    places = [""]
    for part in through:
        places = [place for place in _deeper(root, places, part, roots) if place.endswith("/")]
    yield from _deeper(root, places, last, roots)


def _deeper(root: Path, places: Iterable[str], part: str, roots: Sequence[Path]) -> list[str]:
    """The entries of `places`, directories below `root`, that `part` is the beginning of."""
    return [place + name for place in islice(places, LOOKS) for name in _names(root / place, part, roots)]


def _names(directory: Path, part: str, roots: Sequence[Path]) -> list[str]:
    """An entry of exactly this name comes first, then those of the same case."""
    if not _is_inside(directory, roots):
        return []
    try:
        with os.scandir(directory) as entries:
            named = [_shown(entry) for entry in islice(entries, ENTRIES) if _fits(entry, part, roots)]
    except OSError:  # not a directory, or not ours to read: nothing to offer
        return []
    return sorted(named, key=lambda name: (name.rstrip("/") != part, not name.startswith(part), name.casefold()))


def _fits(entry: "os.DirEntry[str]", part: str, roots: Sequence[Path]) -> bool:
    name = entry.name
    if not name.casefold().startswith(part.casefold()) or not is_harmless(name) or '"' in name:
        return False
    if name.startswith(".") and not part.startswith("."):
        return False
    return not entry.is_symlink() or _is_inside(Path(entry.path), roots)


def _shown(entry: "os.DirEntry[str]") -> str:
    try:
        is_directory = entry.is_dir()
    except OSError:  # links that lead to each other
        is_directory = False
    return f"{entry.name}/" if is_directory else entry.name


def _is_inside(path: Path, roots: Sequence[Path]) -> bool:
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(root) for root in roots)


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
