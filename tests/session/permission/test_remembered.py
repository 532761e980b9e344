"""The answers that are kept: whole, private, and there after any death (ours)."""

import json
import random
import shlex
import stat
from pathlib import Path

import pytest
from msgspec.structs import replace

from acp_launch.errors import LaunchError
from acp_launch.secret.redact import Redactor, redactor
from acp_launch.secret.value import Secret
from acp_launch.session.permission import audit
from acp_launch.session.permission.audit import AnswerStore, forget, keep, load
from acp_launch.session.permission.policy import Remembered
from tests.patience import PATIENCE
from tests.session.answer_writer import answer
from tests.session.programs import line, programs, tell

SEED = 20261121
FIX = answer("w", 1)


@pytest.fixture
def shelf(tmp_path: Path) -> AnswerStore:
    return AnswerStore(tmp_path / "state", "/p", "work")


def refusal(shelf: AnswerStore) -> tuple[str, str]:
    with pytest.raises(LaunchError) as caught:
        load(shelf)
    with pytest.raises(LaunchError) as kept:
        keep(shelf, FIX)
    assert (kept.value.message, kept.value.fix) == (caught.value.message, caught.value.fix)
    return caught.value.message, caught.value.fix


def test_what_was_kept_is_loaded_in_its_order(shelf: AnswerStore) -> None:
    full = Remembered(
        answer="deny",
        kind="edit",
        tool="Edit",
        title="ü",
        paths=("/a", "/b"),
        commands=(),
        directories=("/d",),
        addresses=("u",),
        since=3.5,
        input="e3b0",
    )
    assert load(shelf) == ()
    assert not shelf.state.exists(), "looking leaves nothing behind"
    keep(shelf, FIX)
    keep(shelf, full)
    assert load(shelf) == (FIX, full)


def test_a_later_answer_to_the_same_call_takes_the_place_of_the_earlier(shelf: AnswerStore) -> None:
    keep(shelf, FIX)
    keep(shelf, answer("w", 2))
    later = replace(FIX, answer="deny", since=9.0)
    keep(shelf, later)
    assert load(shelf) == (answer("w", 2), later)


def test_every_profile_in_every_project_has_its_own(tmp_path: Path) -> None:
    shelves = [
        AnswerStore(tmp_path, project, profile) for project in ("/p", "/q") for profile in ("a", "a/b", "x" * 500)
    ]
    for number, shelf in enumerate(shelves):
        keep(shelf, answer("w", number))
    assert [load(shelf) for shelf in shelves] == [(answer("w", number),) for number in range(6)]


def test_they_are_forgotten_by_number_or_all(shelf: AnswerStore) -> None:
    answers = [answer("w", number) for number in range(4)]
    for each in answers:
        keep(shelf, each)
    assert forget(shelf, {1, 3}) == (answers[0], answers[2])
    assert load(shelf) == (answers[1], answers[3])
    assert forget(shelf) == (answers[1], answers[3])
    assert load(shelf) == ()


@pytest.mark.parametrize("number", [0, 2, -1])
def test_an_unknown_number_forgets_nothing(shelf: AnswerStore, number: int) -> None:
    keep(shelf, FIX)
    with pytest.raises(LaunchError) as caught:
        forget(shelf, {1, number})
    assert caught.value.message == f'"work" has no remembered answer {number}; there are 1'
    assert caught.value.fix == "acp-launch permission list work"
    assert load(shelf) == (FIX,)


def test_they_are_for_the_user_alone(shelf: AnswerStore) -> None:
    keep(shelf, FIX)
    assert stat.S_IMODE(shelf.file.parent.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in shelf.file.parent.iterdir()} == {0o600}


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("", "are damaged: Input data was truncated"),
        ("{", "are damaged: Input data was truncated"),
        ("[]", "are damaged: Expected `object`, got `array`"),
        ("\N{LATIN SMALL LETTER U WITH DIAERESIS}", "are damaged: JSON is malformed: invalid character (byte 0)"),
        (
            '{"version":1,"project":"/p","profile":"work","answers":[{"answer":"maybe"}]}',
            "are damaged: Invalid enum value 'maybe' - at `$.answers[0].answer`",
        ),
    ],
)
def test_a_damaged_file_is_refused_and_left_as_it_is(shelf: AnswerStore, content: str, what: str) -> None:
    keep(shelf, FIX)
    shelf.file.write_text(content)
    file = shelf.file
    assert refusal(shelf) == (f"the remembered answers in {file} {what}", f"mv {file} {file}.damaged, and answer again")
    assert shelf.file.read_text() == content


