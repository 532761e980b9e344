"""`permission test`, `list`, `forget` and `log`, as a person uses them."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from acp_launch.session.permission.audit import AnswerStore, Audit, keep
from acp_launch.session.permission.policy import remember
from acp_launch.session.permission.subject import subject
from tests.cli.launcher import DEMO, Launcher

RM = {"kind": "execute", "title": "Run rm", "rawInput": {"command": "rm -rf x"}}
RULES = [
    {"allow": {"kind": "read"}},
    {"allow": {"command": "git *"}},
    {"deny": {"kind": "execute", "command": "rm *"}},
    {"ask": {"path": "src/**"}},
]


@pytest.fixture
def ruled(launch: Launcher) -> Launcher:
    launch.profile("polite", permissions={"default": "ask", "rules": RULES})
    return launch


def shelf(launch: Launcher, profile: str = "p") -> AnswerStore:
    return AnswerStore(launch.state, str(launch.project), profile)


def kept(launch: Launcher, call: dict[str, Any], *, allowed: bool = True) -> None:
    answer = remember(call, allowed, subject(call, cwd=str(launch.project)), since=0.0)
    assert answer is not None
    keep(shelf(launch), answer)


def test_a_call_is_judged_as_a_run_would_and_the_rule_is_named_with_its_line(ruled: Launcher) -> None:
    done = ruled("permission", "test", "p", json.dumps(RM))
    assert (done.code, done.err) == (0, "")
    assert done.out.decode() == "deny: permissions.rules[2] (.acp-launch/p.yaml:24:4)\n"


def test_the_rules_that_do_not_match_say_why(ruled: Launcher) -> None:
    done = ruled("permission", "test", "p", json.dumps(RM), "--verbose", "--approve", "all")
    assert done.out.decode().splitlines() == [
        "deny: permissions.rules[2] (.acp-launch/p.yaml:24:4)",
        "  allow  permissions.rules[0] (.acp-launch/p.yaml:14:4)  no match: its kind is execute",
        "  allow  permissions.rules[1] (.acp-launch/p.yaml:19:4)  no match: no glob matches its command",
        "  deny   permissions.rules[2] (.acp-launch/p.yaml:24:4)  matches",
    ]


def test_a_verdict_as_json_holds_the_same(ruled: Launcher) -> None:
    call = {"toolCall": {"locations": [{"path": "src/a"}]}, "options": []}
    done = ruled("permission", "test", "p", "-", "--json", stdin=json.dumps(call).encode())
    verdict = json.loads(done.out)
    assert (verdict["answer"], verdict["by"], verdict["origin"]) == (
        "ask",
        "permissions.rules[3] (.acp-launch/p.yaml:30:4)",
        ".acp-launch/p.yaml:30:4",
    )
    assert [(rule["rule"], rule["matches"], rule["why"]) for rule in verdict["rules"]] == [
        ("permissions.rules[0]", False, "its kind is not said"),
        ("permissions.rules[1]", False, "it names no command"),
        ("permissions.rules[2]", False, "its kind is not said"),
        ("permissions.rules[3]", True, ""),
    ]


def test_where_no_rule_matches_the_default_decides_and_the_flag_before_it(ruled: Launcher) -> None:
    assert ruled("permission", "test", "p", "{}").out == b"ask: permissions.default: ask\n"
    assert ruled("permission", "test", "p", "{}", "--approve", "none").out == b"deny: --approve none\n"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("rm", "the tool call is not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("[]", "the tool call is not a JSON object"),
    ],
)
def test_what_is_no_tool_call_is_refused(ruled: Launcher, call: str, message: str) -> None:
    done = ruled("permission", "test", "p", call)
    assert (done.code, done.out) == (2, b"")
    assert done.err.splitlines()[0] == f"acp-launch: {message}"


def test_a_profile_this_machine_cannot_run_is_refused_with_its_problems(launch: Launcher) -> None:
    launch.write({"agent": {"command": "no-such-agent"}})
    done = launch("permission", "test", "p", "{}")
    assert (done.code, done.out) == (3, b"")
    assert '"no-such-agent" is not on PATH' in done.err


def test_an_answer_that_was_kept_is_listed_decides_and_is_forgotten(ruled: Launcher) -> None:
    call = {**RM, "rawInput": {"command": "npm test"}}
    kept(ruled, call)
    kept(ruled, {"name": "mcp_x", "kind": "other", "title": "x\x1b[2J", "rawInput": {"sql": "drop"}}, allowed=False)
    digest = sha256(b'{"sql":"drop"}').hexdigest()
    only = f"(this input only, sha256 {digest[:12]})"
    listed = ruled("permission", "list", "p")
    assert (listed.code, listed.err) == (0, "")
    assert [line.split()[:-1] for line in listed.out.decode().splitlines()] == [
        ["N", "ANSWER", "WHAT"],
        ["1", "always", "allow", "execute", "npm", "test", "Run", "rm"],
        ["2", "always", "deny", "mcp_x", *only.split()],
    ]
    data = json.loads(ruled("permission", "list", "p", "--json").out)["remembered"]
    assert [(each["number"], each["answer"], each["commands"]) for each in data] == [
        (1, "allow", ["npm test"]),
        (2, "deny", []),
    ]
    judged = ruled("permission", "test", "p", json.dumps(call))
    assert judged.out == b"allow: your earlier answer: always allow\n"
    gone = ruled("permission", "forget", "p", "1")
    assert (gone.code, gone.out, gone.err) == (0, b"", "forgotten: always allow execute npm test Run rm\n")
    assert ruled("permission", "test", "p", json.dumps(call)).out == b"ask: permissions.default: ask\n"
    assert ruled("permission", "forget", "p", "--all").err == f"forgotten: always deny mcp_x {only}\n"
    assert ruled("permission", "list", "p").err == 'no answers are remembered for "p" here\n'


@pytest.mark.parametrize("arguments", [[], ["1", "--all"]])
def test_forgetting_requires_numbers_or_all(ruled: Launcher, arguments: list[str]) -> None:
    done = ruled("permission", "forget", "p", *arguments)
    assert (done.code, done.err) == (
        2,
        "acp-launch: no answers are given\n    fix: give the numbers that permission list shows, or --all\n",
    )


def test_answers_that_are_damaged_are_refused_and_not_taken_for_none(ruled: Launcher) -> None:
    kept(ruled, RM)
    shelf(ruled).file.write_text("{")
    for verb in (["list", "p"], ["forget", "p", "--all"], ["test", "p", "{}"]):
        done = ruled("permission", *verb)
        assert done.code == 3
        assert done.err.startswith(f"acp-launch: the remembered answers in {shelf(ruled).file} are damaged")


def logged(launch: Launcher, *titles: str, profile: str = "p") -> Path:
    log = Audit(shelf(launch).state, profile, project="/p", note=pytest.fail, clock=lambda: 1_795_000_000.0)
    for title in titles:
        log.record(
            "asked", {**RM, "title": title}, [], allowed=False, by="permissions.rules[2]", option_id="n", session="s"
        )
    log.record("unasked", {"title": "Read"}, [], allowed=True, by="default: ask", option_id=None, session="s")
    log.close()
    return log.file


def test_the_log_says_what_was_asked_and_answered_and_nothing_in_it_drives_a_terminal(ruled: Launcher) -> None:
    logged(ruled, "Run\x1b[2J it", "Run " + "x" * 200)
    done = ruled("permission", "log", "p")
    assert (done.code, done.err) == (0, "")
    lines = [line.split("  ") for line in done.out.decode().splitlines()]
    assert [[cell.strip() for cell in line if cell] for line in lines] == [
        ["2026-11-18T11:06:40.000Z", "deny", "execute", "Run\N{REPLACEMENT CHARACTER}[2J it", "permissions.rules[2]"],
        ["2026-11-18T11:06:40.000Z", "deny", "execute", "Run " + "x" * 95 + "…", "permissions.rules[2]"],
        ["2026-11-18T11:06:40.000Z", "ran, not asked", "-", "Read", "default: ask"],
    ]


def test_the_log_of_every_profile_names_them_and_json_holds_all(ruled: Launcher) -> None:
    logged(ruled, "A", profile="gone")
    logged(ruled, "B")
    assert [line.split()[1] for line in ruled("permission", "log").out.decode().splitlines()].count("gone") == 2
    entries = [json.loads(line) for line in ruled("permission", "log", "gone", "--json", "-n", "1").out.splitlines()]
    assert [(entry["profile"], entry["title"], entry["how"]) for entry in entries] == [("gone", "Read", "unasked")]


def test_without_a_log_the_answer_is_where_it_would_be(ruled: Launcher) -> None:
    state = ruled.env["ACP_LAUNCH_STATE_DIR"]
    assert ruled("permission", "log", "p").err == f'no permission log of "p" yet; it is kept in {state}/log\n'
    assert ruled("permission", "log").err == f"no permission log yet; it is kept in {state}/log\n"


def test_what_a_teams_base_denies_stays_denied_in_a_profile_with_rules_of_its_own(launch: Launcher) -> None:
    """The example of the README."""
    call = json.dumps({"kind": "execute", "rawInput": {"command": "git push origin main"}})
    base = {"agent": DEMO, "permissions": {"rules": [{"deny": {"command": "git push *"}}]}}
    launch.write(base, name="_base")
    own: dict[str, Any] = {"default": "deny", "rules": [{"allow": {"kind": "execute", "command": "git *"}}]}
    for more, answer in (({}, "deny"), ({"inherit": False}, "allow")):
        launch.write({"extends": "_base", "permissions": own | more}, name="ci")
        judged = launch("permission", "test", "ci", call, "--approve", "all").out.decode()
        assert judged.startswith(f"{answer}: ")
        assert ("drops the permission rules" in " ".join(launch("trust", "ci", "--yes").err.split())) == bool(more)
        assert ("permissions.inherit: warning: " in launch("validate", "ci").err) == bool(more)
    assert "_base.yaml" not in launch("plan", "ci").out.decode().partition("permissions")[2].partition("timeouts")[0]
