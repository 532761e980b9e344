"""Values to hide and texts that hold them, whole and in parts, for the property tests of the redactor."""

from collections.abc import Sequence

from hypothesis import strategies as st

from acp_launch.secret.redact import Redactor
from acp_launch.secret.value import Secret

# Few letters, so that values overlap, repeat themselves and begin alike. No `*`: what a value that holds our mask
# does to it is tested by example.
ALPHABET = 'ab1{"\\\né'
_ORDINARY = st.text("abcdefghijklmnop0123456789_-", min_size=6, max_size=60)
SECRETS = st.lists(
    (st.text(ALPHABET, min_size=6, max_size=14) | _ORDINARY).filter(lambda text: len(text.strip()) >= 6),
    min_size=1,
    max_size=4,
)
TEXTS = st.text(ALPHABET, max_size=6) | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def knowing(*values: str) -> Redactor:
    redactor = Redactor()
    redactor.register(*map(Secret, values))
    return redactor


def held(redactor: Redactor, text: str) -> int:
    """How many characters at the end of the text may become a form with what follows."""
    return redactor.tables.text.held(text) if redactor.tables else 0


@st.composite
def texts(draw: st.DrawFn, forms: Sequence[str]) -> str:
    """Some of the forms, beginnings and ends of others, and anything in between."""
    form = st.sampled_from(sorted(forms))
    cut = st.integers(1, 20)
    pieces = st.one_of(
        TEXTS, form, st.builds(lambda form, at: form[:at], form, cut), st.builds(lambda form, at: form[-at:], form, cut)
    )
    return "".join(draw(st.lists(pieces.filter(lambda piece: "*" not in piece), max_size=6)))
