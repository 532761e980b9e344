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


def test_the_latest_50_are_listed_unless_all_are_wanted(launch: Launcher) -> None:
    with open_registry(launch.state) as registry:
        for number in range(1100):
            registry.save(replace(FIX, project=str(launch.project), name=f"s{number}", last_used=float(number)))
        registry.save(replace(FIX, project="/elsewhere"))
    listed = launch("session", "list")
    assert [line.split()[0] for line in listed.out.decode().splitlines()[1:]] == [
        f"s{number}" for number in reversed(range(1050, 1100))
    ]
    assert (listed.code, listed.err) == (0, "1,050 more are older; --all shows every session\n")
    everything = launch("session", "list", "--all")
    assert (everything.code, everything.err, len(everything.out.splitlines())) == (0, "", 1 + 1100 + 1)
    assert len(names(launch)) == 1100, "a script gets all of this project"


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


def test_a_session_is_removed_here_and_at_the_agent_if_it_knows_it(launch: Launcher) -> None:
    """C-47. Several at once; a name that is none removes nothing; with `--local` the agent is not asked."""
    launch.profile("forgetful")
    for name in ("one", "two", "three", "four"):
        assert launch("run", "p", "hi", "--session", name).code == 0
    wrong = launch.within("session", "rm", "one", "tow")
    assert (wrong.code, wrong.heard) == (3, [])
    assert wrong.err == (
        'acp-launch: there is no session "tow" here; did you mean "two"?\n'
        "    fix: acp-launch session list --all shows every session\n"
    )
    assert names(launch) == ["four", "one", "three", "two"]
    removed = launch.within("session", "rm", "one", "two", "one", "--local")
    assert (removed.code, removed.out, removed.err, removed.heard) == (0, b"", "", [])
    closed = launch("session", "close", "three")
    assert (closed.code, closed.err, closed.methods) == (0, "", ["initialize", "session/close"])
    removed = launch("session", "rm", "three")
    assert (removed.code, removed.err, removed.methods) == (0, "", ["initialize", "session/delete"])
    launch.profile("forgetful", "-32603")
    refused = launch("session", "rm", "four")
    assert (refused.code, refused.err) == (
        4,
        "acp-launch: the agent answered session/delete with an error: session session-1 not found (-32603)\n"
        "    fix: delete it here only: acp-launch session rm four --local\n",
    )
    assert names(launch) == ["four"]


def test_a_session_made_with_a_command_line_can_be_forgotten_here_only(launch: Launcher) -> None:
    """Only a digest of the command line is kept, so its agent cannot be started again."""
    agent = shlex.join([sys.executable, "-I", "-S", str(AGENTS / "polite.py")])
    assert launch("run", "--agent", agent, "hi", "--session", "my work").code == 0
    for verb in ("close", "rm"):
        done = launch.within("session", verb, "my work")
        assert (done.code, done.heard, done.err) == (
            3,
            [],
            'acp-launch: the session "my work" was made with --agent, so its agent cannot be started from here\n'
            "    fix: to delete it here: acp-launch session rm 'my work' --local\n",
        )
    assert launch.within("session", "rm", "my work", "--local").code == 0
    assert names(launch) == []


