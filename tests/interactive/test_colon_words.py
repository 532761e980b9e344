"""Ring 1. What a line that begins with a colon leads to."""

import pytest

from acp_launch.errors import UsageError
from acp_launch.interactive.commands import ALIASES, COMMANDS, MEANT, find_command


@pytest.mark.parametrize(
    ("typed", "meant"), [(":cost", ":context"), (":tools", ":servers"), (":save notes.md", ":export")]
)
def test_a_word_of_other_tools_is_the_command_it_means(typed: str, meant: str) -> None:
    assert find_command(typed)[0] is COMMANDS[meant]
    assert {*ALIASES.values()} <= COMMANDS.keys()


@pytest.mark.parametrize(
    ("typed", "fix"),
    [
        (":cancel", "Esc interrupts the turn"),
        (":history", "in another shell: acp-launch session history NAME"),
        (":quitx", "did you mean :quit?"),
    ],
)
def test_what_is_no_command_here_leads_to_what_does_it(typed: str, fix: str) -> None:
    with pytest.raises(UsageError) as refused:
        find_command(typed)
    assert (refused.value.message, refused.value.fix) == (f"unknown command {typed}", fix)
    assert not {f":{word}" for word in MEANT} & {*COMMANDS, *ALIASES}
