"""The screen of `doctor`: one line a check, safe to paste, safe on a terminal."""

import json
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from acp_launch.checks.check import Anonymizer, Check, exit_code, ok, problem, warning
from acp_launch.console import doctor
from acp_launch.secret.redact import Redactor
from acp_launch.secret.value import Secret

ANONYMOUS = Anonymizer([], [])
TOKEN = "s3cret-value-of-ours"


@pytest.fixture(autouse=True)
def one_secret(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    source = Redactor()
    source.register(Secret(TOKEN))
    monkeypatch.setattr(doctor, "redactor", source)
    yield


def shown(*found: Check, coloured: bool = False) -> list[str]:
    return list(doctor.lines(found, ANONYMOUS, coloured=coloured))


def test_every_check_has_a_line_and_what_is_wrong_has_the_next_command() -> None:
    agent = Check(name="agent", text="Agent 1.0, ACP 1", detail=("can: load", "logins: none offered"))
    assert shown(
        agent,
        warning("server", "docs", "near its limit", "raise it"),
        problem("secret", "a", "not in the keyring", "acp-launch secret set a"),
    ) == [
        "ok       agent        Agent 1.0, ACP 1",
        "                      can: load",
        "                      logins: none offered",
        "warning  server docs  near its limit",
        "                      fix: raise it",
        "problem  secret a     not in the keyring",
        "                      fix: acp-launch secret set a",
        "1 problem, 1 warning, 1 ok",
    ]


def test_on_a_terminal_a_sentence_is_broken_at_its_words_and_a_fix_stays_one_line() -> None:
    found = Check(
        name="agent", text="one two three four five six", detail=(f"can: {'x' * 40} load",), fix="run " * 9 + "it"
    )
    broken = doctor.lines([found], ANONYMOUS, coloured=False, columns=46)
    assert [*broken][:-1] == [
        "ok       agent  one two three four five six",
        "                can:",
        f"                {'x' * 40}",
        "                load",
        f"                fix: {'run ' * 9}it",
    ]
    broken = doctor.lines(
        [replace(found, text="one two three four five six seven")], ANONYMOUS, coloured=True, columns=46
    )
    assert [*broken][:2] == ["\x1b[32mok     \x1b[0m  agent  one two three four five six", f"{' ' * 16}seven"]


def test_a_terminal_without_room_beside_the_labels_breaks_the_lines_itself() -> None:
    found = ok("agent", "", "word " * 20 + "end")
    assert len([*doctor.lines([found], ANONYMOUS, coloured=False, columns=45)]) == 2


def test_foreign_text_is_one_bounded_line_that_moves_no_cursor() -> None:
    name = "agent\x1b[2J\r\nproblem  fake  line\u202egpj\ud800"
    (line, detail, _) = shown(Check(name="agent", text=name, detail=("x" * 5000 + "\n",)))
    assert line == r"ok       agent  agent\x1b[2J problem fake line\u202egpj\ud800"
    assert detail == " " * 16 + "x" * 400 + "…"


def test_no_secret_and_no_credential_is_shown() -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    (line, detail, fix, _) = shown(
        Check(name="agent", verdict="warning", text=f"v{TOKEN}", detail=(f"key {token}",), fix=f"export X={TOKEN}")
    )
    assert (line, detail.strip(), fix.strip()) == ("warning  agent  v***", "key ***", "fix: export X=***")


def test_a_secret_is_hidden_before_anything_is_cut() -> None:
    text = "x" * (doctor.MAX_TEXT_CHARS - 5) + TOKEN
    (line, _) = shown(ok("agent", "", text))
    assert TOKEN[:5] not in line
    assert line.endswith("x***")


def test_a_long_label_costs_the_others_no_room() -> None:
    assert [line.index("text") for line in shown(ok("a", "x" * 60, "text"), ok("b", "", "text"))[:2]] == [73, 39]


def test_json_is_one_object_with_bounded_facts(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    deep: object = "leaf"
    for _ in range(50):
        deep = [deep]
    facts = {"many": list(range(1000)), "long": "y" * 9999, "deep": deep, TOKEN: TOKEN, "none": None}
    found = [Check(name="agent", text="\x1b", facts=facts), warning("server", "s", "slow", "wait")]
    doctor.show(found, "p", 8, as_json=True, is_cut_short=True)
    out, err = capsysbinary.readouterr()
    said = json.loads(out)
    checks = said.pop("checks")
    assert said == {"profile": "p", "standing": "warning", "exit_code": 8, "complete": False}
    assert list(checks[0]) == ["check", "subject", "standing", "text", "fix", "detail", "facts"]
    assert b"\x1b" not in out
    assert TOKEN.encode() not in out
    told = checks[0]["facts"]
    assert (len(told["many"]), len(told["long"]), told["***"], told["none"]) == (100, 401, "***", None)
    assert len(json.dumps(told["deep"])) < 40
    assert err == b"acp-launch: stopped; these are the results so far\n"


@pytest.mark.parametrize(
    ("codes", "first"),
    [((), 0), ((8,), 8), ((8, 6), 6), ((6, 4), 4), ((4, 3), 3), ((3, 7), 7), ((7, 2), 2), ((1,), 1)],
)
def test_the_exit_code_is_that_of_the_stage_a_run_would_meet_first(codes: tuple[int, ...], first: int) -> None:
    assert exit_code([ok("a", "", ""), *(problem("a", "", "", "", code) for code in codes)]) == first