@pytest.mark.parametrize(
    ("agent", "problem"),
    [
        ('{"comand": "x"}', 'agent.comand: unknown key "comand"; did you mean "command"?'),
        ('{"command": "sh", "env": {"A": "${secret:a}"}}', 'agent.env.A: cannot read secret "a": the keyring backend'),
    ],
)
def test_a_session_whose_profile_has_problems_shows_them_and_can_be_forgotten_here(
    launch: Launcher, agent: str, problem: str
) -> None:
    file = launch.profile("polite")
    assert launch("run", "p", "hi", "--session", "work").code == 0
    file.write_text(f'{{"version": 1, "agent": {agent}}}')
    done = launch.within("session", "rm", "work")
    assert (done.code, done.heard) == (3, [])
    first, shown, *_, fix = done.err.splitlines()
    assert first == 'acp-launch: the agent of the session "work" cannot be started: its profile "p" has problems'
    assert problem in shown
    assert fix == "    fix: fix the profile, or delete the session here: acp-launch session rm work --local"
    assert names(launch) == ["work"]


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
    """Also a turn in which it died; of a session of earlier versions nothing is kept."""
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
    assert launch("run", "demo", "crash", "--session", "work").code == 4
    assert launch("session", "history", "work").out.endswith(b"> crash\nI am about to \n(error)\n\n")
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
    content = json.loads(exported.out)
    assert (exported.code, content["record"]["cwd"], content["record"]["project"]) == (0, ".", "")
    (launch.project / "s.json").write_bytes(exported.out)
    taken = launch("session", "import", "s.json")
    assert (taken.code, taken.err.partition("\n")[0]) == (3, 'acp-launch: there is already a session "work" here')
    assert launch("session", "rm", "work", "--local").code == 0
    for temper, said in (
        ("forgetful", "fix: copy the agent's own files from the other machine first"),
        ("polite", "can neither load nor resume a session"),
    ):
        launch.profile(temper)
        refused = launch("session", "import", "s.json")
        assert (refused.code, said in refused.err, names(launch)) == (3, True, [])
    launch.profile("replayer")
    imported = launch("session", "import", "-", stdin=exported.out)
    assert (imported.code, imported.out, imported.methods) == (0, b"", ["initialize", "session/resume"])
    assert imported.err.endswith("work: imported; acp-launch run p --session work goes on with it\n")
    assert b"> hello" in launch("session", "history", "work").out
    assert launch("run", "p", "more", "--session", "work").code == 0


def test_what_is_not_an_exported_session_of_a_project_is_refused(launch: Launcher) -> None:
    launch.profile("replayer")
    assert launch("run", "p", "hello", "--session", "work").code == 0
    content = json.loads(launch("session", "export", "work").out)
    texts = ["[", "[" * 100_000, " " * (5 << 20)]
    changes = ({"cwd": "../elsewhere"}, {"cwd": "/etc"}, {"name": "-x"}, {"turns": "many"}, {"created": 1e300})
    texts += [json.dumps({**content, "record": {**content["record"], **change}}) for change in changes]
    for text in texts:
        (launch.project / "s.json").write_text(text)
        refused = launch.within("session", "import", "s.json")
        assert refused.code in (2, 3) and refused.heard == [] and "fix:" in refused.err
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
    """None that is in use, however old; on a terminal it asks."""
    kept(launch, old=31, older=40, young=29, held=32)
    with hold(launch.state, (str(launch.project), "p", "held")):
        shown = launch("session", "prune", "--older-than", "30d")
        assert shown.code == 2
        assert [line.split()[0] for line in shown.out.decode().splitlines()] == ["NAME", "old", "held", "older"]
        assert shown.err == (
            "acp-launch: 3 sessions would be deleted; nothing was changed\n"
            "    fix: to delete without a question: --yes\n"
        )
        assert len(names(launch)) == 4
        done = launch("session", "prune", "--older-than", "30d", "--yes", "--json")
        assert [record["name"] for record in json.loads(done.out)["sessions"]] == ["old", "older"]
        assert "; it was not deleted\n" in done.err
    assert names(launch) == ["held", "young"]
    for answer, left in (("n", ["held", "young"]), ("y", ["young"])):
        with on_terminal("session", "prune", "--older-than", "30d", cwd=launch.project, env=launch.env) as terminal:
            terminal.until(yes_or_no("Delete 1 session?"))
            terminal.types(answer)
            assert terminal.ends() == 0
        assert names(launch) == left
    none = launch("session", "prune", "--older-than", "5w")
    assert (none.code, none.out, none.err) == (0, b"", "no session was last used more than 5w ago\n")
    for age in ("30", "soon", "", "1.5d", "-3d", "3y"):
        done = launch("session", "prune", f"--older-than={age}", "--yes")
        assert (done.code, f'--older-than: expected an age, found "{age}"' in done.err) == (2, True)


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
