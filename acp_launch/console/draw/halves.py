"""Text in chunks, when a chunk may end in the middle of a character."""


class Halves:
    """Joins the halves of a surrogate pair from two chunks, and replaces a half that stays alone."""

    def __init__(self) -> None:
        self._half = ""

    def whole(self, piece: str) -> str:
        """Return the whole characters of `piece`, after a half from the piece before."""
        if piece.isascii() and not self._half:
            return piece
        text, self._half = self._half + piece, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
