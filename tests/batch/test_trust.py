"""What a batch of a repository starts and allows is inert until it is trusted, and its directory is not believed."""

import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from acp_launch.app.spec import load_settings
from acp_launch.batch.figures import summarize
from acp_launch.batch.freeze import read_claim
from acp_launch.batch.model import FrozenProfile, Isolation, Item
from acp_launch.batch.page import make_page
from acp_launch.batch.store import open_batch
from acp_launch.batch.trees import make_tree
from acp_launch.errors import LaunchError, StateError, UsageError
from tests.batch.directories import add_record, make_batch, make_record
from tests.batch.test_freeze import make_repository
from tests.cli import forkserver
from tests.cli.conftest import launch
from tests.cli.launcher import Launcher
from tests.confined import needs_box

__all__ = ["launch"]  # a fixture
TASKS = 'tasks: [{id: a, prompt: "add 2 3"}]\n'
HEAD = "version: 1\nprofiles: [demo]\n"
PLAIN = HEAD + TASKS
Done = subprocess.CompletedProcess[str]
Call = Callable[..., Done]


@pytest.fixture
def call(launch: Launcher) -> Call:
    """Run acp-launch in the project, a repository, without `--trust`, which the launcher would add."""
    make_repository(launch.project)

    def call(*words: str, **env: str) -> Done:
        return forkserver.completed(words, env={**launch.env, **env}, cwd=launch.project)

    return call


def write(launch: Launcher, text: str = PLAIN, name: str = "b.yaml") -> Path:
    file = launch.project / name
    file.write_text(text)
    return file


# The file.


def test_what_a_batch_starts_or_allows_is_shown_and_inert(launch: Launcher, call: Call) -> None:
    write(launch, PLAIN + "check: {command: [touch, x]}\n")
    for words in (("run",), ("run", "--dry-run"), ("prepare",)):
        refused = call("batch", *words, "b.yaml")
        assert (refused.returncode, refused.stdout) == (7, "")
        shown = re.sub(" +", " ", refused.stderr)
        assert "acp-launch: b.yaml would:\n starts the profiles: demo\n checks each item by touch x\n" in shown
        assert refused.stderr.endswith(
            "acp-launch: this batch is not trusted yet: b.yaml\n"
            "    fix: to trust it: acp-launch trust b.yaml; to run it once: --trust\n"
        )
    assert not (launch.project / ".acp-launch" / "batches").exists()
    assert not (launch.project / "x").exists()


@pytest.mark.parametrize(
    ("text", "row"),
    [
        (PLAIN + "approve: all\n", "allows approve: all, which counts more than its profiles"),
        (PLAIN + "matrix: {mode: [bypass]}\n", 'chooses matrix.mode[0]: "bypass"'),
        (PLAIN + "isolation: {kind: clone}\n", 'chooses isolation.kind: "clone"'),
        (PLAIN + "limits: {cost: {USD: 5000}}\n", "chooses limits.cost.USD: 5000"),
        (PLAIN + "retry: {attempts: 99}\nisolation: {kind: worktree}\n", "chooses retry.attempts: 99"),
        (PLAIN + "samples: 50\n", "chooses samples: 50"),
        (HEAD + "tasks: [{id: a, repo: ../other, prompt: hi}]\n", 'chooses repos[0]: "../other"'),
        (HEAD + "tasks: [{id: a, ref: evil, prompt: hi}]\n", 'chooses refs[0]: "evil"'),
        (HEAD + "tasks: tasks.jsonl\n", 'chooses refs[0]: "file"'),
        (HEAD + "tasks: tasks.jsonl\n", 'chooses tasks: "tasks.jsonl"'),
    ],
)
def test_all_that_is_not_text_for_agents_has_a_row(launch: Launcher, text: str, row: str) -> None:
    write(launch, '{"id": "a", "ref": "file", "prompt": "hi"}', "tasks.jsonl")
    found = read_claim(write(launch, text), load_settings())
    assert found is not None
    assert row in [f"{each.label} {each.text}" for each in found[2]]


