"""Ring 1. An emoji in two pieces, as agents in JavaScript cut it."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from acp_launch.console.stream.outlet import Halves


def joined(pieces: list[str]) -> str:
    halves = Halves()
    return "".join(halves.whole(piece) for piece in pieces)


@given(st.text(), st.lists(st.integers(0, 40), max_size=5))
def test_any_cut_of_any_text_comes_out_whole(text: str, cuts: list[int]) -> None:
    units = text.encode("utf-16-le", "surrogatepass")
    places = [0, *sorted(min(2 * cut, len(units)) for cut in cuts), len(units)]
    pieces = [units[a:b].decode("utf-16-le", "surrogatepass") for a, b in itertools.pairwise(places)]
    assert joined(pieces) == text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
