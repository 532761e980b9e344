"""Replies that ask the user for something other than a permission (ACP v1 "elicitation"), or do not ask at all."""

from acp_launch.demo.tools import ToolCall
from acp_launch.demo.turn import Turn
from acp_launch.demo.wire import Message, RpcError

PRETENCE = 0.3  # seconds that `unasked` pretends to work
NO_FORMS = "Your client offers no forms (clientCapabilities.elicitation.form), so I cannot show one."

PROPERTIES: Message = {
    "name": {"type": "string", "title": "Name", "description": "Of the release", "minLength": 1, "maxLength": 40},
    "ticket": {"type": "string", "title": "Ticket", "pattern": "^[A-Z]+-[0-9]+$", "default": "DEMO-1"},
    "email": {"type": "string", "title": "Notify", "format": "email"},
    "page": {"type": "string", "title": "Its page", "format": "uri"},
    "day": {"type": "string", "title": "On which day", "format": "date"},
    "moment": {"type": "string", "title": "At which moment", "format": "date-time"},
    "channel": {"type": "string", "title": "Channel", "enum": ["stable", "beta", "nightly"], "default": "beta"},
    "size": {
        "type": "string",
        "title": "Size",
        "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}],
    },
    "copies": {"type": "integer", "title": "Copies", "minimum": 1, "maximum": 9, "default": 1},
    "share": {"type": "number", "title": "Share of users", "minimum": 0, "maximum": 1, "default": 0.5},
    "urgent": {"type": "boolean", "title": "Urgent", "default": False},
    "platforms": {
        "type": "array",
        "title": "Platforms",
        "minItems": 1,
        "items": {"type": "string", "enum": ["linux", "macos", "windows"]},
        "default": ["linux"],
    },
    "reviewers": {
        "type": "array",
        "title": "Reviewers",
        "maxItems": 2,
        "items": {"anyOf": [{"const": "a", "title": "Ada"}, {"const": "g", "title": "Grace"}]},
    },
}
FORM: Message = {
    "mode": "form",
    "message": "What should the next release be like?",
    "requestedSchema": {
        "type": "object",
        "title": "Release",
        "properties": PROPERTIES,
        "required": ["name", "channel", "copies", "platforms"],
    },
}


def form(turn: Turn, rest: str) -> None:
    if not turn.session.offered.forms:
        turn.say(NO_FORMS)
        return
    try:
        answer = turn.ask("elicitation/create", FORM)
    except RpcError as error:
        turn.say(f"The client could not show the form: {error}")
        return
    content = answer.get("content")
    if answer.get("action") != "accept" or not isinstance(content, dict):
        turn.say(f"The form was not filled in ({answer.get('action')}).")
        return
    turn.say("You said:\n\n" + "".join(f"- {name}: {value!r}\n" for name, value in content.items()))


def unasked(turn: Turn, rest: str) -> None:
    with ToolCall(turn, "rm -rf build/", "execute", {"command": "rm -rf build/"}) as call:
        call.begin()
        turn.pause(PRETENCE)
        call.end("completed", "(pretended: nothing was run)")
    turn.say("I did not ask, and only pretended to run it.")
