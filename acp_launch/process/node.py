"""Node.js, which many agents and servers need: its versions, and what an agent that died of an old one says. Pure."""

from collections.abc import Sequence

from acp_launch.regex import regex

Version = tuple[int, ...]
_COMPARATOR = regex(r"([<>=^~]*)\s*v?(\d+(?:\.\d+)*)")
_VERSION = regex(r"v?(\d+\.\d+\.\d+)")
_HYPHEN = regex(r"(\S+)\s+-\s+(\S+)")
_REPORT = regex(r"Node\.js v(\d+\.\d+\.\d+)")
# An older node does not know the syntax, a module or a global of node itself, or an option of the script's first line.
# A syntax error that the program throws itself, as JSON.parse does, has another first frame.
_TOO_OLD = regex(
    r"SyntaxError: [^\n]*\n\s+at [^\n]*node:internal|ERR_UNKNOWN_BUILTIN_MODULE|ERR_REQUIRE_ESM|node: bad option"
    r"|ReferenceError: (?:File|WebSocket|CustomEvent|navigator) is not defined"
    r"|Cannot find module 'node:|[Rr]equires Node(?:\.js)? (?:version )?(?:>|v?\d)"
    r"|(?:Promise\.withResolvers|(?:Array|Iterator)\.from(?:Async)?|(?:Object|Map)\.groupBy|styleText|structuredClone"
    r"|\.(?:toSorted|toReversed|toSpliced|findLast|isSubsetOf)) is not a function"
)


def parse_version(text: str) -> Version:
    """Read `v20.20.2` or `v23.0.0-nightly`; empty for any other text."""
    found = _VERSION.match(text)
    return _numbers(found[1]) if found else ()


def satisfies(version: Version, engines: str) -> bool:
    """Whether a version is in a range of npm: `>=22`, `^20.19.0 || >=22.12`, `20.x`, `18 - 22`."""
    choices = (_HYPHEN.sub(r">=\1 <=\2", choice) for choice in engines.split("||"))
    return any(
        all(_holds(version, sign, _numbers(bound)) for sign, bound in _COMPARATOR.findall(choice)) for choice in choices
    )


def _numbers(text: str) -> Version:
    return tuple(map(int, text.split(".")))


def _holds(version: Version, sign: str, bound: Version) -> bool:
    near = version[: len(bound)]
    match sign:
        case ">=":
            return version >= bound
        case ">":
            return near > bound
        case "<":
            return version < bound
        case "<=":
            return near <= bound
        case "^":
            return version >= bound and version[0] == bound[0]
        case "~":
            return version >= bound and near[:2] == bound[:2]
        case _:
            return near == bound


def advice(stderr: Sequence[str]) -> str:
    """Return the fix for a program that its node is too old for, by its last lines; empty for any other."""
    text = "\n".join(stderr)
    if not _TOO_OLD.search(text):
        return ""
    found = _REPORT.search(text)
    here = f"Node.js {found[1]}" if found else "this Node.js"
    return f"{here} does not understand this program: install a newer one (https://nodejs.org), then try again"
