"""What is offered at the tab key, asked as the shells ask: `acp-launch __complete …`."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import convert

from acp_launch.cli import tab
from acp_launch.cli.tab import Line
from acp_launch.interop.tools import PRINTED, TOOLS
from acp_launch.session.store import Record, Registry, open_registry
from tests.cli import verbtable
from tests.cli.launcher import Ended, Launcher
from tests.test_architecture import loaded

FORBIDDEN = {"typer", "click", "pydantic", "ruamel.yaml", "keyring", "psutil", "asyncio", "rich"}
HOSTILE = ["\x1b]0;owned\x07", "two\nlines", "tab\there", "‮desrever", "-rf", " ", "x" * 201]


@pytest.fixture
def project(launch: Launcher) -> Launcher:
    """A repository of its own, in which `p` has servers and one session."""
    (launch.project / ".git").mkdir()
    launch.write({"description": "Reviews", "agent": {"command": "x"}, "mcp_servers": {"git": {"command": "g"}}})
    with open_registry(Path(launch.env["ACP_LAUNCH_STATE_DIR"])) as registry:
        for name, profile in (("fix-42", "p"), ("other", "q")):
            save(registry, launch.project, profile=profile, name=name)
    return launch


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key press is given up after 2 s, which a busy machine may need."""
    monkeypatch.setattr(tab, "PATIENCE", 60.0)


def save(registry: Registry, project: Path, **of: str) -> None:
    about = dict.fromkeys(("session_id", "agent_name", "agent_version", "agent_command", "cwd"), "x")
    texts = {"project": str(project), "title": "A title", **about, **of}
    registry.save(convert({**texts, "created": 1.0, "last_used": 2.0}, Record))


def asked(launch: Launcher, *words: str) -> list[str]:
    """The whole answer for zsh; nothing is said besides."""
    return answered(launch.within("__complete", "zsh", *words))


def answered(ended: Ended) -> list[str]:
    assert (ended.code, ended.err) == (0, "")
    return ended.out.decode().splitlines()


def names(answer: Sequence[str]) -> list[str]:
    return [line.partition(":")[0] for line in answer[1:]]


def files(directory: Path) -> dict[Path, tuple[int, bytes]]:
    found = (path for path in directory.rglob("*") if path.is_file())
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in found}


def test_the_table_is_what_the_command_line_has() -> None:
    """When this fails: python -m tests.cli.verbtable"""
    assert verbtable.FILE.read_text(encoding="utf-8") == verbtable.table()


@pytest.mark.parametrize("name", verbtable.commands(), ids=lambda name: name or "acp-launch")
def test_every_option_of_a_verb_is_offered_and_no_other(name: str) -> None:
    command = verbtable.commands()[name]
    spelled = [each for one in verbtable.parameters(command) for each in (*one.opts, *one.secondary_opts)]
    options = {each for each in spelled if each.startswith("-")}
    asked_for = Line([*name.split(), "-"], tab.verbs())
    assert asked_for.kind == "option"
    assert {each for option in asked_for.offered() for each in option.names} == {
        *options,
        "--help",
        "-h",
    }


def test_the_verbs_of_a_group_are_offered_and_no_others() -> None:
    commands = verbtable.commands()
    for name, command in commands.items():
        below = getattr(command, "commands", {})
        assert list(tab.below(tab.verbs(), name)) == [word for word, each in below.items() if not each.hidden]


def test_every_kind_of_word_is_known() -> None:
    """A kind nobody answers would be a completion that is silently missing."""
    from acp_launch.cli.completion import SOURCES

    known = {*tab.FROM_SHELL, *SOURCES, tab.FLAG, "text"}
    for verb in tab.verbs().values():
        kinds = {kind.removesuffix(tab.MORE) for kind in (*verb.arguments, *(option.kind for option in verb.options))}
        assert {kind for kind in kinds if "|" not in kind} <= known


