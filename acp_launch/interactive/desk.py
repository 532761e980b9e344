"""What the story and the `:` commands share."""

from contextlib import AsyncExitStack
from pathlib import Path

from msgspec import Struct, field

from acp_launch.bridged import Bridged
from acp_launch.console.failure import lines
from acp_launch.console.stderr import TYPED, harmless
from acp_launch.console.stream.discreet import Output
from acp_launch.errors import AgentError, AgentRefused, LaunchError, RemoteProtocolError, WaitExpired
from acp_launch.interactive.front import Front
from acp_launch.interactive.heard import Heard
from acp_launch.interactive.rooms import Room, Rooms
from acp_launch.interrupts import Interrupts
from acp_launch.launch import Talks
from acp_launch.plan.model import LaunchPlan
from acp_launch.secret.redact import redactor
from acp_launch.session.client import Client
from acp_launch.session.connection import Connection
from acp_launch.session.observer import SessionReady, TurnEnd
from acp_launch.session.options.configure import Wish

TAB, DIM = "\t", "2"


class Current(Struct, eq=False):
    """The session somebody is in."""

    connection: Connection
    client: Client
    ready: SessionReady
    room: Room
    leaving: AsyncExitStack  # ends what was served to it
    turns: int = 0
    first_prompt: str = ""  # the beginning of it, which stands in for a title
    last: TurnEnd | None = None


class Desk(Struct, kw_only=True, eq=False):
    plan: LaunchPlan
    needs: Talks
    front: Front
    observer: Output
    heard: Heard
    rooms: Rooms
    here: Path  # where the command was typed
    servers: Bridged
    interrupts: Interrupts
    current: Current | None = None
    chosen: list[Wish] = field(default_factory=list)  # in this session: to be chosen again when its agent comes back

    def say(self, text: str, style: str = "") -> None:
        """Lines among what the agent says; not for text that may hold a secret, which is redacted first."""
        for line in text.splitlines():
            self.heard.tell(harmless(redactor.text(line), keep=TAB), style)

    def prompted(self, text: str) -> None:
        """A prompt is being sent: it stands above its answer."""
        shown = redactor.text(text)
        self.heard.transcript.prompt(shown)
        if not self.heard.is_drawn:
            return  # it stands where it was typed
        for number, line in enumerate(shown.splitlines()):
            mark = ">" if number == 0 else " "
            self.heard.tell(f"{mark} {harmless(line, keep=TAB)}", TYPED)

    def commanded(self, text: str) -> None:
        """A command of ours is carried out: it stands above what it says."""
        if self.heard.is_drawn:
            self.say(text, DIM)

    def failed(self, error: LaunchError) -> None:
        """A failure after which the session goes on; what was being drawn is left whole."""
        self.observer.failed(error)
        for text, style in lines(error):
            self.heard.tell(redactor.text(text), style)


def is_the_end(error: LaunchError) -> bool:
    """Whether the agent is gone, or as good as gone: not whether it refused something."""
    return isinstance(error, AgentError | WaitExpired | RemoteProtocolError) and not isinstance(error, AgentRefused)


class Leave(Struct, frozen=True):
    """The session is left, and acp-launch ends with this exit code."""

    code: int


class Move(Struct, frozen=True):
    """Another session is wanted."""

    room: Room


Outcome = Leave | Move
