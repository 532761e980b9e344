"""
The environment of a child: what it inherits, and what the profile sets over that.

`ACP_LAUNCH_SECRET_*` and the passphrase never pass: secrets reach the one child whose plan names them, and no other.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Literal

from acp_launch.plan.minimal import MINIMAL, WINDOWS, is_withheld
from acp_launch.plan.model import INHERITED, Value
from acp_launch.secret.environment import is_private

Inherit = Literal["all", "minimal"] | Sequence[str]


def inherited(environ: Mapping[str, str], inherit: Inherit) -> dict[str, str]:
    """The part of `environ` a child may have."""
    public = {name: value for name, value in environ.items() if not is_private(name)}
    if inherit == "all":
        return public
    chosen = {name: value for name, value in public.items() if _matches(name, _patterns(inherit))}
    if inherit != "minimal":
        return chosen
    return {name: value for name, value in chosen.items() if not is_withheld(name, value)}


def environment(environ: Mapping[str, str], inherit: Inherit, own: Mapping[str, Value]) -> dict[str, Value]:
    """A child's whole environment; `own` is what its profile sets."""
    return {**{name: Value((text,), INHERITED) for name, text in inherited(environ, inherit).items()}, **own}


def search_path(environ: Mapping[str, str], inherit: Inherit, *own: Mapping[str, Value]) -> str | None:
    """The PATH a child will have; of several layers the last wins. A secret in it stays a reference."""
    for layer in reversed(own):
        if "PATH" in layer:
            return "".join(str(part) for part in layer["PATH"].parts)
    return inherited(environ, inherit).get("PATH")


def _patterns(inherit: Inherit) -> Sequence[str]:
    if inherit == "minimal":
        return (*MINIMAL, *WINDOWS) if sys.platform == "win32" else MINIMAL
    return inherit


def _matches(name: str, patterns: Sequence[str]) -> bool:
    if sys.platform == "win32":  # where `Path` and `PATH` are one variable
        return _matches_exactly(name.upper(), [pattern.upper() for pattern in patterns])
    return _matches_exactly(name, patterns)


def _matches_exactly(name: str, patterns: Sequence[str]) -> bool:
    return any(name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern for pattern in patterns)
