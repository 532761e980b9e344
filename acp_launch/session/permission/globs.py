"""
How a rule's globs match: names and titles, paths, and commands. Pure.

All match as `fnmatchcase` does, with two differences. In a path `*` stays within one directory and `**` crosses them
(also none: `src/**` includes `src`). In a command to *allow*, no wildcard matches a character with which a shell begins
another command, redirects or substitutes: `git *` does not match `git status; rm -rf /`, and `git log | *` matches a
pipe of two commands and not of three. A rule that means an operator writes it out.

To *deny* or ask, a glob need only match one command among several (`parts`).
"""

import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase, translate
from functools import cache, lru_cache
from itertools import chain

from acp_launch.regex import regex

# The commands within a command, as a rule that denies or asks looks for them.
#
# One among several, in a subshell, behind variables and redirections, by the name of the program in any directory, run
# by another program (`sudo -n`, `timeout 5`, `xargs`), or in the script of `sh -c`. Which words are options of that
# other program is unknown, so each word after it may begin the command: that finds too much, which is right for a
# denial.
#
# This is a safety net, not a wall: a script, an alias or `python -c` gets around it.


_BETWEEN = regex(r"[;&|<>`()\n\r]|\$\(")
_REDIRECTION = regex(r"(?<![0-9])[0-9]{0,3}(?:&>>?|<>|>>|>\||<<<?|[<>])&?[ \t]*(?![(<>&|])[^\s;&|<>()`]+")
_ASSIGNMENT = regex(r"\w+\+?=.*", re.DOTALL)
_KEYWORDS = frozenset({"if", "then", "elif", "else", "while", "until", "do", "!", "{", "}", "coproc"})
# Programs that run a command given as words.
_RUNNERS = {
    "sudo", "doas", "pkexec", "su", "runuser", "sg", "env", "exec", "command", "builtin", "eval", "nohup", "nice",
    "ionice", "chrt", "taskset", "timeout", "time", "stdbuf", "setsid", "xargs", "parallel", "busybox", "toybox",
    "chroot", "unshare", "nsenter", "flock", "watch", "script", "strace", "ltrace", "systemd-run", "systemd-inhibit",
    "dbus-run-session", "xvfb-run", "caffeinate", "gtimeout", "gnice", "gstdbuf", "genv", "gxargs", "find", "fd",
    "ssh",
}  # fmt: skip
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "fish"})
_SCRIPT_OPTION = regex(r"-[A-Za-z]*c[A-Za-z]*")
_MAX_COMMAND_CHARS = 64 * 1024  # inspected this closely, because it is slow
_WORDS = 100  # words after a runner where its command may begin
_DEPTH = 6  # scripts in scripts


def parts(text: str, *, depth: int = _DEPTH) -> Iterator[str]:
    """Yield each command in a command, its words separated by one blank."""
    for part in _pieces(text):
        words = part.split()
        yield from _readings(words, len(part))
        if any(mark in part for mark in "'\"\\"):
            yield from _readings(_unquote(part), len(part))
    whole = _unquote(text)
    yield from _readings(whole, len(text))
    if depth:
        for script in _scripts(whole):
            yield from parts(script, depth=depth - 1)


def _pieces(text: str) -> Iterator[str]:
    yield from _BETWEEN.split(text)
    if "<" in text or ">" in text:  # `2>log rm x`
        yield from _BETWEEN.split(_REDIRECTION.sub(" ", text[:_MAX_COMMAND_CHARS]))


def _unquote(text: str) -> list[str]:
    """Split into words as a shell does; empty if a quote is left open."""
    try:
        return shlex.split(text[:_MAX_COMMAND_CHARS])
    except ValueError:
        return []


def _readings(words: list[str], size: int) -> Iterator[str]:
    """Yield the command itself, and, if it runs another, all candidates for that."""
    bare = _bare(words)
    if not bare:
        return
    yield from _names(bare)
    if posixpath.basename(bare[0]) in _RUNNERS and size <= _MAX_COMMAND_CHARS:
        for place in range(1, min(len(bare), _WORDS)):
            yield from _names(bare[place:])


def _bare(words: list[str]) -> list[str]:
    """Remove keywords and assignments before it."""
    begin = 0
    while begin < len(words) and (words[begin] in _KEYWORDS or _ASSIGNMENT.fullmatch(words[begin])):
        begin += 1
    return words[begin:]


def _names(words: list[str]) -> Iterator[str]:
    """Yield the command as written, and with the bare name of its program."""
    yield " ".join(words)
    if name := posixpath.basename(words[0]):
        yield " ".join([name, *words[1:]])


