"""
The things an agent tells about a session, each read leniently: None for what cannot be read. Pure.

Texts are the agent's own, cut; whoever shows them makes them harmless.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from acp_launch.protocol import acp
from acp_launch.session.options.option import DESCRIPTION, identity, one_line

TEXT = 2_000  # characters of a step, a description, an error
SUMMARY = 64 * 1024  # characters
TOKENS = 2**64  # the schema's uint64
MONEY = 1e15
T = TypeVar("T")


class Command(Struct, frozen=True):
    """What `/name` does; `hint` says what may follow it."""

    name: str
    description: str = ""
    hint: str = ""


class Step(Struct, frozen=True):
    """An entry of the plan; priority and status as the agent says them, unknown ones too."""

    content: str
    priority: str = "medium"
    status: str = "pending"


class Cost(Struct, frozen=True):
    """Since the session began; `currency` is an ISO 4217 code or a word like `credits`."""

    amount: float
    currency: str

    def __str__(self) -> str:
        small = 0 < abs(self.amount) < 0.01
        is_money = len(self.currency) == 3 and self.currency.isupper() and not small
        amount = f"{self.amount:.2f}" if is_money else f"{self.amount:.6g}"
        return f"{amount} {self.currency}".strip()


class Usage(Struct, frozen=True):
    """Tokens in the context and its size, None while the agent has not said."""

    used: int | None = None
    size: int | None = None
    cost: Cost | None = None


class Compaction(Struct, frozen=True):
    """The agent shortens its context: `in_progress`, `completed`, `failed`, `cancelled` or a word of its own."""

    id: str
    status: str = "in_progress"
    summary: str = ""
    error: str = ""


class Notice(Struct, frozen=True):
    """`severity` is `info`, `warning`, `error` or a word of the agent's own; an error fails nothing."""

    severity: str
    title: str
    description: str = ""


def command(item: dict[str, Any]) -> Command | None:
    """None for a name that cannot be typed; spaces can, claude's `name (MCP)` has one."""
    name = identity(item.get("name"))
    if not name or not name.isprintable():
        return None
    hint = acp.mapping(item.get("input")).get("hint")
    return Command(name, one_line(item.get("description"), DESCRIPTION), one_line(hint))


def step(item: dict[str, Any]) -> Step | None:
    content = one_line(item.get("content"), TEXT)
    if not content:
        return None
    return Step(content, one_line(item.get("priority")) or "medium", one_line(item.get("status")) or "pending")


def tokens(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < TOKENS else None


def cost(value: object) -> Cost | None:
    said = acp.mapping(value)
    amount = said.get("amount")
    if isinstance(amount, bool) or not isinstance(amount, int | float) or not -MONEY < amount < MONEY:
        return None
    return Cost(float(amount), one_line(said.get("currency")))


def patched(body: dict[str, Any], key: str, known: str, kind: type[T], read: Callable[[T], str]) -> str:
    """A member of a patch: left out, or no `kind`, is unchanged; null clears; anything else replaces."""
    value = body.get(key, known)
    if value is None:
        return ""
    return read(value) if key in body and isinstance(value, kind) else known


def texts(blocks: Sequence[object]) -> str:
    """The text of content blocks, in order: a summary that is streamed comes in pieces of a word."""
    return "".join(acp.text(acp.mapping(block).get("text")) for block in blocks)[:SUMMARY]
