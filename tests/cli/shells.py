"""Shells in which somebody presses the tab key: bash and zsh on a terminal, fish asked by a command it has for it."""

import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.patience import PATIENCE

SHOW, ALL, CLEAR = "\x18\x0c", "\x18*", "\x15"  # keys: print the line, put all candidates on it, empty it
# A line is printed between marks that are made up by printf, so that the echo of what is typed is no answer.
BASH = r"""
PS1='ready> '
bind 'set enable-bracketed-paste off'
bind 'set completion-query-items 0'
bind -x '"\C-x\C-l": printf "\n<%s>%s<%s>\n" line "$READLINE_LINE" end'
bind '"\C-x*": insert-completions'
bind '"\C-u": kill-whole-line'
eval "$(acp-launch completion bash)"
printf '%s\n' started
"""
ZSH = r"""
PS1='ready> '
unsetopt zle_bracketed_paste prompt_sp; unset zle_bracketed_paste
autoload -Uz compinit && compinit -D -u
zstyle ':completion:*' list-prompt ''
show() { printf '\n<%s>%s<%s>\n' line "$BUFFER" end; }
everything() { _main_complete; compstate[insert]=all; compstate[list]=''; }
zle -N show
zle -C everything complete-word everything
bindkey '^X^L' show
bindkey '^X*' everything
bindkey '^U' kill-whole-line
eval "$(acp-launch completion zsh)"
printf '%s\n' started
"""
START = {"bash": (["bash", "--norc", "--noprofile", "-i"], BASH), "zsh": (["zsh", "-f", "-i"], ZSH)}


class Shell:
    """A shell that has been told to complete acp-launch."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.seen = ""

    def completes(self, typed: str) -> str:
        """The line after the tab key."""
        return self._line(f"{typed}\t")

    def offers(self, typed: str) -> list[str]:
        """The words that stand where the last one of `typed` was begun, once all candidates are put there."""
        return shlex.split(self._line(f"{typed}{ALL}"))[len(shlex.split(f"{typed}|")) - 1 :]

    def _line(self, keys: str) -> str:
        self.seen = ""
        os.write(self._descriptor, f"{keys}{SHOW}".encode())
        found = self.until(r"<line>(.*?)<end>")
        os.write(self._descriptor, CLEAR.encode())
        return found[1]

    def until(self, pattern: str) -> "re.Match[str]":
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self.seen, re.DOTALL)):
            ready, _, _ = select.select([self._descriptor], [], [], deadline - time.monotonic())
            assert ready, f"no {pattern!r} in {self.seen!r}"
            self.seen += os.read(self._descriptor, 65536).decode(errors="replace").replace("\r", "")
        return found

    def types(self, text: str) -> None:
        os.write(self._descriptor, text.encode())


@contextmanager
def interactive(name: str, *, cwd: Path, env: Mapping[str, str]) -> Iterator[Shell]:
    """`name` with the completion that acp-launch prints for it."""
    command, setup = START[name]
    file = cwd.parent / f"setup.{name}"
    file.write_text(setup)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, env=dict(env), start_new_session=True
    )
    os.close(theirs)
    shell = Shell(ours)
    try:
        shell.types(f". {shlex.quote(str(file))}\n")
        shell.until("started\n")
        yield shell
    finally:
        process.kill()
        process.wait(PATIENCE)
        os.close(ours)


def fish(typed: str, *, cwd: Path, env: Mapping[str, str]) -> list[str]:
    """What fish offers for a line; a tab is before what it says about a candidate."""
    script = f"acp-launch completion fish | source; complete -C {_for_fish(typed)}"
    done = subprocess.run(
        ["fish", "--no-config", "-c", script],
        cwd=cwd,
        env=dict(env),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def on_path(directory: Path) -> str:
    """A PATH on which `acp-launch` is the one under test, and no other, as of an activated environment, comes after."""
    directory.mkdir()
    program = directory / "acp-launch"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m acp_launch "$@"\n')
    program.chmod(0o755)
    others = [each for each in os.get_exec_path() if not Path(each, "acp-launch").exists()]
    return os.pathsep.join([str(directory), *others])


def is_there(name: str) -> bool:
    return shutil.which(name) is not None


def _for_fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
