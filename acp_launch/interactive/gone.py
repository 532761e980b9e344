"""An agent died or hung in the midst of a session: whether somebody wants it started again."""

import signal
from collections.abc import Callable, Sequence

from acp_launch.errors import Stopped
from acp_launch.interactive.attention import Attention, GivenUp
from acp_launch.protocol.acp import Capabilities
from acp_launch.session.person import Choice, Person

LEAVE = Choice("n", "Leave")
AGAIN = (Choice("y", "Start it again and go on with this session"), LEAVE)
ANEW = (Choice("y", "Start it again with a new session; it cannot go on with this one"), LEAVE)


def can_go_on(able: Capabilities) -> bool:
    """Whether such an agent finds back into a session."""
    return able.load or able.resume


async def is_wanted_again(
    able: Capabilities, person: Person, attention: Attention, enter: Callable[[str], None]
) -> bool:
    """`able` is what it could do; `enter` takes what is entered meanwhile.

    Raises:
        Stopped: after a SIGINT.
    """
    choices = AGAIN if can_go_on(able) else ANEW
    try:
        return await attention.while_waiting(_is_chosen(person, choices), enter)
    except GivenUp as given_up:
        if given_up.leaves:
            return False
        raise Stopped("stopped", signal_number=signal.SIGINT) from None


async def _is_chosen(person: Person, choices: Sequence[Choice]) -> bool:
    async with person.floor():
        return await person.choose("The agent is gone.", choices) == "y"
