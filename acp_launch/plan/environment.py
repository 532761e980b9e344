"""
The environment of a child: what it inherits, and what the profile sets over that.

`ACP_LAUNCH_SECRET_*` and the passphrase never pass: secrets reach the one child whose plan names them, and no other.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Literal

from acp_launch.plan.model import INHERITED, Value
from acp_launch.secret.environment import is_private

Inherit = Literal["all", "minimal"] | Sequence[str]

# What a program needs to find its files, its user, its language, the network and its certificates.
MINIMAL = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "COLORTERM", "TZ", "TMPDIR", "TMP", "TEMP", "XDG_*"),
    *("LANG", "LANGUAGE", "LC_*"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "NIX_*"),
    # Version managers put shims on PATH that find the real node or python through these.
    *("NVM_DIR", "NVM_BIN", "VOLTA_HOME", "FNM_*", "ASDF_*", "MISE_*", "PYENV_ROOT"),
    # Where npx and uvx keep what they downloaded; without them every start downloads again.
    *("NPM_CONFIG_CACHE", "npm_config_cache", "NPM_CONFIG_PREFIX", "npm_config_prefix", "UV_CACHE_DIR", "UV_TOOL_DIR"),
)
WINDOWS = (
    *("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA"),
    *("PROGRAMFILES", "PROGRAMFILES(X86)", "USERPROFILE", "USERNAME", "HOMEDRIVE", "HOMEPATH"),
)


def inherited(environ: Mapping[str, str], inherit: Inherit) -> dict[str, str]:
    """The part of `environ` a child may have."""
    allowed = _patterns(inherit)
    return {
        name: value
        for name, value in environ.items()
        if not is_private(name) and (allowed is None or _matches(name, allowed))
    }


def environment(environ: Mapping[str, str], inherit: Inherit, own: Mapping[str, Value]) -> dict[str, Value]:
    """A child's whole environment; `own` is what its profile sets."""
    return {**{name: Value((text,), INHERITED) for name, text in inherited(environ, inherit).items()}, **own}


def search_path(environ: Mapping[str, str], inherit: Inherit, *own: Mapping[str, Value]) -> str | None:
    """The PATH a child will have; of several layers the last wins. A secret in it stays a reference."""
    for layer in reversed(own):
        if "PATH" in layer:
            return "".join(str(part) for part in layer["PATH"].parts)
    return inherited(environ, inherit).get("PATH")


def _patterns(inherit: Inherit) -> Sequence[str] | None:
    if inherit == "all":
        return None
    if inherit == "minimal":
        return (*MINIMAL, *WINDOWS) if sys.platform == "win32" else MINIMAL
    return inherit


def _matches(name: str, patterns: Sequence[str]) -> bool:
    if sys.platform == "win32":  # where `Path` and `PATH` are one variable
        return _matches_exactly(name.upper(), [pattern.upper() for pattern in patterns])
    return _matches_exactly(name, patterns)


def _matches_exactly(name: str, patterns: Sequence[str]) -> bool:
    return any(name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern for pattern in patterns)
