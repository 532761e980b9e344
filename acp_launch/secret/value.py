"""
A resolved secret. Everything that shows a value by accident shows `***` or refuses: repr, str, formats, pickles, JSON.

`expose` is the one way to the text, and `tests/test_architecture.py` knows who may call it.
"""

from typing import NoReturn

MASK = "***"


class Secret:
    __slots__ = ("__text",)

    def __init__(self, text: str) -> None:
        self.__text = text

    def expose(self) -> str:
        """The text itself: for a child's environment, an HTTP header, a store or the redactor, and nothing else."""
        return self.__text

    def __repr__(self) -> str:
        return MASK

    def __str__(self) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self.__text == other.__text

    __hash__ = None  # type: ignore[assignment]  # a hash in a set or a cache would tell something of the text

    def __format__(self, spec: str) -> NoReturn:
        raise TypeError("a secret cannot be formatted")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a secret cannot be pickled or copied")
