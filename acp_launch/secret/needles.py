"""
Finds any of a set of forms in text or bytes, fast where there is none. Pure, and never changed once made.

A long form is found by sampling: whatever it stands in, one of the samples taken every `_step` characters falls on
one of its first grams, and a table tells where it would then begin. So the time is that of the samples, however
many forms there are. Short forms, and a few of any length, are searched for one by one.

A form that overlaps itself (`aaaa`) is followed from one place to the farthest that overlaps it, so that the time is
that of reading the text. What is made of the forms is bounded: the samples are closer together when there are many.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from struct import Struct
from typing import AnyStr, Generic

LONG = 10  # characters; below, the few forms there are cost less than the many samples they need
FEW = 8  # forms that are searched for one by one whatever their length
GRAM = 4  # characters of a sample: rare enough in prose
WIDEST = 64  # characters of a form that may be met by a sample; more would only make the table bigger
ENTRIES = 32 * 1024  # of the table of grams; some 200 bytes each
BLOCK = 1024  # samples looked up together
MOST = 64  # samples that are cut out in one call
END = 3  # characters by which we know that a text may end in the beginning of a form
KNOWN_ENDS = 256 * 1024  # characters of forms whose every place is known by them; beyond, the text is looked through

Span = tuple[int, int]


class Needles(Generic[AnyStr]):
    def __init__(self, forms: Iterable[str], written: Callable[[str], AnyStr]) -> None:
        """`written` gives a form as it stands in what is searched; a long one is kept as it came, and shared."""
        self._written: Callable[[str], AnyStr] = written
        self._all = sorted(set(forms), key=len)
        short = len(self._all) if len(self._all) <= FEW else sum(len(form) < LONG for form in self._all)
        self._short: list[AnyStr] = [written(form) for form in self._all[:short]]
        self._long = self._all[short:]
        self._step = min([WIDEST, *map(len, self._long)]) - GRAM + 1
        if self._long:
            self._step = max(1, min(self._step, ENTRIES // len(self._long)))
        self._most = 0 if self._short or not self._long or self._step < GRAM else MOST * self._step

    def spans(self, text: AnyStr) -> list[Span]:
        """Where forms are, from the first to the last; those that overlap are one span."""
        if self.has_none(text):
            return []
        spans = self._sampled(text) if self._long else []
        for form in self._short:
            at = text.find(form)
            while at >= 0:
                spans.append((at, end := _run(form, text, at)))
                at = text.find(form, end)
        return joined(spans) if spans else spans

    def has_none(self, text: AnyStr) -> bool:
        """Whether one look at all samples tells that there is no form: so it is with nearly every message."""
        size = len(text)
        if size >= self._most:
            return False
        if isinstance(text, bytes):
            return self._known.isdisjoint(self._cutters[(size - GRAM) // self._step + 1].unpack_from(text))
        return self._known.isdisjoint([text[at : at + GRAM] for at in range(0, size, self._step)])

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
        end, heads = text[-END:], self._heads
        if self._ends is None or end in self._ends:
            length = len(text)
            for at in range(max(0, length - self._longest + 1), length - END + 1):
                if text[at : at + END] in heads and self._begins(text[at:]):
                    return length - at
        if end[-2:] in heads:
            return len(end[-2:])
        return 1 if end[-1:] in heads else 0

    def may_begin(self, text: AnyStr, stop: int) -> bool:
        """Whether a form may begin in `text` before `stop`: false when there surely is none, cheap in any case."""
        return any(text[at : at + END] in self._heads for at in range(stop))

    def _begins(self, text: AnyStr) -> bool:
        """Whether a form begins with `text` and goes on."""
        at = bisect_left(self._ordered, text, key=self._written)
        candidates = (self._written(form) for form in self._ordered[at : at + 2])
        return any(form.startswith(text) and form != text for form in candidates)

    @cached_property
    def _ordered(self) -> list[str]:
        return sorted(self._all, key=self._written)

    @cached_property
    def _longest(self) -> int:
        return max((len(self._written(form)) for form in self._all), default=0)

    @cached_property
    def _heads(self) -> frozenset[AnyStr]:
        starts = (self._written(form[:END]) for form in self._all)
        return frozenset(start[:length] for start in starts for length in range(1, END + 1))

    @cached_property
    def _ends(self) -> frozenset[AnyStr] | None:
        """Of all beginnings; None when they would be too many to keep."""
        if sum(map(len, self._all)) > KNOWN_ENDS:
            return None
        whole = map(self._written, self._all)
        return frozenset(form[at - END : at] for form in whole for at in range(END, len(form)))

    @cached_property
    def _grams(self) -> dict[AnyStr, list[int]]:
        """Where a sample may be in a long form: its index times `WIDEST`, and the place in it."""
        grams: dict[AnyStr, list[int]] = {}
        for index, form in enumerate(self._long):
            head = self._written(form[:WIDEST])
            for offset in reversed(range(self._step)):
                grams.setdefault(head[offset : offset + GRAM], []).append(index * WIDEST + offset)
        return grams

    @cached_property
    def _known(self) -> frozenset[AnyStr]:
        return frozenset(self._grams)

    @cached_property
    def _cutters(self) -> list[Struct]:
        """By their number, what cuts samples out of bytes, all in one call."""
        sample, gap = f"{GRAM}s", f"{self._step - GRAM}x"
        return [Struct(gap.join([sample] * count)) for count in range(MOST + 1)]

    def _sampled(self, text: AnyStr) -> list[Span]:
        spans: list[Span] = []
        reached: dict[int, int] = {}
        for block in range(0, len(text), self._step * BLOCK):
            places = range(block, min(len(text), block + self._step * BLOCK), self._step)
            if not self._grams.keys().isdisjoint([text[at : at + GRAM] for at in places]):
                spans += self._met(text, places, reached)
        return spans

    def _met(self, text: AnyStr, places: Sequence[int], reached: dict[int, int]) -> Iterator[Span]:
        """`reached` is how far each form was followed already.

        Of one form, a later place shows a later beginning: each is met by the first sample in it, and among those of
        one sample the farthest back comes first.
        """
        for at in places:
            for code in self._grams.get(text[at : at + GRAM], ()):
                index, offset = divmod(code, WIDEST)
                begin = at - offset
                if begin < 0 or begin < reached.get(index, 0) - len(self._long[index]):
                    continue
                form = self._written(self._long[index])
                if begin + len(form) > reached.get(index, 0) and text.startswith(form, begin):
                    reached[index] = _run(form, text, begin)
                    yield begin, reached[index]


def _run(form: AnyStr, text: AnyStr, at: int) -> int:
    """Where the form that stands at `at` ends, or the last of those that each overlap the one before."""
    end = at + len(form)
    while (after := text.rfind(form, at + 1, end - 1 + len(form))) > at:
        at, end = after, after + len(form)
    return end


def joined(spans: list[Span]) -> list[Span]:
    """In order, those that overlap made one; neighbours stay two."""
    result: list[Span] = []
    for begin, end in sorted(spans):
        if result and begin < result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((begin, end))
    return result
