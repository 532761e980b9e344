"""What was said in a session, for `:export`: the prompts, the agent's words, what it did. Markdown."""

from collections import deque

from acp_launch.protocol import acp
from acp_launch.protocol.event import Updated
from acp_launch.session.toolcall import KINDS, OVER, ToolCalls, title

MOST = 32 * 1024 * 1024  # characters; what is older is left out, and the transcript says so


def _besides(update: Updated) -> str:
    """What went along with a prompt."""
    content = acp.mapping(acp.mapping(acp.decoded(update.update)).get("content"))
    about = acp.mapping(content.get("resource")) or content
    return f"\n\n*({acp.text(content.get('type'))}: {acp.text(about.get('uri'))})*\n\n"


class Transcript:
    """Takes what was shown, secrets and all that must not be shown being gone already."""

    def __init__(self) -> None:
        self._parts: deque[str] = deque()
        self._size = 0
        self._is_cut = False
        self._speaker = ""
        self._calls = ToolCalls()

    def prompt(self, text: str) -> None:
        """What a person asked."""
        self._add("you", text)

    def update(self, update: Updated) -> None:
        """An update, live or of a history."""
        if update.kind == "agent_message_chunk":
            self._add("agent, outside a turn" if update.outside else "agent", acp.read_chunk(update.update)[0])
        elif update.kind == "user_message_chunk" and update.replay:
            self._add("you", acp.read_chunk(update.update)[0] or _besides(update))
        elif update.kind in KINDS:
            call = self._calls.merge(acp.mapping(acp.decoded(update.update)))
            if call.get("status") in OVER:
                self._add("", f"- {title(call)}: {call['status']}")

    def markdown(self, heading: str) -> str:
        """The whole of it."""
        cut = "*The beginning is left out: it was too long.*\n\n" if self._is_cut else ""
        return f"# {heading}\n\n{cut}{''.join(self._parts).strip()}\n"

    def _add(self, speaker: str, text: str) -> None:
        if speaker != self._speaker:
            self._speaker = speaker
            text = (f"\n\n## {speaker.capitalize()}\n\n" if speaker else "\n\n") + text
        elif not speaker:
            text = "\n" + text
        self._parts.append(text)
        self._size += len(text)
        while self._size > MOST:
            self._size -= len(self._parts.popleft())
            self._is_cut = True
