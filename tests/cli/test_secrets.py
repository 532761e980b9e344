"""The verbs about secrets, as a person uses them: with a sealed file, so that no test needs a keyring."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from acp_launch.oauth.grant import Login, Logins
from acp_launch.secret.sealedfile import open_file
from acp_launch.secret.value import Secret
from acp_launch.settings.model import FileSettings
from tests.cli.launcher import Launcher
from tests.cli.terminal import Terminal, on_terminal, yes_or_no
from tests.patience import PATIENCE

TOKEN = "t0ken-" + "a1B2c3" * 4
GITHUB_TOKEN = "ghp_" + "a1B2" * 9
PASSPHRASE = "correct horse battery"
LOGIN = "oauth/docs.example/0123456789abcdef"  # its tokens
ECHO = ("/bin/echo", "value-of-{name}")
NO_KEYRING = yes_or_no("No desktop keyring here. Keep secrets in a sealed file with a passphrase?")
NEEDY = {"agent": {"command": sys.executable, "env": {"KEY": "${secret:github}", "URL": "x${secret:team/docs}"}}}


@pytest.fixture
def sealed(launch: Launcher) -> Launcher:
    """A sealed file that a key file opens; both are made by the first `set`."""
    launch.configure("secrets: {store: file, file: {key_file: key}}\n")
    return launch


def stored_by(launch: Launcher, *command: str) -> Launcher:
    """A store that is a command."""
    launch.configure(json.dumps({"secrets": {"store": "command", "command": command}}))
    return launch


def config_file(launch: Launcher) -> Path:
    return launch.config / "config.yaml"


def sealed_with(terminal: Terminal, passphrase: str) -> None:
    """Choose the passphrase of a new sealed file."""
    terminal.until("New passphrase for ")
    terminal.types(f"{passphrase}\n")
    terminal.until("Repeat it: ")
    terminal.types(f"{passphrase}\n")


def kept(launch: Launcher, name: str = "github", value: str = TOKEN) -> None:
    done = launch("secret", "set", name, stdin=value.encode())
    assert done.code == 0, done.err


def listed(launch: Launcher) -> dict[str, list[str]]:
    """The names there are, and the profiles that use each."""
    secrets = json.loads(launch("secret", "list", "--json").out)["secrets"]
    return {secret["name"]: secret["profiles"] for secret in secrets}


def value_of(launch: Launcher, name: str) -> str:
    """What a command that is run with the secret sees."""
    show = [sys.executable, "-c", "import os; print(os.environ['SHOWN'], end='')"]
    done = launch("secret", "copy-to-env", "--as", "SHOWN", name, "--", *show)
    assert done.code == 0, done.err
    return done.out.decode()


def files_holding(text: str, *roots: Path) -> list[Path]:
    return [file for root in roots for file in root.rglob("*") if file.is_file() and text.encode() in file.read_bytes()]


# set


@pytest.mark.parametrize(
    ("given", "value"),
    [
        (TOKEN.encode() + b"\n", TOKEN),
        (b"a-value\r\n", "a-value"),
        (b"x" * 64 * 1024, "x" * 64 * 1024),
    ],
)
def test_what_is_piped_in_is_kept_but_for_one_line_break_where_the_settings_say(
    sealed: Launcher, given: bytes, value: str
) -> None:
    done = sealed("secret", "set", "github", stdin=given)
    file = sealed.config / "secrets.sealed"
    assert (done.code, done.out, done.err) == (0, b"", f"github: stored in the sealed file ({file})\n")
    assert value_of(sealed, "github") == value
    assert files_holding(value, Path(sealed.env["HOME"]), sealed.project) == []


@pytest.mark.parametrize(
    ("variable", "error"),
    [
        ("HELD", ""),
        ("GONE", "variable GONE is not set\n    fix: export GONE=..., or leave --from-env away\n"),
        (
            GITHUB_TOKEN,
            "--from-env: the variable is not set\n    fix: give its name, without a $: --from-env GITHUB_TOKEN\n",
        ),
    ],
)
def test_it_can_come_from_a_variable(sealed: Launcher, variable: str, error: str) -> None:
    done = sealed("secret", "set", "github", "--from-env", variable, HELD=TOKEN)
    if error:
        assert (done.code, done.err) == (2, f"acp-launch: {error}")
    else:
        assert (done.code, TOKEN in done.err, value_of(sealed, "github")) == (0, False, TOKEN)


def test_a_value_on_the_command_line_is_refused_and_not_repeated(sealed: Launcher) -> None:
    assert sealed("secret", "set", "github", "--value", TOKEN).err == sealed("secret", "set", "github", TOKEN).err
    done = sealed("secret", "set", "github", TOKEN)
    assert done.code == 2
    assert done.err == (
        "acp-launch: a secret is not read from the command line, where ps and your shell's history show it;"
        " nothing was stored\n"
        "    fix: type it at the prompt, or pipe it: pass show github | acp-launch secret set github;"
        " rotate the value you just typed\n"
    )
    assert listed(sealed) == {}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (GITHUB_TOKEN, "this looks like a GitHub token, not like a secret's name; nothing was stored"),
        *(
            (name, "not a secret's name")
            for name in (
                f"github={TOKEN}",
                "a b",
                "",
                "..",
                "a/./b",
                "/a",
                "a//b",
                "ä",
                "x" * 201,
                "${secret:x}",
                "a\nb",
            )
        ),
    ],
)
def test_a_name_that_is_none_is_refused_and_a_value_in_its_place_not_repeated(
    sealed: Launcher, name: str, message: str
) -> None:
    done = sealed("secret", "set", name, stdin=b"a-value")
    assert done.code == 2
    assert f"{message}\n" in done.err
    assert not any(token in done.err for token in (TOKEN, GITHUB_TOKEN))
    assert files_holding(GITHUB_TOKEN, Path(sealed.env["HOME"]), sealed.project) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (b"", "the value is empty; nothing was stored"),
        (b"\n", "the value is empty; nothing was stored"),
        (b"a\0b", "the value holds a NUL character, which no variable can"),
        (b"\xff\xfe", "the value on stdin is not UTF-8 text"),
        (b"x" * (64 * 1024 + 1), "the value is longer than 64 KiB"),
    ],
)
def test_what_cannot_be_a_secret_is_refused(sealed: Launcher, given: bytes, message: str) -> None:
    done = sealed("secret", "set", "x", stdin=given)
    assert done.code == 2
    assert done.err.startswith(f"acp-launch: {message}\n    fix: ")
    assert listed(sealed) == {}


@pytest.mark.parametrize(
    ("name", "value", "warning"),
    [
        ("x", "12345", "x is shorter than 6 characters: it cannot be masked in logs and errors"),
        ("x", "a-\x1b[Dvalue", "the value of x contains invisible characters"),
        ("x", " a-value", "the value of x begins or ends with a space or a line break"),
        ("held", "a-value", "ACP_LAUNCH_SECRET_HELD is set in this shell and overrides the stored value"),
        ("team_bank", "a-value", "ACP_LAUNCH_SECRET_TEAM_BANK would override team/bank, too"),
    ],
)
def test_what_may_not_have_been_meant_is_a_warning(sealed: Launcher, name: str, value: str, warning: str) -> None:
    kept(sealed, "team/bank")
    done = sealed("secret", "set", name, stdin=value.encode(), ACP_LAUNCH_SECRET_HELD="other-value")
    assert done.code == 0
    assert done.err.splitlines()[1:] == [f"acp-launch: warning: {warning}"]


@pytest.mark.parametrize(
    ("settings", "variables", "is_offered"),
    [
        ("", {}, True),
        ("secrets: {store: keyring}\n", {}, False),
        ("", {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}, False),
        ('secrets: {store: command, command: [echo, "{name}"]}\n', {}, False),
    ],
    ids=["no choice", "settings", "another backend", "a command"],
)
def test_no_value_is_asked_for_that_cannot_be_kept_and_no_other_store_offered_where_one_was_chosen(
    launch: Launcher, settings: str, variables: dict[str, str], is_offered: bool
) -> None:
    del launch.env["PYTHON_KEYRING_BACKEND"]
    launch.configure(settings)
    with on_terminal("secret", "set", "github", cwd=launch.project, env={**launch.env, **variables}) as terminal:
        if is_offered:
            terminal.until(NO_KEYRING)
            terminal.types("n")
        assert terminal.ends() == 3
    assert (NO_KEYRING in terminal.text) == is_offered
    assert 'cannot store secret "github": ' in terminal.text
    assert "value of the secret" not in terminal.text
    assert config_file(launch).read_text() == settings


# list and check


def test_the_list_names_secrets_times_and_profiles_never_values(sealed: Launcher) -> None:
    sealed.write(NEEDY, name="review")
    kept(sealed)
    kept(sealed, "unused", "another-value")
    done = sealed("secret", "list", ACP_LAUNCH_SECRET_TEAM_DOCS="docs-value")
    file = sealed.config / "secrets.sealed"
    assert done.code == 0
    assert [re.split(r"\s{2,}", line) for line in done.out.decode().splitlines()] == [
        ["NAME", "STORE", "SET", "USED BY"],
        ["team/docs", "ACP_LAUNCH_SECRET_TEAM_DOCS", "review"],
        ["github", f"sealed file ({file})", "just now", "review"],
        ["unused", f"sealed file ({file})", "just now"],
    ]
    assert done.err == ""


def test_the_tokens_of_logins_are_not_among_the_secrets(sealed: Launcher) -> None:
    kept(sealed)
    config, state = (Path(sealed.env[f"ACP_LAUNCH_{each}_DIR"]) for each in ("CONFIG", "STATE"))
    store = open_file(FileSettings(key_file="key"), config, {}, lambda prompt: None)
    store.write(LOGIN, Secret("{}"))
    login = Login(url="https://docs.example", client="", issuer="", resource="", client_id="us", item=LOGIN)
    Logins(state).put(login)
    done = sealed("secret", "list")
    assert (done.code, "oauth/" in done.out.decode()) == (0, False)
    assert done.err == ""
    assert listed(sealed).keys() == {"github"}


@pytest.mark.parametrize("words", ["set OAuth/x", *(f"{verb} {LOGIN}" for verb in ("set", "rm", "rename github"))])
def test_no_verb_of_secrets_takes_the_tokens_of_a_login(sealed: Launcher, words: str) -> None:
    """Least of all the one that would hand them to a program."""
    kept(sealed)
    for arguments in (words.split(), ["copy-to-env", LOGIN, "--", "env"]):
        done = sealed("secret", *arguments, stdin=b"a-value")
        assert (done.code, done.out) == (2, b"")
        assert " holds the tokens of a login" in done.err


def test_a_list_that_is_empty_says_why(sealed: Launcher) -> None:
    def said() -> tuple[int, str]:
        done = sealed("secret", "list")
        assert done.out == b""
        return done.code, done.err

    assert said() == (0, "acp-launch: no secrets yet; to store one: acp-launch secret set NAME\n")
    stored_by(sealed, "sh", "-c", "printf %s {name}")
    assert said() == (0, "acp-launch: the command (sh) does not list its secrets\n")
    sealed.configure("")
    del sealed.env["PYTHON_KEYRING_BACKEND"]
    code, words = said()
    assert code == 3
    assert "keep secrets in a sealed file instead: acp-launch config set secrets.store file\n" in words


def test_a_list_says_what_is_gone_and_fails_when_the_store_cannot_be_read(sealed: Launcher) -> None:
    kept(sealed)
    file = sealed.config / "secrets.sealed"
    content = file.read_bytes()
    file.write_bytes(content[:-5])
    done = sealed("secret", "list")
    assert done.code == 3
    assert b"github" in done.out
    assert done.err == f"acp-launch: {file} is cut off: its end is missing; showing what acp-launch has set\n"
    assert json.loads(sealed("secret", "list", "--json").out)["remark"] != ""
    file.unlink()
    done = sealed("secret", "list")
    assert (done.code, done.out) == (0, b"")
    assert done.err == f"acp-launch: no longer in the sealed file ({file}): github\n"


def test_check_tells_of_each_secret_whether_it_is_there_and_exits_3_when_one_is_not(sealed: Launcher) -> None:
    sealed.write(NEEDY, name="review")
    kept(sealed)
    done = sealed("secret", "check", "review")
    file = sealed.config / "secrets.sealed"
    assert done.code == 3
    assert [re.split(r"\s{2,}", line) for line in done.out.decode().splitlines()] == [
        ["NAME", "STATE", "WHERE", "USED BY"],
        ["github", "found", f"sealed file ({file})", "review"],
        ["team/docs", "missing", f"sealed file ({file})", "review"],
    ]
    assert re.sub(r":\d+:\d+:", ":L:C:", done.err) == (
        f'.acp-launch/review.yaml:L:C: agent.env.URL: secret "team/docs" is not set in the sealed file ({file})\n'
        "    fix: export ACP_LAUNCH_SECRET_TEAM_DOCS=..., or acp-launch secret set team/docs\n"
        "1 problem; 1 of 2 secrets are not available\n"
    )
    kept(sealed, "team/docs", "docs-value")
    assert sealed("secret", "check").code == 0


def test_check_passes_over_a_broken_profile_unless_it_was_named(sealed: Launcher) -> None:
    sealed.write({"agent": {"comand": "x"}}, name="broken")
    done = sealed("secret", "check")
    assert done.code == 0
    assert done.err == (
        "acp-launch: .acp-launch/broken.yaml has problems and is skipped:"
        " acp-launch validate .acp-launch/broken.yaml\nacp-launch: no profile here needs a secret\n"
    )
    assert sealed("secret", "check", "broken").code == 2
    assert sealed("secret", "check", "nowhere").code == 2


# rm and rename


def test_what_was_removed_is_gone_and_who_still_needs_it_is_told(sealed: Launcher) -> None:
    sealed.write(NEEDY, name="review")
    kept(sealed)
    kept(sealed, "other", "other-value")
    file = sealed.config / "secrets.sealed"
    done = sealed("secret", "rm", "github", "githbu", "nothing", "other")
    assert (done.code, done.err) == (
        3,
        f'acp-launch: no secret named "githbu", "nothing" in the sealed file ({file}); did you mean "github"?\n'
        "    fix: acp-launch secret list\n",
    )
    assert listed(sealed).keys() == {"github", "other"}, "all or nothing"
    done = sealed("secret", "rm", "github", "other", "github")
    assert done.code == 0
    assert re.sub(r":\d+:\d+:", ":L:C:", done.err) == (
        f"github: removed from the sealed file ({file})\n"
        f"other: removed from the sealed file ({file})\n"
        ".acp-launch/review.yaml:L:C: agent.env.KEY: review still needs ${secret:github};"
        " set it again or remove the reference\n"
    )


def test_a_renamed_secret_keeps_its_value_and_lists_the_references_to_change_and_overwrites_none(
    sealed: Launcher,
) -> None:
    sealed.write(NEEDY, name="review")
    kept(sealed)
    kept(sealed, "taken", "taken-value")
    done = sealed("secret", "rename", "github", "taken")
    assert (done.code, done.err) == (
        3,
        'acp-launch: secret "taken" already exists; nothing was changed\n'
        "    fix: choose another name, or acp-launch secret rm taken\n",
    )
    assert sealed("secret", "rename", "github", "github").code == 2
    assert sealed("secret", "rename", "gone", "new").code == 3
    done = sealed("secret", "rename", "github", "team/github")
    assert done.code == 0
    file = sealed.config / "secrets.sealed"
    assert re.sub(r":\d+:\d+:", ":L:C:", done.err) == (
        f"github: renamed to team/github in the sealed file ({file})\n"
        ".acp-launch/review.yaml:L:C: agent.env.KEY: review still needs ${secret:github}; write ${secret:team/github}\n"
    )
    assert listed(sealed) == {"taken": [], "team/github": []}
    assert (value_of(sealed, "team/github"), value_of(sealed, "taken")) == (TOKEN, "taken-value")


# copy-to-env, and what does not exist


def test_a_command_gets_the_secret_and_no_other_of_ours(sealed: Launcher) -> None:
    kept(sealed, "git-hub", TOKEN)
    show = "import json, os; print(json.dumps(dict(os.environ)))"
    done = sealed("secret", "copy-to-env", "git-hub", "--", sys.executable, "-c", show, ACP_LAUNCH_SECRET_OTHER="x")
    environment = json.loads(done.out)
    assert environment["GIT_HUB"] == TOKEN
    assert "ACP_LAUNCH_SECRET_OTHER" not in environment


def test_the_exit_code_is_the_commands_and_a_missing_one_is_told(sealed: Launcher) -> None:
    kept(sealed)
    leave = [sys.executable, "-c", "raise SystemExit(17)"]
    assert sealed("secret", "copy-to-env", "github", "--", *leave).code == 17
    done = sealed("secret", "copy-to-env", "github", "--", "no-such-command-anywhere")
    assert (done.code, done.err) == (
        3,
        "cannot run no-such-command-anywhere: command not found\n    fix: give a program on your PATH, or its path\n"
        "1 problem; nothing was started\n",
    )
    assert sealed.within("secret", "copy-to-env", "--as", "1X", "github", "--", *leave).code == 2
    done = sealed.within("secret", "copy-to-env", "gone", "--", *leave)
    assert done.code == 3
    assert done.err.startswith('acp-launch: cannot read secret "gone": not found in the sealed file (')


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_command_starts_as_any_other_does(launch: Launcher) -> None:
    """Signals, limits and orphans are its own, also after a command of ours was run."""
    reaper = "import ctypes; on = ctypes.c_int(); ctypes.CDLL(None).prctl(37, ctypes.byref(on)); print(on.value)"
    show = f'grep SigIgn /proc/self/status; ulimit -S -n; exec {shlex.quote(sys.executable)} -S -c "{reaper}"'
    stored_by(launch, *ECHO)
    ours = [sys.executable, "-m", "acp_launch", "secret", "copy-to-env", "x", "--"]
    lowered = ["sh", "-c", 'ulimit -S -n 256; exec "$@"', "sh"]
    plainly, through_us = (
        subprocess.run(
            [*lowered, *before, "sh", "-c", show],
            capture_output=True,
            check=True,
            timeout=PATIENCE,
            env=launch.env,
            cwd=launch.project,
        ).stdout
        for before in ([], ours)
    )
    assert through_us == plainly
    assert plainly.split()[-2:] == [b"256", b"0"]


# runs


def test_the_user_is_not_asked_for_a_passphrase_without_a_prompt(launch: Launcher) -> None:
    """A person gets a session to sit in front of; events are for scripts, which cannot type."""
    launch.configure("secrets: {store: file}\n")
    launch.env["ACP_LAUNCH_PASSPHRASE"] = PASSPHRASE
    kept(launch)
    del launch.env["ACP_LAUNCH_PASSPHRASE"]
    launch.profile("polite", agent={"env": {"KEY": "${secret:github}"}})
    with on_terminal("run", "p", "--output", "json", cwd=launch.project, env=launch.env) as terminal:
        assert terminal.ends() == 2
    assert "acp-launch: there is no prompt" in terminal.text
    assert "assphrase" not in terminal.text


def test_what_one_secret_says_is_masked_where_the_store_fails_for_another(launch: Launcher) -> None:
    """The command of the store runs at home, and not in another user's project."""
    script = 'test "$1" = good && echo the-value-of-it || { echo told the-value-of-it in $PWD >&2; exit 1; }'
    stored_by(launch, "/bin/sh", "-c", script, "sh", "{name}")
    launch.write({"agent": {"command": sys.executable, "env": {"A": "${secret:good}", "B": "${secret:bad}"}}})
    for words in ("secret check p", "secret check p --json", "plan p --secrets --json", "run p hi"):
        done = launch.forked(*words.split())
        said = done.out.decode() + done.err
        assert (done.code, "the-value-of-it" in said) == (3, False)
        assert f"told *** in {launch.env['HOME']}" in said


