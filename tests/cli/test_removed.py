"""Options and a platform of earlier versions: each is refused with what to do instead."""

import sys

import pytest

from acp_launch.__main__ import main
from acp_launch.cli.main import REMOVED
from tests.cli.launcher import Launcher


@pytest.mark.parametrize(("verb", "option"), REMOVED)
def test_an_option_that_was_removed_is_refused_with_what_to_do_instead(
    verb: str, option: str, launch: Launcher
) -> None:
    ended = launch(*verb.split(), option, "p")
    expected = f"acp-launch: {verb} {option} was removed\n    fix: {REMOVED[verb, option]}\n"
    assert (ended.code, ended.out, ended.err) == (2, b"", expected)


@pytest.mark.parametrize("words", [["run", "demo", "hello"], ["validate"], ["--version"]])
def test_windows_is_refused_at_the_start_whatever_is_asked(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["acp-launch", *words])
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 3
    assert capsys.readouterr() == ("", "acp-launch: Windows is not supported\n    fix: run it inside WSL\n")