@pytest.mark.parametrize(
    ("typed", "kind", "word", "lead"),
    [
        ("", "verb", "", ""),
        ("ru", "verb", "ru", ""),
        ("nonsense ", "", "", ""),
        ("--version ", "verb", "", ""),
        ("-", "option", "-", ""),
        ("session ", "verb", "", ""),
        ("session -h r", "verb", "r", ""),
        ("session nonsense ", "", "", ""),
        ("run ", "profile", "", ""),
        ("run p ", "text", "", ""),
        ("run p word word ", "text", "", ""),
        ("run p --", "option", "--", ""),
        ("run --output ", "text|json|quiet", "", ""),
        ("run -o j", "text|json|quiet", "j", ""),
        ("run -vo ", "text|json|quiet", "", ""),
        ("run -ojson ", "profile", "", ""),
        ("run --output=j", "text|json|quiet", "j", "--output="),
        ("run --output=json ", "profile", "", ""),
        ("run --new=x", "", "x", "--new="),
        ("run --nonsense=x", "", "x", "--nonsense="),
        ("run --nonsense ", "profile", "", ""),
        ("run --file ", "file", "", ""),
        ("run --cwd=", "directory", "", "--cwd="),
        ("run -- -", "profile", "-", ""),
        ("run -s ", "session", "", ""),
        ("run --timeout ", "text", "", ""),
        ("show p ", "", "", ""),
        ("validate p q ", "profile", "", ""),
        ("ps ", "", "", ""),
        ("mcp call p git ", "text", "", ""),
        ("mcp call p ", "server", "", ""),
        ("logs p ", "log", "", ""),
        ("secret set ", "needed", "", ""),
        ("secret copy-to-env x -- ", "command", "", ""),
        ("session rm a b ", "session", "", ""),
        ("session rm a -p ", "profile", "", ""),
        ("completion ", "bash|zsh|fish", "", ""),
    ],
)
def test_the_last_word_is_known_by_what_is_before_it(typed: str, kind: str, word: str, lead: str) -> None:
    *before, last = typed.split(" ")
    found = Line([*filter(None, before), last], tab.verbs())
    assert (found.kind, found.word, found.lead) == (kind, word, lead)


def test_an_option_is_offered_once_unless_it_may_be_given_again() -> None:
    line = Line(["run", "--new", "--attach", "x", "-o", "json", "-"], tab.verbs())
    left = {name for option in line.offered() for name in option.names}
    assert "--attach" in left
    assert not {"--new", "--output", "-o"} & left


def test_profiles_are_offered_nearest_first_with_what_they_are(project: Launcher) -> None:
    answer = asked(project, "run", "")
    assert answer[:2] == ["nothing", "p:Reviews"]
    assert "demo:A scripted agent to try acp-launch with; no account, no network" in answer


def test_a_profile_is_offered_once(project: Launcher) -> None:
    assert "p" not in names(asked(project, "validate", "p", ""))


@pytest.mark.parametrize("typed", ["./", "~", "sub/x", "nothing-begins-so"])
def test_where_a_path_may_be_meant_the_shell_adds_files(project: Launcher, typed: str) -> None:
    assert asked(project, "run", typed)[0] == "files"


def test_a_tool_to_import_from_is_named_or_given_by_its_file(project: Launcher) -> None:
    assert asked(project, "import", "v") == ["nothing", *TOOLS]
    assert asked(project, "import", "./v") == ["files", *TOOLS]
    assert asked(project, "export", "p", "--to=") == ["nothing", *(f"--to={tool}" for tool in [*TOOLS, *PRINTED])]


def test_sessions_are_those_of_the_profile_on_the_line(project: Launcher) -> None:
    assert asked(project, "run", "p", "--session", "") == ["nothing", "fix-42:A title"]
    assert asked(project, "session", "show", "-p", "q", "") == ["nothing", "other:A title"]
    assert asked(project, "session", "show", "") == [
        "nothing",
        "fix-42:p\\: A title".replace("\\", ""),
        "other:q: A title",
    ]


def test_sessions_are_those_of_this_project(project: Launcher) -> None:
    with open_registry(Path(project.env["ACP_LAUNCH_STATE_DIR"])) as registry:
        save(registry, project.project.parent, profile="p", name="elsewhere")
    assert names(asked(project, "run", "p", "-s", "")) == ["fix-42"]


def test_a_session_that_is_being_written_is_seen_and_nothing_is_written(project: Launcher) -> None:
    """SQLite keeps the latest in a log beside the store, and its index in shared memory, while somebody has it open."""
    state = Path(project.env["ACP_LAUNCH_STATE_DIR"])
    with open_registry(state) as registry:
        save(registry, project.project, profile="p", name="just-now")
        before = files(state)
        assert [path.name for path in before if path.name.endswith(("-wal", "-shm"))] != []
        answer = answered(project.apart("__complete", "zsh", "run", "p", "-s", ""))  # SQLite knows its own process
        assert set(names(answer)) == {"fix-42", "just-now"}
        assert files(state) == before


