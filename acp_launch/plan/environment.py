"""
The environment of a child: the variables that it inherits, and over them those that the profile sets.

`ACP_LAUNCH_SECRET_*` and the passphrase are never inherited: a secret reaches only the child whose plan names it.
"""

import re
from collections.abc import Mapping

from acp_launch.plan.model import INHERITED, Value
from acp_launch.profile.values import Inherit
from acp_launch.regex import regex
from acp_launch.secret.value import is_private

# `inherit_env: minimal`, the default of MCP servers: what a program needs to find its files, its language, its screen,
# the network and certificates, and what runners of servers (npx, uvx, docker, deno, ...) need to find their data.
#
# Too small a list breaks Nix, proxies and private certificates in ways that are hard to trace. Credentials are never
# inherited: a listed variable that holds one stays behind. Left out on purpose: `SSH_AUTH_SOCK` and the session bus,
# which open the user's keys and keyring; `NODE_OPTIONS`, `NODE_PATH`, `PYTHONPATH`, `VIRTUAL_ENV` and
# `LD_LIBRARY_PATH`, which change what runs next; `AWS_*` and similar names, which hold or choose credentials.

# Each also in lower case, as npm sets them. Not `npm_config_*`, with which npx tells a nested npx what to run.
_NPM = (
    *("REGISTRY", "CACHE", "PREFIX", "USERCONFIG", "GLOBALCONFIG", "OFFLINE", "PREFER_OFFLINE"),
    *("PROXY", "HTTPS_PROXY", "NOPROXY", "CAFILE", "STRICT_SSL"),
)
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
MINIMAL = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "COLORTERM", "TZ", "TMPDIR", "TMP", "TEMP", "XDG_*"),
    *("LANG", "LANGUAGE", "LC_*", "LOCALE_ARCHIVE", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "WSL_*"),
    *_PROXIES,
    *(name.lower() for name in _PROXIES),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE", "GIT_SSL_CAINFO"),
    *("NODE_EXTRA_CA_CERTS", "NODE_USE_SYSTEM_CA", "NODE_USE_ENV_PROXY", "PIP_CERT", "DENO_CERT", "DENO_TLS_CA_STORE"),
    "NIX_*",
    # Version managers put shims on PATH that find the real node or python through these.
    *("NVM_DIR", "NVM_BIN", "VOLTA_HOME", "FNM_*", "ASDF_*", "MISE_*", "PYENV_ROOT", "RBENV_ROOT"),
    *("CARGO_HOME", "RUSTUP_HOME", "GOPATH", "GOROOT", "JAVA_HOME", "DOTNET_ROOT"),
    # Where runners of servers store their downloads, and where they may download from.
    *(f"NPM_CONFIG_{name}" for name in _NPM),
    *(f"npm_config_{name.lower()}" for name in _NPM),
    *("COREPACK_HOME", "PNPM_HOME", "YARN_CACHE_FOLDER", "BUN_INSTALL", "BUN_INSTALL_CACHE_DIR", "DENO_DIR"),
    *("UV_*", "PIP_INDEX_URL", "PIP_CONFIG_FILE", "PIPX_HOME", "PIPX_BIN_DIR"),
    *("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"),
)
# Exceptions from the families above. NIX_CONFIG may hold access tokens, and a user name may be one.
_WITHHELD = regex(r"NIX_CONFIG|.*_(?:TOKENS?|PASSWORD|SECRET|AUTH|CREDENTIALS?|KEY|OTP|USERNAME)", re.IGNORECASE)
_LOGIN = regex(r"://[^/\s?#]*@")  # user:password@host, or a token for the user


def is_withheld(name: str, value: str) -> bool:
    """Whether this variable holds a credential. A proxy address may have one, since there is no network without it."""
    if _WITHHELD.fullmatch(name):
        return True
    return not name.upper().endswith("_PROXY") and _LOGIN.search(value) is not None


def inherited(environ: Mapping[str, str], inherit: Inherit) -> dict[str, str]:
    """Return the part of `environ` that a child inherits."""
    public = {name: value for name, value in environ.items() if not is_private(name)}
    if inherit == "all":
        return public
    listed = MINIMAL if inherit == "minimal" else inherit
    names, families = frozenset(listed), tuple(pattern[:-1] for pattern in listed if pattern.endswith("*"))
    chosen = {name: value for name, value in public.items() if name in names or name.startswith(families)}
    if inherit != "minimal":
        return chosen
    return {name: value for name, value in chosen.items() if not is_withheld(name, value)}


def environment(environ: Mapping[str, str], inherit: Inherit, own: Mapping[str, Value]) -> dict[str, Value]:
    """Return a child's whole environment; `own` is what its profile sets."""
    return {**{name: Value((text,), INHERITED) for name, text in inherited(environ, inherit).items()}, **own}


def search_path(environ: Mapping[str, str], inherit: Inherit, *own: Mapping[str, Value]) -> str | None:
    """Return the PATH of a child; of several `own` layers the last wins. A secret in it stays a reference."""
    for layer in reversed(own):
        if "PATH" in layer:
            return "".join(str(part) for part in layer["PATH"].parts)
    path = {name: environ[name] for name in ("PATH",) if name in environ}
    return inherited(path, inherit).get("PATH")


# What differs from one terminal, login or shell to the next, and says nothing of what a server works with.
_TERMINAL_VARIABLES = regex(
    r"_|PWD|OLDPWD|SHLVL|PS[0-4]|PROMPT(_.*)?|R?PROMPT|HIST(FILE|SIZE|FILESIZE|CONTROL|IGNORE)|LINES|COLUMNS|LS_COLORS"
    r"|LESS(OPEN|CLOSE)?|MAIL|DIRENV_.*|STARSHIP_.*|__MISE_.*|TMPDIR|TMP|TEMP|ACP_LAUNCH_ID"
    r"|TERM|TERM_.*|TERM(INFO|INFO_DIRS|CAP|INAL_EMULATOR)|COLORTERM|COLORFGBG|LC_TERMINAL(_VERSION)?|WINDOWID|WINDOW|STY"
    r"|(TMUX|ZELLIJ)(_.*)?|(VTE|KITTY|WEZTERM|ALACRITTY|ITERM|GHOSTTY|KONSOLE|GNOME_TERMINAL|VSCODE)_.*"
    r"|WT_(SESSION|PROFILE_ID)|ZED_TERM|INSIDE_EMACS|NVIM(_.*)?|VIM(RUNTIME)?|MYVIMRC|GPG_TTY|SSH_(TTY|CONNECTION|CLIENT|AGENT_PID)"
    r"|XDG_(?!.*_HOME).*|DISPLAY|WAYLAND_DISPLAY|XAUTHORITY|SESSION_MANAGER|DESKTOP_(SESSION|STARTUP_ID)|GIO_LAUNCHED_.*"
    r"|INVOCATION_ID|JOURNAL_STREAM|SYSTEMD_EXEC_PID|MANAGERPID"
)


def list_compared(env: Mapping[str, Value], inherit: Inherit) -> tuple[str, ...]:
    """Return the names of variables that make a server another one, if it is shared by launches: those that the profile
    sets or names, and all others but those of a terminal, a login or a shell."""
    named = {} if isinstance(inherit, str) else inherited(dict.fromkeys(env, ""), inherit)
    return tuple(
        name
        for name, value in sorted(env.items())
        if value.origin != INHERITED or name in named or not _TERMINAL_VARIABLES.fullmatch(name)
    )