def test_a_batch_is_accepted_listed_and_revoked_like_a_profile(launch: Launcher, call: Call) -> None:
    write(launch, PLAIN + "check: {command: ['true']}\n")
    refused = call("trust", "b.yaml")
    assert (refused.returncode, "the batch was not trusted" in refused.stderr) == (7, True)
    accepted = call("trust", "b.yaml", "--yes")
    assert accepted.stderr.endswith("trusted; you will be asked again if it changes: b.yaml\n")
    assert "b.yaml is trusted already" in call("trust", "b.yaml").stderr
    assert call("trust", "--list").stdout.split()[:3] == [
        "b.yaml",
        str(launch.project),
        str(launch.project / "b.yaml"),
    ]
    ran = call("batch", "run", "b.yaml")
    assert (ran.returncode, "1 passed" in ran.stdout) == (0, True), ran.stderr
    assert len(call("trust", "--list").stdout.splitlines()) == 1  # the frozen batch is none of them
    assert call("trust", "--revoke", "b.yaml").returncode == 0
    assert call("batch", "run", "b.yaml", "--trust", "--out", "../one").returncode == 0
    assert call("batch", "run", "b.yaml").returncode == 7


def test_texts_for_agents_may_change_and_nothing_else(launch: Launcher, call: Call) -> None:
    text = "version: 1\nprofiles: [demo]\nprompt: 'add ${task.x} 3'\ntasks: t.jsonl\ncheck: {command: ['true']}\n"
    write(launch, text)
    write(launch, '{"id": "a", "vars": {"x": 1}}\n', "t.jsonl")
    assert call("trust", "b.yaml", "--yes").returncode == 0
    write(launch, '{"id": "b", "vars": {"x": 2}}\n{"id": "c", "prompt": "hi"}\n', "t.jsonl")
    write(launch, text.replace("add", "echo") + "# a comment\n")
    assert call("batch", "run", "b.yaml", "--dry-run").stdout == "b.demo\nc.demo\n"
    write(launch, text.replace("'true'", "'false'"))
    refused = call("batch", "run", "b.yaml")
    assert refused.returncode == 7
    assert '  - check.command[0]: "true"\n  + check.command[0]: "false"\n' in refused.stderr
    assert "this batch has changed since you trusted it: b.yaml" in refused.stderr


def test_it_does_not_overrule_the_rules_of_the_users_own_profile(launch: Launcher, call: Call, tmp_path: Path) -> None:
    own = Path(launch.env["ACP_LAUNCH_CONFIG_DIR"]) / "profiles"
    own.mkdir(parents=True)
    (own / "careful.yaml").write_text(
        "version: 1\nextends: demo\npermissions: {default: deny}\nclient: {terminal: true}\n"
    )
    shell = f'tasks: [{{id: a, prompt: "shell touch {tmp_path}/allowed"}}]\n'
    write(launch, f"version: 1\nprofiles: [careful]\napprove: all\n{shell}")
    assert call("batch", "run", "b.yaml").returncode == 7
    assert not (tmp_path / "allowed").exists()


@pytest.mark.parametrize("place", ["configuration", "no project"])
def test_a_file_of_the_users_own_needs_no_trust(launch: Launcher, call: Call, tmp_path: Path, place: str) -> None:
    where = Path(launch.env["ACP_LAUNCH_CONFIG_DIR"]) if place == "configuration" else tmp_path / "elsewhere"
    where.mkdir(parents=True, exist_ok=True)
    (where / "b.yaml").write_text(PLAIN + "check: {command: ['true']}\n")
    assert "is trusted already: it is your own" in call("trust", str(where / "b.yaml")).stderr
    for _ in range(2):  # the first one makes a directory beside the file
        done = call("batch", "run", str(where / "b.yaml"))
        assert done.returncode == 0, done.stderr


