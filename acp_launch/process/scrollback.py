"""
What a command has printed, as text: the last of it, within a limit (C-72).

Secrets are hidden before anything is cut, so that none loses its beginning and is not recognised.
"""

import codecs

from acp_launch.secret.redact import Redactor, redactor
from acp_launch.secret.streams import Redacting


class Scrollback:
    def __init__(self, limit: int, source: Redactor = redactor) -> None:
        """`limit` is the most that is kept, in bytes of UTF-8; what is kept begins with a whole character."""
        self.is_cut = False
        self._limit = limit
        self._kept = bytearray()
        self._redacting = Redacting(source)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> str:
        """The text that `data` completes; what may become a character, or a secret, waits for more."""
        return self._keep(self._decoder.decode(self._redacting.feed(data)))

    def pause(self) -> str:
        """Perhaps nothing follows: what waits for being a secret is hidden."""
        return self._keep(self._decoder.decode(self._redacting.cover()))

    def end(self) -> str:
        """Nothing follows."""
        return self._keep(self._decoder.decode(self._redacting.end(), final=True))

    def text(self) -> str:
        return self._kept.decode()

    def _keep(self, text: str) -> str:
        self._kept += text.encode()
        if (over := len(self._kept) - self._limit) > 0:
            self.is_cut = True
            while over < len(self._kept) and self._kept[over] & 0xC0 == 0x80:  # within a character
                over += 1
            del self._kept[:over]
        return text
