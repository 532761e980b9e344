"""Options of earlier versions: each is refused with what to do instead."""

import pytest

from acp_launch.cli.main import REMOVED
from tests.cli.launcher import Launcher


@pytest.mark.parametrize(("verb", "option"), REMOVED)
def test_an_option_that_was_removed_is_refused_with_what_to_do_instead(
    verb: str, option: str, launch: Launcher
) -> None:
    ended = launch(*verb.split(), option, "p")
    expected = f"acp-launch: {verb} {option} was removed\n    fix: {REMOVED[verb, option]}\n"
    assert (ended.code, ended.out, ended.err) == (2, b"", expected)