def test_a_link_to_the_file_of_a_repository_does_not_make_it_the_users(
    launch: Launcher, call: Call, tmp_path: Path
) -> None:
    write(launch)
    (tmp_path / "b.yaml").symlink_to(launch.project / "b.yaml")
    assert call("batch", "run", str(tmp_path / "b.yaml")).returncode == 7


@pytest.mark.parametrize("file", ["b.yaml", "t.jsonl"])
def test_a_file_that_leads_out_of_the_project_is_never_trusted(
    launch: Launcher, call: Call, tmp_path: Path, file: str
) -> None:
    write(launch, PLAIN.replace(TASKS, "prompt: hi\ntasks: t.jsonl\n"))
    write(launch, '{"id": "a"}\n', "t.jsonl")
    (launch.project / file).rename(tmp_path / file)
    (launch.project / file).symlink_to(tmp_path / file)
    refused = call("batch", "run", "b.yaml", "--trust")
    assert refused.returncode == 7
    assert f"{file} is a link that leads out of the project, to {tmp_path / file}" in refused.stderr
    assert "this batch cannot be trusted: b.yaml" in refused.stderr


def test_a_file_that_every_user_may_write_is_never_trusted(launch: Launcher, call: Call, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "b.yaml").write_text(PLAIN)
    (tmp_path / "shared" / "b.yaml").chmod(0o666)
    refused = call("batch", "run", str(tmp_path / "shared" / "b.yaml"), "--trust")
    assert (refused.returncode, "can be written by all users" in refused.stderr) == (7, True)


def test_in_ci_the_state_directory_may_lie_in_the_project(launch: Launcher, call: Call) -> None:
    """Acceptances there are worth nothing, but `--trust` lets the items pass, too."""
    write(launch)
    state = {"ACP_LAUNCH_STATE_DIR": str(launch.project / "state")}
    done = call("batch", "run", "b.yaml", "--trust", "--out", "out", **state)
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stderr
    assert call("batch", "item", "out", "a.demo", **state).returncode == 7
    assert call("batch", "item", "out", "a.demo", "--trust", **state).returncode == 0


# Trust first, git after.


