"""Ring 1. The quick way reads what typer reads, or leaves it to typer."""

import inspect
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_launch.cli.app import app
from acp_launch.cli.main import HELP, MEANT, VERBS_MEANT, _run
from acp_launch.cli.run import Run
from acp_launch.cli.verb import SYNONYMS, VERBS, Group, Option, Verb, load, parameters, plain, read_duration
from acp_launch.document.scalars import Duration
from acp_launch.errors import UsageError
from acp_launch.profile.model import Timeouts
from acp_launch.waits import AGENT_WAITS


def every_verb() -> Iterator[tuple[str, Verb]]:
    for name in VERBS:
        loaded = load(name)
        if isinstance(loaded, Group):
            yield from ((f"{name} {word}", verb) for word, (verb, given) in loaded.verbs.items() if not given)
        else:
            yield name, loaded


ALL = dict(every_verb())
VALUES = [
    "all",
    "reads",
    "none",
    "text",
    "json",
    "quiet",
    "0.1",
    "5",
    "1e3",
    "nan",
    "250ms",
    "2m",
    "2 m",
    "silence=5m",
    "session=1",
    "nope=3",
    "=3",
    "-",
    "x",
    "a b",
    "",
    "-x",
    "--new",
    "0",
]
PLAINLY = ["", "--", "-h", "--output=json", "--output=", "--cwd=a=b", "--json=x", "-ojson", "--nope", "-cv", "demo"]


def names(verb: Verb) -> list[str]:
    notes = [each.note for each in parameters(verb)]
    return [name for note in notes if isinstance(note, Option) for name in note.names.split()]


LINES = st.sampled_from(list(ALL)).flatmap(
    lambda name: st.tuples(st.just(name), st.lists(st.sampled_from([*names(ALL[name]), *VALUES, *PLAINLY]), max_size=7))
)


def read_plainly(name: str, arguments: list[str]) -> dict[str, Any] | None:
    """What the quick way makes of them, with the defaults of what is not given."""
    values = plain(ALL[name], arguments)
    if values is None:
        return None
    bound = inspect.signature(ALL[name]).bind(**values)
    bound.apply_defaults()
    return bound.arguments


def read_by_typer(name: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any] | None:
    """What typer makes of them; None for a usage error or help."""
    read: list[dict[str, Any]] = []

    def remember(verb: Verb, values: dict[str, Any]) -> int:
        read.append(values)
        return 0

    with monkeypatch.context() as patch:
        patch.setattr("acp_launch.cli.app.carry_out", remember)
        patch.setattr(sys, "stderr", None)
        patch.setattr(sys, "stdout", None)
        with pytest.raises(SystemExit):
            app(args=[*name.split(), *arguments], prog_name="acp-launch")
    return read[-1] if read else None  # before it that of its group


@pytest.fixture(scope="module")
def patcher() -> pytest.MonkeyPatch:
    return pytest.MonkeyPatch()


@given(line=LINES)
@example(line=("doctor", ["--session/--no-session"]))
def test_both_ways_read_the_same(line: tuple[str, list[str]], patcher: pytest.MonkeyPatch) -> None:
    name, arguments = line
    quick = None if HELP & set(arguments) else read_plainly(name, arguments)
    if quick is not None:
        assert quick == read_by_typer(name, arguments, patcher)


@pytest.mark.parametrize(
    "arguments",
    [
        ["demo", "hello", "world"],
        ["demo", "-s", "fix-42", "-c", "hi"],
        ["--agent", "gemini --acp", "-o", "json", "hi"],
        [
            "demo",
            "--file",
            "-",
            "--no-replay",
            "--approve",
            "reads",
            "--timeout",
            "2.5",
            "--cwd",
            "/tmp",
            "--new",
            "-v",
        ],
        ["demo", "--timeout", "2m", "hi"],
        ["demo", "--timeout=2m", "--output=quiet", "--set=model=opus", "hi"],
        ["--agent", "x", "--timeout", "2m", "--timeout", "initialize=5m", "--timeout", "90", "hi"],
        ["demo", "--", "--not-an-option"],
        [],
    ],
)
def test_what_people_type_is_read_the_quick_way(arguments: list[str], patcher: pytest.MonkeyPatch) -> None:
    quick = read_plainly("run", arguments)
    assert quick is not None
    assert quick == read_by_typer("run", arguments, patcher)


