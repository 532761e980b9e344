"""Replies about the session itself: its mode, its cost, its compaction."""

import os

from acp_launch.demo.turn import Turn
from acp_launch.demo.wire import Message, RpcError

PRICE = 0.0125  # US dollars per use
STEP = 0.2  # seconds between the steps of a compaction
SUMMARY = ("The two of us talked ", "about what a demo agent can do, ", "and nothing was decided.")


def mode(turn: Turn, rest: str) -> None:
    if not rest:
        lines = [f"- `{each['id']}` is {_shown(each['currentValue'])}" for each in turn.session.options.listed()]
        turn.say("The options of this session:\n\n" + "\n".join(lines) + "\n\nTry `mode plan`.")
        return
    try:
        turn.session.choose_mode(rest)
    except RpcError as error:
        turn.say(f"{error}.")
        return
    turn.say(f"I am in the mode `{rest}` now.")


def _shown(value: object) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else f"`{value}`"


def cost(turn: Turn, rest: str) -> None:
    turn.session.cost = round((turn.session.cost or 0.0) + PRICE, 4)
    turn.say(f"This session has cost {turn.session.cost} US dollars (or would have, if I cost anything).")


def compact(turn: Turn, rest: str) -> None:
    offered = turn.session.offered
    if offered.notices:
        notice = {
            "severity": "warning",
            "title": "The context is nearly full",
            "description": "I will make it shorter.",
        }
        turn.session.notify({"sessionUpdate": "notice", **notice})
    if offered.compaction:
        _compact(turn)
    shown = [name for name, is_shown in (("notices", offered.notices), ("compaction", offered.compaction)) if is_shown]
    turn.say(
        f"Your client shows {' and '.join(shown)}." if shown else "Your client shows neither notices nor compaction."
    )


def _compact(turn: Turn) -> None:
    compaction = {"compactionId": os.urandom(6).hex()}

    def tell(kind: str, **fields: object) -> None:
        update: Message = {"sessionUpdate": kind, **compaction, **fields}
        turn.session.notify(update)

    status = "cancelled"
    tell("compaction_update", status="in_progress")
    try:
        for piece in SUMMARY:
            turn.pause(STEP)
            tell("compaction_summary_chunk", content={"type": "text", "text": piece})
        status = "completed"
    finally:
        tell("compaction_update", status=status)