@pytest.fixture
def no_git(launch: Launcher, tmp_path: Path) -> Path:
    """A `git` that leaves a file when it is started."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "git").write_text(f"#!/bin/sh\necho $@ >> {tmp_path}/asked\nexit 1\n")
    (folder / "git").chmod(0o755)
    launch.env["PATH"] = f"{folder}{os.pathsep}{launch.env['PATH']}"
    return tmp_path / "asked"


@pytest.mark.parametrize(
    "more",
    [
        "isolation: {kind: worktree}\n",
        "",
        "isolation: {kind: clone}\ntasks: [{id: a, prompt: x, repo: 'https://127.0.0.1:1/a.git'}]\n",
    ],
)
def test_before_trust_no_git_is_started_and_no_server_asked(
    launch: Launcher, call: Call, no_git: Path, more: str
) -> None:
    write(launch, (PLAIN.replace(TASKS, "") if "tasks" in more else PLAIN) + more)
    checked = call("batch", "check", "b.yaml")
    assert (checked.returncode, checked.stdout) == (0, "b.yaml: ok, 1 item with 1 profile\n")
    assert "b.yaml: warning: the repositories of its tasks were not looked at" in checked.stderr
    assert "fix: acp-launch trust b.yaml" in checked.stderr
    for words in (("run",), ("run", "--dry-run"), ("prepare",)):
        assert call("batch", *words, "b.yaml").returncode == 7
    assert not no_git.exists()
    call("batch", "prepare", "b.yaml", "--trust")
    assert no_git.exists()


def test_without_git_a_check_still_says_what_is_wrong(launch: Launcher, call: Call, no_git: Path) -> None:
    write(launch, "version: 1\nprofiles: [demo]\ntasks: [{id: a, prompt: x, repo: nowhere}]\nsamples: 1\n")
    checked = call("batch", "check", "b.yaml")
    assert (checked.returncode, "nowhere does not exist" in checked.stderr) == (2, True)
    assert not no_git.exists()


def test_tasks_of_a_project_are_trusted_with_the_users_own_batch(launch: Launcher, call: Call, tmp_path: Path) -> None:
    (launch.project / "tasks.jsonl").write_text('{"id": "a", "prompt": "one"}\n')
    own = tmp_path / "own.yaml"
    own.write_text(f"version: 1\nprofiles: [demo]\ntasks: {launch.project}/tasks.jsonl\n")
    refused = call("batch", "run", str(own), "--out", "../mine")
    assert refused.returncode == 7 and f"this batch is not trusted yet: {own}\n" in refused.stderr
    assert call("trust", str(own), "--yes").returncode == 0
    done = call("batch", "run", str(own), "--out", "../mine")
    assert done.returncode == 0, done.stderr


def test_tasks_of_another_project_are_named(launch: Launcher, call: Call, tmp_path: Path) -> None:
    (tmp_path / "other" / ".git").mkdir(parents=True)
    file = tmp_path / "other" / "tasks.jsonl"
    file.write_text('{"id": "a", "prompt": "one"}\n')
    write(launch, f"version: 1\nprofiles: [demo]\ntasks: {file}\n")
    refused = call("batch", "run", "b.yaml", "--trust")
    assert refused.returncode == 7
    assert f"tasks.jsonl leads out of the project, to {file}\n" in refused.stderr


def test_credentials_in_a_batch_and_in_its_tasks_are_found(launch: Launcher, call: Call) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    write(launch, PLAIN.replace(TASKS, f"tasks: t.jsonl\nprompt: use {token}\n"))
    write(launch, f'{{"id": "a"}}\n{{"id": "b", "vars": {{"key": "{token}"}}}}\n', "t.jsonl")
    checked = call("batch", "check", "b.yaml")
    assert checked.returncode == 2
    assert "b.yaml:4:13: this looks like a GitHub token" in checked.stderr
    assert "t.jsonl:2:30: this looks like a GitHub token" in checked.stderr
    assert token not in checked.stderr


# The directory.


def tamper(file: Path, change: Callable[[Any], None]) -> None:
    content = json.loads(file.read_bytes())
    change(content)
    file.write_text(json.dumps(content))


@pytest.mark.parametrize(
    "id", ["../../../precious", "/etc", "a/b", "..", ".hidden", "-x", "a" * 201, "a\n", ""], ids=ascii
)
def test_an_id_that_leads_elsewhere_is_refused(tmp_path: Path, id: str) -> None:
    make_batch(tmp_path)
    tamper(tmp_path / "batch.json", lambda batch: batch["items"][0].update(id=id))
    with pytest.raises(StateError, match="is damaged"):
        open_batch(tmp_path)


@pytest.mark.parametrize(
    "words", [("run", "--resume"), ("status",), ("report",), ("cancel",), ("item",)], ids=lambda words: words[0]
)
def test_a_damaged_directory_is_touched_by_no_verb(launch: Launcher, tmp_path: Path, words: tuple[str, ...]) -> None:
    make_batch(tmp_path / "shipped")
    tamper(tmp_path / "shipped" / "batch.json", lambda batch: batch["items"][0].update(id="../../../precious"))
    done = launch.within("batch", *words, str(tmp_path / "shipped"), *(["a.demo"] if words == ("item",) else []))
    assert (done.code, "is damaged" in done.err) == (3, True)
    assert [each.name for each in (tmp_path / "shipped").iterdir()] == ["batch.json"]


def test_two_items_of_one_id_and_an_item_without_its_profile_are_refused(tmp_path: Path) -> None:
    item = Item(id="a.demo", index=0, task="a", profile="demo", repo="/")
    with pytest.raises(StateError, match="two items have one id"):
        make_batch(tmp_path / "one", items=(item, item))
    with pytest.raises(StateError, match="is not an item of it"):
        make_batch(tmp_path / "two", items=(item,), profiles={"p": FrozenProfile(called="p", file="p", digest="")})


@pytest.mark.parametrize("member", [{"item": "b.demo"}, {"item": "../../x"}, {"attempt": 7}])
def test_a_record_of_another_attempt_is_not_read(tmp_path: Path, member: dict[str, Any]) -> None:
    batch = make_batch(tmp_path / "batch")
    add_record(batch, make_record())
    tamper(batch.directory_of("a.demo", 1) / "result.json", lambda record: record.update(member))
    for read in (lambda: batch.verdicts("a.demo"), lambda: batch.read_record("a.demo", 1)):
        with pytest.raises(StateError, match="is damaged: it is the record of"):
            read()


@pytest.mark.parametrize("link", ["answer.md", "check.txt", "patch.diff"])
def test_a_link_takes_no_file_of_the_user_into_the_page(tmp_path: Path, link: str) -> None:
    (tmp_path / "key").write_text("A PRIVATE KEY")
    batch = make_batch(tmp_path / "batch")
    add_record(batch, make_record(outcome="failed"))
    (batch.directory_of("a.demo", 1) / link).symlink_to(tmp_path / "key")
    page = make_page(batch, summarize(batch))
    assert "A PRIVATE KEY" not in page
    assert "cannot be read: it is a link" in page


@pytest.mark.parametrize("link", ["items", "items/a.demo", "items/a.demo/1", "items/a.demo/1/result.json"])
def test_records_are_not_read_through_a_link(tmp_path: Path, link: str) -> None:
    batch = make_batch(tmp_path / "batch")
    add_record(batch, make_record())
    (batch.path / link).rename(tmp_path / "moved")
    (batch.path / link).symlink_to(tmp_path / "moved")
    with pytest.raises(StateError, match="it is a link"):
        open_batch(batch.path).verdicts("a.demo")


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["directory", "pipe"])
def test_a_record_that_is_not_a_file_is_named(tmp_path: Path, make: Callable[[Path], None]) -> None:
    batch = make_batch(tmp_path / "batch")
    add_record(batch, make_record())
    file = batch.directory_of("a.demo", 1) / "result.json"
    file.unlink()
    make(file)
    with pytest.raises(StateError, match=f"cannot read {file}: it is not a regular file"):
        batch.verdicts("a.demo")


@pytest.mark.parametrize("link", ["items", "items/a.demo", "items/a.demo/lock", "items/a.demo/1.log", "results.jsonl"])
def test_nothing_is_written_through_a_link(launch: Launcher, tmp_path: Path, link: str) -> None:
    batch = make_batch(tmp_path / "batch")
    victim, is_directory = tmp_path / "victim", link in ("items", "items/a.demo")
    (victim.mkdir if is_directory else victim.touch)()
    (batch.path / link).parent.mkdir(parents=True, exist_ok=True)
    (batch.path / link).symlink_to(victim)
    done = launch.forked("batch", "run", "--resume", str(batch.path))
    assert "Traceback" not in done.err
    assert not list(victim.iterdir()) if is_directory else victim.read_bytes() == b""


@pytest.mark.parametrize(
    ("where", "why"),
    [*((where, "can be written by all users") for where in ("items", "items/a.demo", "trees")), ("trees", "is a link")],
)
def test_nothing_starts_where_another_user_could_write_or_a_link_leads(tmp_path: Path, where: str, why: str) -> None:
    """Trees of a repository may lead to directories of the user's with the names of items."""
    batch = make_batch(tmp_path / "batch", isolation=Isolation(kind="worktree"))
    if why == "is a link":
        (batch.path / where).symlink_to(tmp_path)
    else:
        (batch.path / where).mkdir(parents=True, exist_ok=True)
        (batch.path / where).chmod(0o777)
    item = msgspec.structs.replace(batch.find_item("a.demo"), base_commit="0" * 40)
    with pytest.raises(StateError, match=f"{where} {why}, so it is not believed"), batch.lock("a.demo"):
        make_tree(batch, item)