def test_a_signal_while_a_store_works_ends_what_works_for_us(launch: Launcher) -> None:
    started = launch.project / "started"
    os.mkfifo(started)
    waiting = f"echo here > {started}; while :; do read line; done < /dev/zero"
    stored_by(launch, "/bin/sh", "-c", waiting, "{name}")
    launch.profile("polite", agent={"env": {"KEY": "${secret:github}"}})
    with launch.start("run", "p", "hi", "--output", "json") as running:
        assert started.read_text() == "here\n"
        running.kill(signal.SIGTERM)
        done = running.end()
    assert done.code == 143
    assert "Traceback" not in done.err
    assert done.event("error")["exitCode"] == 143


def test_a_secret_that_would_break_a_header_in_two_is_refused(sealed: Launcher) -> None:
    """M-46: before anything is sent, and without the value. A variable of a remote server is a header, too."""
    kept(sealed, "docs", "abcdef\r\nX-Evil: 1")
    values = {key: {"A": "Bearer ${secret:docs}"} for key in ("headers", "env")}
    servers = {key: {"type": "http", "url": "https://example.com/", key: value} for key, value in values.items()}
    sealed.profile("polite", mcp_servers=servers)
    done = sealed.within("run", "p", "hi")
    assert (done.code, done.heard) == (3, [])
    assert "abcdef" not in done.err
    for key in values:
        assert f"{key}.A: a header cannot hold the character U+000D, but the secret in this one does\n" in done.err
    assert "    fix: keep it as one line of ASCII: acp-launch secret set docs\n" in done.err


