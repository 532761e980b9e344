"""Asking on a terminal without showing, by a child that has one of its own: a pty."""

import json
import os
import re
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cli.terminal import Terminal
from tests.patience import PATIENCE

# Takes the terminal as its own, asks on it, and reports on stdout; stdin is a pipe that must stay unread.
CHILD = """
import fcntl, json, os, signal, sys, termios
terminal, how = int(sys.argv[1]), sys.argv[2]
fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
os.close(terminal)
if how == "hang up":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
if how == "background" and (worker := os.fork()):
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]))
if how == "background":
    os.setpgid(0, 0)
from acp_launch.errors import UsageError
from acp_launch.secret.hidden_input import ask_hidden
def handling():
    return [signal.getsignal(number) for number in sorted(signal.valid_signals())]
before, fix = handling(), {"fix": how[4:]} if how.startswith("fix=") else {}
answers = []
for _ in range(int(sys.argv[3])):
    try:
        answers.append(ask_hidden("Wort für github: ", **fix))
    except UsageError as error:
        answers.append([error.message, error.fix])
    except KeyboardInterrupt:
        answers.append(["interrupted"])
    assert handling() == before and signal.set_wakeup_fd(-1) == -1
print(json.dumps([answers, sys.stdin.read()]))
"""
PROMPT = "▐ Wort für github: "


class Asked:
    """A child that asks, and the terminal a person types on."""

    def __init__(self, process: "subprocess.Popen[bytes]", terminal: Terminal, ours: int, before: list[object]) -> None:
        self.process, self.terminal = process, terminal
        self._ours, self._before = ours, before

    def settings(self) -> list[object]:
        return termios.tcgetattr(self._ours)

    def types(self, keys: bytes) -> None:
        while keys:  # a pty takes 4 KiB at a time, or less
            keys = keys[os.write(self._ours, keys) :]

    def hang_up(self) -> None:
        os.close(self._ours)

    def answers(self) -> list[object]:
        """What came of each question; nothing of stdin was read, and the terminal is as it was."""
        out, _ = self.process.communicate(b"on stdin", PATIENCE)
        answers, stdin = json.loads(out)
        assert stdin == "on stdin"
        return list(answers)

    def assert_restored(self) -> None:
        assert self.settings() == self._before


@contextmanager
def asked(how: str = "foreground", program: str = CHILD, questions: int = 1) -> Iterator[Asked]:
    ours, theirs = os.openpty()
    before = termios.tcgetattr(ours)
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(theirs), how, str(questions)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[theirs],
        start_new_session=True,
    )
    try:
        yield Asked(process, Terminal(ours, process), ours, before)
    finally:
        process.kill()
        process.communicate()
        os.close(theirs)
        if how != "hang up":
            os.close(ours)


def answers_to(*keys: str | bytes, bell: str = "") -> list[object]:
    """The answers to as many questions, of which each is typed after its prompt."""
    with asked(questions=len(keys)) as person:
        for number, each in enumerate(keys, 1):
            person.terminal.until(PROMPT, number)
            person.types(each.encode() if isinstance(each, str) else each)
        answers = person.answers()
        person.assert_restored()
        person.terminal.until("\n", len(keys))
        seen = (PROMPT + bell + "\n") * len(keys)
        assert re.sub("\a+", "\a", person.terminal.text) == seen, "what was typed is seen"
        return answers


def test_what_is_typed_is_not_seen_and_stdin_is_not_touched() -> None:
    assert answers_to("hunter22 é😀\r") == ["hunter22 é😀"]


def test_a_token_longer_than_a_line_of_the_terminal_comes_whole() -> None:
    """The kernel's own line mode would drop what comes after 4,095 bytes, and say nothing."""
    token = "0123456789" * 1000
    assert answers_to(token + "\r") == [token]


