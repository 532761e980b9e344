"""`batch item`: one attempt of an item, with real agents; nothing of it is left running."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from acp_launch.app.planning import loaded_profile
from acp_launch.app.spec import load_settings
from acp_launch.batch.figures import explain
from acp_launch.batch.model import (
    CheckCommand,
    Cost,
    FrozenProfile,
    Isolation,
    Item,
    Outcome,
    Record,
    Retry,
    SetupCommand,
)
from acp_launch.batch.store import ANSWER, CHECK, EVENTS, PATCH, SETUP, STDERR, BatchDirectory, open_batch
from acp_launch.document.scalars import Duration
from acp_launch.profile.trust import digest_content
from tests.batch.directories import add_record, make_batch, make_record
from tests.batch.repositories import git, save
from tests.cli import forkserver
from tests.cli.hosted import up
from tests.cli.launcher import SERVERS, Ended, Launcher, left_by_guards
from tests.cli.serving import serving
from tests.patience import PATIENCE, until

SERVER = [sys.executable, "-I", "-S", str(SERVERS / "polite.py")]
ID = "a.p"
SAYS_NOTHING = "script.serve({'session/prompt': script.end})\n"
COSTS = """
import os
def prompt(request):
    session = script.session_of(request)
    cost = {"amount": float(os.environ["COST"]), "currency": "USD"}
    script.update(session, "usage_update", used=1, size=9, cost=cost)
    script.say(session, "paid")
    script.end(request, "max_tokens")
def initialize(request):
    script.initialize(request, loadSession=True)
def load(request):
    script.answer(request, {})
script.serve({"initialize": initialize, "session/prompt": prompt, "session/load": load})
"""
TELLS = """
import os
def prompt(request):
    script.say(script.session_of(request), os.environ["TOLD"])
    script.complain(os.environ["TOLD"])
    script.end(request)
script.serve({"session/prompt": prompt})
"""
WRITES = """
from pathlib import Path
def prompt(request):
    Path("made.txt").open("a").write("made\\n")
    script.say(script.session_of(request), "written")
    script.end(request, sys.argv[1] if sys.argv[1:] else "end_turn")
script.serve({"session/prompt": prompt})
"""


@pytest.fixture(autouse=True)
def in_the_project(launch: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(launch.project)


def freeze(launch: Launcher, **given: Any) -> BatchDirectory:
    """A batch of one item, whose profile is `p` as it is now."""
    digest = digest_content(loaded_profile("p", load_settings()))
    known: dict[str, Any] = {"id": ID, "index": 0, "task": "a", "profile": "p", "prompt": "hi"}
    item = Item(**{**known, "repo": str(launch.project), **given.pop("item", {})})
    return make_batch(
        launch.project.parent / "batch",
        items=(item,),
        directory=str(launch.project),
        profiles={"p": FrozenProfile(called="p", file="p.yaml", digest=digest)},
        **given,
    )


def attempt(launch: Launcher, batch: BatchDirectory, *words: str, **env: Any) -> Ended:
    return launch("batch", "item", str(batch.path), ID, *words, **env)


def made(batch: BatchDirectory, number: int = 1) -> Record:
    """The record of an attempt, whose files are as it says."""
    record = batch.read_record(ID, number)
    there = {each.name for each in batch.directory_of(ID, number).iterdir()}
    assert there == {"result.json", "started.json", *record.files}
    return record


def text(batch: BatchDirectory, name: str, number: int = 1) -> str:
    return (batch.directory_of(ID, number) / name).read_text()


def begun(batch: BatchDirectory) -> list[str]:
    """The attempts of the item, in whatever state."""
    directory = batch.directory_of(ID)
    return sorted(each.name for each in directory.iterdir() if each.is_dir()) if directory.exists() else []


# Outcomes


@pytest.mark.promise("batch")
def test_an_item_that_passes_is_recorded_and_then_done(launch: Launcher) -> None:
    launch.profile("polite", mcp_servers={"one": {"command": SERVER[0], "args": SERVER[1:]}})
    batch = freeze(launch)
    done = attempt(launch, batch)
    assert (done.code, done.out, done.err) == (0, b"", "acp-launch: a.p, attempt 1: passed\n")
    record = made(batch)
    assert (record.outcome, record.exit_code, record.stop_reason, record.error) == ("passed", 0, "end_turn", None)
    assert (record.batch, record.task, record.profile, record.sample) == ("nightly", "a", "p", 1)
    assert (record.answer, text(batch, ANSWER)) == ("You said: hi", "You said: hi")
    assert record.agent.name == "test-agent"
    assert [(each.name, each.restarts) for each in record.servers] == [("one", 0)]
    assert record.files == (ANSWER, EVENTS, STDERR)
    assert record.started <= record.ended
    assert done.params("session/new")["cwd"] == str(launch.project)

    again = launch("batch", "item", str(batch.path), "--index", "0")
    assert (again.code, again.err, again.heard, begun(batch)) == (0, "", [], ["1"])


def test_a_profile_that_is_another_than_was_frozen_does_not_start(launch: Launcher) -> None:
    file = launch.profile("polite")
    batch = freeze(launch)
    launch.profile("polite", "http")
    done = attempt(launch, batch)
    record = made(batch)
    now = digest_content(loaded_profile("p", load_settings()))
    assert record.error is not None
    assert (done.code, record.outcome, record.exit_code, done.heard) == (9, "setup_failed", 3, [])
    was = batch.batch.profiles["p"].digest
    told = f"{file}: this profile is not the one that was frozen: its digest is {now}, and was {was}"
    assert record.error.message == told


def run_plainly(launch: Launcher, batch: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Make an attempt without `--trust`."""
    return forkserver.completed(["batch", "item", str(batch), ID, *words], env=launch.env, cwd=launch.project)


