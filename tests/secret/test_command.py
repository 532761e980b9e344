"""A program of the user's as a store: which answers mean what, and that only its stderr is ever shown."""

import os
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from msgspec import Struct

from acp_launch.errors import LaunchError, MachineError
from acp_launch.problem import Problem
from acp_launch.process.capture import capture
from acp_launch.secret.command import Captured, CommandStore
from acp_launch.secret.value import MAX_VALUE, Outcome, Secret
from tests.patience import PATIENCE
from tests.secret.shelf import fault

LABEL = "command (op)"
OP = ("/usr/bin/op", "read", "op://dev/{name}/credential")


class Ended(Struct, frozen=True):
    status: int | None = 0

    def __str__(self) -> str:
        return f"exited with status {self.status}"


class Said(Struct, frozen=True):
    """What a call gives, without a process."""

    out: bytes = b""
    err: tuple[str, ...] = ()
    ending: Ended = Ended()
    timed_out: bool = False


class Calls:
    """A Run that says the same whatever it is asked, and remembers it."""

    def __init__(self, said: Said | LaunchError) -> None:
        self._said = said
        self.calls: list[tuple[tuple[str, ...], float]] = []

    def __call__(self, argv: Sequence[str], limit: float) -> Captured:
        self.calls.append((tuple(argv), limit))
        if isinstance(self._said, LaunchError):
            raise self._said
        return self._said


def outcome(said: Said | LaunchError) -> Outcome:
    return CommandStore(OP, limit=10.0, run=Calls(said)).read(["github"])["github"]


def value(out: bytes) -> str:
    secret = outcome(Said(out)).secret
    assert secret is not None
    return secret.expose()


def test_the_name_takes_its_place_in_every_argument_and_no_shell_sees_it() -> None:
    calls = Calls(Said(b"gho_1\n"))
    store = CommandStore(["op", "read", "{name}", "--label={name}-{name}", "$(x) {other}"], limit=7.0, run=calls)
    store.prepare()
    assert store.read(["team/github"]) == {"team/github": Outcome("found", LABEL, Secret("gho_1"))}
    assert calls.calls == [(("op", "read", "team/github", "--label=team/github-team/github", "$(x) {other}"), 7.0)]
    assert (store.label, store.names()) == (LABEL, None)


def test_the_tokens_of_a_login_have_a_name_that_a_program_can_take() -> None:
    """It only reads them: a login with this store is refused before it begins."""
    name, calls = "oauth/mcp.example.com:8443/0123456789abcdef", Calls(Said(b"{}"))
    store = CommandStore(["op", "read", "{name}"], limit=7.0, run=calls)
    assert store.read([name]) == {name: Outcome("found", LABEL, Secret("{}"))}
    assert calls.calls == [(("op", "read", name), 7.0)]


@pytest.mark.parametrize(
    ("out", "expected"),
    [
        (b"v", "v"),
        (b"v\n", "v"),
        (b"v\r\n", "v"),
        (b"v\n\n", "v\n"),
        (b"v\r", "v\r"),
        (b" v \n", " v "),
        (b"\nv\n", "\nv"),
        ("zwei\nZeilen é😀\n".encode(), "zwei\nZeilen é😀"),
        (b"v" * MAX_VALUE + b"\r\n", "v" * MAX_VALUE),
    ],
    ids=range(9),
)
def test_one_line_end_is_not_part_of_the_value(out: bytes, expected: str) -> None:
    assert value(out) == expected


@pytest.mark.parametrize("out", [b"", b"\n", b"\r\n"])
def test_an_empty_answer_is_missing(out: bytes) -> None:
    """The store only reads: `secret set` could not help."""
    assert outcome(Said(out)) == Outcome("missing", LABEL, fix="add it with op")


def test_a_failing_program_is_quoted_with_its_last_lines_and_nothing_it_printed() -> None:
    err = ("one", "two", "  [ERROR] not \x1b[31msigned\x1b[0m in\x07\x1b ", "x" * 300)
    assert outcome(Said(b"gho_1\n", err, Ended(1))) == Outcome(
        "unavailable",
        LABEL,
        reason=f"op exited with status 1: two / [ERROR] not signed in\\x07\\x1b / {'x' * 200}",
        fix='run it yourself for "github", and correct what it reports',
    )