def test_a_session_is_removed_without_the_secrets_of_its_servers(sealed: Launcher) -> None:
    kept(sealed)
    server = {"command": sys.executable, "env": {"KEY": "${secret:github}"}, "required": False}
    sealed.profile("polite", mcp_servers={"s": server})
    assert sealed("run", "p", "hi", "--session", "work").code == 0
    assert sealed("secret", "rm", "github").code == 0
    assert sealed("session", "close", "work").code == 0
    assert sealed.within("run", "p", "hi", "--session", "work").code == 3


# nothing touches the store unless it is asked to


@pytest.fixture
def tripwire(launch: Launcher) -> Path:
    """A store that leaves a file when somebody asks it; it knows `github` only."""
    wire = launch.project / "touched"
    script = f'echo "$1" >> {wire}; test "$1" = github && echo value-of-it'
    stored_by(launch, "/bin/sh", "-c", script, "sh", "{name}")
    launch.write({"agent": {"command": sys.executable, "env": {"KEY": "${secret:github}"}}}, name="one")
    launch.write(NEEDY, name="two")
    return wire


def test_the_store_is_not_touched_by_what_only_looks(launch: Launcher, tripwire: Path) -> None:
    for words in ("validate", "plan one", "plan one --json", "list", "secret list"):
        assert launch(*words.split()).code == 0
        assert not tripwire.exists(), words


def test_plan_and_validate_ask_for_secrets_only_when_they_are_told_to(launch: Launcher, tripwire: Path) -> None:
    done = launch.forked("plan", "one", "--secrets")
    assert (done.code, tripwire.read_text()) == (0, "github\n")
    assert [line.split() for line in done.out.decode().splitlines() if "command (sh)" in line] == [
        ["secrets", "github", "found", "command", "(sh)"]
    ]
    answer = json.loads(launch.forked("plan", "one", "--secrets", "--json").out)
    assert answer["secret_states"] == {"github": {"state": "found", "source": "command (sh)"}}
    lacking = launch.forked("plan", "two", "--secrets")
    done = launch.forked("validate", "one", "two", "--secrets")
    assert done.out.decode().splitlines() == [
        ".acp-launch/one.yaml: ok",
        ".acp-launch/two.yaml: ok",  # nothing is wrong with the profiles
        "secret github     found        command (sh)",
        "secret team/docs  unavailable  command (sh)",
    ]
    for each in (lacking, done):
        assert each.code == 3
        assert 'agent.env.URL: cannot read secret "team/docs"' in each.err
