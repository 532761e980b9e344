"""Ring 2. Who decides about a tool call, what a person is asked, and what goes on record."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from acp_launch.plan.model import Origin, RulePlan
from acp_launch.profile.model import Match
from acp_launch.session.events import Answer, Decision, Holds, ToolQuestion, Way
from acp_launch.session.permission.gate import NO_TERMINAL, WHICH, Call, Gate
from acp_launch.session.permission.policy import Policy, Remembered

OPTIONS = [
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]
EDIT: Call = {"kind": "edit", "title": "Edit a", "locations": [{"path": "/w/a"}]}
READ: Call = {"kind": "read", "title": "Read a", "locations": [{"path": "/w/a"}]}
RUN: Call = {"kind": "execute", "title": "make", "rawInput": {"command": "make"}}


class DecisionLog:
    """Remembers what was put on record."""

    def __init__(self) -> None:
        self.entries: list[tuple[Way, str, Decision, str]] = []
        self.kept: list[tuple[str, Holds]] = []

    def keep(self, answer: Remembered | None, *, holds: Holds, session: str) -> Remembered | None:
        self.kept.append((str(answer and answer.answer), holds))
        return answer and replace(answer, session=None if holds == "always" else session)

    def record(self, how: Way, call: Call, options: list[Any], decision: Decision, session: str) -> None:
        self.entries.append((how, call["title"], decision, session))


class Person:
    """Gives the answers it was made with, and notes what it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.asked: list[tuple[str, list[str]]] = []
        self.questions: list[ToolQuestion] = []
        self._answers = list(answers)

    async def __call__(self, question: ToolQuestion) -> Answer:
        self.asked.append((question.call["title"], [option["kind"] for option in question.options]))
        self.questions.append(question)
        return self._answers.pop(0)


def rule(answer: Any, **match: Any) -> RulePlan:
    return RulePlan(answer, Match(**match), Origin("p.yaml", 3, 5, "permissions.rules[0]"))


def done(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 5))


def test_the_policy_answers_at_once_and_says_by_which_rule() -> None:
    log = DecisionLog()
    gate = Gate(Policy("ask", rules=(rule("deny", kind=("edit",)),)), Person(), log)
    gate.enter("work")
    by = "permissions.rules[0] (p.yaml:3:5)"
    assert gate.decide_by_policy(EDIT, OPTIONS) == Decision(False, "no", by)
    assert log.entries == [("asked", "Edit a", Decision(False, "no", by), "work")]


def test_where_no_user_can_be_asked_the_answer_is_no_and_says_why() -> None:
    decision = Gate(Policy("ask")).decide_by_policy(EDIT, OPTIONS)
    assert decision == Decision(False, "no", f"permissions.default: ask, {NO_TERMINAL}", is_unasked=True)


def test_a_person_is_asked_and_an_answer_for_good_is_not_asked_for_again() -> None:
    log, person = DecisionLog(), Person(Answer("always", "always"))
    gate = Gate(Policy("ask", cwd="/w"), person, log)
    assert gate.decide_by_policy(EDIT, OPTIONS) is None
    assert done(gate.ask_user(EDIT, OPTIONS)) == Decision(True, "always", "you, for good")
    assert log.kept == [("allow", "always")]
    assert gate.decide_by_policy(EDIT, OPTIONS) == Decision(True, "yes", "your earlier answer: always allow")


def choices(*kinds: str) -> list[dict[str, str]]:
    return [{"optionId": str(place), "name": f"Option {place}", "kind": kind} for place, kind in enumerate(kinds)]


@pytest.mark.parametrize(
    "kinds",
    [
        ("allow_once", "allow_once"),
        ("allow_always", "allow_always"),
        ("allow_once", "allow_always", "allow_always"),
        ("allow_once", "allow_once", "of_their_own"),
    ],
    ids=",".join,
)
@pytest.mark.parametrize(
    ("policy", "by"),
    [
        (Policy("allow"), "permissions.default: allow"),
        (Policy("ask", "all"), "--approve all"),
        (Policy("ask", rules=(rule("allow", kind=("edit",)),)), "permissions.rules[0] (p.yaml:3:5)"),
    ],
    ids=["default", "approve", "rule"],
)
def test_no_policy_chooses_among_answers_of_which_none_rejects(policy: Policy, by: str, kinds: tuple[str, ...]) -> None:
    assert Gate(policy, Person()).decide_by_policy(EDIT, choices(*kinds)) is None
    denied = Decision(False, None, f"{by}, {WHICH}, {NO_TERMINAL}", is_unasked=True)
    assert Gate(policy).decide_by_policy(EDIT, choices(*kinds)) == denied


@pytest.mark.parametrize(
    ("kinds", "id"),
    [
        (("allow_once",), "0"),
        (("allow_once", "allow_always"), "0"),
        (("allow_always",), "0"),
        (("allow_once", "allow_once", "reject_once"), "0"),  # qwen
        (("allow_always", "allow_once", "allow_always", "reject_always"), "1"),  # codex
    ],
    ids=lambda given: ",".join(given),
)
def test_an_allowance_chooses_where_the_question_is_whether(kinds: tuple[str, ...], id: str) -> None:
    decision = Decision(True, id, "permissions.default: allow")
    assert Gate(Policy("allow")).decide_by_policy(EDIT, choices(*kinds)) == decision


