"""What helps when an agent wants a login, or refuses."""

import pytest

from acp_launch.protocol.acp import AuthMethod, Variable
from acp_launch.session.login import Advice, more

OWN = "log in with the agent's own command, then run this again"
METHOD = AuthMethod("a b", "A")


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ("OPENAI_API_KEY is not set", ["OPENAI_API_KEY"]),
        ('data: {"details":"set CODEX_API_KEY or OPENAI_API_KEY"}', ["CODEX_API_KEY", "OPENAI_API_KEY"]),
        ("use ${GITHUB_TOKEN}, GITHUB_TOKEN", ["GITHUB_TOKEN"]),
        ("HAS_KEY is wrong", []),
        ("INVALID_API_KEY", []),
        ("ERR_NO_TOKEN: MISSING_API_KEY, API_KEY, AUTH_INVALID_TOKEN", []),
        ("Internal error; api_key; KEY; XOPENAI_API_KEYS", []),
    ],
)
def test_a_variable_is_lacking_that_is_named_and_not_there(said: str, names: list[str]) -> None:
    advice = Advice(profile="p", has={"HAS_KEY"})
    assert [each.name for each in advice.lacking([said])] == names


def test_a_profile_is_changed_where_that_can_be_done() -> None:
    lacking = [Variable("A_KEY"), Variable("REGION", secret=False)]
    assert Advice(profile="my p").giving(lacking) == (
        "acp-launch secret set a-key; and add the above to the profile",
        ["in the profile, under agent.env: A_KEY: ${secret:a-key}", "in the profile, under agent.env: REGION: …"],
    )
    fix, lines = Advice(profile="codex", is_built_in=True).giving(lacking)
    assert fix == "export A_KEY=... REGION=..., then run this again: the agent inherits it"
    assert lines == [
        "to have it in every shell, create your own profile that extends codex:",
        "    acp-launch init my-codex --extends codex",
        "    acp-launch secret set a-key",
        "    acp-launch profile set my-codex agent.env.A_KEY '${secret:a-key}'",
        "    acp-launch profile set my-codex agent.env.REGION VALUE",
    ]
    assert Advice().giving(lacking) == (fix, [])


@pytest.mark.parametrize(
    ("advice", "methods", "could_show", "fix"),
    [
        (Advice(profile="p"), (METHOD,), False, "acp-launch login p"),
        (Advice(profile="p"), (), True, OWN),
        (Advice(profile="p"), (), False, f"in a terminal: acp-launch login p; or {OWN}"),
        (Advice(), (METHOD,), True, OWN),
        (Advice(command="/usr/bin/auggie"), (), False, "log in once with `auggie login`, then run this again"),
    ],
)
def test_a_login_is_advised_that_leads_somewhere(
    advice: Advice, methods: tuple[AuthMethod, ...], could_show: bool, fix: str
) -> None:
    assert advice.wanted(methods, could_show=could_show) == fix


def test_a_method_is_named_as_a_shell_reads_it() -> None:
    assert Advice(profile="./x y.yaml").login(METHOD) == "acp-launch login './x y.yaml' 'a b'"


def test_logs_are_named_where_there_are_some() -> None:
    assert more("p", "s", has_log=True) == "acp-launch logs p s"
    assert more("", has_log=True) == "acp-launch logs"
    assert not [fix for server in ("", "s") if "logs" in (fix := more("p", server, has_log=False))]
