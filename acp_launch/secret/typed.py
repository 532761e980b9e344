"""A line as it is typed, key by key, where the terminal does nothing for us. Pure."""

import re

ENTER, END, KILL, ERASE = b"\r\n", 0x04, 0x15, b"\x08\x7f"  # Enter, Ctrl-D, Ctrl-U, Backspace
ESCAPE, TAB, SPACE, BELL = 0x1B, 0x09, 0x20, b"\a"
PASTE = (b"\x1b[200~", b"\x1b[201~")  # what a terminal may put around a paste
# Keys that send several bytes: arrows, F1, Delete (ECMA-48 CSI and SS3; `ESC [ [ A` is F1 on the Linux console).
_BEGUN = re.compile(rb"\x1b(?:O|\[(?:\[|[0-?]{0,30}[ -/]{0,4}))?")
_WHOLE = re.compile(rb"\x1b(?:O[ -~]|\[\[[ -~]|\[[0-?]{0,30}[ -/]{0,4}[@-~])")
_CONTINUATION = range(0x80, 0xC0)  # the bytes of a character after its first, in UTF-8


class Line:
    """One line as it is typed: bytes in, the line out. Knows no terminal."""

    def __init__(self) -> None:
        self.typed = bytearray()
        self.is_over = False
        self.rest = b""  # what came after its end
        self._refused = 0
        self._sequence = b""  # of a key that sends several bytes, those that have come

    def feed(self, keys: bytes) -> bool:
        """False when one of them was good for nothing, an arrow for instance."""
        refused = self._refused
        for position, key in enumerate(keys):
            if self._continues(key):
                continue
            if key in ENTER or key == END:
                self.is_over = True
                self.rest = keys[position + 1 :]
                break
            self._take(key)
        return self._refused == refused

    def _continues(self, key: int) -> bool:
        """Whether it is part of a sequence. Esc alone is one too, and what is typed after it is not lost."""
        if not self._sequence and key != ESCAPE:
            return False
        sequence, self._sequence = self._sequence + bytes([key]), b""
        if _BEGUN.fullmatch(sequence):
            self._sequence = sequence
            return True
        self._refused += sequence not in PASTE
        return _WHOLE.fullmatch(sequence) is not None or self._continues(key)

    def _take(self, key: int) -> None:
        if key == KILL:
            self.typed.clear()
        elif key in ERASE:
            while self.typed and self.typed.pop() in _CONTINUATION:
                pass
        elif key < SPACE and key != TAB:
            self._refused += 1
        else:
            self.typed.append(key)