@pytest.mark.parametrize(
    ("member", "value", "what"),
    [
        ("version", 4, "is of version 4, and this acp-launch knows 3"),
        ("version", 0, "is of version 0, and this acp-launch knows 3"),
        ("project", "/q", "belongs to another profile"),
        ("profile", "other", "belongs to another profile"),
    ],
)
def test_a_file_that_is_not_this_profiles_is_refused(shelf: AnswerStore, member: str, value: object, what: str) -> None:
    keep(shelf, FIX)
    shelf.file.write_text(json.dumps({**json.loads(shelf.file.read_text()), member: value}))
    assert refusal(shelf)[0] == f"cannot use the remembered answers: {shelf.file} {what}"


def test_what_is_no_file_is_refused(shelf: AnswerStore) -> None:
    shelf.file.mkdir(parents=True)
    assert refusal(shelf)[0] == f"cannot read or write the remembered answers in {shelf.file}: is a directory"


def test_a_directory_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    shelf = AnswerStore(tmp_path / "state", "/p", "work")
    with pytest.raises(LaunchError) as caught:
        keep(shelf, FIX)
    assert caught.value.message == f"cannot read or write the remembered answers in {shelf.file}: file exists"
    parent = shlex.quote(str(shelf.file.parent))
    assert caught.value.fix == f"check the owner, the mode and the free space of {parent}"


def test_an_answer_that_holds_a_secret_is_not_kept(shelf: AnswerStore, monkeypatch: pytest.MonkeyPatch) -> None:
    knowing = Redactor()
    knowing.register(Secret("hunter2hunter2"))
    monkeypatch.setattr(audit, "redactor", knowing)
    with pytest.raises(LaunchError) as caught:
        keep(shelf, replace(FIX, commands=("curl -H hunter2hunter2",)))
    assert str(caught.value) == "cannot remember the answer: its call holds a secret"
    assert load(shelf) == () and redactor.is_empty


@pytest.mark.parametrize(
    ("title", "what"), [("\ud83d", "is not valid Unicode"), ("x" * 70_000, "takes 70,431 bytes")], ids=["half", "long"]
)
def test_an_answer_that_no_file_should_hold_is_not_kept(shelf: AnswerStore, title: str, what: str) -> None:
    with pytest.raises(LaunchError) as caught:
        keep(shelf, replace(FIX, title=title))
    assert str(caught.value) == f"cannot remember the answer: its call {what}"
    assert load(shelf) == ()


def test_there_is_an_end_to_what_is_kept(shelf: AnswerStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MAX_ANSWERS", 2)
    for number in range(2):
        keep(shelf, answer("w", number))
    keep(shelf, replace(answer("w", 1), answer="deny"))
    with pytest.raises(LaunchError) as caught:
        keep(shelf, answer("w", 2))
    assert caught.value.message == '"work" has 2 remembered answers, the maximum'
    assert caught.value.fix == "acp-launch permission forget work N"
    assert len(load(shelf)) == 2


def test_what_a_killed_writer_left_is_tidied_by_the_next(shelf: AnswerStore) -> None:
    keep(shelf, FIX)
    left = shelf.file.with_name(f".{shelf.file.name}.4711-abc")
    left.write_text("half")
    keep(shelf, answer("w", 2))
    assert not left.exists()
    assert load(shelf) == (FIX, answer("w", 2))


@pytest.mark.whole
def test_ten_writers_at_once_lose_nothing_and_what_was_kept_survives_their_deaths(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    victims = chance.sample(range(10), 4)
    rounds = [str(1_000_000 if who in victims else 1) for who in range(10)]
    with programs("answer_writer", *((str(tmp_path), str(who), rounds[who]) for who in range(10))) as writers:
        for writer in writers:
            tell(writer, "go")
        said = set()
        for victim in victims:
            for _ in range(chance.randrange(1, 30)):
                said.add(answer(str(victim), int(line(writers[victim]))))
            writers[victim].kill()
        for who, writer in enumerate(writers):
            output = writer.communicate(timeout=PATIENCE)[0]
            said |= {answer(str(who), int(number)) for number in output.split()}
        assert [writer.returncode for writer in writers] == [-9 if who in victims else 0 for who in range(10)]
    kept = load(AnswerStore(tmp_path, "/p", "work"))
    assert said <= set(kept)
    assert len(kept) == len(set(kept))
    assert {answer(str(who), number) for who in range(10) if who not in victims for number in range(20)} <= set(kept)