def test_the_keys_that_edit_do_so_and_a_tab_is_text() -> None:
    typed = {
        **{"\r": "", "\n": "", "\x04": "", "abc\x04": "abc", "wrong\x15right\n": "right"},
        **{"aé😀\x7f\x7f\x08\x08b\n": "b", "hunter\t22\r": "hunter\t22"},
    }
    assert answers_to(*typed) == [*typed.values()]


def test_several_lines_are_refused_and_do_not_reach_the_shell() -> None:
    message = ["several lines were pasted; expected one", "pipe it in: acp-launch secret set NAME < FILE"]
    lines = ("-----BEGIN-----\nrm -rf x\n-----END-----\n", "\x1b[200~-----BEGIN-----\n\x1b[A\nx\x1b[201~\r")
    assert answers_to(*lines) == [message, message]


def test_the_fix_for_several_lines_is_the_callers() -> None:
    message = ["several lines were pasted; expected one", "acp-launch secret set github < FILE"]
    with asked("fix=acp-launch secret set github < FILE") as person:
        person.terminal.until(PROMPT)
        person.types(b"one\ntwo\n")
        assert person.answers() == [message]


def test_keys_that_are_no_text_are_not_part_of_it_and_ring() -> None:
    keys = (
        "\x1b[A\x1b[B\x1b[C\x1b[D",  # arrows
        "\x1bOP\x1bOA",  # F1
        "\x1b[3~\x1b[15~\x1b[1;5C",  # with numbers
        "\x1b[[A",  # F1 on the console
        "\x1b\x1b[A",  # Alt and an arrow
        "\x1b",  # Esc
        "\x00\x01\x0b\x0c\x16\x17\x1d\x1e\x1f",  # Ctrl and a letter
    )
    assert answers_to(*(f"hun{each}ter22\r" for each in keys), bell="\a") == ["hunter22"] * len(keys)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "keys", ["token\r\n\n", *(f"\x1b[200~token{end}" for end in ("\x1b[201~\r", "\n\n\x1b[201~\r\n"))]
)
def test_a_line_end_more_is_no_second_line_and_a_marked_paste_is_what_was_pasted(keys: str) -> None:
    assert answers_to(keys) == ["token"]


def test_bytes_that_are_no_text_are_refused_and_ctrl_c_leaves_the_terminal_as_it_was() -> None:
    refused = ["the input is not UTF-8 text", "set your terminal to UTF-8"]
    assert answers_to(b"token\xff\n", "hunt\x03") == [refused, ["interrupted"]]


def test_a_closed_terminal_has_no_user_to_ask() -> None:
    with asked("hang up") as person:
        person.terminal.until(PROMPT)
        person.hang_up()
        assert person.answers() == [None]


def test_in_the_background_no_user_is_asked_and_nothing_stops() -> None:
    with asked("background") as person:
        assert person.answers() == [None]


def test_without_a_terminal_no_user_is_asked() -> None:
    code = (
        "from acp_launch.secret.hidden_input import ask_hidden; import sys;"
        " print(ask_hidden('Word: '), sys.stdin.read())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input="piped",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        start_new_session=True,
    )
    assert (done.stdout, done.stderr) == ("None piped\n", "")


# What a shell does, and nothing else: it leads the session, runs one job in front, and takes the terminal, with its own
# modes, when the job stops. Reports each stop, and whether the modes were those already; does what stdin says.
SHELL = """
import fcntl, json, os, resource, signal, sys, termios
terminal = int(sys.argv[1])
fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
go, gone = os.pipe()
ours, modes = os.getpgrp(), termios.tcgetattr(terminal)
job = os.fork()
if not job:
    os.setpgid(0, 0)
    os.read(go, 1)
    from acp_launch import shutdown
    from acp_launch.secret.hidden_input import ask_hidden
    shutdown.listen()
    before = [signal.getsignal(number) for number in sorted(signal.valid_signals())]
    answer = ask_hidden("Wort für github: ")
    assert before == [signal.getsignal(number) for number in sorted(signal.valid_signals())]
    print(json.dumps(["answered", answer]), flush=True)
    os._exit(0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
os.setpgid(job, job)
os.tcsetpgrp(terminal, job)
os.write(gone, b"x")
while os.WIFSTOPPED(status := os.waitpid(job, os.WUNTRACED)[1]):
    print(json.dumps([signal.Signals(os.WSTOPSIG(status)).name, termios.tcgetattr(terminal) == modes]), flush=True)
    os.tcsetpgrp(terminal, ours)
    termios.tcsetattr(terminal, termios.TCSADRAIN, modes)
    said = sys.stdin.readline().strip()
    if said == "kill":
        os.killpg(job, signal.SIGTERM)
    if said == "fg":
        os.tcsetpgrp(terminal, job)
    os.killpg(job, signal.SIGCONT)
print(json.dumps(["ended", os.waitstatus_to_exitcode(status)]), flush=True)
sys.stdin.read()
"""


