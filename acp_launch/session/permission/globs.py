"""
How a rule's globs match: names and titles, paths, and commands. Pure.

All match as `fnmatchcase` does, with two differences. In a path `*` stays within one directory and `**` crosses them
(also none: `src/**` is `src` too). In a command that is to be *allowed*, no wildcard stands for a character by which a
shell begins another command, redirects or substitutes: `git *` is no `git status; rm -rf /`, and `git log | *` is a
pipe of two commands and not of three. Whoever means an operator writes it out.

To *deny*, or ask, a glob need only match one command among several (`commandparts`).
"""

import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase, translate
from functools import cache, lru_cache
from itertools import chain

# The commands in a command, as far as a rule that denies or asks looks for them. Pure.
#
# One among several, in a subshell, behind variables and redirections, by the name of the program wherever that lies,
# run by another program (`sudo -n`, `timeout 5`, `xargs`), or in the script of `sh -c`. Which words are options of that
# other program nobody here knows, so each word after it may begin the command: that finds too much, which is right for
# a "no".
#
# It is a seat belt and no wall: a script, an alias or `python -c` gets around it.


_BETWEEN = re.compile(r"[;&|<>`()\n\r]|\$\(")
_REDIRECTION = re.compile(r"(?<![0-9])[0-9]{0,3}(?:&>>?|<>|>>|>\||<<<?|[<>])&?[ \t]*(?![(<>&|])[^\s;&|<>()`]+")
_ASSIGNMENT = re.compile(r"\w+\+?=.*", re.DOTALL)
_KEYWORDS = frozenset({"if", "then", "elif", "else", "while", "until", "do", "!", "{", "}", "coproc"})
# Programs that run what they are given as words.
_RUNNERS = {
    "sudo", "doas", "pkexec", "su", "runuser", "sg", "env", "exec", "command", "builtin", "eval", "nohup", "nice",
    "ionice", "chrt", "taskset", "timeout", "time", "stdbuf", "setsid", "xargs", "parallel", "busybox", "toybox",
    "chroot", "unshare", "nsenter", "flock", "watch", "script", "strace", "ltrace", "systemd-run", "systemd-inhibit",
    "dbus-run-session", "xvfb-run", "caffeinate", "gtimeout", "gnice", "gstdbuf", "genv", "gxargs", "find", "fd",
    "ssh",
}  # fmt: skip
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "fish"})
_SCRIPT_OPTION = re.compile(r"-[A-Za-z]*c[A-Za-z]*")
_MOST = 64 * 1024  # characters of a command that are looked at so closely, which is slow
_WORDS = 100  # after a runner, where the command it runs may begin
_DEPTH = 6  # scripts in scripts


def parts(text: str, *, depth: int = _DEPTH) -> Iterator[str]:
    """Each command in a command, its words with one blank between."""
    for part in _pieces(text):
        words = part.split()
        yield from _readings(words, len(part))
        if _has_quotes(part):
            yield from _readings(_unquoted(part), len(part))
    whole = _unquoted(text)
    yield from _readings(whole, len(text))
    if depth:
        for script in _scripts(whole):
            yield from parts(script, depth=depth - 1)


def _pieces(text: str) -> Iterator[str]:
    yield from _BETWEEN.split(text)
    if "<" in text or ">" in text:  # `2>log rm x`
        yield from _BETWEEN.split(_REDIRECTION.sub(" ", text[:_MOST]))


def _has_quotes(part: str) -> bool:
    return any(mark in part for mark in "'\"\\")


def _unquoted(text: str) -> list[str]:
    """Its words as a shell cuts them, none where a quote is left open."""
    try:
        return shlex.split(text[:_MOST])
    except ValueError:
        return []


def _readings(words: list[str], size: int) -> Iterator[str]:
    """The command itself, and where it runs another, what that may be."""
    bare = _bare(words)
    if not bare:
        return
    yield from _named(bare)
    if posixpath.basename(bare[0]) in _RUNNERS and size <= _MOST:
        for place in range(1, min(len(bare), _WORDS)):
            yield from _named(bare[place:])


