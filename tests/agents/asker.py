"""Asks for permission and says in its text what it was answered.

argv: option kinds in the order to offer them, joined by commas, one argument for each question; all are asked at once
(default `allow_always,allow_once,reject_always,reject_once`). `none` offers no option. Ids are the kind and its place.
`kind=K` gives the tool calls that kind (default edit), `title=T` that title, `announced=T` another one before the
question, `input=JSON` that input, `meta=JSON` that `_meta` in the question; `always=NAME` names what allows always.
`late`: asks once more after a cancel. `withdraw`: takes the questions back with `$/cancel_request` at once.
`refuse-stop`: ends the turn as a refusal unless every question was allowed.
"""

import json
import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

arguments = sys.argv[1:]
flags = {argument for argument in arguments if argument in {"late", "withdraw", "refuse-stop"}}
fields = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
questions = [argument for argument in arguments if argument not in flags and "=" not in argument]
questions = questions or ["allow_always,allow_once,reject_always,reject_once"]


def ask(session: str, number: int, kinds: str) -> None:
    names = [] if kinds == "none" else kinds.split(",")
    always = {"allow_always": fields["always"]} if "always" in fields else {}
    options = [
        {"optionId": f"{kind}-{place}", "name": always.get(kind, f"Option {kind}"), "kind": kind}
        for place, kind in enumerate(names)
    ]
    call = {"toolCallId": f"call-{number}", "title": fields.get("title", "Change a file")}
    given = {"rawInput": json.loads(fields["input"])} if "input" in fields else {}
    announced = {**call, "title": fields.get("announced", call["title"]), **given}
    script.update(session, "tool_call", **announced, kind=fields.get("kind", "edit"), status="pending")
    if "meta" in fields:
        call |= {"_meta": json.loads(fields["meta"])}
    params = {"sessionId": session, "toolCall": call, "options": options}
    script.send({"id": number, "method": "session/request_permission", "params": params})


def outcome(number: int) -> str:
    response = script.response(number)
    if "error" in response:
        return f"error {response['error']['code']}"
    found = response["result"]["outcome"]
    return str(found.get("optionId", found["outcome"]))


def prompt(request: script.Message) -> None:
    session = script.session_of(request)
    for number, kinds in enumerate(questions):
        ask(session, number, kinds)
        if "withdraw" in flags:
            script.send({"method": "$/cancel_request", "params": {"requestId": number}})
    outcomes = [outcome(number) for number in range(len(questions))]
    if "late" in flags:
        script.expect("session/cancel")
        ask(session, len(questions), questions[0])
        outcomes.append(outcome(len(questions)))
    for number, found in enumerate(outcomes):
        status = "completed" if found.startswith("allow") else "failed"
        script.update(session, "tool_call_update", toolCallId=f"call-{number}", status=status)
    script.say(session, f"outcomes: {', '.join(outcomes)}")
    allowed = all(found.startswith("allow") for found in outcomes)
    stop = "cancelled" if "cancelled" in outcomes else "end_turn"
    script.end(request, "refusal" if "refuse-stop" in flags and not allowed else stop)


script.serve({"session/prompt": prompt})
