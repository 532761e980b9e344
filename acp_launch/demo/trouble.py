"""Replies that test a client: floods, hostile text, a crash and a hang."""

import os
import sys
import threading

from acp_launch.demo import toolbox
from acp_launch.demo.tooluse import ToolCall
from acp_launch.demo.turn import Turn

MOST = 10_000_000  # updates of `flood`
FEW = 100  # updates between two checks for a cancellation
STATUS = 3  # exit status of `crash`

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


def crash(turn: Turn, rest: str) -> None:
    turn.say("I am about to ")
    toolbox.stop(turn.session.servers)
    print("demo agent: crashing as requested", file=sys.stderr, flush=True)
    os._exit(STATUS)


def hang(turn: Turn, rest: str) -> None:
    turn.say("From now on I answer nothing, not even that I was cancelled. End me with a signal.\n")
    threading.Event().wait()