def test_an_item_starts_an_agent_of_its_own_beside_a_host(launch: Launcher) -> None:
    """What it records, and where its check runs, it knows of its own launch alone."""
    launch.profile("polite")
    batch = freeze(launch)
    with up(launch) as host:
        done = attempt(launch, batch)
        assert (done.code, done.methods.count("session/prompt")) == (0, 1), done.err
        assert "session/prompt" not in host.methods


def test_an_editor_does_not_enter_the_session_of_an_item_that_runs(launch: Launcher) -> None:
    launch.scripted(
        "def prompt(request):\n    script.expect('session/cancel')\n    script.end(request, 'cancelled')\n"
        "script.serve({'session/prompt': prompt,"
        " 'session/new': lambda request: script.answer(request, {'sessionId': 's1'}),"
        " 'initialize': lambda request: script.initialize(request, loadSession=True)})"
    )
    batch = freeze(launch)
    with launch.start("batch", "item", str(batch.path), ID) as running, serving(launch) as editor:
        running.hears("session/prompt")
        editor.begin()
        assert "is in use by process" in editor.refused("session/load", sessionId="s1", **editor.place())
        assert "session/load" not in [message.get("method") for message in editor.agent_heard]
        running.kill(signal.SIGINT)
        running.end()


def test_what_was_frozen_is_trusted_with_its_profiles(launch: Launcher) -> None:
    """The profile was accepted for one run, by `--trust`."""
    launch.profile("polite")
    (launch.project / "b.yaml").write_text("version: 1\nprofiles: [p]\ntasks: [{id: a, prompt: hi}]\n")
    out = launch.project.parent / "out"
    assert launch("batch", "prepare", "b.yaml", "--out", str(out), "--trust").code == 0
    assert run_plainly(launch, out).returncode == 0
    assert open_batch(out).read_record(ID, 1).outcome == "passed"


def test_a_directory_that_is_not_on_this_host_is_a_setup_that_failed(launch: Launcher) -> None:
    launch.profile("polite")
    given = freeze(launch).batch
    batch = make_batch(
        launch.project.parent / "batch", items=given.items, profiles=given.profiles, directory="/nowhere"
    )
    assert attempt(launch, batch).code == 9
    record = made(batch)
    assert record.error is not None
    assert (record.outcome, record.files) == ("setup_failed", ())
    assert record.error.message == "cannot enter the batch's directory /nowhere: No such file or directory"


