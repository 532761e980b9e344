"""What a child inherits (ours, docs/profiles.md `inherit_env`)."""

import pytest

from acp_launch.plan.executable import environment, inherited, search_path
from acp_launch.plan.model import INHERITED, Origin, Value
from acp_launch.profile.values import Inherit

SHELL = {
    "PATH": "/bin",
    "HOME": "/h",
    "LC_ALL": "C",
    "XDG_STATE_HOME": "/s",
    "https_proxy": "p",
    "SSL_CERT_FILE": "/c",
    "OPENAI_API_KEY": "k",
    "NPM_TOKEN": "t",
    "ACP_LAUNCH_SECRET_X": "s",
    "acp_launch_secret_y": "s",
    "ACP_LAUNCH_PASSPHRASE": "p",
}
SECRETS = {"ACP_LAUNCH_PASSPHRASE", "ACP_LAUNCH_SECRET_X", "acp_launch_secret_y"}
OWN = Value(("mine",), Origin("f.yaml", 3, 5, "agent.env.A"))


def test_minimal_is_not_too_small_for_nix_proxies_certificates_npx_and_uvx() -> None:
    """agentic.nvim#120: what too small a list breaks."""
    for name in [
        *("HTTPS_PROXY", "no_proxy", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"),
        *("NIX_SSL_CERT_FILE", "NIX_PATH", "NIX_LD_LIBRARY_PATH", "LOCALE_ARCHIVE"),
        *(
            "npm_config_registry",
            "NPM_CONFIG_USERCONFIG",
            "npm_config_cache",
            "NPM_CONFIG_HTTPS_PROXY",
            "COREPACK_HOME",
        ),
        *("UV_CACHE_DIR", "UV_INDEX_URL", "UV_PYTHON", "UV_KEYRING_PROVIDER", "DENO_DIR", "BUN_INSTALL", "DOCKER_HOST"),
        *("NVM_DIR", "MISE_DATA_DIR", "XDG_RUNTIME_DIR", "XAUTHORITY", "LC_ALL", "TMPDIR"),
    ]:
        assert inherited({name: "x"}, "minimal") == {name: "x"}


def test_minimal_holds_no_credential_and_nothing_that_bends_what_runs() -> None:
    for name in [
        *("npm_config__authToken", "NPM_CONFIG__AUTH", "npm_config_//registry/:_authToken", "npm_config_otp"),
        *("npm_config_package", "npm_config_local_prefix", "NODE_AUTH_TOKEN", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY"),
        *(
            "UV_PUBLISH_TOKEN",
            "UV_PUBLISH_PASSWORD",
            "UV_INDEX_CORP_PASSWORD",
            "UV_INDEX_CORP_USERNAME",
            "UV_GITHUB_TOKEN",
        ),
        *("NIX_CONFIG", "MISE_GITHUB_TOKEN", "MISE_SOPS_AGE_KEY", "COREPACK_NPM_TOKEN", "DENO_AUTH_TOKENS"),
        *(
            "DOCKER_AUTH_CONFIG",
            "SSH_AUTH_SOCK",
            "DBUS_SESSION_BUS_ADDRESS",
            "NODE_OPTIONS",
            "PYTHONPATH",
            "VIRTUAL_ENV",
        ),
    ]:
        assert inherited({name: "x"}, "minimal") == {}
        assert inherited({name: "x"}, "all") == {name: "x"}
        assert inherited({name: "x"}, (name,)) == {name: "x"}


def test_a_login_in_an_address_stays_behind_but_a_proxys_passes() -> None:
    """Without its proxy a program has no network at all."""
    shell = {
        "UV_INDEX_URL": "https://ci:hunter2@pypi.corp/simple",
        "UV_INDEX": "a=https://pypi.corp/simple b=https://hunter2@pypi.corp/other",
        "npm_config_registry": "https://npm.corp/@scope/",
        "HTTPS_PROXY": "http://me:hunter2@proxy:3128",
        "npm_config_https_proxy": "http://me:hunter2@proxy:3128",
    }
    assert set(inherited(shell, "minimal")) == {"npm_config_registry", "HTTPS_PROXY", "npm_config_https_proxy"}


@pytest.mark.parametrize(
    ("inherit", "names"),
    [
        ("all", set(SHELL) - SECRETS),
        (("ACP_LAUNCH_SECRET_X", "acp_*", "*"), set(SHELL) - SECRETS),
        ("minimal", set(SHELL) - SECRETS - {"OPENAI_API_KEY", "NPM_TOKEN"}),
        (("PATH", "OPENAI_*", "HOM"), {"PATH", "OPENAI_API_KEY"}),
    ],
)
def test_a_child_inherits_what_is_asked_for_and_never_our_secrets(inherit: Inherit, names: set[str]) -> None:
    assert inherited(SHELL, inherit) == {name: SHELL[name] for name in names}


def test_what_the_profile_sets_wins_and_every_value_knows_where_it_is_from() -> None:
    made = environment(SHELL, ("PATH", "HOME"), {"HOME": OWN, "A": OWN})
    assert {name: str(value.origin) for name, value in made.items()} == {
        "PATH": "inherited",
        "HOME": "f.yaml:3:5",
        "A": "f.yaml:3:5",
    }
    assert made["PATH"] == Value(("/bin",), INHERITED)
    assert "mine" not in repr(OWN)


def test_the_search_path_is_the_one_the_child_will_have() -> None:
    assert search_path(SHELL, "all") == "/bin"
    assert search_path(SHELL, ("HOME",)) is None
    assert search_path(SHELL, "all", {"PATH": Value(("/agent",), INHERITED)}, {}) == "/agent"
    server = {"PATH": Value(("/server",), INHERITED)}
    assert search_path(SHELL, "all", {"PATH": Value(("/agent",), INHERITED)}, server) == "/server"
