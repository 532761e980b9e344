"""
What breaks who reads carelessly, by the prompt: half characters, members of another type, nesting.

    half             a message cut within an emoji
    status           a tool call whose status is a list
    deep N           an update nested N times, then an answer
    question N       a permission question whose arguments are nested N times
    option           a permission question whose option's id holds half a character
    none             a permission question without options
    file             a file whose name is not UTF-8
    terminal         a terminal whose id holds half a character
    method           a request whose method holds half a character
    escape           a sequence that sets the terminal's title
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.agents import script

ALLOW = {"optionId": "a", "name": "Allow", "kind": "allow_once"}


def nested(depth: int) -> object:
    found: object = "x"
    for _ in range(depth):
        found = {"a": found}
    return found


def asked(session: str, call: script.Message, options: list[script.Message]) -> str:
    params = {"sessionId": session, "toolCall": {"toolCallId": "c", **call}, "options": options}
    said = script.ask("session/request_permission", params)
    return str(said.get("result", {}).get("outcome", said.get("error")))


def half(session: str, number: int) -> None:
    script.say(session, "party \ud83c")
    script.say(session, "\udf89 done")


def status(session: str, number: int) -> None:
    script.update(session, "tool_call", toolCallId="t", title="odd", status=["x"], kind={"y": 1})
    script.say(session, "told")


def deep(session: str, number: int) -> None:
    head = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"' + session.encode()
    script.write(head + b'","update":{"sessionUpdate":"tool_call","toolCallId":"d","rawInput":')
    script.write(b'{"a":' * number + b"1" + b"}" * (number + 2) + b"}\n")
    script.say(session, "told")


def question(session: str, number: int) -> None:
    script.say(session, asked(session, {"title": "deep", "rawInput": nested(number)}, [ALLOW]))


def option(session: str, number: int) -> None:
    said = asked(session, {"title": "odd"}, [{**ALLOW, "optionId": "a\ud83d"}])
    script.say(session, "came back" if said == "{'outcome': 'selected', 'optionId': 'a\\ud83d'}" else "is another")


def none(session: str, number: int) -> None:
    script.say(session, asked(session, {"title": "without a way out"}, []))


def file(session: str, number: int) -> None:
    here = str(Path.cwd() / "gone\udcff")
    said = script.ask("fs/read_text_file", {"sessionId": session, "path": here})
    script.say(session, str(said["error"]["code"]))


def terminal(session: str, number: int) -> None:
    said = script.ask("terminal/output", {"sessionId": session, "terminalId": "t\ud83d"})
    script.say(session, str(said["error"]["code"]))


def method(session: str, number: int) -> None:
    script.say(session, str(script.ask("nosuch\ud83d", {})["error"]["code"]))


def escape(session: str, number: int) -> None:
    script.say(session, "A\x1b]0;PWN\x07B")


EVERY = (half, status, deep, question, option, none, file, terminal, method, escape)


def prompt(request: script.Message) -> None:
    word, *rest = script.said(request).split()
    {each.__name__: each for each in EVERY}[word](script.session_of(request), int(rest[0]) if rest else 0)
    script.end(request)


script.serve({"session/prompt": prompt})