def test_options_of_the_batch_reach_the_run(launch: Launcher) -> None:
    launch.profile("asker", "allow_once")
    batch = freeze(launch, approve="all", item={"prompt": "one\n\n${task.id} -- two", "matrix": {}})
    done = attempt(launch, batch)
    assert (done.code, made(batch).answer) == (0, "outcomes: allow_once-0")
    (said,) = done.params("session/prompt")["prompt"]
    assert said["text"] == "one\n\n${task.id} -- two"


def test_the_matrix_sets_options_of_the_agent(launch: Launcher) -> None:
    launch.profile("demo")
    batch = freeze(launch, item={"prompt": "model", "matrix": {"model": "no-such-model"}})
    assert attempt(launch, batch).code == 9
    record = made(batch)
    assert record.error is not None
    assert (record.outcome, record.model) == ("setup_failed", "no-such-model")
    assert "no-such-model" in record.error.message


# Which attempt


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "batch item needs an ID, or --index"),
        ([ID, "--index", "0"], "batch item needs an ID, or --index"),
        (["--index", "1"], "the batch has no item 1"),
        (["b.p"], 'the batch has no item "b.p"; did you mean "a.p"?'),
        ([ID, "--lifeline", "99"], "--lifeline: descriptor 99 is not open"),
    ],
)
def test_what_is_no_item_is_refused(launch: Launcher, words: Sequence[str], said: str) -> None:
    launch.profile("polite")
    batch = freeze(launch)
    done = launch("batch", "item", str(batch.path), *words)
    assert (done.code, done.err.partition("\n")[0], begun(batch)) == (2, f"acp-launch: {said}", [])


def test_an_attempt_that_is_due_again_has_the_next_number(launch: Launcher) -> None:
    launch.profile("crasher", "prompt")
    batch = freeze(launch, retry=Retry(attempts=2, on=("agent_died",)))
    sessions = [attempt(launch, batch).params("session/new") and made(batch, number).session for number in (1, 2)]
    assert begun(batch) == ["1", "2"]
    assert sessions[0] and sessions[1] and sessions[0]["name"] != sessions[1]["name"]
    again = attempt(launch, batch)
    assert (again.code, again.heard, begun(batch)) == (9, [], ["1", "2"])


def test_an_attempt_that_has_a_record_only_exits_as_recorded(launch: Launcher) -> None:
    launch.profile("polite")
    batch = freeze(launch)
    add_record(batch, make_record(ID, 1, "cancelled"))
    done = attempt(launch, batch, "--attempt", "1")
    assert (done.code, done.heard, begun(batch)) == (130, [], ["1"])
    assert (attempt(launch, batch, "--attempt", "2").code, made(batch, 2).outcome) == (0, "passed")


def test_two_processes_make_one_attempt(launch: Launcher) -> None:
    launch.profile("polite")
    batch = freeze(launch)
    with ExitStack() as held:
        held.enter_context(batch.lock(ID))
        with launch.start("batch", "item", str(batch.path), ID) as one:
            one.complains("waiting for another process, which makes an attempt of a.p")
            batch.begin(ID, 1)
            batch.write_record(make_record(ID, 1, "failed"))
            held.close()
            done = one.end()
    assert (done.code, done.heard, begun(batch)) == (9, [], ["1"])


def test_a_batch_that_is_cancelled_starts_nothing(launch: Launcher) -> None:
    launch.profile("polite")
    batch = freeze(launch)
    batch.cancel()
    done = attempt(launch, batch)
    assert (done.code, done.heard, begun(batch)) == (130, [], [])


# Signals


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_cancels_the_run(launch: Launcher, number: str, code: int) -> None:
    launch.profile("cancellable")
    batch = freeze(launch)
    with launch.start("batch", "item", str(batch.path), ID) as running:
        running.hears("session/prompt")
        running.kill(signal.Signals[number])
        done = running.end()
    record = made(batch)
    assert (done.code, record.outcome, record.exit_code) == (code, "cancelled", code)
    assert json.loads(text(batch, EVENTS).splitlines()[-1])["exitCode"] == code
    assert ("session/cancel" in done.methods) == (number == "SIGINT")


