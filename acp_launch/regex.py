"""
Regular expressions that are compiled when they are first used.

Most runs use few of those in the modules they import, and compiling one takes 0.1-3 ms. Pure.
"""

import re
from typing import Any, AnyStr, cast


def regex(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return what `re.compile` would return, for a constant of a module."""
    return cast("re.Pattern[AnyStr]", _Regex(pattern, flags))


class _Regex:
    def __init__(self, pattern: Any, flags: int) -> None:
        self._source = pattern, flags

    def __getattr__(self, name: str) -> Any:
        """Take a method of the compiled pattern over, so that it is looked up here only once."""
        method = getattr(re.compile(*self._source), name)
        setattr(self, name, method)
        return method
