"""
The commands in a command, as far as a rule that denies or asks looks for them. Pure.

One among several, in a subshell, behind variables and redirections, by the name of the program wherever that lies, run
by another program (`sudo -n`, `timeout 5`, `xargs`), or in the script of `sh -c`. Which words are options of that other
program nobody here knows, so each word after it may begin the command: that finds too much, which is right for a "no".

It is a seat belt and no wall: a script, an alias or `python -c` gets around it.
"""

import posixpath
import re
import shlex
from collections.abc import Iterator

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
_SCRIPT = re.compile(r"-[A-Za-z]*c[A-Za-z]*")
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
        is_script = is_script or (is_shell and _SCRIPT.fullmatch(word) is not None)
