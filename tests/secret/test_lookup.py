"""All secrets in one pass: the environment first, then the store, in time (docs/secrets.md)."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from acp_launch.plan.model import Need, Origin, unmet
from acp_launch.secret import lookup
from acp_launch.secret.lookup import look_up, secrets, within
from acp_launch.secret.redact import Redactor
from acp_launch.secret.value import Outcome, Secret, State, Store, StoreFault
from tests.secret.shelf import Shelf


@pytest.fixture(autouse=True)
def redactor(monkeypatch: pytest.MonkeyPatch) -> Redactor:
    """A redactor that forgets with the test."""
    fresh = Redactor()
    monkeypatch.setattr(lookup, "redactor", fresh)
    return fresh


def no_wait_expected(what: str, waited: float, limit: float) -> None:
    raise AssertionError(f"waited for {what}")


def asked(
    names: Sequence[str], shelf: Shelf, environ: Mapping[str, str] | None = None, *, limit: float = 5
) -> dict[str, Outcome]:
    return look_up(names, environ=environ or {}, store=lambda: shelf, limit=limit, waiting=no_wait_expected)


def never() -> Store:
    raise AssertionError("the store was opened")


def raising(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def test_every_name_gets_one_outcome_in_the_order_they_were_asked() -> None:
    shelf = Shelf({"b": "in-store"})
    outcomes = asked(["c", "b", "a", "b"], shelf, {"ACP_LAUNCH_SECRET_A": "in-env"})
    assert list(outcomes.items()) == [
        ("c", Outcome("missing", "shelf")),
        ("b", Outcome("found", "shelf", Secret("in-store"))),
        ("a", Outcome("found", "ACP_LAUNCH_SECRET_A", Secret("in-env"))),
    ]
    assert (shelf.asked, shelf.prepared) == (["c", "b"], 1)
    assert secrets(outcomes) == {"b": Secret("in-store"), "a": Secret("in-env")}


def test_a_variable_that_is_set_but_empty_is_told_where_the_value_is_missing() -> None:
    outcomes = asked(["a", "b"], Shelf({"b": "in-store"}), {"ACP_LAUNCH_SECRET_A": "", "ACP_LAUNCH_SECRET_B": ""})
    assert outcomes["a"] == Outcome("missing", "shelf", reason="ACP_LAUNCH_SECRET_A is set, but empty")
    assert outcomes["b"] == Outcome("found", "shelf", Secret("in-store"))
    (problem,) = unmet([Need("a", Origin("f.yaml", 1, 1, "agent.env.A"))], outcomes, has_terminal=True)
    assert problem.message == 'secret "a" is not set in the shelf; ACP_LAUNCH_SECRET_A is set, but empty'


def test_the_environment_comes_before_the_store() -> None:
    shelf = Shelf({"a": "in-store"})
    assert asked(["a"], shelf, {"ACP_LAUNCH_SECRET_A": "in-env"})["a"].source == "ACP_LAUNCH_SECRET_A"
    assert shelf.asked == []


@pytest.mark.parametrize("names", [[], ["a"]])
def test_a_store_that_is_not_needed_is_not_opened(names: list[str]) -> None:
    outcomes = look_up(names, environ={"ACP_LAUNCH_SECRET_A": "x"}, store=never, limit=5, waiting=no_wait_expected)
    assert list(outcomes) == names


@pytest.mark.parametrize("state", ["locked", "unavailable", "denied"])
def test_a_fault_of_the_store_is_the_outcome_of_all_it_was_asked_for(state: State) -> None:
    shelf = Shelf(before=raising(StoreFault(state, "it is broken", fix="mend it")))
    outcomes = asked(["a", "b", "c"], shelf, {"ACP_LAUNCH_SECRET_B": "x"})
    broken = Outcome(state, "shelf", None, "it is broken", "mend it")
    assert outcomes == {"a": broken, "b": Outcome("found", "ACP_LAUNCH_SECRET_B", Secret("x")), "c": broken}


def test_a_store_that_hangs_is_given_up_and_says_how_to_wait_longer() -> None:
    stuck = threading.Event()
    try:
        outcomes = asked(["a"], Shelf(before=stuck.wait, label="keyring (x)"), limit=0.05)
    finally:
        stuck.set()
    assert outcomes["a"] == Outcome(
        "unavailable",
        "keyring (x)",
        None,
        "the keyring (x) did not answer within 0.05 s; it may be showing a dialog",
        "answer it and try again, or wait longer: export ACP_LAUNCH_SECRETS__TIMEOUT=0.1s",
    )


def test_a_store_for_whose_thread_there_is_no_room_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    reason = "cannot ask the shelf: no more threads are allowed"
    assert asked(["a"], Shelf())["a"] == Outcome(
        "unavailable", "shelf", None, reason, "raise the limit with `ulimit -u`"
    )


def test_a_wait_is_named_with_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_launch.waits.FIRST_NOTICE", 0.01)
    stuck, words = threading.Event(), list[tuple[str, float, float]]()
    shelf = Shelf(before=stuck.wait)

    def heard(*word: object) -> None:
        words.append(word)  # type: ignore[arg-type]
        stuck.set()

    within(shelf, lambda: shelf.read(["a"]), limit=5, waiting=heard)
    assert words == [("answer of the shelf", 0.01, 5)]


def test_a_store_without_a_dialog_is_not_said_to_show_one() -> None:
    stuck = threading.Event()
    try:
        outcomes = asked(["a"], Shelf(before=stuck.wait, label="sealed file (x)"), limit=0.05)
    finally:
        stuck.set()
    assert outcomes["a"].reason == "the sealed file (x) did not answer within 0.05 s"


def test_no_user_is_told_to_wait_longer_than_can_be_chosen() -> None:
    assert lookup._late("keyring", 301).fix == "answer it and try again"


def test_what_no_variable_can_hold_is_not_found() -> None:
    outcome = asked(["a"], Shelf({"a": "one\0two"}))["a"]
    assert (outcome.state, outcome.secret) == ("unavailable", None)
    assert outcome.reason == "the value from the shelf holds a NUL character; an environment variable cannot"


@pytest.mark.parametrize("error", [ZeroDivisionError("a bug"), MemoryError()])
def test_a_bug_of_a_store_is_not_hidden(error: Exception) -> None:
    with pytest.raises(type(error)):
        asked(["a"], Shelf(before=raising(error)))


def test_what_was_found_is_registered_with_the_redactor(redactor: Redactor) -> None:
    asked(["a", "b"], Shelf({"a": "from-the-store"}), {"ACP_LAUNCH_SECRET_B": "from-the-environment"})
    assert redactor.text("from-the-store and from-the-environment") == "*** and ***"


def test_the_store_works_in_a_thread_and_prepares_in_this_one() -> None:
    threads = list[threading.Thread]()
    asked(["a"], Shelf(before=lambda: threads.append(threading.current_thread())))
    assert [thread.daemon for thread in threads] == [True]
    assert threads[0] is not threading.current_thread()


def names(count: int) -> Iterator[str]:
    return (f"n{number}" for number in range(count))


def test_a_hundred_names_are_one_question() -> None:
    shelf = Shelf({name: f"value-of-{name}" for name in names(100)})
    assert secrets(asked(list(names(100)), shelf)).keys() == set(names(100))
    assert shelf.prepared == 1
    assert shelf.asked == list(names(100))
