"""Replies that ask for permission in unusual ways, and one that does not ask at all."""

from acp_launch.demo.tooluse import OPTIONS, ToolCall
from acp_launch.demo.turn import Turn, TurnCancelled, chosen
from acp_launch.demo.wire import Call, RpcError

PATIENCE = 1.0  # seconds until `withdraw` takes its question back
PRETENCE = 0.3  # seconds that `unasked` pretends to work
ANSWER = 10.0  # seconds for the client to answer a withdrawn question
LEAVE = [
    {"optionId": "yes", "name": "Yes, and make changes without asking", "kind": "allow_always"},
    {"optionId": "yes-ask", "name": "Yes, and ask before each change", "kind": "allow_once"},
    {"optionId": "no", "name": "No, keep planning", "kind": "reject_once"},
]


def several(turn: Turn, rest: str) -> None:
    calls = [
        ToolCall(turn, "Read secrets.txt", "read", {"path": "secrets.txt"}),
        ToolCall(turn, "Delete build/", "delete", {"path": "build/"}),
        ToolCall(turn, "Fetch https://example.com/", "fetch", {"url": "https://example.com/"}),
    ]
    try:
        answers = turn.ask_permissions([call.announced for call in calls], OPTIONS)
        words = [_pretend(call, answer) for call, answer in zip(calls, answers, strict=True)]
    except (TurnCancelled, RpcError) as error:
        for call in calls:
            call.end("failed", str(error) or "cancelled")
        if isinstance(error, TurnCancelled):
            raise
        turn.say(f"I could not ask: {error}")
        return
    turn.say("\n".join(f"- {call.announced['title']}: {word}" for call, word in zip(calls, words, strict=True)))


def _pretend(call: ToolCall, answer: str | None) -> str:
    """Report the answer without doing anything, so that the user sees which question it belongs to."""
    if answer in {"allow-once", "allow-always"}:
        call.begin()
        call.end("completed", "pretended")
        return f"allowed ({answer}); I only pretended to do it"
    call.end("failed", "rejected")
    return f"not allowed ({answer or 'cancelled'})"


def withdraw(turn: Turn, rest: str) -> None:
    with ToolCall(turn, "Launch the rocket", "execute", {"command": "launch"}) as call:
        question = turn.open_question(call.announced, OPTIONS)
        with turn.pending([question]):
            words = _answered(turn, question)
        call.end("failed", words)
    turn.say(words)


def _answered(turn: Turn, question: Call) -> str:
    """Return how the question ended, in words."""
    try:
        return f"You answered before I withdrew the question: {chosen(turn.wait(question, PATIENCE)) or 'cancelled'}."
    except TimeoutError:
        turn.take_back(question)
    try:
        late = chosen(turn.wait(question, ANSWER))
    except RpcError as error:
        return f"I withdrew the question, and the client answered it with the error {error.code}."
    except TimeoutError:
        return f"I withdrew the question, and the client did not answer it within {ANSWER:.0f} s, as it must."
    return f"I withdrew the question, and the client answered it with {late or 'cancelled'}."


def switch(turn: Turn, rest: str) -> None:
    with ToolCall(turn, "Leave the plan mode and start to work", "switch_mode", {"plan": "1. work\n2. rest"}) as call:
        answer = turn.ask_permission(call.announced, LEAVE)
        if answer is None:
            raise TurnCancelled
        call.end("completed" if answer != "no" else "failed", answer)
    modes = {"yes": "code", "yes-ask": "ask"}
    if answer not in modes:
        turn.say("I go on planning.")
        return
    turn.session.choose_mode(modes[answer])
    turn.say(f"I am in the mode `{modes[answer]}` now.")


def unasked(turn: Turn, rest: str) -> None:
    with ToolCall(turn, "rm -rf build/", "execute", {"command": "rm -rf build/"}) as call:
        call.begin()
        turn.pause(PRETENCE)
        call.end("completed", "(pretended: nothing was run)")
    turn.say("I did not ask, and only pretended to run it.")