GITHUB = "ghp_" + "a1B2c3D4e5" * 4


def test_what_looks_like_a_credential_on_stderr_is_masked() -> None:
    for err, shown in [
        ((f"bad credentials: {GITHUB}",), "bad credentials: ***"),
        ((f"\x1b[31m{GITHUB[:20]}\x1b[1m{GITHUB[20:]}\x1b[0m is no item",), "*** is no item"),
        (("x" * 180 + f" {GITHUB}",), "x" * 180 + " ***"),
        (("retrying", "login failed: password=hunter22x"), "retrying / login failed: password=***"),
        (("GET https://me:hunter22x@vault.example.com: 403",), "GET https://me:***@vault.example.com: 403"),
        (("Enter password:", "error: not found"), "Enter password: / error: not found"),
        (
            (
                "cannot parse",
                "-----BEGIN PRIVATE KEY-----",
                *["c2hvcnQ", "a2V5"] * 2,
                "-----END PRIVATE KEY-----",
                "bye",
            ),
            "cannot parse / *** / bye",
        ),
    ]:
        for timed_out in [False, True]:
            ending = Ended(None if timed_out else 1)
            how = "did not answer within 10 s" if timed_out else "exited with status 1"
            assert outcome(Said(b"", err, ending, timed_out)).reason == f"op {how}: {shown}"


def test_a_program_that_fails_without_a_word_is_said() -> None:
    assert outcome(Said(b"", (), Ended(1))).reason == "op exited with status 1"


def test_a_program_that_does_not_answer_is_said() -> None:
    assert outcome(Said(b"gho_", ("waiting for you",), Ended(None), timed_out=True)) == Outcome(
        "unavailable",
        LABEL,
        reason="op did not answer within 10 s: waiting for you",
        fix="run it once yourself: it may be waiting for you to sign in",
    )


@pytest.mark.parametrize("line_end", [b"", b"\n", b"\r\n"])
@pytest.mark.parametrize("ending", [Ended(0), Ended(None)])
def test_more_than_a_secret_may_have_is_too_large(line_end: bytes, ending: Ended) -> None:
    """A program that prints that much is killed: how it ended says nothing."""
    much = Said(b"v" * (MAX_VALUE + 1) + line_end + (b"vv" if ending.status is None else b""), (), ending)
    assert outcome(much) == Outcome(
        "too large",
        LABEL,
        reason="op printed more than 65536 bytes; a secret may have at most that",
        fix="check that it prints one secret and nothing else",
    )


@pytest.mark.parametrize(
    ("out", "what"), [(b"v\xff", "something that is not UTF-8"), (b"v\0w", "a NUL character")], ids=["bytes", "NUL"]
)
def test_what_no_variable_can_hold_is_no_secret(out: bytes, what: str) -> None:
    assert outcome(Said(out)) == Outcome(
        "unavailable", LABEL, reason=f"op printed {what}", fix="store it as text, base64-encoded for instance"
    )


@pytest.mark.parametrize(
    "error",
    [
        LaunchError('"op" is not on PATH', fix="something else"),
        MachineError([Problem("", 0, 0, "", '"op" is not on PATH', "something else")]),
    ],
    ids=["error", "problem"],
)
def test_a_program_that_cannot_be_started_names_the_setting(error: LaunchError) -> None:
    fix = "install it, or correct secrets.command in config.yaml"
    assert outcome(error) == Outcome("unavailable", LABEL, reason='"op" is not on PATH', fix=fix)


@pytest.mark.parametrize("argv", [(), ("op",), ("{name}",), ("op", "read", "{nam}")], ids=repr)
def test_a_command_that_does_not_know_the_name_is_never_run(argv: tuple[str, ...]) -> None:
    """The settings check refuses it too, with its line."""
    calls = Calls(Said(b"the same\n"))
    assert fault(lambda: CommandStore(argv, limit=10.0, run=calls).read(["a"])) == (
        "unavailable",
        "no argument of the command holds {name}, so it would print the same value for every secret",
        "correct secrets.command in config.yaml",
    )
    assert calls.calls == []


