"""What is offered for what was typed, and what a choice of it writes."""

import asyncio
import threading
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from acp_launch.interactive import completion
from acp_launch.interactive.completion import Completing, Disk
from acp_launch.interactive.layout import menu_rows
from acp_launch.interactive.terminal import Vocabulary, Word

VOCABULARY = Vocabulary(
    commands=(Word(":set", "an option", "OPTION VALUE"), Word(":sessions")),
    slash=(Word("/plan", "Think\x1b[2J first", "a\ntopic"), Word("/bad\x1bname")),
    values={(":set",): (Word("model"), Word("mode")), (":set", "model"): (Word("opus"), Word("haiku"))},
)


def completing(vocabulary: Vocabulary = VOCABULARY) -> Completing:
    made = Completing()
    made.vocabulary = vocabulary
    return made


def offered(text: str, vocabulary: Vocabulary = VOCABULARY) -> list[str]:
    """What the text becomes with each of them."""

    async def story() -> list[str]:
        found = completing(vocabulary).get_completions_async(Document(text), CompleteEvent())
        return [text[: len(text) + item.start_position] + item.text async for item in found]

    return asyncio.run(story())


@pytest.mark.parametrize(
    ("typed", "becomes"),
    [
        (":", [":set", ":sessions"]),
        (":ses", [":sessions"]),
        (":SES", [":sessions"]),
        (":set ", [":set model", ":set mode"]),
        (":set model ", [":set model opus", ":set model haiku"]),
        (":set model k", [":set model haiku"]),
        (":set other ", []),
        ("/", ["/plan"]),
        ("/plan ", []),
        ("a /", []),
        ("a\n:", []),
        ("plain words", []),
    ],
)
def test_commands_and_values_are_offered_where_they_mean_something(typed: str, becomes: list[str]) -> None:
    assert offered(typed) == becomes


def test_what_an_agent_says_of_its_commands_cannot_drive_the_terminal() -> None:
    (item,) = completing().get_completions(Document("/pl"), CompleteEvent())
    assert item.display_text == "/plan a topic"
    assert item.display_meta_text == "Think\\x1b[2J first"


def test_the_hint_of_a_command_is_shown_when_its_argument_comes_next() -> None:
    hints = [completing().hint(text) for text in ("/plan ", ":set ", "/plan", "/plan x ", "/other ", "")]
    assert hints == ["a topic", "OPTION VALUE", "", "", "", ""]


def test_a_path_with_blanks_is_quoted_and_one_of_a_directory_stays_open(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "c d.txt").touch()
    (tmp_path / "plain").touch()
    words = Vocabulary(directories=(tmp_path,))
    assert offered("see @a", words) == ['see @"a b/']
    assert offered('see @"a b/', words) == ['see @"a b/c d.txt"']
    assert offered("@pl", words) == ["@plain"]
    assert offered('@"pl', words) == ['@"plain"']
    assert offered("me@pl", words) == []
    assert offered("(\n@pl", words) == ["(\n@plain"]


def test_a_disk_that_hangs_offers_nothing_and_delays_no_exit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging, released = threading.Event(), threading.Event()

    def found(typed: str, roots: object) -> list[str]:
        hanging.set()
        assert released.wait(15)
        return ["late"]

    monkeypatch.setattr(completion, "find_files", found)
    monkeypatch.setattr(completion, "DISK_TIMEOUT", 0.01)
    disk = Disk()

    async def story() -> None:
        assert await disk.look("a", [tmp_path]) == []
        assert hanging.wait(15)
        assert await disk.look("a", [tmp_path]) == [], "the thread that hangs is the only one"
        assert [thread.daemon for thread in threading.enumerate() if thread.name == "completion"] == [True]

    asyncio.run(story())
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "completion"]
    released.set()
    thread.join(15)
    assert not thread.is_alive()


def test_in_a_menu_a_name_is_never_cut_for_what_it_means() -> None:
    items = [
        ("/brainstorm-with-me", "/brainstorm-with-me on what", "Think aloud"),
        ("/go", "/go", ""),
        ("/x", "/x", "X"),
    ]
    assert menu_rows(items, 32) == [("/brainstorm-with-me \u2026", "Think al\u2026"), ("/go", ""), ("/x ", "X")]
    assert menu_rows(items, 12) == [("/brainstorm\u2026", ""), ("/go", ""), ("/x ", "")]
