"""
A Markdown text that grows: which of it will not change any more.

It is finished at a blank line outside of code, unless what follows still belongs to the same list. A piece never
becomes longer than LIMIT: a longer one is cut at the end of a line, and goes on in the next piece with what it needs
to be read the same, the first line of its code block or the head of its table. So what is unfinished is always small,
and each character is looked at a bounded number of times.
"""

import re

from msgspec import Struct

LIMIT = 4096  # characters of one piece
ITEM = re.compile(r"\s*([-*+]|\d{1,9}[.)])(\s|$)")
DELIMITER = re.compile(r"\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$")  # below the head of a table


class Piece(Struct, frozen=True):
    text: str
    goes_on: bool  # where the piece before was cut


class Growing:
    def __init__(self) -> None:
        self._done: list[Piece] = []
        self._lines: list[str] = []  # of the unfinished piece, what it took over included
        self._length = 0  # of what is new in it
        self._line: list[str] = []  # the beginning of its next line, as it came
        self._line_length = 0
        self._goes_on = False
        self._begin_with = ""  # what the next piece would need from this one
        self._fence = ""
        self._is_list = False
        self._is_blank = False  # whether the last line was

    @property
    def goes_on(self) -> bool:
        """Whether what is unfinished follows a piece that was cut."""
        return self._goes_on

    def add(self, text: str) -> None:
        *whole, last = text.split("\n")
        for line in whole:
            self._begin(line)
            self._end_line()
        if last:
            self._begin(last)

    def take(self) -> list[Piece]:
        """What was finished since the last time."""
        done, self._done = self._done, []
        return done

    def rest(self) -> list[Piece]:
        """All that is left; the next text begins anew."""
        if self._length + self._line_length:
            self._lines += self._line
            self._finish()
        self._lines, self._line, self._line_length = [], [], 0
        self._begin_with, self._fence, self._goes_on, self._is_blank = "", "", False, False
        return self.take()

    def tail(self, limit: int, lines: int) -> str:
        """The unfinished end: about `limit` characters of it at most, and `lines` lines where each has its own row."""
        has_rows = self._fence or self._is_list or self._begin_with
        text = "".join([*(self._lines[-lines:] if has_rows else self._lines), *self._line])
        if len(text) <= limit:
            is_whole = not has_rows or len(self._lines) <= lines
            return text if is_whole else self._begin_with + text
        cut = text.find("\n", len(text) - limit) + 1
        if not cut or len(text) - cut < limit // 2:  # a line longer than that
            cut = text.find(" ", len(text) - limit) + 1 or len(text) - limit
        return self._begin_with + text[cut:]

    def _begin(self, text: str) -> None:
        """More of the next line; one that is too long is cut, at a space where it has one."""
        if self._is_blank and not self._is_list and text.strip():  # whatever the line will be, it is another piece
            self._finish()
            self._is_blank = False
        self._line.append(text)
        self._line_length += len(text)
        while self._line_length > LIMIT:
            line = "".join(self._line)
            cut = line.rfind(" ", LIMIT // 2, LIMIT) + 1 or LIMIT
            self._lines.append(line[:cut])
            self._line, self._line_length = [line[cut:]], len(line) - cut
            self._cut()

    def _end_line(self) -> None:
        line = "".join([*self._line, "\n"])
        self._line, self._line_length = [], 0
        self._read(line)
        self._lines.append(line)
        self._length += len(line)
        if self._length > LIMIT:
            self._cut()

    def _read(self, line: str) -> None:
        """What this line does to the piece; it may be the first of another one."""
        bare = line.strip()
        if self._fence:
            self._close_fence(bare)
        elif not bare:
            self._is_blank, self._begin_with = True, ""
        else:
            if self._is_blank and not self._belongs(line):
                self._finish()
            self._is_blank = False
            self._is_list = self._is_list or ITEM.match(line) is not None
            self._open(line, bare)

    def _belongs(self, line: str) -> bool:
        """Whether it goes on with the list before the blank line."""
        return self._is_list and (line.startswith(("  ", "\t")) or ITEM.match(line) is not None)

    def _open(self, line: str, bare: str) -> None:
        """A block of code, or a table."""
        mark = bare[0]
        fence = bare[: len(bare) - len(bare.lstrip(mark))] if mark in "`~" else ""
        if len(fence) >= 3 and (mark == "~" or mark not in bare[len(fence) :]):
            self._fence, self._begin_with = fence, line
        elif "|" in bare and self._lines and "|" in self._lines[-1] and DELIMITER.match(bare):
            self._begin_with = self._lines[-1] + line
        elif "|" not in bare:
            self._begin_with = ""  # no row of a table any more

    def _close_fence(self, bare: str) -> None:
        if bare.startswith(self._fence) and not bare.strip(self._fence[0]):
            self._fence = self._begin_with = ""

    def _finish(self) -> None:
        self._done.append(Piece("".join(self._lines), self._goes_on))
        self._lines, self._length, self._goes_on, self._is_list = [], 0, False, False

    def _cut(self) -> None:
        is_list = self._is_list
        self._finish()
        self._lines = [self._begin_with] if self._begin_with else []
        self._goes_on, self._is_list = True, is_list