@pytest.mark.parametrize(
    "arguments",
    [
        *(["-h"], ["--help"], ["-o", "xml"], ["--timeout", "soon"], ["--timeout", "nope=3"]),
        *(["--session"], ["--outp", "json"], ["-ojson"]),
    ],
)
def test_what_is_not_plain_is_left_to_typer(arguments: list[str]) -> None:
    assert plain(Run, arguments) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [("5s", 5), ("2m", 120), ("1.5", 1.5), ("90", 90), ("250ms", 0.25), ("1h", 3600), ("0.05", 0.05)],
)
def test_a_time_out_is_a_duration_or_a_number_of_seconds(text: str, expected: float) -> None:
    assert read_duration(text) == expected


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1e3", "2 m", "5d", "soon", "", "1,5", "\u0665", "5\n"])
def test_what_is_no_time_is_said_with_the_way_out(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_duration(text)
    assert (refused.value.message, refused.value.fix, refused.value.exit_code) == (
        f'--timeout: expected a duration, found "{text}"',
        "write a positive number and its unit, seconds without one: 90, 500ms, 2m, 1h",
        2,
    )


def test_the_last_of_two_limits_counts_and_the_whole_run_is_one_of_them() -> None:
    limits = ["--timeout", "2m", "--timeout", "silence=5s", "--timeout", "3", "--timeout", "silence=7"]
    wish = Run(**read_plainly("run", ["x", *limits]) or {})
    assert wish.timeout == 3
    assert wish.spec.limits == {"silence": Duration(7)}


def test_the_waits_that_can_be_named_are_those_of_a_profile() -> None:
    assert Timeouts.__struct_fields__ == AGENT_WAITS


@pytest.mark.parametrize(("text", "wait"), [("nope=3", "nope"), ("=3", ""), ("timeouts.silence=3", "timeouts.silence")])
def test_a_wait_that_there_is_not_is_said_with_those_there_are(text: str, wait: str) -> None:
    assert plain(Run, ["demo", "hi", "--timeout", text]) is None
    with pytest.raises(UsageError) as refused:
        app(args=["run", "demo", "hi", "--timeout", text], prog_name="acp-launch")
    assert (refused.value.message, refused.value.fix) == (
        f'--timeout: unknown wait "{wait}"',
        "give a DURATION for the whole run, or initialize=DURATION, session=DURATION, silence=DURATION",
    )


@pytest.mark.parametrize(
    ("arguments", "what", "fix"),
    [
        (["run", "demo", "--mode", "plan", "hi"], "run has no --mode", "--set mode=plan"),
        (["run", "demo", "hi", "--mode=my mode"], "run has no --mode", "--set mode='my mode'"),
        (["run", "demo", "--mode"], "run has no --mode", "--set mode=NAME"),
        (["run", "demo", "--yolo"], "run has no --yolo", "--approve all"),
        (["add-server", "p"], 'there is no verb "add-server"', "acp-launch profile add-server"),
        (["kill", "x"], 'there is no verb "kill"', "acp-launch session cancel NAME"),
        (["rm", "x"], 'there is no verb "rm"', "acp-launch session rm NAME, secret rm NAME"),
        (["run", "demo", "--output-format", "json"], "run has no --output-format", "--output json"),
        (["chat", "demo"], 'there is no verb "chat"', "acp-launch run PROFILE"),
        (["mcp", "add", "x"], 'mcp has no verb "add"', "acp-launch profile add-server"),
        (["mcp", "remove", "x"], 'mcp has no verb "remove"', "acp-launch profile remove PROFILE mcp_servers.NAME"),
        (["session", "delete", "x y"], 'session has no verb "delete"', "acp-launch session rm 'x y'"),
        (["session", "stop", "x"], 'session has no verb "stop"', "acp-launch session cancel x"),
        (["secret", "add", "x"], 'secret has no verb "add"', "acp-launch secret set x"),
        (["config", "ls"], 'config has no verb "ls"', "acp-launch config show"),
        (["demo", "add 2 3"], '"demo" is a profile, and the verb comes first', "acp-launch run demo 'add 2 3'"),
    ],
)
def test_what_users_of_other_tools_type_leads_to_what_they_mean(arguments: list[str], what: str, fix: str) -> None:
    with pytest.raises(UsageError) as refused:
        _run(arguments)
    assert refused.value.message == what
    assert refused.value.fix.startswith(fix)


@pytest.mark.parametrize("written", [["--model", "my model"], ["-m", "my model"]])
def test_a_model_is_a_setting(written: list[str]) -> None:
    values = plain(Run, ["demo", "--set", "mode=plan", *written, "hi"])
    assert values is not None
    assert Run(**values).spec.options == ("mode=plan", "model=my model")


def test_what_leads_elsewhere_is_not_a_verb_or_an_option() -> None:
    assert not VERBS_MEANT.keys() & {*VERBS, *SYNONYMS}
    groups = {name: load(name).verbs for name in VERBS if isinstance(load(name), Group)}
    assert not {meant for meant in VERBS_MEANT if meant.partition(" ")[2] in groups.get(meant.partition(" ")[0], ())}
    known = {name for each in parameters(Run) if isinstance(each.note, Option) for name in each.note.names.split()}
    assert not {option for verb, option in MEANT if verb == "run"} & known


def test_what_users_of_other_tools_type_for_a_verb_is_that_verb() -> None:
    """None of them is a verb of its own, and each leads to one."""
    assert not SYNONYMS.keys() & VERBS.keys()
    assert set(SYNONYMS.values()) <= VERBS.keys()