def test_one_option_that_is_offered_twice_is_no_choice() -> None:
    twice = [{"optionId": "x", "name": "Yes", "kind": "allow_once"}] * 2
    assert Gate(Policy("allow")).decide_by_policy(EDIT, twice) == Decision(True, "x", "permissions.default: allow")


def test_a_choice_is_never_kept_and_an_answer_that_was_kept_does_not_choose() -> None:
    log, person = DecisionLog(), Person(Answer("always", "always"), Answer("1", "session"))
    gate = Gate(Policy("ask", cwd="/w"), person, log)
    done(gate.ask_user(EDIT, OPTIONS))
    offered = choices("allow_always", "allow_always")
    assert gate.decide_by_policy(EDIT, offered) is None
    assert done(gate.ask_user(EDIT, offered)) == Decision(True, "1", "you")
    assert not person.questions[1].is_keepable
    assert len(gate.policy.kept) == 1


def test_an_answer_for_a_session_holds_in_that_session_and_in_no_other() -> None:
    log, person = DecisionLog(), Person(Answer("always", "session"))
    gate = Gate(Policy("ask", cwd="/w"), person, log)
    gate.enter("one")
    assert done(gate.ask_user(EDIT, OPTIONS)) == Decision(True, "always", "you, in this session")
    assert gate.decide_by_policy(EDIT, OPTIONS) == Decision(True, "yes", "your earlier answer: allow in this session")
    gate.enter("two")
    assert gate.decide_by_policy(EDIT, OPTIONS) is None
    gate.enter("one")
    assert done(gate.serve(WRITE)) == "", "what is done for it needs no other word"
    gate.new_turn()
    assert done(gate.serve(WRITE)) == ""
    assert log.entries[-1][2].by == "your earlier answer: allow in this session"


def test_another_session_of_the_same_name_has_none_of_its_answers() -> None:
    gate = Gate(Policy("ask", cwd="/w"), Person(Answer("always", "session"), Answer("always", "always")), DecisionLog())
    gate.enter("one")
    done(gate.ask_user(EDIT, OPTIONS))
    done(gate.ask_user(RUN, OPTIONS))
    gate.begin()
    assert gate.decide_by_policy(EDIT, OPTIONS) is None
    assert gate.decide_by_policy(RUN, OPTIONS) == Decision(True, "yes", "your earlier answer: always allow")


def test_an_answer_for_a_session_is_of_the_one_it_was_asked_in() -> None:
    """A late answer is not one for where the user is by then."""

    async def late(question: ToolQuestion) -> Answer:
        gate.enter("two")
        return Answer("always", "session")

    gate = Gate(Policy("ask", cwd="/w"), late, DecisionLog())
    gate.enter("one")
    done(gate.ask_user(EDIT, OPTIONS))
    assert gate.decide_by_policy(EDIT, OPTIONS) is None
    gate.enter("one")
    assert gate.decide_by_policy(EDIT, OPTIONS) is not None


def test_a_question_says_whether_its_answer_can_be_kept() -> None:
    person = Person(*[Answer("no")] * 4)
    gate = Gate(Policy("ask", cwd="/w"), person, DecisionLog())
    for call in (EDIT, RUN, {"kind": "switch_mode", "title": "Go", "rawInput": {"plan": "1."}}, {"title": "Something"}):
        done(gate.ask_user(call, OPTIONS))
    assert [question.is_keepable for question in person.questions] == [True, True, False, False]
    assert [question.scope for question in person.questions] == ['edit `/w/a` "Edit a"', "execute `make`", "", ""]
    unbooked = Person(Answer("no"))
    done(Gate(Policy("ask", cwd="/w"), unbooked).ask_user(EDIT, OPTIONS))
    assert not unbooked.questions[0].is_keepable


def test_a_person_who_chooses_nothing_that_was_offered_has_not_allowed_it() -> None:
    for answer in (Answer(None), Answer("unheard of"), Answer("no")):
        decision = done(Gate(Policy("ask"), Person(answer)).ask_user(EDIT, OPTIONS))
        assert (decision.allowed, decision.option_id) == (False, answer.option_id)


def test_what_was_allowed_in_this_turn_is_served_without_a_second_question() -> None:
    person = Person(Answer("yes"), Answer("no"))
    gate = Gate(Policy("ask", cwd="/w"), person)
    done(gate.ask_user(EDIT, OPTIONS))
    assert done(gate.serve({**EDIT, "title": "Write a"})) == ""
    assert len(person.asked) == 1
    gate.new_turn()
    assert done(gate.serve({**EDIT, "title": "Write a"})) == "denied: you"
    assert person.asked[1] == (
        "Write a",
        ["allow_once", "allow_always", "allow_always", "reject_once", "reject_always"],
    )


