"""Text of agents in a question: without secrets, harmless, and never mistaken for text of ours."""

from acp_launch.console.stderr import harmless
from acp_launch.secret.redact import redactor
from acp_launch.session.person import Person, Tone

LONGEST = 4000  # characters of one text
SHORT = 200  # of a name


def shown(text: str, *, longest: int = SHORT) -> str:
    """Return `text` on one line; a cut says how much is missing."""
    return cut(harmless(" ".join(redactor.text(text).split()), keep=""), longest)


def cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}… [{len(text) - longest:,} more characters]"


def quote(person: Person, text: str, tone: Tone = "quote") -> None:
    """Print the text line by line, each marked; nothing for an empty text."""
    for line in cut(harmless(redactor.text(text)).strip(), LONGEST).splitlines():
        person.say(f"  | {line}", tone)
