"""A key as it is typed, `mcp_servers."my.server".args[0]`, becomes a path; `document.keypath.dotted` goes back."""

import re

from acp_launch.document.keypath import KeyPath

LONGEST = 1_000  # characters
DEEPEST = 16  # steps; a profile has 5
_STEP = re.compile(
    r"""(?:^|\.)(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<name>[^."'\[\]\s][^."\[\]]*))|\[(?P<index>[0-9]{1,6})\]"""
)


class NoKey(ValueError):  # noqa: N818 - it reads as what it is
    """Raised for text that is no key."""


def parse_key(text: str) -> KeyPath:
    """
    Raises:
        NoKey: it cannot be one.
    """
    steps: list[str | int] = []
    end = 0
    while end < len(text):
        match = _STEP.match(text, end)
        if match is None or (end == 0 and text[0] in ".[") or len(text) > LONGEST or len(steps) == DEEPEST:
            raise NoKey(text)
        steps.append(_step(match))
        end = match.end()
    if not steps:
        raise NoKey(text)
    return tuple(steps)


def _step(match: re.Match[str]) -> str | int:
    if match["index"]:
        return int(match["index"])
    return match["name"] or re.sub(r"\\(.)", r"\1", match["quoted"])
