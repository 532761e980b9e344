"""What makes two servers of different launches one (docs/profiles.md, "Shared servers")."""

import json
from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from acp_launch.document.scalars import Duration
from acp_launch.plan.executable import environment, list_compared
from acp_launch.plan.model import INHERITED, Origin, StdioPlan, Value
from acp_launch.plan.shared import (
    SharedServer,
    as_plain,
    differences,
    from_plain,
    share_key,
    shared_server,
)
from acp_launch.profile.model import USER_IDLE, Backoff, Restart, ServerTimeouts
from acp_launch.profile.values import Inherit
from acp_launch.secret.value import Secret, SecretReference

FILE = Origin("demo.yaml", 4, 3)
TOKEN = "canary-of-a-shared-server"
SHELL = {
    "PATH": "/bin",
    "HOME": "/home/me",
    "LANG": "C.UTF-8",
    "LC_TIME": "de_DE.UTF-8",
    "https_proxy": "http://proxy",
    "TERM": "xterm",
    "COLORTERM": "truecolor",
    "XDG_SESSION_ID": "3",
    "DISPLAY": ":0",
    "TMPDIR": "/tmp/a",
    "ACP_LAUNCH_ID": "0123456789abcdef",
}


def planned(
    inherit: Inherit = "minimal",
    shell: Mapping[str, str] = SHELL,
    own: Mapping[str, Value] | None = None,
    cwd: Path | None = None,
) -> StdioPlan:
    env = environment(shell, inherit, {"TOKEN": Value((SecretReference("token"),), FILE)} if own is None else own)
    return StdioPlan(
        name="github", command=Path("/bin/server"), args=(), env=env, cwd=cwd, compared=list_compared(env, inherit)
    )


def server(plan: StdioPlan | None = None, token: str = TOKEN, *directories: str) -> SharedServer:
    return shared_server(plan or planned(), {"token": Secret(token)}, [Path(each) for each in directories])


BASE = planned()


PASSING = [
    "_",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "PS1",
    "PROMPT_COMMAND",
    "HISTFILE",
    "LINES",
    "COLUMNS",
    "LS_COLORS",
    "DIRENV_DIFF",
    "STARSHIP_SESSION_KEY",
    "TERM",
    "COLORTERM",
    "TERM_PROGRAM",
    "TERM_SESSION_ID",
    "TERMINFO",
    "LC_TERMINAL",
    "VTE_VERSION",
    "KITTY_WINDOW_ID",
    "WINDOWID",
    "TMUX",
    "TMUX_PANE",
    "STY",
    "ZELLIJ",
    "VSCODE_IPC_HOOK_CLI",
    "INSIDE_EMACS",
    "NVIM",
    "GPG_TTY",
    "SSH_TTY",
    "SSH_CONNECTION",
    "SSH_CLIENT",
    "XDG_SESSION_ID",
    "XDG_RUNTIME_DIR",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "SESSION_MANAGER",
    "DESKTOP_STARTUP_ID",
    "INVOCATION_ID",
    "TMPDIR",
    "ACP_LAUNCH_ID",
]
TELLING = [
    "AWS_PROFILE",
    "AWS_REGION",
    "KUBECONFIG",
    "DATABASE_URL",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "PGHOST",
    "GOOGLE_CLOUD_PROJECT",
    "NODE_ENV",
    "VIRTUAL_ENV",
    "PYTHONPATH",
    "XDG_CONFIG_HOME",
    "SSH_AUTH_SOCK",
    "TZ",
    "GITHUB_TOKEN",
    "TERMINUS_TOKEN",
    "PWDB",
    "DISPLAY_NAME",
    "HOST",
    "MY_TERM",
    "PS",
    "PSQL_HOST",
    "TERMS",
    "LESSON",
    "USER",
    "SSL_CERT_FILE",
]


@pytest.mark.parametrize("name", PASSING)
@pytest.mark.parametrize("inherit", ["minimal", "all"])
def test_variables_of_a_terminal_do_not_keep_launches_apart(name: str, inherit: Inherit) -> None:
    for before in ({}, {name: "one"}):
        here, there = (server(planned(inherit, {**SHELL, **each})) for each in (before, {name: "another"}))
        assert share_key(here) == share_key(there)
    assert share_key(here) == share_key(there)
    assert differences(here, there) == []