def _bare(words: list[str]) -> list[str]:
    """Without keywords and assignments before it."""
    begin = 0
    while begin < len(words) and (words[begin] in _KEYWORDS or _ASSIGNMENT.fullmatch(words[begin])):
        begin += 1
    return words[begin:]


def _named(words: list[str]) -> Iterator[str]:
    """As it is written, and by the name of its program alone."""
    yield " ".join(words)
    if name := posixpath.basename(words[0]):
        yield " ".join([name, *words[1:]])


def _scripts(words: list[str]) -> Iterator[str]:
    """What may be a script that one of the words runs: after `sh … -c` any word, else one that is several."""
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
_END = re.compile(r"\\[zZ]$")
_TOKEN = re.compile(r"\*+|\?|\[!?\]?[^]]*\]|.", re.DOTALL)
_SHELL = re.compile(r"(?:(?:/usr)?(?:/local)?/bin/)?(?:ba|da|z|k)?sh")
_SCRIPT = re.compile(r"-[a-z]*c")


def in_text(globs: Sequence[str], text: str) -> bool:
    return any(fnmatchcase(text, glob) for glob in globs)


def in_path(globs: Sequence[str], path: str) -> bool:
    """All are absolute and without `.` and `..`; the empty path, of which nothing is known, never matches."""
    steps = path.split("/")
    return bool(path) and any(_walks(glob.split("/"), steps) for glob in globs)


def is_allowed(globs: Sequence[str], readings: Sequence[str]) -> bool:
    """`readings` are the ways to write one and the same command: as it stands, and its script where a shell runs it."""
    return any(_strict(glob).fullmatch(reading) for glob in globs for reading in readings)


def is_caught(globs: Sequence[str], readings: Sequence[str]) -> bool:
    """Whether any of the commands in a command matches."""
    return any(in_text(globs, part) for reading in readings for part in _each(reading))


def script(argv: Sequence[str]) -> str | None:
    """What `bash -lc SCRIPT` runs; None for any other command."""
    is_shell = len(argv) == 3 and _SHELL.fullmatch(argv[0]) and _SCRIPT.fullmatch(argv[1])
    return argv[2].strip() if is_shell else None


def _walks(glob: Sequence[str], steps: Sequence[str]) -> bool:
    """Greedy, and back to the latest `**` where it fails: never more than the product of both lengths."""
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
    """Each inner piece is taken where it first fits, as `fnmatch` does: no command makes this slow."""
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
    """The parts once each, cut once for all the rules that are asked about one call."""
    return tuple(dict.fromkeys(chain([text], parts(text))))


# Directories that are reached through a link, and the two ways to spell what lies in them. Pure.
#
# A session's directories are spelled as the user spelled them; rules about files are about what these really are. Which
# lead through links was looked up when the launch began (`links`).


Links = tuple[tuple[str, str], ...]  # a directory as it is spelled, and what it really is


def real(path: str, links: Links) -> str:
    """The path without those links; the longest spelling that it begins with counts."""
    for spelled, truly in sorted(links, key=lambda link: -len(link[0])):
        if (below := within(path, spelled)) is not None:
            return _joined(truly, below)
    return path


def spellings(path: str, links: Links) -> Iterator[str]:
    """A real path, and how else it may be spelled."""
    yield path
    for spelled, truly in links:
        if (below := within(path, truly)) is not None:
            yield _joined(spelled, below)


def within(path: str, directory: str) -> str | None:
    """What follows the directory in the path; None where that is elsewhere, or cannot be told.

    Both are absolute and without `..`.
    """
    root = directory.rstrip("/")
    return path[len(root) + 1 :] if path and f"{path}/".startswith(f"{root}/") else None


def _joined(directory: str, below: str) -> str:
    return f"{directory.rstrip('/')}/{below}" if below else directory
