"""
What a shell asks at every press of the tab key; the scripts beside this file ask it.

    acp-launch __complete bash LINE WORD        the line up to the cursor, and the part of it that bash replaces
    acp-launch __complete zsh WORD...           the words after the program's name; the last one is being typed
    acp-launch __complete fish WORD...          the same, the last one as it is written

The answer begins with a line that says what else is wanted from the shell: `files`, `directories` or `nothing`. Then
one line for each candidate, with a tab before what there is to say about it: bash is told the candidate as it should be
written, and nothing about it; zsh as `_describe` takes it.

Nobody reads what goes wrong here, and it would be in the middle of a line somebody is typing: there is no answer then.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from acp_launch.cli.completing.line import Line, Wanted, offered, wanted
from acp_launch.cli.completing.verbs import Verbs, below, verbs

PATIENCE = 2.0  # seconds; somebody is waiting, and has seen nothing yet
WIDEST = 100  # characters about a candidate
FROM_SHELL = {"file": "files", "directory": "directories", "command": "files"}
OFTEN_PATHS = {"profile", "logged"}  # are named by path, too
Candidates = Iterable[tuple[str, str]]


def answer(arguments: Sequence[str]) -> None:
    """Answer on stdout; whatever happens, say nothing else."""
    try:
        lines = SHELLS[arguments[0]](arguments[1:])
        _write("".join(f"{line}\n" for line in lines))
    except (Exception, KeyboardInterrupt):  # see above
        return


def found(words: Sequence[str]) -> tuple[Wanted, str, list[tuple[str, str]]]:
    """What is wanted, what the shell should add, and the candidates: all of them, whatever is typed already."""
    table = verbs()
    asked = wanted(words, table)
    if asked.kind in FROM_SHELL:
        return asked, FROM_SHELL[asked.kind], []
    candidates = [(name, _about(help)) for name, help in _candidates(asked, table)]
    is_often_path = asked.kind in OFTEN_PATHS or "file" in asked.kind.split("|")
    paths = is_often_path and _may_be_path(asked.word, candidates)
    return asked, "files" if paths else "nothing", candidates


def _candidates(asked: Wanted, table: Verbs) -> Candidates:
    if asked.kind == "verb":
        return below(table, asked.line.verb).items()
    if asked.kind == "option":
        return _options(asked.line, table)
    if "|" in asked.kind:
        return ((choice, "") for choice in asked.kind.split("|") if choice != "file")
    if asked.kind in ("", "text", "flag"):
        return ()
    _give_up_after(PATIENCE)
    from acp_launch.cli.completing.sources import candidates

    return candidates(asked.kind, asked.line)


def _give_up_after(seconds: float) -> None:
    """A disk that does not answer must not stop the shell: TimeoutError then, where the system can wake us."""
    import signal

    def late(*_: object) -> None:
        raise TimeoutError(seconds)

    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, late)
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _options(line: Line, table: Verbs) -> Candidates:
    for option in offered(table[line.verb], line):
        yield from ((name, option.help) for name in option.names)


def _may_be_path(word: str, candidates: list[tuple[str, str]]) -> bool:
    return word.startswith((".", "~")) or "/" in word or not any(name.startswith(word) for name, _ in candidates)


def _about(help: str) -> str:
    """In one line, and nothing that drives a terminal: a profile says of itself what it likes."""
    text = "".join(mark for mark in " ".join(help.split()) if mark.isprintable())
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"


def _bash(arguments: Sequence[str]) -> Iterator[str]:
    from acp_launch.cli.completing.words import quoted, split, unquoted

    line, replaced = arguments
    words = split(line)
    last = words[-1]
    asked, added, candidates = found([word.text for word in words[1:]])
    kept = unquoted(last.raw.removesuffix(replaced)) if last.raw.endswith(replaced) else ""
    yield added
    for name, _ in candidates:
        whole = asked.lead + name
        if name.startswith(asked.word) and whole.startswith(kept):
            text = quoted(whole[len(kept) :], last.quote)
            # bash closes the quote itself, unless the mark is there already, whatever it stands for
            yield text + last.quote if last.quote and text.endswith(last.quote) else text


def _zsh(words: Sequence[str]) -> Iterator[str]:
    asked, added, candidates = found(words)
    yield added
    for name, help in candidates:
        name = (asked.lead + name).replace("\\", "\\\\").replace(":", "\\:")
        yield f"{name}:{help}" if help else name


def _fish(words: Sequence[str]) -> Iterator[str]:
    from acp_launch.cli.completing.words import unquoted

    asked, added, candidates = found([*words[:-1], unquoted(words[-1])])
    yield added
    for name, help in candidates:
        yield f"{asked.lead}{name}\t{help}" if help else asked.lead + name


SHELLS: dict[str, Callable[[Sequence[str]], Iterable[str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}


def _write(text: str) -> None:
    """At once and whole: a shell that is gone by now is no fault of ours."""
    rest = memoryview(text.encode(errors="replace"))
    while rest:
        rest = rest[os.write(1, rest) :]
