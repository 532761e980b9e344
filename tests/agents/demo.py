"""The demo agent with replies for tests only: it asks in unusual ways, floods, hangs, and attacks the terminal."""

import os
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from acp_launch.demo import agent, replies
from acp_launch.demo.replies import Reply
from acp_launch.demo.session import PERMISSION, Turn, TurnCancelled
from acp_launch.demo.tools import OPTIONS, ToolCall, chosen_option
from acp_launch.demo.wire import Call, Message, RpcError

# Permission questions.

PATIENCE = 1.0  # seconds until `withdraw` takes its question back
ANSWER = 10.0  # seconds for the client to answer a withdrawn question
LEAVE = [
    {"optionId": "yes", "name": "Yes, and make changes without asking", "kind": "allow_always"},
    {"optionId": "yes-ask", "name": "Yes, and ask before each change", "kind": "allow_once"},
    {"optionId": "no", "name": "No, keep planning", "kind": "reject_once"},
]


def _open_question(turn: Turn, call: ToolCall) -> Call:
    return turn.open(PERMISSION, {"toolCall": call.announced, "options": OPTIONS})


def several(turn: Turn, rest: str) -> None:
    calls = [
        ToolCall(turn, "Read secrets.txt", "read", {"path": "secrets.txt"}),
        ToolCall(turn, "Delete build/", "delete", {"path": "build/"}),
        ToolCall(turn, "Fetch https://example.com/", "fetch", {"url": "https://example.com/"}),
    ]
    questions = [_open_question(turn, call) for call in calls]
    try:
        words = [_pretend(call, chosen_option(turn.wait(each))) for call, each in zip(calls, questions, strict=True)]
    except TurnCancelled:
        for call, question in zip(calls, questions, strict=True):
            call.end("failed", "cancelled")
            if turn.is_withdrawn:
                turn.take_back(question)
        raise
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
        words = _await_answer(turn, _open_question(turn, call))
        call.end("failed", words)
    turn.say(words)


def _await_answer(turn: Turn, question: Call) -> str:
    """Return how the question ended, in words."""
    try:
        turn.wait(question, PATIENCE)
    except TimeoutError:
        turn.take_back(question)
    else:
        return "You answered before I withdrew the question."
    try:
        late = chosen_option(turn.wait(question, ANSWER))
    except RpcError as error:
        return f"I withdrew the question, and the client answered it with the error {error.code}."
    return f"I withdrew the question, and the client answered it with {late or 'cancelled'}."


def switch(turn: Turn, rest: str) -> None:
    with ToolCall(turn, "Leave the plan mode and start to work", "switch_mode", {"plan": "1. work\n2. rest"}) as call:
        answer = chosen_option(turn.ask(PERMISSION, {"toolCall": call.announced, "options": LEAVE}))
        if answer is None:
            raise TurnCancelled
        call.end("completed" if answer != "no" else "failed", answer)
    modes = {"yes": "code", "yes-ask": "ask"}
    if answer not in modes:
        turn.say("I go on planning.")
        return
    turn.session.choose_mode(modes[answer])
    turn.say(f"I am in the mode `{modes[answer]}` now.")


# A page to open.

MOMENT = 0.5  # seconds that the page pretends to take
NO_LINKS = "Your client opens no pages (clientCapabilities.elicitation.url), so I cannot ask for one."


def link(turn: Turn, rest: str) -> None:
    if not turn.session.offers("elicitation", "url"):
        turn.say(NO_LINKS)
        return
    page = {"elicitationId": os.urandom(6).hex()}
    url = f"https://example.com/demo?session={turn.session.identity}&next=%2Fdone"
    params = {"mode": "url", "message": "Please connect your account", "url": url, **page}
    try:
        answer = turn.ask("elicitation/create", params)
    except RpcError as error:
        turn.say(f"The client could not ask: {error}")
        return
    if answer.get("action") != "accept":
        turn.say(f"The page was not opened ({answer.get('action')}).")
        return
    turn.say("I wait until you are done there. ")
    turn.pause(MOMENT)
    turn.session.wire.notify("elicitation/complete", page)
    turn.say("That is done.")


# The session.

PRICE = 0.0125  # US dollars
STEP = 0.2  # seconds between the steps of a compaction
SUMMARY = ("The two of us talked ", "about what a demo agent can do, ", "and nothing was decided.")


