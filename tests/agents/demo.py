"""The demo agent with replies for tests only: it reads, asks in odd ways, floods, hangs, and attacks the terminal."""

import os
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from acp_launch.demo import agent, replies
from acp_launch.demo.files import NO_FILES, absolute, read_text, split_name
from acp_launch.demo.replies import Reply
from acp_launch.demo.session import PERMISSION, Turn, TurnCancelled
from acp_launch.demo.tools import ToolCall, chosen_option, use
from acp_launch.demo.wire import RpcError

# What it sees.


def where(turn: Turn, rest: str) -> None:
    turn.say(f"Working directory: {turn.session.cwd}\n")
    for directory in turn.session.directories:
        turn.say(f"Additional directory: {directory}\n")


def read(turn: Turn, rest: str) -> None:
    name, rest = split_name(rest)
    numbers = rest.split()
    if not name or len(numbers) > 2 or not all(number.isdecimal() and int(number) for number in numbers):
        turn.say("Name a file, and optionally the first line and how many lines: `read README.md 1 5`.")
        return
    if not turn.session.offers("fs", "readTextFile"):
        turn.say(NO_FILES)
        return
    path = absolute(turn, name)
    window = dict(zip(("line", "limit"), map(int, numbers), strict=False))
    location = {"path": path, **({"line": window["line"]} if window else {})}
    with ToolCall(turn, f"Read {name}", "read", location, locations=[location]) as call:
        call.begin()
        try:
            text = read_text(turn, path, **window)
        except RpcError as error:
            call.end("failed", str(error))
            turn.say(f"I could not read {name}: {error}")
            return
        call.end("completed", text)
    turn.say(f"{name}, read through the client:\n\n```\n{text.rstrip()}\n```\n")


def notes(turn: Turn, rest: str) -> None:
    turn.say(use(turn, "", "list_notes", {}, title="Read the notes")[0])


# Permission questions.

LEAVE = [
    {"optionId": "yes", "name": "Yes, and make changes without asking", "kind": "allow_always"},
    {"optionId": "yes-ask", "name": "Yes, and ask before each change", "kind": "allow_once"},
    {"optionId": "no", "name": "No, keep planning", "kind": "reject_once"},
]


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
    turn.session.options.choose("mode", modes[answer])
    turn.session.tell_mode()
    turn.session.tell_options()
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


# Trouble.

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


REPLIES = (where, read, notes, switch, link, flood, hostile, hang)

if __name__ == "__main__":
    replies.REPLIES.update({each.__name__: Reply(each, "", "for tests") for each in REPLIES})
    agent.main()
