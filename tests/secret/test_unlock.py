"""What opens the sealed file, who is asked for it and when, and what is said when it does not fit."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from acp_launch.secret.sealedfile import SealedFile, open_file
from acp_launch.secret.value import Secret
from acp_launch.settings.model import FileSettings
from tests.secret.shelf import fault

pytestmark = pytest.mark.usefixtures("cheap_keys")
GIVEN = {"ACP_LAUNCH_PASSPHRASE": "correct horse"}


class Person:
    """Answers in turn, then has gone; remembers what was asked."""

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, prompt: str) -> str | None:
        self.asked.append(prompt)
        return self._answers.pop(0) if self._answers else None


def store(
    config: Path, *, environ: Mapping[str, str] | None = None, person: Person | None = None, key_file: str | None = None
) -> SealedFile:
    return open_file(FileSettings(key_file=key_file), config, environ or {}, person or Person())


def value(there: SealedFile) -> str:
    secret = there.read(["github"])["github"].secret
    assert secret is not None
    return secret.expose()


WITHOUT = "ACP_LAUNCH_PASSPHRASE or a key file (secrets.file.key_file) replaces this question.\n"


def new(config: Path, said: str = WITHOUT) -> str:
    return f"{said}New passphrase for {config}/secrets.sealed (8 characters or more): "


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "config"


@pytest.fixture
def path(config: Path) -> Path:
    """A file with one secret, sealed with a passphrase."""
    store(config, environ=GIVEN).write("github", Secret("gho_1"))
    return config / "secrets.sealed"


@pytest.fixture
def key_file(config: Path) -> Path:
    """A file with one secret, and the key file that was made for it."""
    store(config, key_file="key").write("github", Secret("gho_1"))
    return config / "key"


def test_the_variable_comes_first_and_no_user_is_asked(path: Path, config: Path) -> None:
    person = Person("wrong")
    there = store(config, environ=GIVEN, person=person)
    there.prepare(writing=True)
    assert (value(there), person.asked) == ("gho_1", [])


@pytest.mark.parametrize("environ", [{}, {"ACP_LAUNCH_PASSPHRASE": ""}], ids=["unset", "empty"])
def test_a_person_is_asked_once_and_only_in_prepare(path: Path, config: Path, environ: dict[str, str]) -> None:
    person = Person("correct horse")
    there = store(config, environ=environ, person=person)
    there.prepare()
    assert person.asked == [f"Passphrase of {path}: "]
    there.prepare(writing=True)
    there.write("github", Secret("gho_2"))
    assert value(there) == "gho_2"
    assert len(person.asked) == 1


def test_after_three_wrong_ones_it_is_denied_and_nothing_is_kept(path: Path, config: Path) -> None:
    before = path.read_bytes()
    person = Person("one", "two", "three", "correct horse")
    there = store(config, person=person)
    assert fault(there.prepare) == ("denied", f"the passphrase does not open {path}", "try again")
    assert person.asked[1:] == [f"the passphrase does not open {path}\nPassphrase of {path}: "] * 2
    assert fault(lambda: there.write("a", Secret("1")))[0] == "locked"
    assert path.read_bytes() == before


def test_after_a_wrong_one_the_user_is_asked_again(path: Path, config: Path) -> None:
    there = store(config, person=Person("one", "correct horse"))
    there.prepare()
    assert value(there) == "gho_1"


def test_a_wrong_passphrase_in_the_variable_is_said_and_changes_nothing(path: Path, config: Path) -> None:
    before = path.read_bytes()
    there = store(config, environ={"ACP_LAUNCH_PASSPHRASE": "hunter22!"})
    works: list[Callable[[], object]] = [
        lambda: there.read(["github"]),
        lambda: there.write("github", Secret("gho_2")),
        lambda: there.remove("github"),
        there.names,
    ]
    for work in works:
        assert fault(work) == (
            "denied",
            f"ACP_LAUNCH_PASSPHRASE does not open {path}",
            "export ACP_LAUNCH_PASSPHRASE=... with the right one",
        )
    assert path.read_bytes() == before


def test_without_a_user_to_ask_it_is_locked(path: Path, config: Path) -> None:
    expected = (
        "locked",
        f"the sealed file {path} needs its passphrase",
        "export ACP_LAUNCH_PASSPHRASE=..., or run this in a terminal",
    )
    there = store(config, environ={"ACP_LAUNCH_PASSPHRASE": ""})
    assert fault(there.prepare)[1] == f"{expected[1]}; ACP_LAUNCH_PASSPHRASE is set, but empty"
    there = store(config)
    assert fault(there.prepare) == expected
    assert fault(lambda: there.read(["github"])) == expected
    assert fault(lambda: there.write("github", Secret("1"))) == expected


def test_nothing_entered_is_no_passphrase(path: Path, config: Path) -> None:
    expected = ("locked", "no passphrase was entered", "try again")
    assert fault(store(config, person=Person("")).prepare) == expected
    path.unlink()
    assert fault(lambda: store(config, person=Person("")).prepare(writing=True)) == expected
    assert not path.exists()


def test_a_new_passphrase_is_asked_twice_and_both_must_be_the_same(config: Path) -> None:
    person = Person("correct horse", "correct hose", "correct horse", "correct horse")
    there = store(config, person=person)
    there.prepare(writing=True)
    again = new(config, "the two passphrases differ\n")
    assert person.asked == [new(config), "Repeat it: ", again, "Repeat it: "]
    there.write("github", Secret("gho_1"))
    assert value(store(config, environ=GIVEN)) == "gho_1"


def test_after_three_pairs_that_differ_nothing_is_written(config: Path) -> None:
    person = Person(*("correct horse", "correct hose") * 3)
    there = store(config, person=person)
    assert fault(lambda: there.prepare(writing=True)) == ("denied", "the two passphrases differ", "try again")
    assert len(person.asked) == 6
    assert not config.exists()
    assert fault(lambda: there.write("a", Secret("1")))[0] == "locked"


def test_a_new_passphrase_has_at_least_eight_characters(config: Path) -> None:
    person = Person("sevenc.", "short", "", "correct horse")
    fix = "choose a longer one; several words are easy to remember"
    too_short = "is too short: a new sealed file needs 8 characters or more"
    typed = store(config, person=person)
    assert fault(lambda: typed.prepare(writing=True)) == ("locked", "no passphrase was entered", "try again")
    assert person.asked == [new(config), *[new(config, f"the passphrase {too_short}\n")] * 2]
    given = store(config, environ={"ACP_LAUNCH_PASSPHRASE": "éééüüü."})
    assert fault(lambda: given.write("a", Secret("1"))) == ("denied", f"ACP_LAUNCH_PASSPHRASE {too_short}", fix)
    assert not (config / "secrets.sealed").exists()
    store(config, environ={"ACP_LAUNCH_PASSPHRASE": "éééüüü.!"}).write("a", Secret("1"))
    assert (config / "secrets.sealed").exists()


def test_a_file_that_another_made_meanwhile_is_not_replaced(config: Path) -> None:
    there = store(config, person=Person("other words", "other words"))
    there.prepare(writing=True)
    store(config, environ=GIVEN).write("github", Secret("gho_1"))
    assert fault(lambda: there.write("a", Secret("1")))[0] == "denied"
    assert value(store(config, environ=GIVEN)) == "gho_1"


@pytest.mark.parametrize(
    ("first", "later"),
    [("r\u00e9sum\u00e9 horse", "re\u0301sume\u0301 horse"), ("horse \udcff\udcfe horse",) * 2],
    ids=["as macOS and Linux type it", "bytes that are no text"],
)
def test_the_same_characters_or_bytes_open_it(config: Path, first: str, later: str) -> None:
    for given in (first, later):
        store(config, environ={"ACP_LAUNCH_PASSPHRASE": given}).write("github", Secret("gho_1"))
    assert value(store(config, environ={"ACP_LAUNCH_PASSPHRASE": later})) == "gho_1"


def test_a_key_file_is_made_once_and_used_again(key_file: Path, config: Path) -> None:
    content = key_file.read_text()
    assert len(bytes.fromhex(content)) == 32
    person = Person("x")
    there = store(config, key_file="key", person=person)
    there.prepare(writing=True)
    there.write("linear", Secret("lin_1"))
    assert (key_file.read_text(), value(there), person.asked) == (content, "gho_1", [])


def test_names_need_no_question_with_a_key_file(key_file: Path, config: Path) -> None:
    assert list(store(config, key_file="key").names() or {}) == ["github"]


def test_a_line_end_more_or_less_is_the_same_key(key_file: Path, config: Path) -> None:
    key_file.write_bytes(key_file.read_bytes().rstrip() + b"\r\n")
    assert value(store(config, key_file="key")) == "gho_1"


def test_a_lost_key_file_is_not_made_anew(key_file: Path, config: Path) -> None:
    key_file.unlink()
    there = store(config, key_file="key")
    expected = (
        "unavailable",
        f"the key file {key_file} does not exist, and only it opens {config}/secrets.sealed",
        "restore it, or correct secrets.file.key_file in config.yaml",
    )
    assert fault(lambda: there.read(["github"])) == expected
    assert fault(lambda: there.write("github", Secret("1"))) == expected
    assert not key_file.exists()


def test_another_key_file_does_not_open_it(key_file: Path, config: Path) -> None:
    key_file.write_bytes(b"x" * 32)
    there = store(config, key_file="key")
    assert fault(lambda: there.write("github", Secret("1"))) == (
        "denied",
        f"the key file {key_file} does not open {config}/secrets.sealed",
        "name the right one in config.yaml: secrets.file.key_file",
    )


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601], ids=oct)
def test_a_key_file_others_can_read_is_refused(key_file: Path, config: Path, mode: int) -> None:
    key_file.chmod(mode)
    assert fault(lambda: store(config, key_file="key").read(["github"])) == (
        "unavailable",
        f"others on this machine can read or change the key file {key_file}",
        f"chmod 600 {key_file}",
    )
    key_file.chmod(0o400)
    assert value(store(config, key_file="key")) == "gho_1"


@pytest.mark.parametrize("sealed_already", [True, False])
def test_a_key_file_that_is_too_short_is_no_key(key_file: Path, config: Path, sealed_already: bool) -> None:
    key_file.write_bytes(b"x" * 31 + b"\n")
    if not sealed_already:
        (config / "secrets.sealed").unlink()
    assert fault(lambda: store(config, key_file="key").write("a", Secret("1"))) == (
        "unavailable",
        f"the key file {key_file} holds 31 bytes, and a key needs 32",
        "restore its content; to create a new key file, remove it",
    )
    assert key_file.read_bytes() == b"x" * 31 + b"\n"


def test_a_key_file_of_another_kind_is_said(key_file: Path, config: Path) -> None:
    there = store(config, key_file="key")
    key_file.write_bytes(b"x" * (64 * 1024 + 1))
    assert fault(lambda: there.read(["github"]))[1] == f"{key_file} is larger than 65536 bytes"
    key_file.unlink()
    os.mkfifo(key_file, 0o600)
    assert fault(lambda: there.read(["github"]))[1] == f"{key_file} is not a regular file"


def test_the_other_way_to_open_it_is_named(path: Path, config: Path) -> None:
    assert fault(lambda: store(config, key_file="key").write("a", Secret("1"))) == (
        "locked",
        f"{path} needs a passphrase, not a key file",
        "remove secrets.file.key_file from config.yaml",
    )
    assert not (config / "key").exists()
    path.unlink()
    store(config, key_file="key").write("a", Secret("1"))
    for work in (store(config, person=Person("x")).prepare, lambda: store(config, environ=GIVEN).read(["a"])):
        assert fault(work) == (
            "locked",
            f"{path} needs a key file, and the settings name none",
            "name it in config.yaml: secrets.file.key_file",
        )