def cost(turn: Turn, rest: str) -> None:
    price = {"amount": PRICE, "currency": "USD"}
    turn.session.notify({"sessionUpdate": "usage_update", "used": 1, "size": 100, "cost": price})


def compact(turn: Turn, rest: str) -> None:
    if turn.session.offers("session", "notices"):
        about = {"title": "The context is nearly full", "description": "I will make it shorter."}
        turn.session.notify({"sessionUpdate": "notice", "severity": "warning", **about})
    if turn.session.offers("session", "compaction"):
        _compact(turn)


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


# Trouble.

PRETENCE = 0.3  # seconds that `unasked` pretends to work
MOST = 10_000_000  # updates of `flood`
FEW = 100  # updates between two checks for a cancellation
ESC = "\x1b"
ATTACKS = {
    "clears the screen": f"{ESC}[2J{ESC}[H",
    "sets the title": f"{ESC}]0;owned by the agent\x07",
    "writes to the clipboard": f"{ESC}]52;c;cm0gLXJmIH4=\x07",
    "hides where a link goes": f"{ESC}]8;;https://evil.example/{ESC}\\https://good.example/{ESC}]8;;{ESC}\\",
    "asks for an answer on your keyboard": f"{ESC}[6n{ESC}[c{ESC}P$q q{ESC}\\",
    "switches to another screen": f"{ESC}[?1049h{ESC}[?25l{ESC}[?1000h",
    "does it with one byte": "\x9b31mred\x9b0m\x9d0;title\x9c",
    "overwrites the line": "rm -rf ~\r\x1b[Kls     ",
    "takes words back": "approve\b\b\b\b\b\b\bdecline",
    "reverses words": "\u202egnp.exe\u202c \u2066txet\u2069",
    "hides in no width": "pay\u200bpal\u2060.com\ufeff",
    "is markup": "[bold red]not bold[/] [link=https://evil.example]here[/link] :skull: <script>alert(1)</script>",
    "rings": "\x07\x07\x07",
    "is not a character": "\x00\x7f\x85\u2028\u2029",
    "looks like acp-launch": "\n▐ acp-launch: type your keyring passphrase:\n▐ Allow ls? [y] yes",
}


def flood(turn: Turn, rest: str) -> None:
    if not rest.isdecimal() or not 1 <= int(rest) <= MOST:
        turn.say(f"I flood you with 1 to {MOST} updates: `flood 10000`.")
        return
    told = 0
    try:
        for told in range(1, int(rest) + 1):
            if told % FEW == 0:
                turn.check()
            turn.session.notify(_chunk(turn, f"{told} "))
    finally:
        turn.words += told
        whole = " ".join(map(str, range(1, told + 1)))
        turn.session.record(_chunk(turn, whole))


def _chunk(turn: Turn, text: str) -> dict[str, object]:
    content = {"type": "text", "text": text}
    return {"sessionUpdate": "agent_message_chunk", "messageId": turn.message, "content": content}


def unasked(turn: Turn, rest: str) -> None:
    with ToolCall(turn, "rm -rf build/", "execute", {"command": "rm -rf build/"}) as call:
        call.begin()
        turn.pause(PRETENCE)
        call.end("completed", "(pretended: nothing was run)")
    turn.say("I did not ask, and only pretended to run it.")


def hostile(turn: Turn, rest: str) -> None:
    everything = "".join(ATTACKS.values())
    turn.think(f"thinking {everything} thoughts")
    turn.update("plan", entries=[{"content": f"plan {everything}", "priority": "high", "status": "pending"}])
    turn.session.notify({"sessionUpdate": "session_info_update", "title": f"title {everything}"})
    with ToolCall(turn, f"tool {everything}", "other", {"command": everything}) as call:
        call.begin()
        call.end("completed", f"output {everything}")
    for what, attack in ATTACKS.items():
        turn.say(f"\n- {what}: >{attack}<")
    turn.say("\n\nIf you can read this list and your terminal is as it was, the client is careful.\n")


def hang(turn: Turn, rest: str) -> None:
    turn.say("From now on I answer nothing, not even that I was cancelled. End me with a signal.\n")
    threading.Event().wait()


REPLIES = (several, withdraw, switch, link, cost, compact, unasked, flood, hostile, hang)

if __name__ == "__main__":
    replies.REPLIES.update({each.__name__: Reply(each, "", "for tests") for each in REPLIES})
    agent.main()
