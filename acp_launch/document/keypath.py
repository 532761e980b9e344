"""Where something is inside a profile, and how a person reads it. Pure, and free of imports that cost."""

import re

KeyPath = tuple[str | int, ...]
_SIMPLE = re.compile(r"[A-Za-z0-9_-]+")


def dotted(path: KeyPath) -> str:
    """`agent.args[0]`, `mcp_servers."my server".url`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            name = step if _SIMPLE.fullmatch(step) else '"' + step.replace('"', '\\"') + '"'
            text += f".{name}" if text else name
    return text
