"""The store under the sessions, and the verbs about them (docs/session.md): one holder, nothing lost."""

import json
import re
import shlex
import sys
import time

import pytest
from msgspec.structs import replace

from acp_launch.session.hold import hold
from acp_launch.session.store import open_registry
from tests.cli.launcher import AGENTS, Launcher, names
from tests.cli.terminal import on_terminal, yes_or_no
from tests.session.stores import FIX


@pytest.mark.parametrize(
    ("count", "remark"),
    [
        (50, ""),
        (1100, "1,050 more are older; --all shows every session\n"),
    ],
)
def test_the_latest_50_are_listed_unless_all_are_wanted(launch: Launcher, count: int, remark: str) -> None:
    with open_registry(launch.state) as registry:
        for number in range(count):
            registry.save(replace(FIX, project=str(launch.project), name=f"s{number}", last_used=float(number)))
        registry.save(replace(FIX, project="/elsewhere"))
    listed = launch("session", "list")
    assert [line.split()[0] for line in listed.out.decode().splitlines()[1:]] == [
        f"s{number}" for number in reversed(range(count - 50, count))
    ]
    assert (listed.code, listed.err) == (0, remark)
    everything = launch("session", "list", "--all")
    assert (everything.code, everything.err, len(everything.out.splitlines())) == (0, "", 1 + count + 1)
    assert len(names(launch)) == count, "a script gets all of this project"


@pytest.mark.promise("session")
def test_sessions_can_be_listed_shown_renamed_closed_and_removed(launch: Launcher) -> None:
    """C-33, C-35."""
    launch.profile("replayer")
    empty = launch("session", "list")
    assert (empty.code, empty.out, empty.err) == (0, b"", "no sessions here yet; --all shows those of other projects\n")
    of_one = launch("session", "list", "p")
    assert (of_one.out, of_one.err) == (
        b"",
        'no sessions of profile "p" here yet; --all shows those of other projects\n',
    )
    assert json.loads(launch("session", "list", "--json").out) == {"sessions": []}
    assert launch("run", "p", "fix", "the", "bug", "--session", "work").code == 0
    (heading, row) = launch("session", "list").out.decode().splitlines()
    assert heading.split("  ")[0].strip() == "NAME"
    assert re.fullmatch(rf"work +p +fix the bug +1 +just now +{launch.project}", row)
    shown = json.loads(launch("session", "show", "work", "--json").out)
    assert (shown["session_id"], shown["agent_name"], shown["title"]) == ("session-1", "test-agent", "fix the bug")
    assert "session id: session-1\n" in launch("session", "show", "work").out.decode()
    renamed = launch("session", "rename", "work", "done")
    assert (renamed.code, renamed.out, renamed.err) == (0, b"", "")
    closed = launch("session", "close", "done")
    assert (closed.code, closed.err, closed.methods) == (0, "", ["initialize", "session/close"])
    removed = launch("session", "rm", "done")
    assert (removed.code, removed.methods) == (0, ["initialize"])
    assert (
        removed.err == "acp-launch: test-agent cannot delete sessions; deleted here, but the agent may still have it\n"
    )
    gone = launch("session", "show", "done")
    assert (gone.code, gone.err) == (
        3,
        'acp-launch: there is no session "done" here\n    fix: acp-launch session list --all shows every session\n',
    )


def test_several_sessions_are_removed_at_once_and_a_name_that_is_none_removes_nothing(launch: Launcher) -> None:
    launch.profile("forgetful")
    for name in ("one", "two", "three"):
        assert launch("run", "p", "hi", "--session", name).code == 0
    wrong = launch.within("session", "rm", "one", "tow")
    assert (wrong.code, wrong.heard) == (3, [])
    assert wrong.err == (
        'acp-launch: there is no session "tow" here; did you mean "two"?\n'
        "    fix: acp-launch session list --all shows every session\n"
    )
    assert names(launch) == ["one", "three", "two"]
    removed = launch.within("session", "rm", "one", "two", "one", "--local")
    assert (removed.code, removed.out, removed.err, removed.heard) == (0, b"", "", [])
    assert names(launch) == ["three"]