@pytest.mark.parametrize("what", ["directory", "batch.json", "record"])
@pytest.mark.parametrize("how", ["other", "all"])
def test_what_another_user_could_have_written_is_not_believed(tmp_path: Path, what: str, how: str) -> None:
    if how == "other" and os.getuid():
        pytest.skip("only root gives files away")
    batch = make_batch(tmp_path / "batch")
    add_record(batch, make_record())
    places = {"directory": batch.path, "batch.json": batch.path / "batch.json"}
    place = places.get(what, batch.directory_of("a.demo", 1) / "result.json")
    if how == "other":
        os.chown(place, 12345, -1)
    else:
        place.chmod(stat.S_IMODE(place.stat().st_mode) | stat.S_IWOTH)
    with pytest.raises(StateError, match=r"belongs to another user \(uid 12345\)|can be written by all users"):
        open_batch(batch.path).verdicts("a.demo")


def test_a_directory_that_a_repository_ships_starts_nothing(launch: Launcher, call: Call, tmp_path: Path) -> None:
    """Also if it is a copy of one's own, elsewhere; what shows or ends it needs no trust."""
    write(launch, PLAIN + "check: {command: [touch, ran]}\napprove: all\n")
    assert call("batch", "prepare", "b.yaml", "--out", "../mine", "--trust").returncode == 0
    mine, shipped = tmp_path / "mine", launch.project / "shipped"
    shutil.copytree(mine, shipped)
    for words in (("run", "--resume", "shipped"), ("item", "shipped", "a.demo")):
        refused = call("batch", *words)
        assert refused.returncode == 7
        assert "  checks   each item by touch ran\n  allows   approve: all" in refused.stderr
        assert refused.stderr.endswith(
            f"acp-launch: this batch is not trusted yet: {shipped}/batch.json\n    fix: to run it: --trust\n"
        )
    for verb in ("status", "report", "cancel"):
        assert call("batch", verb, "shipped").returncode == 0
    assert not (launch.project / "ran").exists()
    done = call("batch", "run", "--resume", "../mine")
    assert done.returncode == 0, done.stderr
    (launch.project / "ran").unlink()
    assert call("batch", "run", "--resume", "shipped", "--trust").returncode == 0
    assert call("batch", "run", "--resume", "shipped", "--again", "passed").returncode == 0
    (mine / "batch.json").write_bytes((mine / "batch.json").read_bytes().replace(b'"touch"', b'"rm"'))
    changed = call("batch", "item", "../mine", "a.demo")
    assert (changed.returncode, "this batch has changed since you trusted it" in changed.stderr) == (7, True)


