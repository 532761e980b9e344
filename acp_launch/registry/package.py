"""
Packages as npx and uvx are told of them: the name, and the version if it is exact. Pure.

A tag, a range, an alias or an address is not an exact version: it could mean something else tomorrow.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from acp_launch.regex import regex

Source = Literal["npm", "pypi"]
_EXACT = r"[0-9][0-9A-Za-z.+-]{0,63}"
_NPM = regex(rf"(?P<name>(?:@[A-Za-z0-9_~][\w.~-]*/)?[A-Za-z0-9_~][\w.~-]*)(?P<extras>)(?:@(?P<version>{_EXACT}))?")
_PYPI = regex(
    rf"(?P<name>[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)(?P<extras>\[[\w.,-]*\])?(?:(?:==|@)(?P<version>{_EXACT}))?"
)
# Options of the runners that name the package, and those whose value is the next word.
NAMING = {"npm": ("-p", "--package"), "pypi": ("--from",)}
VALUED = {
    "npm": ("-c", "--call", "-w", "--workspace", "--registry", "--cache", "--prefix"),
    "pypi": (
        *("-p", "--python", "--with", "--with-editable", "--with-requirements", "-i", "--index-url", "--index"),
        *("--extra-index-url", "--default-index", "-f", "--find-links", "--env-file", "-c", "--constraints"),
    ),
}
RUNNERS: dict[str, Source] = {"npx": "npm", "uvx": "pypi"}


class Package(Struct, frozen=True):
    """A package of npm or PyPI; `version` is empty if it is not told exactly."""

    source: Source
    name: str
    version: str = ""
    extras: str = ""

    def __str__(self) -> str:
        return f"{self.source}:{self.spec}"

    @property
    def spec(self) -> str:
        """How its package manager is asked for it."""
        joint = "@" if self.source == "npm" else "=="
        return f"{self.name}{self.extras}{joint}{self.version}" if self.version else f"{self.name}{self.extras}"


def read(source: Source, text: str) -> Package | None:
    """Read `NAME` or `NAME@VERSION` (`NAME==VERSION`); None if it is neither."""
    found = (_NPM if source == "npm" else _PYPI).fullmatch(text)
    return Package(source, found["name"], found["version"] or "", found["extras"] or "") if found else None


def started(runner: str, args: Sequence[str]) -> tuple[str, ...]:
    """Return what a runner (`npx`, `uvx`) is told to fetch; empty for any other program."""
    source = RUNNERS.get(runner)
    return tuple(dict.fromkeys(_told(source, args))) if source else ()


def _told(source: Source, args: Sequence[str]) -> Iterator[str]:
    words, is_named = iter(args), False
    for word in words:
        option, joined, value = word.partition("=")
        if option in NAMING[source]:
            is_named = True
            yield value if joined else next(words, "")
        elif word in VALUED[source]:
            next(words, "")
        elif word == "--":
            continue
        elif not word.startswith("-"):
            if not is_named:
                yield word
            return