class Job(Asked):
    """One that asks, under a shell."""

    def says(self) -> object:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def tell(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word.encode() + b"\n")
        self.process.stdin.flush()

    def begins(self) -> None:
        """Some text; the bell for Ctrl-A tells that it was read."""
        bells = self.terminal.text.count("\a")
        self.types(b"hunt\x01")
        self.terminal.until((PROMPT + "\a") * (bells + 1))

    def sends(self, number: signal.Signals) -> None:
        os.killpg(os.tcgetpgrp(self._ours), number)

    def ends_after(self, shown: str) -> None:
        """Answer the prompt; only this was ever seen."""
        self.types(b"hunter22\r")
        assert [self.says(), self.says()] == [["answered", "hunter22"], ["ended", 0]]
        self.assert_restored()
        self.terminal.until("\n")
        assert self.terminal.text == shown + "\n"


@contextmanager
def job() -> Iterator[Job]:
    with asked(program=SHELL) as person:
        job = Job(person.process, person.terminal, person._ours, person._before)
        job.terminal.until(PROMPT)
        yield job


def test_after_ctrl_z_and_fg_the_prompt_comes_again_and_nothing_is_seen() -> None:
    """What was typed before is dropped: a user who sees the prompt again types it all again."""
    with job() as person:
        for time in range(1, 4):
            person.begins()
            person.types(b"\x1a")
            assert person.says() == ["SIGTSTP", True], "the shell finds the terminal as it was"
            person.tell("fg")
            person.terminal.until((PROMPT + "\a") * time + PROMPT)
        person.ends_after((PROMPT + "\a") * 3 + PROMPT)


def test_after_a_stop_that_cannot_be_caught_it_is_the_same() -> None:
    with job() as person:
        person.begins()
        person.sends(signal.SIGSTOP)
        assert person.says() == ["SIGSTOP", False]
        person.tell("fg")
        person.terminal.until(PROMPT + "\a" + PROMPT)
        person.ends_after(PROMPT + "\a" + PROMPT)


def test_in_the_background_it_stops_until_it_is_in_front_again() -> None:
    with job() as person:
        person.sends(signal.SIGTSTP)
        assert person.says() == ["SIGTSTP", True]
        person.tell("bg")
        assert person.says() == ["SIGTTOU", True], "the terminal is the shell's"
        person.tell("fg")
        person.terminal.until(PROMPT * 2)
        person.ends_after(PROMPT * 2)


@pytest.mark.parametrize("stop", [signal.SIGTSTP, signal.SIGSTOP])
def test_a_stopped_one_can_be_ended(stop: signal.Signals) -> None:
    with job() as person:
        person.sends(stop)
        assert person.says() == [stop.name, stop == signal.SIGTSTP]
        person.tell("kill")
        assert person.says() == ["ended", 128 + signal.SIGTERM]
        assert person.terminal.text == PROMPT


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGQUIT, -signal.SIGQUIT)]
)
def test_a_signal_that_ends_it_leaves_the_terminal_as_it_was(number: signal.Signals, code: int) -> None:
    with job() as person:
        person.sends(number)
        assert person.says() == ["ended", code]
        person.assert_restored()