def test_a_second_signal_ends_the_run_at_once(launch: Launcher) -> None:
    launch.profile("silent_turn")
    batch = freeze(launch)
    with launch.start("batch", "item", str(batch.path), ID) as running:
        running.hears("session/prompt")
        running.kill(signal.SIGINT)
        running.hears("session/cancel")
        running.kill(signal.SIGINT)
        done = running.end()
    assert (done.code, made(batch).outcome) == (130, "cancelled")


def test_cancelling_the_batch_cancels_a_run_that_was_told_to_ignore_signals(launch: Launcher) -> None:
    launch.profile("cancellable")
    batch = freeze(launch)
    prefix = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh"]
    with launch.start("batch", "item", str(batch.path), ID, prefix=prefix) as running:
        running.hears("session/prompt")
        batch.cancel()
        running.hears("session/cancel")
        done = running.end()
    assert (done.code, made(batch).outcome) == (130, "cancelled")


def test_a_run_whose_process_is_killed_has_died(launch: Launcher) -> None:
    launch.profile("cancellable")
    batch = freeze(launch)
    with launch.start("batch", "item", str(batch.path), ID, apart=True) as running:
        running.hears("session/prompt")
        (child,) = psutil.Process(running.process.pid).children()
        child.kill()
        code = running.process.wait(PATIENCE)
        assert left_by_guards(running.mark) == []
    record = made(batch)
    assert record.error is not None
    assert (code, record.outcome, record.exit_code, record.error.message) == (
        *(9, "agent_died", -9),
        "the run ended with SIGKILL",
    )


def test_a_run_that_is_killed_after_a_third_signal_was_cancelled(launch: Launcher) -> None:
    """A run that is stopped takes no signal; then only SIGKILL ends it."""
    launch.profile("cancellable")
    batch = freeze(launch)
    with launch.start("batch", "item", str(batch.path), ID, apart=True) as running:
        running.hears("session/prompt")
        (child,) = psutil.Process(running.process.pid).children()
        child.suspend()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # two of one kind may arrive as one
            running.process.send_signal(number)
        code = running.process.wait(PATIENCE)
        assert left_by_guards(running.mark) == []
    record = made(batch)
    assert code in (129, 130, 143)
    assert (record.outcome, record.exit_code, record.error) == ("cancelled", code, None)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_run_ends_with_the_process_of_its_item(launch: Launcher) -> None:
    launch.profile("cancellable", mcp_servers={"one": {"command": SERVER[0], "args": SERVER[1:]}})
    batch = freeze(launch)
    with launch.start("batch", "item", str(batch.path), ID, apart=True) as running:
        running.hears("session/prompt")
        tree = psutil.Process(running.process.pid).children(recursive=True)
        running.process.kill()
        _, left = psutil.wait_procs(tree, PATIENCE)
        assert (left, left_by_guards(running.mark)) == ([], [])
    last = json.loads(text(batch, EVENTS).splitlines()[-1])
    assert (last["type"], last["exitCode"], batch.attempts(ID)) == ("error", 143, [])
    batch.begin(ID, 1)  # its number is used again
    assert begun(batch) == ["1", "1.lost-1"]


CALLER = """
import os, subprocess, sys, threading
reading, writing = os.pipe()
words = [sys.executable, "-m", "acp_launch", *sys.argv[1:], "--lifeline", str(reading)]
def start():
    subprocess.Popen(words, pass_fds=[reading])
    os.close(reading)
thread = threading.Thread(target=start)
thread.start()
thread.join()
sys.stdin.read()
"""


def test_an_item_ends_with_the_caller_that_has_its_lifeline(launch: Launcher) -> None:
    """And not with the thread that has started it."""
    launch.profile("cancellable")
    batch = freeze(launch)
    words = [sys.executable, "-c", CALLER, "batch", "item", str(batch.path), ID, "--trust"]
    with subprocess.Popen(words, env=launch.env, cwd=launch.project, stdin=subprocess.PIPE) as caller:
        events = batch.directory_of(ID, 1) / EVENTS
        until(lambda: events.exists() and '"type":"session"' in events.read_text())
        caller.kill()
    until(lambda: not batch.is_running(ID))
    assert (made(batch).outcome, made(batch).exit_code) == ("cancelled", 143)
    assert json.loads(text(batch, EVENTS).splitlines()[-1])["exitCode"] == 143


