"""
`--output text` into a pipe, and `--output quiet`: the agent's text on stdout, everything else on stderr.

A pipe gets the agent's text as it is (without our mark, where our own lines go there too), a terminal without what
would drive it. A message ends where the agent does something else (a tool call, a thought, a plan) or its `messageId`
changes. What the agent says while no turn runs is no part of an answer, and goes to stderr as such.
"""

from collections.abc import Sequence

from acp_launch.console.draw.halves import Halves
from acp_launch.console.draw.outside import one_line, prose
from acp_launch.console.stderr import DIM, harmless, is_marking, say
from acp_launch.console.stream.notices import Notices
from acp_launch.console.stream.outlet import JOINED, Outlet
from acp_launch.errors import LaunchError
from acp_launch.mark import unmarked
from acp_launch.process.lifecycle import Standing
from acp_launch.protocol import acp
from acp_launch.protocol.acp import VALUES
from acp_launch.protocol.event import Updated
from acp_launch.session.observer import Permission, TurnEnd, When
from acp_launch.session.toolcall import KINDS, OVER, ToolCalls, title

SAME_MESSAGE = frozenset({"usage_update", "available_commands_update", "session_info_update", "config_option_update"})

TAB = "\t"
OUTSIDE = "outside a turn:"


class Messages(Notices):
    """Finds the messages in a stream of updates; a history that is replayed is not shown."""

    def __init__(self, outlet: Outlet, *, is_watched: bool = False) -> None:
        """`is_watched`: somebody sits there, whatever stdout is."""
        self._outlet = outlet
        self._is_watched = is_watched or outlet.is_terminal
        self._halves = Halves()
        self._message_id = ""
        self._over = True  # the next chunk begins a new message
        self._outside = ""  # what was said while no turn ran, and is not told yet

    def update(self, update: Updated) -> None:
        if update.replay:
            return
        if update.kind == "agent_message_chunk":
            self._said_outside(update) if update.outside else self._chunk(update)
        elif update.kind not in SAME_MESSAGE:
            self._over = True
            self.beside(update)

    def _said_outside(self, update: Updated) -> None:
        """Told with the next `drain`: pieces that come together are one line."""
        self._over = True
        self._outside += self._halves.whole(acp.read_chunk(update.update)[0])

    def _tell_outside(self) -> None:
        text, self._outside = self._outside, ""
        for line in filter(str.strip, text.split("\n")):
            self.tell(f"{OUTSIDE} {harmless(line, keep=TAB)}", DIM)

    def _chunk(self, update: Updated) -> None:
        if self._outside:
            self._tell_outside()
        text, message_id = acp.read_chunk(update.update)
        if self._over or (message_id and message_id != self._message_id):
            self.begin()
        self._over, self._message_id = False, message_id or self._message_id
        text = self._halves.whole(text)
        self.say(self._shown(text))

    def _shown(self, text: str) -> str:
        if self._is_watched:
            return prose(text)
        return unmarked(text) if is_marking() else text

    def begin(self) -> None:
        """A new message begins."""

    def say(self, text: str) -> None:
        """A piece of the agent's message."""

    def beside(self, update: Updated) -> None:
        """Something that is not the agent's message."""

    async def drain(self) -> None:
        self._tell_outside()
        await self._outlet.drain()


class Quiet(Messages):
    """Only the final message, when the turn is over."""

    def __init__(self, outlet: Outlet) -> None:
        super().__init__(outlet)
        # Not a list of all pieces: 100,000 of them weigh more than what they say. A long one stays as it came.
        self._texts: list[bytearray | str] = []
        self._last = "\n"

    def begin(self) -> None:
        self._texts, self._last = [], "\n"

    def say(self, text: str) -> None:
        if not text:
            return
        self._last = text[-1]
        if len(text) > JOINED and text.isascii():  # any other takes up to four bytes a character
            self._texts.append(text)
            return
        latest = self._texts[-1] if self._texts else ""
        if isinstance(latest, str):
            self._texts.append(latest := bytearray())
        latest += text.encode()

    def standing(self, servers: Sequence[Standing], when: When) -> None:
        """Only what is wrong and was not said when it happened."""
        if when == "opened":
            said = {server for server, state in self._states.items() if state == "failed"}
            servers = [each for each in servers if each.state == "failed" and each.server not in said]
        super().standing(servers, when)

    def ended(self, turn: TurnEnd) -> None:
        if self._last != "\n":
            self.say("\n")
        for text in self._texts:
            if isinstance(text, str):
                self._outlet.write_text(text)
            else:
                self._outlet.write(memoryview(text))
        self.begin()  # the outlet has it until it is written
        super().ended(turn)


class Plain(Messages):
    """The agent's text as it comes."""

    def __init__(self, outlet: Outlet, *, is_watched: bool = False) -> None:
        super().__init__(outlet, is_watched=is_watched)
        self._last = "\n"
        self._calls = ToolCalls()
        self._thought = ""

    def begin(self) -> None:
        self._think("\n")
        if self._last != "\n":
            self.say("\n")

    def say(self, text: str) -> None:
        if text:
            self._outlet.write_text(text)
            self._last = text[-1]

    def beside(self, update: Updated) -> None:
        if update.kind == "agent_thought_chunk":
            self._think(self._halves.whole(acp.read_chunk(update.update)[0]))
            return
        self._think("\n")
        body = acp.mapping(acp.decoded(update.update))
        if update.kind in KINDS:
            self._tool(self._calls.merge(body))
        elif update.kind == "plan":
            for entry in map(acp.mapping, acp.sequence(body.get("entries"))):
                _say(f"plan: {acp.text(entry.get('status'))}: {one_line(acp.text(entry.get('content')))}")
        elif update.kind == "notice":
            _say(f"agent: {one_line(acp.text(body.get('title')))}")

    def _think(self, piece: str) -> None:
        """Thoughts go to stderr line by line."""
        *lines, self._thought = (self._thought + piece).split("\n")
        for line in filter(str.strip, lines):
            say(f"thought: {harmless(line, keep=TAB)}", style=DIM)

    def permission(self, permission: Permission) -> None:
        self._calls.merge(permission.tool_call)  # gemini tells a call's title nowhere else
        super().permission(permission)

    def _tool(self, call: dict[str, object]) -> None:
        if call.get("status") in OVER or "shown" not in call:
            kind = acp.text(call.get("kind"))
            kind = kind if kind in VALUES["kind"] else "tool"  # a line of ours begins with no word of an agent's
            status = acp.text(call.get("status")) or "pending"
            _say(f"{kind}: {title(call)}: {status}")
        call["shown"] = True

    def ended(self, turn: TurnEnd) -> None:
        self.begin()
        super().ended(turn)

    def failed(self, error: LaunchError) -> None:
        self.begin()


def _say(text: str) -> None:
    """One line, whatever an agent has put into it."""
    say(harmless(text, keep=""), style=DIM)