@pytest.mark.parametrize("verb", ["close", "rm"])
def test_a_session_made_with_a_command_line_can_be_forgotten_here_only(launch: Launcher, verb: str) -> None:
    """Only a digest of the command line is kept, so its agent cannot be started again."""
    agent = shlex.join([sys.executable, "-I", "-S", str(AGENTS / "polite.py")])
    assert launch("run", "--agent", agent, "hi", "--session", "my work").code == 0
    done = launch.within("session", verb, "my work")
    assert (done.code, done.heard) == (3, [])
    assert done.err == (
        'acp-launch: the session "my work" was made with --agent, so its agent cannot be started from here\n'
        "    fix: to delete it here: acp-launch session rm 'my work' --local\n"
    )
    assert names(launch) == ["my work"]
    assert launch.within("session", "rm", "my work", "--local").code == 0
    assert names(launch) == []


@pytest.mark.parametrize(
    ("profile", "detail"),
    [
        (
            '{"version": 1, "agent": {"comand": "x"}}',
            '.acp-launch/p.yaml:1:26: agent.comand: unknown key "comand"; did you mean "command"?\n'
            "    fix: write command\n",
        ),
        (
            '{"version": 1, "agent": {"command": "sh", "env": {"A": "${secret:a}"}}}',
            '.acp-launch/p.yaml:1:56: agent.env.A: cannot read secret "a": the keyring backend'
            " keyring.backends.fail.Keyring (chosen by PYTHON_KEYRING_BACKEND) always fails\n"
            "    fix: export ACP_LAUNCH_SECRET_A=..., or unset PYTHON_KEYRING_BACKEND, or name another one there\n",
        ),
    ],
)
def test_a_session_whose_profile_has_problems_shows_them_and_can_be_forgotten_here(
    launch: Launcher, profile: str, detail: str
) -> None:
    file = launch.profile("polite")
    assert launch("run", "p", "hi", "--session", "work").code == 0
    file.write_text(profile)
    done = launch.within("session", "rm", "work")
    assert (done.code, done.heard) == (3, [])
    first, *shown, fix = done.err.splitlines()
    assert first == 'acp-launch: the agent of the session "work" cannot be started: its profile "p" has problems'
    assert [line.strip() for line in shown] == [line.strip() for line in detail.splitlines()]
    assert fix == "    fix: fix the profile, or delete the session here: acp-launch session rm work --local"
    assert names(launch) == ["work"]
    assert launch.within("session", "rm", "work", "--local").code == 0
    assert names(launch) == []


def test_a_session_the_agent_does_not_know_is_as_good_as_closed_and_removed(launch: Launcher) -> None:
    """C-47."""
    launch.profile("forgetful")
    assert launch("run", "p", "hi", "--session", "work").code == 0
    closed = launch("session", "close", "work")
    assert (closed.code, closed.err, closed.methods) == (0, "", ["initialize", "session/close"])
    removed = launch("session", "rm", "work")
    assert (removed.code, removed.err, removed.methods) == (0, "", ["initialize", "session/delete"])
    assert names(launch) == []


def test_a_session_the_agent_refuses_to_delete_is_kept_until_it_is_forgotten_here_alone(launch: Launcher) -> None:
    launch.profile("forgetful", "-32603")
    assert launch("run", "p", "hi", "--session", "work").code == 0
    refused = launch("session", "rm", "work")
    assert (refused.code, refused.err) == (
        4,
        "acp-launch: the agent answered session/delete with an error: session session-1 not found (-32603)\n"
        "    fix: delete it here only: acp-launch session rm work --local\n",
    )
    assert names(launch) == ["work"]
    local = launch.within("session", "rm", "work", "--local")
    assert (local.code, local.err, local.heard) == (0, "", [])
    assert names(launch) == []