@pytest.mark.parametrize("words", [("run", ""), ("run", "p", "-s", ""), ("mcp", "list", ""), ("secret", "rm", "")])
def test_a_completion_writes_nothing(project: Launcher, words: tuple[str, ...]) -> None:
    before = files(project.project.parent), files(Path(project.env["HOME"]))
    asked(project, *words)
    assert (files(project.project.parent), files(Path(project.env["HOME"]))) == before


def test_a_completion_makes_no_store(launch: Launcher) -> None:
    assert asked(launch, "session", "show", "") == []
    assert not Path(launch.env["ACP_LAUNCH_STATE_DIR"]).exists()


@pytest.mark.parametrize("content", [b"", b"no database at all" * 100])
def test_a_damaged_store_is_no_answer(project: Launcher, content: bytes) -> None:
    store = Path(project.env["ACP_LAUNCH_STATE_DIR"], "sessions", "sessions.db")
    store.write_bytes(content)
    assert asked(project, "run", "p", "-s", "") == []
    assert store.read_bytes() == content


def test_servers_are_those_of_the_profile_on_the_line_and_of_what_it_extends(project: Launcher) -> None:
    project.write({"agent": {"command": "x"}, "mcp_servers": {"docs": {"command": "d"}}}, name="_base")
    child = project.project / ".acp-launch" / "child.yaml"
    child.write_text("extends: [_base, p]\nmcp_servers:\n  git: null\n  own:\n    command: o\n")
    assert asked(project, "mcp", "tools", "p", "") == ["nothing", "git:p"]
    assert names(asked(project, "mcp", "call", "child", "")) == ["docs", "own"]


def test_a_profile_that_leads_out_of_the_repository_is_not_followed(project: Launcher) -> None:
    outside = project.project.parent / "outside.yaml"
    outside.write_text("description: outside\nmcp_servers:\n  stolen:\n    command: x\n")
    holder = project.project / ".acp-launch"
    (holder / "child.yaml").write_text("extends: ../../outside.yaml\nmcp_servers:\n  own:\n    command: o\n")
    (holder / "link.yaml").symlink_to(outside)
    assert names(asked(project, "mcp", "tools", "child", "")) == ["own"]
    assert "link:project" in asked(project, "run", "")


def test_profiles_that_extend_each_other_are_no_answer_for_long(project: Launcher) -> None:
    holder = project.project / ".acp-launch"
    for one, other in (("a", "b"), ("b", "a")):
        (holder / f"{one}.yaml").write_text(f"extends: {other}\nmcp_servers:\n  of-{one}:\n    command: o\n")
    assert names(asked(project, "mcp", "tools", "a", "")) == ["of-b", "of-a"]


def test_secrets_come_from_the_index_and_from_what_profiles_need(project: Launcher) -> None:
    """No store is asked: the one these settings name would be started, and leave its mark."""
    state, config = Path(project.env["ACP_LAUNCH_STATE_DIR"]), Path(project.env["ACP_LAUNCH_CONFIG_DIR"])
    mark = project.project / "asked"
    config.mkdir()
    (config / "config.yaml").write_text(f"secrets: {{store: command, command: [touch, {mark}]}}\n")
    (state / "secrets.json").write_text(
        json.dumps({"version": 1, "stores": {"keyring": {"github": 1.0, "docs": None}}})
    )
    project.write({"agent": {"command": "x", "env": {"KEY": "${secret:anthropic}"}}}, name="needy")
    assert asked(project, "secret", "rm", "docs", "") == ["nothing", "github:keyring"]
    assert "anthropic:needed by needy" in asked(project, "secret", "set", "")
    assert "anthropic" not in names(asked(project, "secret", "rm", ""))
    assert not mark.exists()


@pytest.mark.parametrize("content", ["", "[]", '{"stores": 3}', '{"stores": {"a": 3}}', "[" * 100_000])
def test_an_index_that_makes_no_sense_is_no_answer(project: Launcher, content: str) -> None:
    Path(project.env["ACP_LAUNCH_STATE_DIR"], "secrets.json").write_text(content)
    assert asked(project, "secret", "rm", "") == []


def test_logs_are_offered_of_agents_and_servers_that_have_some(project: Launcher) -> None:
    log = Path(project.env["ACP_LAUNCH_STATE_DIR"], "log")
    log.mkdir()
    for name in ("p", "p+git", "p+git#2", "gone"):
        (log / f"20261121T121300.123Z-4711+{name}.log").touch()
    assert names(asked(project, "logs", "p", "")) == ["agent", "git"]
    assert "gone:has logs" in asked(project, "logs", "")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_could_drive_a_terminal_is_left_out(project: Launcher, name: str) -> None:
    (project.project / ".acp-launch" / f"{name}.yaml").write_text("version: 1\n")
    before = ["p", "claude", "codex", "demo", "gemini", "opencode"]
    assert names(asked(project, "run", "")) == before


