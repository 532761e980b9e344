"""
What tells our own lines from what others say: they begin with a mark, and nothing that others say can hold it.

An agent's text stands on the same screen as our notices and questions, and may well look like one ("acp-launch: type
your keyring passphrase"). So whatever we show of an agent, a server or a file has an escape in the place of this
character: wherever it is shown on a terminal, and wherever it goes to the same file or pipe as our own lines. Pure.
"""

MARK = "▐"
COLUMNS = 2  # at the beginning of each line of what is marked, and of what stands below it
_VISIBLE = MARK.encode("unicode_escape").decode()


def marked(text: str) -> str:
    """`text` as ours. Its further lines are indented: what others say in them begins no line of ours."""
    return f"{MARK} {text}".replace("\n", "\n  ")


def unmarked(text: str) -> str:
    """`text` of others, which cannot pass for ours."""
    return text.replace(MARK, _VISIBLE)
