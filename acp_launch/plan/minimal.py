"""
`inherit_env: minimal`, the default of MCP servers: what a program needs to find its files, its language, its screen,
the network and its certificates, and what starts servers (npx, uvx, docker, deno, ...) to find what it keeps.

Too small a list breaks Nix, proxies and private certificates in ways nobody connects with it. A credential is no part
of any: one that a listed name or address holds stays behind. Not listed on purpose: `SSH_AUTH_SOCK` and the session
bus, which open the user's keys and keyring; `NODE_OPTIONS`, `NODE_PATH`, `PYTHONPATH`, `VIRTUAL_ENV` and
`LD_LIBRARY_PATH`, which bend whatever runs next; `AWS_*` and its like, which are credentials or choose them.
"""

import re

# Each also in lower case, as npm sets them; not `npm_config_*`: by those npx tells a nested npx what to run.
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
    # Where those that start servers keep what they downloaded, and where they may download from.
    *(f"NPM_CONFIG_{name}" for name in _NPM),
    *(f"npm_config_{name.lower()}" for name in _NPM),
    *("COREPACK_HOME", "PNPM_HOME", "YARN_CACHE_FOLDER", "BUN_INSTALL", "BUN_INSTALL_CACHE_DIR", "DENO_DIR"),
    *("UV_*", "PIP_INDEX_URL", "PIP_CONFIG_FILE", "PIPX_HOME", "PIPX_BIN_DIR"),
    *("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"),
)
WINDOWS = (
    *("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA"),
    *("PROGRAMFILES", "PROGRAMFILES(X86)", "USERPROFILE", "USERNAME", "HOMEDRIVE", "HOMEPATH"),
)
# Within the families above. NIX_CONFIG may hold access tokens, a user's name may be one.
_WITHHELD = re.compile(r"NIX_CONFIG|.*_(?:TOKENS?|PASSWORD|SECRET|AUTH|CREDENTIALS?|KEY|OTP|USERNAME)", re.IGNORECASE)
_LOGIN = re.compile(r"://[^/\s?#]*@")  # user:password@host, or a token for the user


def is_withheld(name: str, value: str) -> bool:
    """Whether this variable holds a credential. A proxy may: without it there is no network at all."""
    if _WITHHELD.fullmatch(name):
        return True
    return not name.upper().endswith("_PROXY") and _LOGIN.search(value) is not None
