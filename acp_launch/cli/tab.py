"""
The completion protocol: answers the scripts in `shells`, which ask at every press of the tab key.

    acp-launch __complete bash LINE WORD        the line up to the cursor, and the part of it that bash replaces
    acp-launch __complete zsh WORD...           the words after the program's name; the last one is being typed
    acp-launch __complete fish WORD...          the same, the last one as it is written

The first line of the answer tells what the shell should add: `files`, `directories` or `nothing`. Each further line is
a candidate, a tab and its description. bash gets the candidate quoted and without a description; zsh gets it in the
format of `_describe`.

typer is not imported, because its own completion takes three times the budget of a key press. The verbs are in
`shells/verbs.txt`, which `python -m tests.cli.verbtable` makes from the typer application:

    acp-launch session rm<TAB>Delete sessions, also at the agent if it can.
    <TAB>session...
    <TAB>--profile -p<TAB>profile<TAB>The session's profile, if several have that name.

A verb or a group of verbs begins its line. Below it are its arguments, each by its kind, and its options: names, kind,
help. `flag` takes no value, `text` cannot be completed, `text|json` is a choice (with `|file` also a path);
`completion` and the shell know the other kinds. `...` means any number of values.

On an error there is no answer, because a message would appear in the middle of the line that is being typed.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

TABLE = os.path.join(os.path.dirname(__file__), "shells", "verbs.txt")  # noqa: PTH118, PTH120 - pathlib is too slow here
PROGRAM = "acp-launch"
FLAG = "flag"
MORE = "..."
PATIENCE = 2.0  # seconds; the user waits and sees nothing meanwhile
WIDEST = 100  # characters of a description
FROM_SHELL = {"file": "files", "directory": "directories", "command": "files"}
OFTEN_PATHS = {"profile", "logged"}  # kinds that may also be given as a path
Candidates = Iterable[tuple[str, str]]


class Option(NamedTuple):
    names: tuple[str, ...]
    kind: str
    help: str


class Verb(NamedTuple):
    help: str
    arguments: list[str]
    options: list[Option]


Verbs = dict[str, Verb]


def answer(arguments: Sequence[str]) -> None:
    """Answer on stdout; on any error print nothing else."""
    shells = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    try:
        text = "".join(f"{line}\n" for line in shells[arguments[0]](arguments[1:]))
        rest = memoryview(text.encode(errors="replace"))
        while rest:
            rest = rest[os.write(1, rest) :]
    except (Exception, KeyboardInterrupt):  # a message would disturb the line being typed
        return
    finally:
        if "signal" in sys.modules:
            _give_up_after(0)  # never while Python ends, which would be the exit code of a signal


def verbs() -> Verbs:
    """Read the table of verbs, by their words (`session rm`); the program itself is under ""."""
    found: Verbs = {}
    with open(TABLE, encoding="utf-8") as file:  # noqa: PTH123
        for line in file:
            name, *fields = line.rstrip("\n").split("\t")
            if name:
                help = Option(("--help", "-h"), FLAG, "Show this message and exit.")
                verb = found[name.removeprefix(PROGRAM).lstrip()] = Verb(fields[0], [], [help])
            elif len(fields) == 1:
                verb.arguments.append(fields[0])
            else:
                verb.options.insert(-1, Option(tuple(fields[0].split()), fields[1], fields[2]))
    return found


def below(verbs: Verbs, group: str) -> dict[str, str]:
    """Return the verbs of a group by their last word, with their help."""
    names = {name: name.rpartition(" ") for name in verbs if name}
    return {last: verbs[name].help for name, (above, _, last) in names.items() if above == group}


class Line:
    """
    A command line as far as it is typed, and the kind of word that completes it.

    The last word consists of `lead` (such as `--output=`, mostly empty) and a value that begins with `word`. `kind` is
    a kind of the table, `verb` or `option`; empty if no further word is allowed.
    """

    def __init__(self, words: Sequence[str], verbs: Verbs) -> None:
        """`words` are those after the program's name; the last one is being typed, and may be empty."""
        *before, self.word = words or ("",)
        self.arguments: list[tuple[str, str]] = []
        self.options: list[tuple[Option, str]] = []
        self.verb, rest = _verb(before, verbs)
        self.lead = ""
        self._known = verbs[self.verb]
        self._waiting: Option | None = None  # for its value
        self._plain = False  # after `--`, where nothing is an option any more
        for word in rest:
            self._take(word)
        self.kind = self._wanted(has_verbs=bool(below(verbs, self.verb))).removesuffix(MORE)

    def first(self, kind: str) -> str:
        """Return the first value of this kind: an argument, else an option's; empty if there is none."""
        options = ((option.kind.removesuffix(MORE), value) for option, value in self.options)
        return next((value for of, value in (*self.arguments, *options) if of == kind), "")

    def offered(self) -> list[Option]:
        """List the options that may be given here; a given one is left out unless it is repeatable."""
        given = {option.names for option, _ in self.options if not option.kind.endswith(MORE)}
        return [option for option in self._known.options if option.names not in given]

    def _wanted(self, *, has_verbs: bool) -> str:
        if self._waiting:
            return self._waiting.kind
        if self.word.startswith("-") and not self._plain:
            name, equals, value = self.word.partition("=")
            if not equals:
                return "option"
            self.word, self.lead = value, f"{name}="
            option = self._option(name)
            return option.kind if option and option.kind != FLAG else ""
        if has_verbs:
            return "" if self.arguments else "verb"
        return self._argument()

    def _argument(self) -> str:
        """Return the kind of the next argument; empty if no further argument is allowed."""
        kinds = self._known.arguments
        if len(self.arguments) < len(kinds):
            return kinds[len(self.arguments)]
        return kinds[-1] if kinds and kinds[-1].endswith(MORE) else ""

    def _take(self, word: str) -> None:
        if self._waiting:
            self.options.append((self._waiting, word))
            self._waiting = None
        elif self._plain or not word.startswith("-") or word == "-":
            self.arguments.append((self._argument().removesuffix(MORE), word))
        elif word == "--":
            self._plain = True
        elif word.startswith("--"):
            name, equals, value = word.partition("=")
            self._take_option(name, value, has_value=bool(equals))
        else:
            for at in range(2, len(word) + 1):  # -vojson
                if not self._take_option(f"-{word[at - 1]}", word[at:], has_value=at < len(word)):
                    return

    def _take_option(self, name: str, value: str, *, has_value: bool) -> bool:
        """Whether it is a flag, after which there may be another in the same word."""
        option = self._option(name)
        if option is None:
            return False
        if option.kind == FLAG or has_value:
            self.options.append((option, value))
        else:
            self._waiting = option
        return option.kind == FLAG

    def _option(self, name: str) -> Option | None:
        return next((option for option in self._known.options if name in option.names), None)


