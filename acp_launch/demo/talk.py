"""Replies in text: they ask nothing of the client, and change nothing."""

from acp_launch.demo.turn import Turn

BEAT = 0.05  # seconds between the chunks of `count`: slow enough to press Ctrl-C, fast enough not to bore
STEP = 0.03  # seconds for each step of `plan`
MOST = 10_000  # chunks of `count`

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
