"""
The mark that begins acp-launch's own lines. Text of agents, servers and files cannot contain it.

An agent's text stands on the same screen as notices and questions of acp-launch, and may imitate one ("acp-launch:
type your keyring passphrase"). So text that comes from an agent, a server or a file has an escape in place of this
character, on a terminal and in every file or pipe that acp-launch writes its own lines to. Pure.
"""

MARK = "▐"
COLUMNS = 2  # width of the mark and its space; continuation lines are indented as far
_VISIBLE = MARK.encode("unicode_escape").decode()


def marked(text: str) -> str:
    """Put the mark before `text`. Its further lines are indented, so that quoted text never begins a marked line."""
    return f"{MARK} {text}".replace("\n", "\n  ")


def unmarked(text: str) -> str:
    """Escape the mark in text of an agent, a server or a file, so that it cannot imitate acp-launch."""
    return text.replace(MARK, _VISIBLE)