# The check


def checked(*words: str) -> CheckCommand:
    return CheckCommand(command=words, timeout=Duration(60))


def test_the_check_decides_alone(launch: Launcher) -> None:
    launch.scripted(SAYS_NOTHING)
    batch = freeze(launch, check=checked("true"))
    assert attempt(launch, batch).code == 0
    record = made(batch)
    assert record.check is not None
    assert (record.outcome, record.exit_code, record.check.exit_code) == ("passed", 0, 0)
    assert record.files == (CHECK, EVENTS, STDERR)


def test_a_check_begins_only_after_a_turn_that_ended_well(launch: Launcher) -> None:
    launch.profile("refuser")
    batch = freeze(launch, check=checked("true"))
    assert (attempt(launch, batch).code, made(batch).outcome, made(batch).check) == (9, "refused", None)


def test_a_check_that_is_not_there_is_a_setup_that_failed(launch: Launcher) -> None:
    launch.profile("polite")
    batch = freeze(launch, check=checked("no-such-check"))
    assert attempt(launch, batch).code == 9
    record = made(batch)
    assert record.error is not None
    assert (record.outcome, record.exit_code, record.answer) == ("setup_failed", 3, "You said: hi")
    assert record.error.message.startswith('the check cannot run: "no-such-check" is not on PATH')


@pytest.mark.parametrize("how", ["SIGTERM", "cancel"])
def test_a_signal_in_the_check_cancels_the_attempt(launch: Launcher, how: str) -> None:
    launch.profile("polite")
    fifo = launch.project / "fifo"
    os.mkfifo(fifo)
    batch = freeze(launch, check=checked("sh", "-c", "echo begun > fifo; sleep 600"))
    with launch.start("batch", "item", str(batch.path), ID) as running:
        assert fifo.read_text() == "begun\n"
        if how == "cancel":
            batch.cancel()
        else:
            running.kill(signal.Signals[how])
        done = running.end()
    code = 143 if how == "SIGTERM" else 130
    assert (done.code, made(batch).outcome, made(batch).exit_code) == (code, "cancelled", code)
    assert made(batch).answer == "You said: hi"


# Trees and patches


def isolated(launch: Launcher, **given: Any) -> BatchDirectory:
    launch.extend(agent={"command": sys.executable, "args": ["-I", "-S", str(launch.project / "agent.py")]})
    (launch.project / "known.txt").write_text("known\n")
    isolation = Isolation(kind="worktree", **given.pop("isolation", {}))
    git(launch.project, "init", "--quiet")
    return freeze(launch, isolation=isolation, item={"base_commit": save(launch.project)}, **given)


@pytest.mark.promise("batch")
def test_an_item_works_in_a_tree_of_its_own_that_goes_when_it_passed(launch: Launcher) -> None:
    launch.scripted(WRITES)
    batch = isolated(launch, check=checked("grep", "-q", "made", "made.txt"))
    tree = batch.path / "trees" / ID
    before = git(launch.project, "status", "--porcelain")
    done = attempt(launch, batch)
    assert git(launch.project, "status", "--porcelain") == before
    record = made(batch)
    assert record.patch is not None
    assert (done.code, record.outcome, record.worktree, tree.exists()) == (0, "passed", None, False)
    assert done.params("session/new")["cwd"] == str(tree)
    assert (record.patch.files, record.patch.insertions, record.patch.deletions) == (1, 1, 0)
    assert "+made" in text(batch, PATCH)
    assert record.files == (ANSWER, CHECK, EVENTS, PATCH, STDERR)


