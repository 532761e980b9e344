"""Text in pieces, where a piece may end in the middle of a character."""


class Halves:
    """Joins the two halves of a surrogate pair that came in two pieces, and replaces a half that stays alone."""

    def __init__(self) -> None:
        self._half = ""

    def whole(self, piece: str) -> str:
        """As much of `piece`, and of what was held back before, as is whole characters."""
        if piece.isascii() and not self._half:
            return piece
        text, self._half = self._half + piece, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