def _scripts(words: list[str]) -> Iterator[str]:
    """Yield words that may be a script: after `sh … -c` every word, otherwise words with blanks in them."""
    is_run, is_shell, is_script = False, False, False
    for word in words:
        if is_script or (is_run and len(word.split()) > 1):
            yield word
        name = posixpath.basename(word)
        is_shell = is_shell or name in _SHELLS
        is_run = is_run or is_shell or name in _RUNNERS
        is_script = is_script or (is_shell and _SCRIPT_OPTION.fullmatch(word) is not None)


OPERATORS = ";&|<>`$()\n\r\0"
_PLAIN = f"[^{re.escape(OPERATORS)}]"
_END = regex(r"\\[zZ]$")
_TOKEN = regex(r"\*+|\?|\[!?\]?[^]]*\]|.", re.DOTALL)
_SHELL = regex(r"(?:(?:/usr)?(?:/local)?/bin/)?(?:ba|da|z|k)?sh")
_SCRIPT = regex(r"-[a-z]*c")


def in_text(globs: Sequence[str], text: str) -> bool:
    return any(fnmatchcase(text, glob) for glob in globs)


def in_path(globs: Sequence[str], path: str) -> bool:
    """Whether a path matches. Paths are absolute and without `.` and `..`; the empty (unknown) path never matches."""
    steps = path.split("/")
    return bool(path) and any(_walks(glob.split("/"), steps) for glob in globs)


def is_allowed(globs: Sequence[str], readings: Sequence[str]) -> bool:
    """Whether a command matches. `readings` are ways to write it: as it stands, and its script if a shell runs it."""
    return any(_strict(glob).fullmatch(reading) for glob in globs for reading in readings)


def is_caught(globs: Sequence[str], readings: Sequence[str]) -> bool:
    """Whether any of the commands in a command matches."""
    return any(in_text(globs, part) for reading in readings for part in _each(reading))


def script(argv: Sequence[str]) -> str | None:
    """Return the script that `bash -lc SCRIPT` runs; None for any other command."""
    is_shell = len(argv) == 3 and _SHELL.fullmatch(argv[0]) and _SCRIPT.fullmatch(argv[1])
    return argv[2].strip() if is_shell else None


def _walks(glob: Sequence[str], steps: Sequence[str]) -> bool:
    """Match greedily, and return to the latest `**` on failure: at most the product of both lengths."""
    at, place, star, seen = 0, 0, -1, 0
    while place < len(steps):
        if at < len(glob) and glob[at] == "**":
            star, seen, at = at, place, at + 1
        elif at < len(glob) and fnmatchcase(steps[place], glob[at]):
            at, place = at + 1, place + 1
        elif star >= 0:
            seen += 1
            at, place = star + 1, seen
        else:
            return False
    return all(step == "**" for step in glob[at:])


@cache
def _strict(glob: str) -> re.Pattern[str]:
    """Compile a glob.

    Each inner piece matches where it first fits, as in `fnmatch`, so that no command makes this slow.
    """
    pieces = [""]
    for token in _TOKEN.findall(glob.strip()):
        if token.startswith("*"):
            pieces.append("")
        else:
            pieces[-1] += _one(token)
    if len(pieces) == 1:
        return re.compile(pieces[0])
    first, *inner, last = pieces
    return re.compile(first + "".join(f"(?>{_PLAIN}*?{piece})" for piece in inner) + f"{_PLAIN}*{last}")


def _one(token: str) -> str:
    if token == "?":
        return _PLAIN
    if len(token) > 2 and token.endswith("]"):
        return f"(?={_PLAIN}){_END.sub('', translate(token))}"
    return re.escape(token)


@lru_cache(maxsize=4)
def _each(text: str) -> tuple[str, ...]:
    """Return the distinct parts, cached for all the rules that are asked about one call."""
    return tuple(dict.fromkeys(chain([text], parts(text))))


# Directories that are reached through a link, and the two ways to spell the paths in them.
#
# A session's directories are spelled as the user spelled them; rules about files use the real paths. Which directories
# are links was looked up when the launch began (`links`).


Links = tuple[tuple[str, str], ...]  # a directory as spelled, and its real path


def real(path: str, links: Links) -> str:
    """Return the path without those links; the longest matching spelling counts."""
    for spelled, truly in sorted(links, key=lambda link: -len(link[0])):
        if (below := within(path, spelled)) is not None:
            return _join(truly, below)
    return path


def spellings(path: str, links: Links) -> Iterator[str]:
    """Yield the spellings of a real path."""
    yield path
    for spelled, truly in links:
        if (below := within(path, truly)) is not None:
            yield _join(spelled, below)


def within(path: str, directory: str) -> str | None:
    """Return the part of the path after the directory; None if it lies elsewhere, or is unknown.

    Both are absolute and without `..`.
    """
    root = directory.rstrip("/")
    return path[len(root) + 1 :] if path and f"{path}/".startswith(f"{root}/") else None


def _join(directory: str, below: str) -> str:
    return f"{directory.rstrip('/')}/{below}" if below else directory