def test_a_file_name_that_is_no_text_is_left_out(project: Launcher) -> None:
    with open(os.fsencode(project.project) + b"/.acp-launch/\xff.yaml", "wb"):  # noqa: PTH123
        pass
    assert "demo" in names(asked(project, "run", ""))
    assert all(name.isprintable() for name in names(asked(project, "run", "")))


def test_what_a_profile_says_of_itself_drives_no_terminal(project: Launcher) -> None:
    project.write({"description": "a\x1b[31m\tb\nc" + "x" * 200, "agent": {"command": "x"}})
    (line,) = [line for line in asked(project, "run", "") if line.startswith("p:")]
    assert line == "p:a[31m b c" + "x" * 90 + "…"


def test_a_pipe_and_a_directory_among_the_profiles_do_not_block(project: Launcher) -> None:
    holder = project.project / ".acp-launch"
    os.mkfifo(holder / "pipe.yaml")
    (holder / "directory.yaml").mkdir()
    assert names(asked(project, "run", ""))[0] == "p"
    assert asked(project, "mcp", "tools", "./.acp-launch/pipe.yaml", "") == ["nothing"]


def test_the_number_of_candidates_is_limited(project: Launcher) -> None:
    for number in range(600):
        (project.project / ".acp-launch" / f"n{number}.yaml").touch()
    assert len(names(asked(project, "run", ""))) == 500


@pytest.mark.parametrize("words", [[], ["csh", "x"], ["bash"], ["bash", "acp-launch run "], ["zsh"]], ids=str)
def test_a_question_that_makes_no_sense_is_answered_with_nothing_said(launch: Launcher, words: list[str]) -> None:
    ended = launch("__complete", *words)
    assert (ended.code, ended.err) == (0, "")


def test_a_directory_that_is_gone_is_no_error(project: Launcher, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    code = f"import os; os.rmdir({str(gone)!r}); from acp_launch.__main__ import main; main()"
    ended = subprocess.run(
        [sys.executable, "-P", "-c", code, "__complete", "zsh", "run", ""], cwd=gone, capture_output=True, check=True
    )
    assert (ended.stdout, ended.stderr) == (b"", b"")


def test_a_disk_that_does_not_answer_is_given_up() -> None:
    """Reading a pipe that stays open and empty stands for it."""
    code = (
        "import os, sys\n"
        "from acp_launch.cli import completion, tab\n"
        "ours, theirs = os.pipe()\n"
        "completion.SOURCES['profile'] = lambda line, settings: os.read(ours, 1)\n"
        "tab.PATIENCE = 0.05\n"
        "tab.answer(['zsh', 'run', ''])\n"
        "print('and on')\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=20, check=True)
    assert (ended.stdout, ended.stderr) == (b"and on\n", b"")


def test_a_reader_that_is_gone_is_told_nothing(project: Launcher) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        ended = project("__complete", "zsh", "", out=theirs)
    finally:
        os.close(theirs)
    assert (ended.code, ended.err) == (0, "")


@pytest.mark.parametrize("words", [["run"], ["run", "demo", "-s"], ["secret", "rm"], ["secret", "set"]], ids=str)
def test_a_completion_imports_nothing_it_does_not_need(words: list[str]) -> None:
    modules = loaded("__complete", "zsh", *words, "")
    assert "acp_launch.cli.completion" in modules
    assert not {module for module in modules if module in FORBIDDEN or module == "acp_launch.cli.app"}


def test_verbs_and_options_are_known_without_looking_at_anything() -> None:
    modules = loaded("__complete", "zsh", "run", "--")
    assert not {"msgspec", "pathlib", "sqlite3", "acp_launch.profile.discover", *FORBIDDEN} & modules


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_begins_with_how_to_use_it(launch: Launcher, shell: str) -> None:
    ended = launch("completion", shell)
    assert (ended.code, ended.err) == (0, "")
    assert f"# Completion of acp-launch for {shell}.\n" in ended.out.decode()[:70]
    assert f"acp-launch completion {shell}" in ended.out.decode()


def test_another_shell_is_a_usage_error(launch: Launcher) -> None:
    ended = launch("completion", "csh")
    assert ended.code == 2
    assert "'csh' is not one of 'bash', 'zsh', 'fish'" in ended.err