def _verb(words: Sequence[str], verbs: Verbs) -> tuple[str, Sequence[str]]:
    """Find the verb in the words, and return it with the words after it; options may come before its last word."""
    name = ""
    for index, word in enumerate(words):
        if f"{name} {word}".strip() in verbs:
            name = f"{name} {word}".strip()
        elif not word.startswith("-") or not below(verbs, name):
            return name, words[index:]
    return name, ()


def _found(words: Sequence[str]) -> tuple[Line, str, list[tuple[str, str]]]:
    """Return the line, what the shell should add, and all candidates, whatever is typed already."""
    table = verbs()
    line = Line(words, table)
    if line.kind in FROM_SHELL:
        return line, FROM_SHELL[line.kind], []
    candidates = [(name, _about(help)) for name, help in _candidates(line, table)]
    is_often_path = line.kind in OFTEN_PATHS or "file" in line.kind.split("|")
    paths = is_often_path and _may_be_path(line.word, candidates)
    return line, "files" if paths else "nothing", candidates


def _candidates(line: Line, table: Verbs) -> Candidates:
    if line.kind == "verb":
        return below(table, line.verb).items()
    if line.kind == "option":
        return [(name, option.help) for option in line.offered() for name in option.names]
    if "|" in line.kind:
        return [(choice, "") for choice in line.kind.split("|") if choice != "file"]
    if line.kind in ("", "text", FLAG):
        return ()
    _give_up_after(PATIENCE)
    from acp_launch.cli.completion import candidates

    return candidates(line.kind, line)