@pytest.mark.parametrize("name", ["PATH", "HOME", "LANG", "LC_TIME", "https_proxy", "HTTP_PROXY"])
def test_what_a_server_is_found_and_speaks_by_keeps_them_apart(name: str) -> None:
    there = server(planned(shell={**SHELL, name: "another"}))
    assert differences(server(), there) == [f"variable {name}"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda plan: replace(plan, command=Path("/bin/other")), "command (here /bin/server, there /bin/other)"),
        (lambda plan: replace(plan, args=(Value(("-v",), FILE),)), "arguments"),
        (lambda plan: replace(plan, cwd=Path("/work")), "directory (here an empty one, there /work)"),
        (lambda plan: replace(plan, protocol="modern"), "protocol (here auto, there modern)"),
        (lambda plan: replace(plan, restart=Restart(max=1)), "restart"),
        (lambda plan: replace(plan, timeouts=ServerTimeouts(start=Duration(1))), "timeouts.start (here 30, there 1)"),
        (lambda plan: replace(plan, roots="session"), "roots (here none, there /a)"),
        (lambda plan: planned(own={"TOKEN": Value((TOKEN, "x"), FILE)}), "variable TOKEN"),
        (lambda plan: planned(own={}), "variable TOKEN"),
    ],
)
def test_what_the_profile_says_keeps_them_apart(change: Callable[[StdioPlan], StdioPlan], expected: str) -> None:
    here, there = server(BASE, TOKEN, "/a"), server(change(BASE), TOKEN, "/a")
    assert differences(here, there) == [expected]
    assert share_key(here) != share_key(there)


@pytest.mark.parametrize(
    "change",
    [
        lambda plan: replace(plan, name="gh"),
        lambda plan: replace(plan, required=False),
        lambda plan: replace(plan, idle=Duration(5)),
        lambda plan: replace(plan, timeouts=ServerTimeouts(call=Duration(1), download=Duration(2))),
    ],
)
def test_what_is_of_each_launch_alone_does_not(change: Callable[[StdioPlan], StdioPlan]) -> None:
    assert share_key(server(change(BASE))) == share_key(server(BASE))


def test_another_value_of_a_secret_is_another_server_and_is_not_shown() -> None:
    here, there = server(), server(token=f"{TOKEN}-2")
    assert differences(here, there) == ["variable TOKEN"]
    assert TOKEN not in repr(here) + str(differences(here, there))


def test_directories_count_only_where_the_server_is_told_of_them() -> None:
    assert share_key(server(BASE, TOKEN, "/a")) == share_key(server(BASE, TOKEN, "/b"))
    told = replace(BASE, roots="session")
    assert differences(server(told, TOKEN, "/a"), server(told, TOKEN, "/b", "/c")) == ["roots (here /a, there /b, /c)"]


@pytest.mark.parametrize(
    ("inherit", "name"),
    [
        *(([name], name) for name in ("AWS_PROFILE", "TERM", "DISPLAY")),
        (["AWS_*"], "AWS_PROFILE"),
        *(("minimal", name) for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "SSL_CERT_FILE", "XDG_CONFIG_HOME")),
    ],
)
def test_variables_that_the_profile_names_or_a_server_inherits_keep_them_apart(inherit: Inherit, name: str) -> None:
    shells: list[dict[str, str]] = [{**SHELL, name: each} for each in ("/one", "/two")]
    assert differences(*(server(planned(inherit, shell)) for shell in shells)) == [f"variable {name}"]


@pytest.mark.parametrize("name", TELLING)
def test_all_other_variables_of_a_shell_keep_them_apart_by_name(name: str) -> None:
    """Also one that only one of the two has; its value is not shown."""
    shells: list[dict[str, str]] = [{**SHELL, name: "canary-1"}, {**SHELL, name: "canary-2"}, SHELL]
    for one, two in combinations(shells, 2):
        assert differences(*(server(planned("all", shell)) for shell in (one, two))) == [f"variable {name}"]


def test_the_host_gets_what_a_server_needs() -> None:
    made = server(replace(BASE, args=(Value(("--key=", SecretReference("token")), FILE),)))
    assert made.argv == ("/bin/server", f"--key={TOKEN}")
    assert (made.env["TOKEN"], made.env["TERM"], made.secrets) == (TOKEN, "xterm", (TOKEN,))
    assert (made.idle, made.directory, made.roots) == (USER_IDLE, None, None)


@given(st.text(alphabet=st.characters(exclude_characters="\0", codec=None)), st.integers(1, 10**6))
def test_nothing_is_lost_on_the_way(text: str, milliseconds: int) -> None:
    """A variable of Linux need not be UTF-8."""
    restart = Restart(policy="always", backoff=Backoff(initial=Duration(milliseconds / 1000)))
    made = server(replace(BASE, restart=restart, env={"PATH": Value((text,), INHERITED)}, compared=("PATH",)))
    assert from_plain(json.loads(json.dumps(as_plain(made)))) == made
