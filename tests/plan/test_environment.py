"""What a child inherits (ours, DESIGN §4 `inherit_env`)."""

from acp_launch.plan.environment import environment, inherited, search_path
from acp_launch.plan.model import INHERITED, Origin, Value

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


def test_all_means_everything_but_our_secrets() -> None:
    assert set(inherited(SHELL, "all")) == set(SHELL) - SECRETS


def test_minimal_keeps_what_programs_need_and_no_credential() -> None:
    assert set(inherited(SHELL, "minimal")) == set(SHELL) - SECRETS - {"OPENAI_API_KEY", "NPM_TOKEN"}


def test_a_list_names_variables_and_prefixes() -> None:
    assert set(inherited(SHELL, ("PATH", "OPENAI_*", "HOM"))) == {"PATH", "OPENAI_API_KEY"}


def test_no_list_brings_our_secrets_back() -> None:
    assert inherited(SHELL, ("ACP_LAUNCH_SECRET_X", "acp_*", "*")) == inherited(SHELL, "all")


def test_what_the_profile_sets_wins_and_every_value_knows_where_it_is_from() -> None:
    made = environment(SHELL, ("PATH", "HOME"), {"HOME": OWN, "A": OWN})
    assert {name: str(value.origin) for name, value in made.items()} == {
        "PATH": "inherited",
        "HOME": "f.yaml:3:5",
        "A": "f.yaml:3:5",
    }
    assert made["PATH"] == Value(("/bin",), INHERITED)


def test_the_search_path_is_the_one_the_child_will_have() -> None:
    assert search_path(SHELL, "all") == "/bin"
    assert search_path(SHELL, ("HOME",)) is None
    assert search_path(SHELL, "all", {"PATH": Value(("/agent",), INHERITED)}, {}) == "/agent"
    server = {"PATH": Value(("/server",), INHERITED)}
    assert search_path(SHELL, "all", {"PATH": Value(("/agent",), INHERITED)}, server) == "/server"


def test_a_value_never_shows_in_its_repr() -> None:
    assert "mine" not in repr(OWN)