# A directory that a confined agent could write.


@pytest.fixture
def boxed(launch: Launcher) -> Callable[..., None]:
    needs_box()

    def boxed(body: str = "", **confined: Any) -> None:
        """Write a profile whose confined agent does what `body` says."""
        launch.scripted(
            f"def prompt(request):\n    {body or 'pass'}\n"
            '    script.say(script.session_of(request), "done")\n    script.end(request)\n'
            'script.serve({"session/prompt": prompt})\n'
        )
        launch.extend(runtime={"confined": {"read": [str(Path(__file__).parents[2])], **confined}})

    return boxed


def test_the_directory_is_elsewhere_if_a_confined_agent_works_in_the_project(
    launch: Launcher, call: Call, boxed: Callable[..., None]
) -> None:
    boxed()
    write(launch, PLAIN.replace("demo", "p"))
    (place,) = call("batch", "prepare", "b.yaml", "--trust").stdout.splitlines()[:1]
    assert Path(place).parent == launch.state / "batches"
    write(launch, PLAIN.replace("demo", "p") + "isolation: {kind: worktree}\n")
    (place,) = call("batch", "prepare", "b.yaml", "--trust").stdout.splitlines()[:1]
    assert Path(place).parent == launch.project / ".acp-launch" / "batches"
    write(launch)
    (place,) = call("batch", "prepare", "b.yaml", "--trust").stdout.splitlines()[:1]
    assert Path(place).parent == launch.project / ".acp-launch" / "batches"


