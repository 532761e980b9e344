"""Whether a version of Node.js is within what a package asks for (`engines`, npm's range grammar). Pure."""

import re

Version = tuple[int, int, int]
_NUMBER = r"(\d{1,9}|[xX*])"
_COMPARATOR = re.compile(
    rf"\s*(>=|<=|>|<|=|\^|~)?\s*v?{_NUMBER}(?:\.{_NUMBER})?(?:\.{_NUMBER})?(?:[-+][\w.-]+)?(?![\w.])"
)


def version(text: str) -> Version | None:
    """`v22.11.0`; None for anything else."""
    found = re.match(r"v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})", text.strip())
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def satisfies(version: Version, wanted: str) -> bool | None:
    """None when `wanted` is nothing we can read, a range with a hyphen for instance."""
    verdicts = [_all(version, alternative.strip()) for alternative in wanted.split("||")]
    return True if True in verdicts else None if None in verdicts else False


def _all(version: Version, wanted: str) -> bool | None:
    position, result = 0, True
    while position < len(wanted):
        found = _COMPARATOR.match(wanted, position)
        if found is None:
            return None
        result = result and _holds(version, found[1] or "=", _given(found))
        position = found.end()
    return result


def _given(found: re.Match[str]) -> tuple[int, ...]:
    """The numbers up to the first that may be any."""
    numbers: list[int] = []
    for text in found.groups()[1:]:
        if text is None or not text.isdecimal():
            break
        numbers.append(int(text))
    return tuple(numbers)


def _holds(version: Version, sign: str, given: tuple[int, ...]) -> bool:
    if not given:
        return sign not in ("<", ">")
    low, after = _padded(given), _after(given, len(given))
    match sign:
        case ">=":
            return version >= low
        case ">":
            return version >= after
        case "<":
            return version < low
        case "<=":
            return version < after
        case "^":
            return low <= version < _after(given, _first_nonzero(given))
        case "~":
            return low <= version < _after(given, min(2, len(given)))
    return low <= version < after


def _first_nonzero(given: tuple[int, ...]) -> int:
    """How many numbers `^` keeps."""
    return next((index for index, number in enumerate(given, 1) if number), len(given))


def _after(given: tuple[int, ...], kept: int) -> Version:
    """The first version whose first `kept` numbers are beyond those given."""
    return _padded((*given[: kept - 1], given[kept - 1] + 1))


def _padded(numbers: tuple[int, ...]) -> Version:
    major, minor, patch = (*numbers, 0, 0)[:3]
    return major, minor, patch
