"""
Finds any of a set of forms in text or bytes, fast where there is none. Pure, and never changed once made.

A long form is found by sampling: whatever it stands in, one of the samples taken every `_step` characters falls on
one of its first grams, and a table tells where it would then begin. So the time is that of the samples, however
many forms there are. Short forms, and a few of any length, are searched for one by one.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import AnyStr, Generic

LONG = 10  # characters; below, the few forms there are cost less than the many samples they need
FEW = 8  # forms that are searched for one by one whatever their length
GRAM = 4  # characters of a sample: rare enough in prose
WIDEST = 64  # characters of a form that may be met by a sample; more would only make the table bigger
BLOCK = 1024  # samples looked up together
END = 3  # characters by which we know that a text may end in the beginning of a form

Span = tuple[int, int]


class Needles(Generic[AnyStr]):
    def __init__(self, forms: Iterable[AnyStr]) -> None:
        self._forms: list[AnyStr] = sorted(set(forms), key=len)
        short = len(self._forms) if len(self._forms) <= FEW else sum(len(form) < LONG for form in self._forms)
        self._short: list[AnyStr] = self._forms[:short]
        long: list[AnyStr] = self._forms[short:]
        self._step = min([WIDEST, *map(len, long)]) - GRAM + 1
        self._grams: dict[AnyStr, list[tuple[AnyStr, int]]] = {}
        for form in long:
            for offset in range(self._step):
                self._grams.setdefault(form[offset : offset + GRAM], []).append((form, offset))

    def spans(self, text: AnyStr) -> list[Span]:
        """Where forms are, from the first to the last; those that overlap are one span."""
        spans = self._sampled(text) if self._grams else []
        for form in self._short:
            if form in text:
                spans += _every(form, text)
        return joined(spans) if spans else spans

    def masked(self, text: AnyStr, mask: AnyStr) -> AnyStr:
        """`text` with `mask` for every span, again until none is left; `text` itself when there is none.

        Again, because a mask and what is beside it may be a form too. `mask` must be shorter than every form.
        """
        spans: list[Span]
        while spans := self.spans(text):
            edges = [0, *(edge for span in spans for edge in span), len(text)]
            text = mask.join([text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)])
        return text

    def held(self, text: AnyStr) -> int:
        """The length of the longest end of `text` that is the beginning of a form, and not the whole of it."""
        end = text[-END:]
        if end in self._ends and (longest := max(self._beginning(form, text, end) for form in self._forms)):
            return longest
        if end[-2:] in self._heads:
            return len(end[-2:])
        return 1 if end[-1:] in self._heads else 0

    def may_begin(self, text: AnyStr, stop: int) -> bool:
        """Whether a form may begin in `text` before `stop`: false when there surely is none, cheap in any case."""
        return any(text[at : at + END] in self._heads for at in range(stop))

    @cached_property
    def _heads(self) -> frozenset[AnyStr]:
        return frozenset(form[:length] for form in self._forms for length in range(1, END + 1))

    @cached_property
    def _ends(self) -> frozenset[AnyStr]:
        """Of all beginnings. Made when it is first needed: the forms of a value of 64 KiB have 250,000 of them."""
        return frozenset(form[at - END : at] for form in self._forms for at in range(END, len(form)))

    def _sampled(self, text: AnyStr) -> list[Span]:
        spans: list[Span] = []
        for block in range(0, len(text), self._step * BLOCK):
            places = range(block, min(len(text), block + self._step * BLOCK), self._step)
            if not self._grams.keys().isdisjoint([text[at : at + GRAM] for at in places]):
                spans += self._met(text, places)
        return spans

    def _met(self, text: AnyStr, places: Sequence[int]) -> Iterator[Span]:
        for at in places:
            for form, offset in self._grams.get(text[at : at + GRAM], ()):
                if offset <= at and text.startswith(form, at - offset):
                    yield at - offset, at - offset + len(form)

    def _beginning(self, form: AnyStr, text: AnyStr, end: AnyStr) -> int:
        at = min(len(form) - 1, len(text))
        while (at := form.rfind(end, 0, at)) >= 0:
            if text.endswith(form[: at + len(end)]):
                return at + len(end)
            at += len(end) - 1
        return 0


def _every(form: AnyStr, text: AnyStr) -> Iterator[Span]:
    at = text.find(form)
    while at >= 0:
        yield at, at + len(form)
        at = text.find(form, at + 1)


def joined(spans: list[Span]) -> list[Span]:
    """In order, those that overlap made one; neighbours stay two."""
    result: list[Span] = []
    for begin, end in sorted(spans):
        if result and begin < result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((begin, end))
    return result