def test_a_directory_that_a_confined_agent_could_write_is_refused(
    launch: Launcher, call: Call, boxed: Callable[..., None], tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    boxed(write=[str(tmp_path / "data")])
    for kind, out in (("none", "out"), ("none", "../data/out"), ("worktree", "../data/out")):
        write(launch, PLAIN.replace("demo", "p") + f"isolation: {{kind: {kind}}}\n")
        refused = call("batch", "run", "b.yaml", "--trust", "--out", out)
        place = (launch.project / out).resolve()
        assert (refused.returncode, refused.stderr) == (
            2,
            f"acp-launch: the agent of p is confined, but could write {place}, and so what is recorded there\n"
            "    fix: give a directory outside of what it writes: --out DIR\n",
        )
        assert not place.exists()


def test_an_item_looks_again_whether_its_confined_agent_could_write_the_directory(
    launch: Launcher, call: Call, boxed: Callable[..., None]
) -> None:
    boxed(write=["."])
    write(launch, PLAIN.replace("demo", "p") + "isolation: {kind: worktree}\n")
    done = call("batch", "run", "b.yaml", "--trust", "-o", "json")
    ended = json.loads(done.stdout.splitlines()[2])
    assert (done.returncode, ended["outcome"]) == (9, "setup_failed")
    assert "the agent is confined, but could write" in ended["error"]["message"]


def test_a_directory_of_an_earlier_batch_is_not_believed_once_a_confined_agent_could_write_it(
    launch: Launcher, call: Call, boxed: Callable[..., None], tmp_path: Path
) -> None:
    """Beside a tree lies a repository of ours, whose configuration git obeys outside of every place."""
    write(launch, PLAIN + "isolation: {kind: worktree}\ncheck: {command: ['false']}\n")
    assert call("batch", "run", "b.yaml", "--trust").returncode == 9
    (directory,) = (launch.project / ".acp-launch" / "batches").glob("b-*")
    ours = directory / "trees" / ".a.demo.git"
    filter = f'[filter "x"]\n clean = touch {tmp_path}/ran; cat\n'
    boxed(
        f"open({str(ours / 'config')!r}, 'a').write({filter!r});"
        f" open({str(ours / 'info' / 'attributes')!r}, 'a').write('* filter=x\\n')"
    )
    assert call("run", "p", "hi", "--trust").returncode == 0
    assert "filter=x" in (ours / "info" / "attributes").read_text()
    for words in (("run", "--resume"), ("item",)):
        id = ["a.demo"] if words == ("item",) else ["--again", "failed"]
        refused = call("batch", *words, str(directory), *id, "--trust")
        assert (refused.returncode, f"a confined agent could write {directory}" in refused.stderr) == (3, True)
    assert not (tmp_path / "ran").exists()
    (place,) = call("batch", "prepare", "b.yaml", "--trust").stdout.splitlines()[:1]
    assert Path(place).parent == launch.state / "batches"
    assert call("batch", "prepare", "b.yaml", "--trust", "--out", "out").returncode == 2


def test_a_git_that_a_confined_agent_wrote_does_not_run(
    launch: Launcher, call: Call, boxed: Callable[..., None], tmp_path: Path
) -> None:
    """Not in a later batch either, of an agent that is not confined, with the folder first on PATH."""
    bin = tmp_path / "bin"
    bin.mkdir()
    file, evil = str(bin / "git"), f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n"
    boxed(f"import os; open({file!r}, 'w').write({evil!r}); os.chmod({file!r}, 0o755)", write=[str(bin)])
    write(launch, PLAIN.replace("demo", "p") + "isolation: {kind: worktree}\n")
    assert call("batch", "run", "b.yaml", "--trust").returncode == 0
    assert (bin / "git").exists()
    write(launch, PLAIN + "isolation: {kind: worktree}\n")
    done = call("batch", "run", "b.yaml", "--trust", PATH=f"{bin}{os.pathsep}{launch.env['PATH']}")
    assert (done.returncode, (tmp_path / "ran").exists()) == (0, False), done.stderr


def test_what_a_confined_agent_lays_where_it_works_is_neither_followed_nor_run(
    launch: Launcher, call: Call, boxed: Callable[..., None], tmp_path: Path
) -> None:
    boxed("import pathlib; [pathlib.Path(each).symlink_to('/etc') for each in ('check.txt', 'answer.md', 'items')]")
    write(launch, PLAIN.replace("demo", "p") + "isolation: {kind: worktree, keep: always}\ncheck: {command: [sh, x]}\n")
    done = call("batch", "run", "b.yaml", "--trust", "--out", "../out")
    assert "Traceback" not in done.stdout + done.stderr
    assert (tmp_path / "out" / "items" / "a.p" / "1" / "answer.md").read_text() == "done"


# The check of a confined item.

ESCAPE = "check: {{{outside}command: [sh, -c, 'cat made && ls {outer}']}}\n"


@pytest.mark.parametrize("outside", [False, True])
def test_the_check_of_a_confined_item_runs_in_its_place(
    launch: Launcher, call: Call, boxed: Callable[..., None], tmp_path: Path, outside: bool
) -> None:
    """It runs what the agent wrote; with `outside` it runs as you."""
    (tmp_path / "outer").mkdir()
    (tmp_path / "outer" / "private").touch()
    boxed("open('made', 'w').write('made')")
    check = ESCAPE.format(outer=tmp_path / "outer", outside="outside: true, " if outside else "")
    write(launch, PLAIN.replace("demo", "p") + check + "isolation: {kind: worktree}\n")
    shown = call("batch", "prepare", "b.yaml").stderr
    assert ("outside of the place of a confined agent" in shown) == outside
    done = call("batch", "run", "b.yaml", "--trust", "--out", "../out")
    assert done.returncode == (0 if outside else 9), done.stdout
    said = (tmp_path / "out" / "items" / "a.p" / "1" / "check.txt").read_text()
    assert said.startswith("made")
    assert ("private" in said) == outside


def test_a_check_whose_program_is_not_in_the_place_is_a_problem_before_the_agent_starts(
    launch: Launcher, call: Call, boxed: Callable[..., None], tmp_path: Path
) -> None:
    boxed()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "judge").symlink_to("/bin/true")
    path = f"{tmp_path}/bin{os.pathsep}{launch.env['PATH']}"
    write(launch, PLAIN.replace("demo", "p") + "check: {command: [judge]}\n")
    refused = call("batch", "run", "b.yaml", "--trust", PATH=path)
    assert refused.returncode == 3
    assert f"b.yaml: the check runs in the place of the confined agent, where {tmp_path}/bin/judge is not\n" in (
        refused.stderr
    )
    assert "name it under runtime.confined.read, or write check: {outside: true}" in refused.stderr


def test_a_file_without_a_suffix_is_given_by_its_path(launch: Launcher, call: Call) -> None:
    """A name alone is that of a profile, whatever lies beside it."""
    write(launch, name="demo")
    assert "demo is trusted already: it is your own, or built in" in call("trust", "demo").stderr
    assert call("trust", "./demo", "--yes").stderr.endswith("trusted; you will be asked again if it changes: demo\n")


def test_a_file_that_is_not_a_batch_is_not_taken_for_one(launch: Launcher) -> None:
    settings = load_settings()
    for text in ("version: 1\nagent: {command: x}\n", "- a\n", "{", ""):
        assert read_claim(write(launch, text, "x.yaml"), settings) is None
    with pytest.raises(LaunchError):
        read_claim(write(launch, "tasks: 3\n", "x.yaml"), settings)
    with pytest.raises(UsageError):
        read_claim(launch.project / "gone.yaml", settings)