def test_an_allowed_file_is_not_another_file_and_no_command() -> None:
    gate = Gate(Policy("ask", cwd="/w"))
    gate.decide_by_policy(EDIT, OPTIONS)  # denied: nothing is granted
    assert done(gate.serve(EDIT)).startswith("denied: permissions.default: ask")
    granting = Gate(Policy("ask", cwd="/w"), Person(Answer("yes")))
    done(granting.ask_user(EDIT, OPTIONS))
    granting.ask = None
    other = {"kind": "edit", "title": "Edit b", "locations": [{"path": "/w/b"}]}
    assert done(granting.serve(other)).startswith("denied: ")
    assert done(granting.serve(RUN)).startswith("denied: ")


def test_reading_is_what_client_fs_grants_and_only_a_rule_refuses_it() -> None:
    assert done(Gate(Policy("ask")).serve(READ)) == ""
    refused = Gate(Policy("allow", rules=(rule("deny", path=("/w/a",)),)))
    assert done(refused.serve(READ)) == "denied: permissions.rules[0] (p.yaml:3:5)"
    asked = Gate(Policy("allow", rules=(rule("ask", path=("/w/a",)),)))
    assert done(asked.serve(READ)).startswith("denied: permissions.rules[0]")
    assert done(Gate(Policy("deny")).serve(READ)) == "denied: permissions.default: deny"


def test_a_command_is_served_as_the_policy_says() -> None:
    assert done(Gate(Policy("allow")).serve(RUN)) == ""
    assert done(Gate(Policy("deny")).serve(RUN)) == "denied: permissions.default: deny"
    assert done(Gate(Policy("ask", approve="all")).serve(RUN)) == ""


def test_what_ran_and_was_not_asked_about_goes_on_record_when_it_should_have_been() -> None:
    log = DecisionLog()
    gate = Gate(Policy("ask", rules=(rule("allow", kind=("read",)),), cwd="/w"), None, log)
    assert gate.audit_unasked(READ) == ""
    assert log.entries == []
    assert gate.audit_unasked(RUN) == "permissions.default: ask"
    assert [(how, title) for how, title, _, _ in log.entries] == [("unasked", "make")]
    assert done(gate.serve(RUN)).startswith("denied: "), "that it ran once grants nothing"


WRITE: Call = {
    "kind": "edit",
    "title": "Write a",
    "locations": [{"path": "/w/a"}],
    "content": [{"type": "diff", "path": "/w/a", "oldText": "one\ntwo\n", "newText": "one\n2\n"}],
}


def after_allowing(call: Call) -> Gate:
    """A gate at which a person has allowed one call, and cannot be asked again."""
    gate = Gate(Policy("ask", cwd="/w"), Person(Answer("yes")))
    done(gate.ask_user(call, OPTIONS))
    gate.ask = None
    return gate


def test_allowing_a_read_allows_no_write_and_no_command() -> None:
    """An agent says what kind a call is; what it may do then is of that kind."""
    assert done(after_allowing(READ).serve(WRITE)).startswith("denied: ")
    as_read = {**RUN, "kind": "read"}
    assert done(after_allowing(as_read).serve({**RUN, "rawInput": {"command": "make", "cwd": "/w"}})).startswith(
        "denied"
    )


def test_a_change_is_the_one_that_was_shown() -> None:
    shown = {**EDIT, "content": [{"type": "diff", "path": "/w/a", "oldText": "two", "newText": "2"}]}
    assert done(after_allowing(shown).serve(WRITE)) == "", "only the place that changes was shown"
    assert done(after_allowing(WRITE).serve(WRITE)) == ""
    other = {**WRITE, "content": [{**WRITE["content"][0], "newText": "something else"}]}
    assert done(after_allowing(WRITE).serve(other)).startswith("denied: ")
    assert done(after_allowing(shown).serve(other)).startswith("denied: ")
    assert done(after_allowing(EDIT).serve(other)) == "", "where no change was shown, the file is what was allowed"


def test_a_command_is_run_where_it_was_allowed() -> None:
    here = {**RUN, "rawInput": {"command": "make", "cwd": "/w"}}
    elsewhere = {**RUN, "rawInput": {"command": "make", "cwd": "/elsewhere"}}
    assert done(after_allowing(RUN).serve(here)) == ""
    assert done(after_allowing(RUN).serve(elsewhere)).startswith("denied: ")
    assert done(after_allowing(elsewhere).serve(elsewhere)) == ""


def test_an_id_that_two_options_share_means_what_was_shown_first() -> None:
    options = [
        {"optionId": "x", "name": "No", "kind": "reject_once"},
        {"optionId": "x", "name": "Always", "kind": "allow_always"},
    ]
    assert not done(Gate(Policy("ask"), Person(Answer("x"))).ask_user(EDIT, options)).allowed


def test_what_is_served_without_a_question_is_on_record_and_reading_is_not() -> None:
    log = DecisionLog()
    gate = Gate(Policy("ask", cwd="/w"), Person(Answer("yes")), log)
    done(gate.ask_user(WRITE, OPTIONS))
    done(gate.serve(WRITE))
    done(gate.serve(READ))
    assert [(how, decision.by) for how, _, decision, _ in log.entries] == [
        ("asked", "you"),
        ("service", "allowed in this turn"),
    ]