def test_an_item_gets_what_its_commit_lacks_and_none_of_it_is_in_the_patch(launch: Launcher) -> None:
    launch.scripted(WRITES)
    (launch.project / ".gitignore").write_text(".env\n")
    (launch.project / ".env").write_text("KEY=1\n")
    script = "pwd; cat .env; echo set up >> known.txt; echo set up > made.txt"
    setup = SetupCommand(command=("sh", "-c", script))
    test = checked("sh", "-c", "grep KEY .env && grep 'set up' known.txt && test $(wc -l < made.txt) = 3")
    isolation = {"copy": (".env",), "setup": setup}
    batch = isolated(launch, check=test, isolation=isolation, retry=Retry(attempts=2, on=("failed",)))
    tree = batch.path / "trees" / ID
    assert (attempt(launch, batch).code, attempt(launch, batch).code) == (9, 0)
    assert text(batch, SETUP) == f"{tree}\nKEY=1\n"
    assert SETUP in made(batch).files
    assert SETUP not in made(batch, 2).files
    assert [line for line in text(batch, PATCH, 2).splitlines() if line[0] in "+-"][2:] == ["+made", "+made"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("sh", "-c", "echo no network; exit 3"), "the setup ended with 3: sh -c echo no network; exit 3"),
        (("sleep", "1000"), "the setup passed its time limit: sleep 1000"),
        (("no-such-program",), 'the setup cannot run: "no-such-program" is not on PATH'),
    ],
)
def test_an_item_whose_setup_fails_asks_no_agent(launch: Launcher, words: Sequence[str], why: str) -> None:
    launch.scripted(WRITES)
    batch = isolated(launch, isolation={"setup": SetupCommand(command=tuple(words), timeout=Duration(1))})
    done = attempt(launch, batch)
    record = made(batch)
    assert (done.code, record.outcome, record.exit_code, done.heard, record.patch) == (9, "setup_failed", 3, [], None)
    assert explain(record).startswith(why)
    assert (words[0] != "sh") or text(batch, SETUP) == "no network\n"


def test_the_next_attempt_works_in_the_same_tree(launch: Launcher) -> None:
    launch.scripted(WRITES)
    batch = isolated(
        launch,
        check=checked("sh", "-c", "test $(wc -l < made.txt) = 2"),
        retry=Retry(attempts=3, on=("failed",)),
        isolation={"keep": "never"},
    )
    tree = batch.path / "trees" / ID
    assert (attempt(launch, batch).code, made(batch).worktree, tree.exists()) == (9, str(tree), True)
    assert (attempt(launch, batch).code, made(batch, 2).worktree, tree.exists()) == (0, None, False)
    assert [text(batch, PATCH, number).count("+made") for number in (1, 2)] == [1, 2]


@pytest.mark.parametrize(
    ("keep", "check", "is_kept"),
    [("failed", "false", True), ("always", "true", True), ("never", "false", False)],
)
def test_a_tree_is_kept_as_the_batch_says(launch: Launcher, keep: Any, check: str, *, is_kept: bool) -> None:
    launch.scripted(WRITES)
    batch = isolated(launch, check=checked(check), isolation={"keep": keep})
    attempt(launch, batch)
    tree = batch.path / "trees" / ID
    assert (tree.exists(), made(batch).worktree) == (is_kept, str(tree) if is_kept else None)
    assert made(batch).patch is not None


KILLED = """
import os, signal, sys
from acp_launch.batch.worktree import Tree
from acp_launch.__main__ import main

Tree.remove = lambda tree: os.kill(os.getpid(), signal.SIGKILL)
main()
"""


def test_a_tree_goes_though_its_item_was_killed_between_the_record_and_the_removal(launch: Launcher) -> None:
    launch.scripted(WRITES)
    batch = isolated(launch)
    tree = batch.path / "trees" / ID
    argv = [sys.executable, "-c", KILLED, "batch", "item", str(batch.path), ID, "--trust"]
    killed = subprocess.run(argv, env=launch.env, cwd=launch.project, capture_output=True, check=False)
    assert (killed.returncode, made(batch).outcome, tree.exists()) == (-signal.SIGKILL, "passed", True)
    ended = forkserver.completed(["batch", "run", "--resume", str(batch.path)], env=launch.env, cwd=launch.project)
    assert ended.returncode == 0
    assert not tree.exists()
    assert git(launch.project, "worktree", "list").count("\n") == 1