def test_an_agent_is_asked_for_its_sessions_page_by_page(launch: Launcher) -> None:
    """C-34, C-37, C-45."""
    launch.profile("pager", "3")
    done = launch("session", "list", "p", "--agent", "--json")
    assert done.code == 0
    found = [session["sessionId"] for session in json.loads(done.out)["sessions"]]
    assert found == [f"s-{page}-{place}" for page in range(3) for place in range(2)]
    asked = [message["params"] for message in done.heard if message["method"] == "session/list"]
    cwd = str(launch.project)
    assert asked == [{"cwd": cwd}, {"cwd": cwd, "cursor": "=opaque/0+="}, {"cwd": cwd, "cursor": "=opaque/1+="}]
    assert len(launch("session", "list", "p", "--agent").out.splitlines()) == 1 + 6


@pytest.mark.parametrize(
    ("temper", "code", "said"),
    [
        (["pager", "empty"], 5, "the agent's list of sessions has no end: it has more than 1,000 pages"),
        (["polite"], 3, "test-agent does not list its sessions"),
    ],
)
def test_a_list_that_never_ends_or_is_not_to_be_had_is_an_error(
    launch: Launcher, temper: list[str], code: int, said: str
) -> None:
    launch.profile(*temper)
    done = launch("session", "list", "p", "--agent")
    fix = "    fix: run it again with --trace FILE to see what was said\n" if code == 5 else ""
    assert (done.code, done.out, done.err) == (code, b"", f"acp-launch: {said}\n{fix}")


def test_what_was_said_is_shown_without_the_agent(launch: Launcher) -> None:
    launch.profile("replayer")
    for prompt in ("hello\nthere", "read it"):
        assert launch("run", "p", prompt, "--session", "work").code == 0
    assert launch("session", "rename", "work", "done").code == 0
    shown = launch.within("session", "history", "done")
    assert (shown.code, shown.err, shown.heard) == (0, "", [])
    _, first, second = re.split(r"^\d{4}-\d\d-\d\d [\d:]{8}\n", shown.out.decode(), flags=re.MULTILINE)
    assert (first, second) == ("> hello\n> there\nlive 1\n\n", "> read it\nlive 1\n\n")
    turns = [json.loads(line) for line in launch.within("session", "history", "done", "-o", "json").out.splitlines()]
    assert [(turn["prompt"], turn["answer"]) for turn in turns] == [("hello\nthere", "live 1"), ("read it", "live 1")]
    assert {turn["stop_reason"] for turn in turns} == {"end_turn"}
    assert turns[0].keys() == {"time", "prompt", "answer", "tools", "stop_reason"}
    assert launch("session", "rm", "done", "--local").code == 0
    assert not list((launch.state / "turns").iterdir())


def test_so_is_a_turn_in_which_the_agent_died(launch: Launcher) -> None:
    assert launch("run", "demo", "count 3", "--session", "work").code == 0
    assert launch("run", "demo", "crash", "--session", "work").code == 4
    shown = launch("session", "history", "work").out.decode()
    assert shown.endswith("> crash\nI am about to \n(error)\n\n")


def test_of_an_earlier_session_nothing_is_kept(launch: Launcher) -> None:
    launch.profile("polite")
    kept(launch, old=1.0)
    shown = launch("session", "history", "old")
    assert (shown.code, shown.out) == (3, b"")
    assert shown.err == (
        'acp-launch: nothing is kept of what was said in the session "old"\n'
        "    fix: the agent may know it: acp-launch run p --session old\n"
    )


def test_a_turn_is_ended_from_another_shell(launch: Launcher) -> None:
    launch.profile("cancellable")
    with launch.start("run", "p", "hi", "--session", "work") as running:
        running.hears("session/prompt")
        cancelled = launch.within("session", "cancel", "work")
        assert (cancelled.code, cancelled.out) == (0, b"")
        who = f"process {running.process.pid} (acp-launch run p --session work)"
        assert cancelled.err == f"work: sent Ctrl-C to {who}\n"
        running.hears("session/cancel")
        assert running.end().code == 130
    assert (
        launch.within("session", "history", "work")
        .out.decode()
        .endswith("\n- Long work\nworking stopped\n(cancelled)\n\n")
    )
    again = launch.within("session", "cancel", "work")
    assert (again.code, again.err) == (0, "work: no turn is running\n")