@pytest.mark.parametrize(
    ("argv", "name", "is_refused"),
    [
        (("op", "{name}"), "--help", True),
        (("op", "{name}.txt"), "-f", True),
        (("op", "x/{name}"), "-f", False),
        (("op", "x/{name}"), "../y", True),
        (("op", "x/{name}"), "y/../../z", True),
        (("op", "x/{name}"), ".", True),
        (("op", "x/{name}"), "y/..z", False),
    ],
)
def test_a_name_is_no_way_to_another_option_or_folder(argv: Sequence[str], name: str, is_refused: bool) -> None:
    """A profile chooses names; the user alone chooses what is run."""
    calls = Calls(Said(b"v"))
    found = CommandStore(argv, limit=10.0, run=calls).read([name])[name]
    assert (found.state, bool(calls.calls)) == (("denied", False) if is_refused else ("found", True))
    if is_refused:
        assert found.reason == f'"{name}" would be an option or another directory for op'
        assert found.fix == "choose another name"


def test_it_only_reads() -> None:
    store = CommandStore(OP, limit=10.0, run=Calls(Said()))
    expected = (
        "denied",
        "the store is a command, which is read-only",
        "change it with op, or choose another secrets.store in config.yaml",
    )
    assert fault(lambda: store.write("a", Secret("1"))) == expected
    assert fault(lambda: store.remove("a")) == expected


def test_eight_are_asked_at_a_time_and_no_more() -> None:
    """The barrier opens only when eight are inside at once."""
    barrier, lock = threading.Barrier(8, timeout=PATIENCE), threading.Lock()
    inside, most = 0, 0

    def run(argv: Sequence[str], limit: float) -> Captured:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        barrier.wait()
        with lock:
            inside -= 1
        return Said(f"value of {argv[1]}\n".encode())

    names = [f"n{number}" for number in range(24)]
    outcomes = CommandStore(["op", "{name}"], limit=10.0, run=run).read(names)
    assert outcomes == {name: Outcome("found", LABEL, Secret(f"value of {name}")) for name in names}
    assert most == 8


def test_no_thread_outlives_the_reading() -> None:
    before = threading.active_count()
    CommandStore(OP, limit=10.0, run=Calls(Said(b"v"))).read([f"n{number}" for number in range(20)])
    assert threading.active_count() == before


def test_what_goes_wrong_in_a_thread_is_not_lost() -> None:
    def run(argv: Sequence[str], limit: float) -> Captured:
        raise ZeroDivisionError(argv[-1])

    with pytest.raises(ZeroDivisionError):
        CommandStore(OP, limit=10.0, run=run).read([f"n{number}" for number in range(20)])


def real(script: str, limit: float = PATIENCE) -> CommandStore:
    run = partial(capture, env={"PATH": os.environ["PATH"]}, cwd=Path("/"))
    return CommandStore(["sh", "-c", script, "sh", "{name}"], limit=limit, run=lambda argv, limit: run(argv, limit))


def test_real_programs_answer_in_parallel() -> None:
    store = real('echo "asked for $1" >&2; case $1 in bad) exit 3;; none) ;; *) printf "%s\\r\\n" "value of $1";; esac')
    names = [*(f"n{number}" for number in range(20)), "bad", "none"]
    outcomes = store.read(names)
    assert {name: found.secret for name, found in outcomes.items() if found.secret} == {
        name: Secret(f"value of {name}") for name in names[:20]
    }
    assert outcomes["bad"].reason == "sh exited with status 3: asked for bad"
    assert outcomes["none"] == Outcome("missing", "command (sh)", fix="add it with sh")


def test_a_real_program_that_waits_for_ever_is_ended() -> None:
    assert real("exec sleep 1000", limit=0.2).read(["a"])["a"].reason == "sh did not answer within 0.2 s"


def test_a_real_program_that_does_not_exist_is_said() -> None:
    run = partial(capture, env={"PATH": "/nowhere"}, cwd=Path("/"))
    store = CommandStore(["op", "{name}"], limit=PATIENCE, run=lambda argv, limit: run(argv, limit))
    assert store.read(["a"])["a"].reason == '"op" is not on PATH (looked in 1 folder)'