@pytest.mark.parametrize(
    ("word", "outcome", "why"),
    [("true", "setup_failed", "{}"), ("false", "failed", "false ended with 1; no patch: {}")],
)
def test_a_tree_whose_patch_cannot_be_made_is_kept(launch: Launcher, word: str, outcome: Outcome, why: str) -> None:
    """Such an item has not passed: what reads patches would take it for one without work."""
    launch.scripted(WRITES.replace("    Path", '    Path(".git").unlink()\n    Path', 1))
    batch = isolated(launch, isolation={"keep": "never"}, check=checked(word))
    done, tree = attempt(launch, batch), batch.path / "trees" / ID
    record = made(batch)
    lack = f"{tree}/.git cannot be used: No such file or directory"
    assert (done.code, record.outcome, record.patch, record.worktree) == (9, outcome, None, str(tree))
    assert (record.patch_error, explain(record)) == (lack, why.format(lack))
    assert lack in done.err
    assert (tree / "made.txt").exists()


def test_a_tree_that_the_agent_removed_is_no_success(launch: Launcher) -> None:
    move = "    import os; os.rename(os.getcwd(), os.getcwd() + '.moved')"
    launch.scripted(WRITES.replace('    Path("made.txt").open("a").write("made\\n")', move))
    batch = isolated(launch)
    done = attempt(launch, batch)
    record = made(batch)
    assert (done.code, record.outcome, record.patch, record.worktree) == (9, "setup_failed", None, None)
    assert "cannot be used: No such file or directory" in explain(record)


def test_a_tree_that_no_run_has_touched_is_not_a_failure_to_look_at(launch: Launcher) -> None:
    launch.scripted(WRITES)
    batch = isolated(launch)
    launch.extend(agent={"args": ["another"]})
    assert attempt(launch, batch).code == 9
    record, tree = made(batch), batch.path / "trees" / ID
    assert record.patch is not None
    assert (record.outcome, record.patch.files) == ("setup_failed", 0)
    assert (tree.exists(), record.worktree) == (False, None)


def test_a_signal_while_the_patch_is_written_cancels_the_attempt_and_keeps_the_tree(
    launch: Launcher, tmp_path: Path
) -> None:
    """By a git whose `diff-files`, with which a patch begins, says so on a pipe and then hangs."""
    slow, fifo = tmp_path / "slow" / "git", tmp_path / "begun"
    slow.parent.mkdir()
    case = f'case " $* " in *" diff-files "*) echo begun > {fifo}; exec sleep 600;; esac'
    slow.write_text(f'#!/bin/sh\n{case}\nexec {shutil.which("git")} "$@"\n')
    slow.chmod(0o700)
    os.mkfifo(fifo)
    launch.scripted(WRITES)
    batch = isolated(launch)
    path = f"{slow.parent}{os.pathsep}{os.environ['PATH']}"
    with launch.start("batch", "item", str(batch.path), ID, PATH=path) as running:
        assert fifo.read_text() == "begun\n"
        running.kill(signal.SIGTERM)
        done = running.end()
    record, tree = made(batch), batch.path / "trees" / ID
    assert (done.code, record.outcome, record.exit_code, record.patch) == (143, "cancelled", 143, None)
    assert (record.answer, record.worktree, (tree / "made.txt").read_text()) == ("written", str(tree), "made\n")
    assert record.files == (ANSWER, EVENTS, STDERR)
    assert (attempt(launch, batch).code, made(batch, 2).outcome) == (0, "passed")
    assert "+made\n+made" in text(batch, PATCH, 2)


def test_a_tree_that_cannot_be_made_is_a_setup_that_failed(launch: Launcher) -> None:
    launch.scripted(WRITES)
    given = isolated(launch).batch
    (item,) = given.items
    other = Item(id=ID, index=0, task="a", profile="p", repo=item.repo, base_commit="0" * 40)
    batch = make_batch(
        launch.project.parent / "batch",
        items=(other,),
        profiles=given.profiles,
        isolation=given.isolation,
        directory=given.directory,
    )
    done = attempt(launch, batch)
    assert (done.code, made(batch).outcome, made(batch).exit_code, done.heard) == (9, "setup_failed", 3, [])


# Sessions