def test_the_sessions_of_a_project_that_has_moved_are_taken_along(launch: Launcher) -> None:
    launch.profile("replayer")
    assert launch("run", "p", "hello", "--session", "work").code == 0
    with open_registry(launch.state) as registry:
        (record,) = registry.list()
        old = launch.project.parent / "gone" / launch.project.name
        registry.move(str(launch.project), str(old))
        assert registry.list()[0].cwd == str(old)
    listed = launch("session", "list")
    move = f"acp-launch session move {old}"
    assert listed.err == f"no sessions here; {old}, which is gone, has some: if it is this project, {move}\n"
    assert f"{move}\n" in launch("session", "show", "work").err
    for words in (("p", "hi"), ()):
        assert f"{move}\n" in launch("run", *words, "--continue", stdin=b"hi").err
    moved = launch(*shlex.split(move)[1:])
    assert (moved.code, moved.out) == (0, b"")
    assert moved.err.startswith(f"1 session moved to {launch.project}; ")
    assert json.loads(launch("session", "show", "work", "--json").out)["cwd"] == record.cwd
    assert b"> hello" in launch("session", "history", "work").out
    nothing = launch("session", "move", "/nowhere")
    assert (nothing.code, nothing.err.partition("\n")[0]) == (3, "acp-launch: there are no sessions of /nowhere")


def test_a_session_goes_to_another_machine_where_its_agent_knows_it(launch: Launcher) -> None:
    launch.profile("replayer")
    assert launch("run", "p", "hello", "--session", "work").code == 0
    exported = launch("session", "export", "work")
    assert exported.code == 0
    content = json.loads(exported.out)
    assert (content["record"]["cwd"], content["record"]["project"]) == (".", "")
    (launch.project / "s.json").write_bytes(exported.out)
    taken = launch("session", "import", "s.json")
    assert (taken.code, taken.err.partition("\n")[0]) == (3, 'acp-launch: there is already a session "work" here')
    assert launch("session", "rm", "work", "--local").code == 0
    imported = launch("session", "import", "-", stdin=exported.out)
    assert (imported.code, imported.out) == (0, b"")
    assert imported.err.endswith("work: imported; acp-launch run p --session work goes on with it\n")
    assert imported.methods == ["initialize", "session/resume"]
    assert b"> hello" in launch("session", "history", "work").out
    assert launch("run", "p", "more", "--session", "work").code == 0


def test_a_session_that_the_agent_here_does_not_know_is_not_imported(launch: Launcher) -> None:
    launch.profile("replayer")
    assert launch("run", "p", "hello", "--session", "work").code == 0
    (launch.project / "s.json").write_bytes(launch("session", "export", "work").out)
    assert launch("session", "rm", "work", "--local").code == 0
    launch.profile("forgetful")
    refused = launch("session", "import", "s.json")
    assert (refused.code, names(launch)) == (3, [])
    assert "fix: copy the agent's own files from the other machine first" in refused.err
    launch.profile("polite")
    assert "can neither load nor resume a session" in launch("session", "import", "s.json").err
    assert names(launch) == []


@pytest.mark.sample(0, 3)
@pytest.mark.parametrize(
    "change",
    [
        {"cwd": "../elsewhere"},
        {"cwd": "/etc"},
        {"name": "-x"},
        {"turns": "many"},
        {"created": 1e300},
        {"turns": 1 << 70},
    ],
)
def test_what_is_not_an_exported_session_of_a_project_is_refused(launch: Launcher, change: dict[str, object]) -> None:
    launch.profile("replayer")
    assert launch("run", "p", "hello", "--session", "work").code == 0
    content = json.loads(launch("session", "export", "work").out)
    content["record"] |= change
    (launch.project / "s.json").write_text(json.dumps(content))
    refused = launch.within("session", "import", "s.json")
    assert refused.code in (2, 3) and refused.heard == [] and "fix:" in refused.err
    for text in ("[", "[" * 100_000, " " * (5 << 20)):
        (launch.project / "s.json").write_text(text)
        assert launch.within("session", "import", "s.json").code == 2
    assert launch.within("session", "import", "nowhere").code == 2


