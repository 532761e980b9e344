"""Replies in text: they ask nothing of the client."""

import binascii
import os
import sys
from base64 import b64decode

from acp_launch.demo import toolbox
from acp_launch.demo.turn import Turn
from acp_launch.demo.wire import Message, RpcError

BEAT = 0.05  # seconds between the chunks of `count`: slow enough to press Ctrl-C, fast enough not to bore
STEP = 0.03  # seconds for each step of `plan`
MOST = 10_000  # chunks of `count`
STATUS = 3  # exit status of `crash`
PNG = b"\x89PNG\r\n\x1a\n"

MARKDOWN = """\
# Heading one

Text with *emphasis*, **strong emphasis**, `code`, ~~a mistake~~ and [a link](https://example.com/path?a=1&b=2).

## Lists

- one
- two, which is long enough to be broken into several lines on a narrow terminal, and then goes on below its own words
  - nested
  - nested too
    1. first
    2. second
- [x] a task that is done
- [ ] a task that is not

### A table

| agent | protocol | speed |
|:------|:--------:|------:|
| demo  | ACP v1   | 1.0   |
| 日本語 | naïve    | 12.5  |

### Code

```python
def greet(name: str) -> str:
    return f"Hello, {name}!"  # no model was needed
```

> A quotation,
> in two lines.

---

The end.
"""


def plan(turn: Turn, rest: str) -> None:
    steps = ["Read the request", "Do the work", "Report"]
    for done in range(len(steps) + 1):
        status = ["completed"] * done + ["in_progress"] + ["pending"] * len(steps)
        turn.update(
            "plan",
            entries=[
                {"content": step, "priority": "medium", "status": state}
                for step, state in zip(steps, status, strict=False)
            ],
        )
        turn.pause(STEP if done < len(steps) else 0)
    turn.say(f"All {len(steps)} steps of the plan are done.")


def think(turn: Turn, rest: str) -> None:
    turn.think(rest or "There is nothing to think about.")
    turn.say("I have thought about it.")


def count(turn: Turn, rest: str) -> None:
    if not rest.isdecimal() or not 1 <= int(rest) <= MOST:
        turn.say(f"I count from 1 to a number up to {MOST}: `count 20`.")
        return
    for number in range(1, int(rest) + 1):
        turn.say(f"{number} ")
        turn.pause(BEAT)


def history(turn: Turn, rest: str) -> None:
    *before, _ = [record["turn"] for record in turn.session.records() if "turn" in record]
    last = f" The last prompt was: {before[-1]}" if before else ""
    turn.say(f"Before this one, the session had {len(before)} turn{'' if len(before) == 1 else 's'}.{last}")


def where(turn: Turn, rest: str) -> None:
    turn.say(f"Working directory: {turn.session.cwd}\n")
    for directory in turn.session.directories:
        turn.say(f"Additional directory: {directory}\n")


def slowly(turn: Turn, rest: str) -> None:
    for word in (rest or "Say `slowly` and the words to repeat.").split():
        turn.say(f"{word} ")
        turn.pause(BEAT)


def markdown(turn: Turn, rest: str) -> None:
    turn.say(MARKDOWN)


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


def crash(turn: Turn, rest: str) -> None:
    turn.say("I am about to ")
    toolbox.stop(turn.session.servers)
    print("demo agent: crashing as requested", file=sys.stderr, flush=True)
    os._exit(STATUS)


# A description of the attachments of a prompt, which shows that they arrived complete.


def look(turn: Turn, rest: str) -> None:
    seen = [_seen(block) for block in turn.blocks if block["type"] != "text"]
    if not seen:
        turn.say("Nothing is attached to this prompt.")
    for number, words in enumerate(seen, 1):
        turn.say(f"{number}. {words}\n")


def _seen(block: Message) -> str:
    match block["type"]:
        case "resource":
            return _resource(block["resource"])
        case "resource_link":
            size = f", {block['size']} bytes" if isinstance(block.get("size"), int) else ""
            return f"a link to {block['uri']} ({_mime(block)}{size})"
        case kind:
            return _media(kind, block)


def _resource(resource: Message) -> str:
    held = resource.get("text")
    if isinstance(held, str):
        first = held.splitlines()[0][:60] if held else ""
        return f"the text of {resource.get('uri')} ({len(held)} characters), which begins with: {first}"
    return f"the bytes of {resource.get('uri')} ({_mime(resource)})"


def _media(kind: str, block: Message) -> str:
    try:
        data = b64decode(block["data"], validate=True)
    except binascii.Error as error:
        return f"{kind} whose data is not base64: {error}"
    shape = ""
    if data.startswith(PNG) and len(data) >= 24:
        shape = f", {int.from_bytes(data[16:20], 'big')}×{int.from_bytes(data[20:24], 'big')} pixels"
    return f"{kind} of type {_mime(block)}, {len(data)} bytes{shape}"


def _mime(block: Message) -> str:
    return str(block.get("mimeType") or "no type given")