def test_a_retry_can_continue_the_session_and_counts_the_cost_that_it_added(launch: Launcher) -> None:
    launch.scripted(COSTS)
    batch = freeze(launch, retry=Retry(attempts=2, on=("limited",), session="continue"))
    first = attempt(launch, batch, COST="0.25")
    second = attempt(launch, batch, COST="0.75")
    one, two = made(batch), made(batch, 2)
    assert ("session/new" in first.methods, "session/load" in second.methods) == (True, True)
    assert one.session == two.session
    assert (one.cost, one.session_cost) == (Cost(amount=0.25, currency="USD"),) * 2
    assert (two.cost, two.session_cost) == (Cost(amount=0.5, currency="USD"), Cost(amount=0.75, currency="USD"))


@pytest.mark.parametrize("able", [False, True])
def test_a_session_that_cannot_be_continued_is_begun_anew(launch: Launcher, *, able: bool) -> None:
    """The agent cannot load sessions, or has forgotten this one."""
    agent = COSTS.replace("loadSession=True", f"loadSession={able}")
    launch.scripted(agent.replace("script.answer(request, {})", "script.refuse(request, -32002, 'unknown')"))
    batch = freeze(launch, retry=Retry(attempts=2, on=("limited",), session="continue"))
    first = attempt(launch, batch, COST="0.25")
    second = attempt(launch, batch, COST="0.5")
    one, two = made(batch), made(batch, 2)
    assert (first.code, second.code, two.outcome, two.error) == (9, 9, "limited", None)
    assert "a.p, attempt 2: its session cannot be continued, so it begins a new one" in second.err
    assert one.session and two.session and one.session["name"] == two.session["name"]


# Secrets, and what cannot be written


def test_a_directory_that_cannot_be_written_is_a_clear_error(launch: Launcher) -> None:
    launch.profile("polite")
    batch = freeze(launch)
    (batch.path / "items").write_text("a file")
    done = attempt(launch, batch)
    assert (done.code, done.heard) == (3, [])
    assert done.err == f"acp-launch: cannot write {batch.path / 'items'}: File exists\n"


def test_an_attempt_whose_record_cannot_be_written_has_none(launch: Launcher) -> None:
    launch.scripted(
        "import os, shutil\n"
        "def prompt(request):\n"
        "    shutil.rmtree(os.environ['GONE']); open(os.environ['GONE'], 'w').close()\n"
        "    script.say(script.session_of(request), 'gone')\n"
        "    script.end(request)\n"
        "script.serve({'session/prompt': prompt})\n"
    )
    batch = freeze(launch)
    done = attempt(launch, batch, GONE=str(batch.directory_of(ID, 1)))
    assert (done.code, begun(batch), batch.attempts(ID)) == (3, [], [])
    assert done.err.startswith(f"acp-launch: cannot write {batch.directory_of(ID, 1)}")


@pytest.fixture
def small_disk(launch: Launcher) -> Iterator[Path]:
    """A disk of 128 KiB at the batch's directory."""
    place = launch.project.parent / "batch"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(place)]
    if sys.platform != "linux" or os.geteuid() != 0 or subprocess.run(mount, check=False).returncode:
        pytest.skip("only root mounts a disk")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.parametrize("words", [1, 64 * 1024])
def test_a_full_disk_is_a_clear_error_and_with_room_the_attempt_is_made(
    launch: Launcher, small_disk: Path, words: int
) -> None:
    """Full from the start, or when the run writes its events."""
    body = f"script.say(script.session_of(request), 'word ' * {words}); script.end(request)"
    launch.scripted(f"def prompt(request): {body}\nscript.serve({{'session/prompt': prompt}})\n")
    batch = freeze(launch)
    if words == 1:
        with suppress(OSError), (small_disk / "filler").open("wb", buffering=0) as filler:
            while filler.write(bytes(4096)):
                pass
    done = attempt(launch, batch)
    assert (done.code, batch.attempts(ID), list(small_disk.rglob("result.json"))) == (3, [], [])
    what = "No space left on device" if words == 1 else "the run ended without its last event"
    assert done.err.startswith(f"acp-launch: cannot write {batch.path}")
    assert what in done.err
    subprocess.run(["mount", "-o", "remount,size=10m", str(small_disk)], check=True)
    assert (attempt(launch, batch).code, made(batch).outcome) == (0, "passed")