def test_one_name_in_two_profiles_needs_the_profile_to_be_said(launch: Launcher) -> None:
    for profile in ("p", "q"):
        launch.profile("polite", name=profile)
        assert launch("run", profile, "hi", "--session", "work").code == 0
    done = launch("session", "show", "work")
    assert (done.code, done.err) == (
        3,
        'acp-launch: "work" is a session of several profiles: q, p\n    fix: say which: --profile NAME\n',
    )
    assert json.loads(launch("session", "show", "work", "--profile", "q", "--json").out)["profile"] == "q"
    assert launch("run", "q", "hi", "--session", "taken").code == 0
    done = launch("session", "rename", "work", "taken", "--profile", "q")
    assert (done.code, done.err) == (
        3,
        'acp-launch: there is already a session "taken" of profile "q"\n    fix: choose another name\n',
    )


DAY = 86400.0


def kept(launch: Launcher, **sessions: float) -> None:
    """Sessions of profile `p` by their names, each last used so many days ago."""
    with open_registry(launch.state) as registry:
        for name, days in sessions.items():
            used = time.time() - days * DAY
            registry.save(replace(FIX, project=str(launch.project), profile="p", name=name, last_used=used))


def test_old_sessions_are_shown_and_deleted_when_that_is_wanted(launch: Launcher) -> None:
    kept(launch, old=31, older=40, young=29)
    shown = launch("session", "prune", "--older-than", "30d")
    assert shown.code == 2
    assert [line.split()[0] for line in shown.out.decode().splitlines()] == ["NAME", "old", "older"]
    assert shown.err == (
        "acp-launch: 2 sessions would be deleted; nothing was changed\n    fix: to delete without a question: --yes\n"
    )
    assert names(launch) == ["old", "older", "young"]
    done = launch("session", "prune", "--older-than", "30d", "--yes", "--json")
    assert [record["name"] for record in json.loads(done.out)["sessions"]] == ["old", "older"]
    assert (done.code, done.err, names(launch)) == (0, "", ["young"])
    none = launch("session", "prune", "--older-than", "5w")
    assert (none.code, none.out, none.err) == (0, b"", "no session was last used more than 5w ago\n")


def test_a_session_in_use_is_not_pruned_however_old(launch: Launcher) -> None:
    kept(launch, held=31, old=31)
    with hold(launch.state, (str(launch.project), "p", "held")):
        done = launch("session", "prune", "--older-than", "30d", "--yes")
    assert done.err.endswith("; it was not deleted\ndeleted 1 session; the agents still have what they stored\n")
    assert names(launch) == ["held"]


def test_on_a_terminal_pruning_asks(launch: Launcher) -> None:
    kept(launch, old=31)
    for answer, left in (("n", ["old"]), ("y", [])):
        with on_terminal("session", "prune", "--older-than", "4w", cwd=launch.project, env=launch.env) as terminal:
            terminal.until(yes_or_no("Delete 1 session?"))
            terminal.types(answer)
            assert terminal.ends() == 0
        assert names(launch) == left


def test_what_is_no_age_is_refused(launch: Launcher) -> None:
    kept(launch, old=31)
    for age in ("30", "soon", "", "1.5d", "-3d", "3y"):
        done = launch("session", "prune", f"--older-than={age}", "--yes")
        assert (done.code, f'--older-than: expected an age, found "{age}"' in done.err) == (2, True)
    assert names(launch) == ["old"]


def test_a_session_without_a_name_can_be_named_by_its_title_or_its_beginning(launch: Launcher) -> None:
    launch.profile("polite")
    for prompt in ("Explain the parser", "Explain the lexer"):
        assert launch("run", "p", prompt).code == 0
    _, *rows = launch("session", "list").out.decode().splitlines()
    assert all(re.match(r" +p +Explain the \w+ +1 +just now", row) for row in rows)
    assert b"title:      Explain the parser\n" in launch("session", "show", "explain the p").out
    several = launch("session", "show", "Explain")
    assert (several.code, 'several sessions have a title that begins with "Explain"' in several.err) == (3, True)
    assert launch("session", "rename", "Explain the parser", "parser").code == 0
    assert launch("session", "show", "Explain the p").code == 3, "a session with a name is called by it"
    assert launch("session", "rm", "--local", "explain").code == 0
    assert names(launch) == ["parser"]