def _give_up_after(seconds: float) -> None:
    """Raise TimeoutError after `seconds` (0: never), if the system has timers, so that a slow disk does not block."""
    import signal

    def late(*_: object) -> None:
        raise TimeoutError(seconds)

    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, late)
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _may_be_path(word: str, candidates: list[tuple[str, str]]) -> bool:
    return word.startswith((".", "~")) or "/" in word or not any(name.startswith(word) for name, _ in candidates)


def _about(help: str) -> str:
    """Reduce a description to one line without control characters, because any profile's author may have written it."""
    text = "".join(mark for mark in " ".join(help.split()) if mark.isprintable())
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"


def _zsh(words: Sequence[str]) -> Iterator[str]:
    line, added, candidates = _found(words)
    yield added
    for name, help in candidates:
        name = (line.lead + name).replace("\\", "\\\\").replace(":", "\\:")
        yield f"{name}:{help}" if help else name


def _fish(words: Sequence[str]) -> Iterator[str]:
    (word, *_), _ = split(words[-1])
    line, added, candidates = _found([*words[:-1], word])
    yield added
    for name, help in candidates:
        yield f"{line.lead}{name}\t{help}" if help else line.lead + name


def _bash(arguments: Sequence[str]) -> Iterator[str]:
    typed, replaced = arguments
    words, quote = split(typed)
    line, added, candidates = _found(words[1:])
    kept = split(typed.removesuffix(replaced))[0][-1] if typed.endswith(replaced) else ""
    yield added
    for name, _ in candidates:
        whole = line.lead + name
        if name.startswith(line.word) and whole.startswith(kept):
            text = quoted(whole[len(kept) :], quote)
            # bash closes the quote itself, unless the text already ends with that mark
            yield text + quote if quote and text.endswith(quote) else text


def split(line: str) -> tuple[list[str], str]:
    """Split an unfinished line into words as a shell does, and return them with the quote that is open at its end.

    The last word is being typed; it is empty after a space.
    """
    import re

    pieces = (
        r"""\\(?P<escaped>.?)|'(?P<single>[^']*)(?P<closed>'?)|"(?P<double>(?:[^"\\]|\\.?)*)(?P<shut>"?)|(?P<space>\s+)"""
        r"""|(?P<plain>[^\\'"\s]+)"""
    )
    words, quote, is_new = [""], "", False
    for piece in re.finditer(pieces, line, re.DOTALL):
        if piece["space"]:
            is_new, quote = bool(words[0] or piece.start()), ""
            continue
        if is_new:
            words.append("")
        single, double = piece["single"], piece["double"]
        inner = re.sub(r'\\([$`"\\\n])', lambda mark: mark[1].strip("\n"), double or "")
        words[-1] += inner + (piece["escaped"] or "").strip("\n") + (single or "") + (piece["plain"] or "")
        quote = "'" if single is not None and not piece["closed"] else ""
        quote = '"' if double is not None and not piece["shut"] else quote
        is_new = False
    return ([*words, ""] if is_new else words), quote


def quoted(text: str, quote: str) -> str:
    """Quote `text` for a shell of the Bourne family after the open mark `quote`, which stays open."""
    import re

    if quote == "'":
        return text.replace("'", "'\\''")
    if quote:
        return re.sub(r'([$`"\\])', r"\\\1", text)
    return re.sub(r"[^\w@%+=:,./-]", lambda mark: mark[0] if mark[0] > "\x7f" else f"\\{mark[0]}", text, flags=re.ASCII)
