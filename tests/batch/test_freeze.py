"""A file becomes a frozen batch, as `batch check` and `batch prepare` show; nothing starts (ours)."""

import json
import os
import stat
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from acp_launch.app.planning import resolved_from
from acp_launch.app.spec import load_settings
from acp_launch.app.stores import open_store
from acp_launch.batch import freeze as freezing
from acp_launch.batch.freeze import freeze, plan_batch, read_claim
from acp_launch.batch.store import open_batch
from acp_launch.document.scalars import Duration
from acp_launch.errors import MachineError, NotTrusted, ProfileError, StateError, UsageError
from acp_launch.profile.discover import Found
from acp_launch.profile.load import load
from acp_launch.profile.trust import digest_content, keep
from acp_launch.secret.value import Secret
from tests.cli.conftest import launch
from tests.cli.launcher import Launcher

__all__ = ["launch"]  # a fixture
TASKS = "version: 1\nprofiles: [demo]\ntasks: [{id: a, prompt: add 2 3}, {id: b, prompt: hello}]\n"
PROFILE = "version: 1\nagent: {command: '${python}', args: [-I, -m, acp_launch.demo.agent]}\n"
Write = Callable[..., Path]


def git(directory: Path, *words: str) -> str:
    names = ("-c", "user.name=n", "-c", "user.email=n@example.com")
    done = subprocess.run(["git", *names, *words], cwd=directory, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def names_in(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir())


def make_repository(directory: Path) -> str:
    directory.mkdir(parents=True, exist_ok=True)
    git(directory, "init", "-q")
    git(directory, "commit", "-q", "--allow-empty", "-m", "first")
    return git(directory, "rev-parse", "HEAD")


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a batch in the working directory, which is trusted, and profiles beside it; a project of its own."""
    project = tmp_path / "project"
    (project / ".acp-launch").mkdir(parents=True)
    monkeypatch.chdir(project)

    def write(text: str = TASKS, **profiles: str) -> Path:
        for name, profile in profiles.items():
            (project / ".acp-launch" / f"{name}.yaml").write_text(profile)
        file = project / "nightly.yaml"
        file.write_text(text)
        with suppress(ProfileError):
            if found := read_claim(file, load_settings()):
                keep(found[0], load_settings())
        return file

    return write


def problems(file: Path, *, trust: bool = True) -> list[str]:
    with pytest.raises((ProfileError, MachineError)) as wrong:
        plan_batch(file, trust=trust)
    return [str(problem).replace(f"{file.parent}/", "").replace("\n    fix:", " |") for problem in wrong.value.problems]


def test_a_frozen_batch_is_written_whole(write: Write, tmp_path: Path) -> None:
    text = TASKS + "check: {command: [pytest, -q]}\napprove: reads\nlimits: {timeout: 30m}\nmatrix: {model: [x]}\n"
    frozen = freeze(write(text), None, trust=False)
    assert open_batch(frozen.path).batch == frozen.batch
    batch, project = frozen.batch, tmp_path / "project"
    assert (batch.name, batch.file, batch.directory) == ("nightly", str(project / "nightly.yaml"), str(project))
    assert [(item.id, item.index, item.matrix, item.repo) for item in batch.items] == [
        ("a.demo.x", 0, {"model": "x"}, str(project)),
        ("b.demo.x", 1, {"model": "x"}, str(project)),
    ]
    assert batch.check is not None
    assert (list(batch.check.command), batch.check.timeout) == (["pytest", "-q"], Duration(600))
    assert (batch.approve, batch.limits.timeout, batch.retry) == ("reads", Duration(1800), None)
    assert len(batch.profiles["demo"].digest) == 64
    assert stat.S_IMODE(frozen.path.stat().st_mode) == 0o700
    assert frozen.path.parent == project / ".acp-launch" / "batches"
    assert names_in(frozen.path) == ["batch.json", "items"]


def test_batches_of_one_second_have_directories_of_their_own_that_git_ignores(write: Write, tmp_path: Path) -> None:
    make_repository(tmp_path / "project")
    file = write()
    assert len({freeze(file, None, trust=False).path for _ in range(3)}) == 3
    assert git(tmp_path / "project", "status", "--short") == "?? nightly.yaml"


def test_a_directory_that_holds_something_is_left_alone(write: Write, tmp_path: Path) -> None:
    file, out = write(), tmp_path / "out"
    freeze(file, out, trust=False)
    before = (out / "batch.json").read_bytes()
    with pytest.raises(UsageError) as refused:
        freeze(file, out, trust=False)
    assert (refused.value.message, refused.value.fix) == (
        f"{out} holds a batch",
        f"go on with it: acp-launch batch run --resume {out}",
    )
    assert (out / "batch.json").read_bytes() == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").touch()
    with pytest.raises(UsageError, match="is not empty"):
        freeze(file, tmp_path / "mine", trust=False)
    with pytest.raises(StateError, match="cannot write a batch to"):
        freeze(file, file / "out", trust=False)


def test_a_failed_freeze_leaves_no_directory(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(freezing, "create", fail)
    with pytest.raises(StateError, match="No space left on device"):
        freeze(write(), tmp_path / "out", trust=False)
    assert not (tmp_path / "out").exists()


def test_an_item_that_does_not_exist_is_told_before_a_directory_is_made(write: Write, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match='no item "nothing"') as refused:
        freeze(write(), tmp_path / "out", trust=False, only=("nothing",))
    assert refused.value.fix == "acp-launch batch run FILE --dry-run"
    assert not (tmp_path / "out").exists()


def test_a_name_that_is_not_text_is_a_fault_of_the_directory(tmp_path: Path) -> None:
    directory = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    try:
        directory.mkdir()
    except OSError:
        pytest.skip("this file system has only names that are text")
    (directory / "b.yaml").write_text(TASKS)
    with pytest.raises(StateError, match="is not valid Unicode"):
        freeze(directory / "b.yaml", tmp_path / "out", trust=False)
    assert not (tmp_path / "out").exists()


def test_a_plan_writes_nothing(write: Write, tmp_path: Path) -> None:
    assert [item.id for item in plan_batch(write(), trust=False).items] == ["a.demo", "b.demo"]
    assert names_in(tmp_path / "project") == [".acp-launch", "nightly.yaml"]
    assert names_in(tmp_path / "project" / ".acp-launch") == []


def test_profiles_are_found_from_the_directory_of_the_file(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(TASKS.replace("demo", "mine, ./.acp-launch/other.yaml"), mine=PROFILE, other=PROFILE)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    batch = plan_batch(file, trust=True)
    assert [item.id for item in batch.items] == ["a.mine", "a.other", "b.mine", "b.other"]
    assert {name: (each.called, each.file) for name, each in batch.profiles.items()} == {
        "mine": ("mine", str(file.parent / ".acp-launch" / "mine.yaml")),
        "./.acp-launch/other.yaml": ("./.acp-launch/other.yaml", str(file.parent / ".acp-launch" / "other.yaml")),
    }


def test_a_digest_covers_all_files_of_a_profile(write: Write) -> None:
    child = "version: 1\nextends: base\n"
    file = write(TASKS.replace("demo", "mine"), base=PROFILE, mine=child)
    first = plan_batch(file, trust=True).profiles["mine"].digest
    write(file.read_text(), mine="# a comment\n" + child)
    assert plan_batch(file, trust=True).profiles["mine"].digest == first
    write(file.read_text(), **{"mine.local": "session: {mode: x}\n"})
    overlaid = plan_batch(file, trust=True).profiles["mine"].digest
    write(file.read_text(), base=PROFILE + "permissions: {default: deny}\n")
    assert len({first, overlaid, plan_batch(file, trust=True).profiles["mine"].digest}) == 3
    found = Found("mine", file.parent / ".acp-launch" / "mine.yaml", file.parent / "moved", "project")
    assert digest_content(load(found)) == plan_batch(file, trust=True).profiles["mine"].digest, "in any project"


def test_problems_of_the_batch_and_of_its_profiles_come_at_once(write: Write) -> None:
    file = write(TASKS.replace("demo", "demo, bad, nope") + "samples: 0\n", bad="version: 1\nagent: {comand: x}\n")
    found = problems(file)
    assert [problem.partition(" | ")[0] for problem in found] == [
        "nightly.yaml:4:10: samples: expected a whole number from 1 up, found the number 0",
        '.acp-launch/bad.yaml:2:9: agent.comand: unknown key "comand"; did you mean "command"?',
        'nightly.yaml:2:23: profiles: no profile named "nope"',
    ]


def test_a_plan_makes_the_checks_of_a_run(write: Write) -> None:
    text = TASKS.replace("demo", "mine")
    file = write(text, mine=PROFILE)
    with pytest.raises(NotTrusted):
        plan_batch(file, trust=False)
    absent = PROFILE + "mcp_servers: {s: {command: no-such-program-here}}\n"
    secret = PROFILE.replace("]}", "], env: {A: '${secret:x}', B: '${env:NOT_SET_HERE}'}}")
    file = write(text.replace("mine", "mine, more"), mine=absent, more=secret)
    found = problems(file)
    assert any('mcp_servers.s.command: "no-such-program-here" is not on PATH' in problem for problem in found)
    assert any("NOT_SET_HERE is not set" in problem for problem in found)


def test_secrets_and_logins_of_items_that_run_elsewhere_are_only_named_here(write: Write) -> None:
    """The hosts of a cluster look them up; what else a profile lacks is told as ever."""
    remote = "mcp_servers: {r: {type: http, url: https://mcp.example, headers: {A: '${secret:y}'}, oauth: true}}\n"
    needy = PROFILE.replace("]}", "], env: {A: '${secret:x}'}}") + remote
    file = write(TASKS.replace("demo", "mine"), mine=needy)
    assert len(plan_batch(file, trust=True, elsewhere=True).items) == 2
    assert [problem.split(": ")[1] for problem in problems(file)] == [
        "agent.env.A",
        "mcp_servers.r.url",
        "mcp_servers.r.headers.A",
    ]
    absent = needy.replace("type: http", "command: no-such-program-here}, s: {type: http")
    for wrong in (needy.replace("${secret:x}", "${secret:}"), absent):
        file = write(TASKS.replace("demo", "mine"), mine=wrong)
        with pytest.raises((ProfileError, MachineError)) as raised:
            plan_batch(file, trust=True, elsewhere=True)
        assert len(raised.value.problems) == 1


def test_a_passphrase_is_not_asked_for_since_items_could_not_ask(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACP_LAUNCH_SECRETS__STORE", "file")
    secret = PROFILE.replace("]}", "], env: {A: '${secret:x}'}}")
    file = write(TASKS.replace("demo", "mine"), mine=secret)
    monkeypatch.setenv("ACP_LAUNCH_PASSPHRASE", "correct horse")
    open_store(load_settings()).write("x", Secret("planted"))
    assert plan_batch(file, trust=True).items
    monkeypatch.delenv("ACP_LAUNCH_PASSPHRASE")
    (problem,) = problems(file)
    assert "needs its passphrase, which cannot be asked for here | export ACP_LAUNCH_SECRET_X=..., or" in problem


def test_commits_are_resolved_for_each_repository(write: Write, tmp_path: Path) -> None:
    one, two = make_repository(tmp_path / "project"), make_repository(tmp_path / "two")
    git(tmp_path / "two", "tag", "v1")
    git(tmp_path / "two", "commit", "-q", "--allow-empty", "-m", "second")
    text = "version: 1\nprofiles: [demo]\nprompt: x\ntasks: [{id: a}, {id: b, repo: ../two}, "
    batch = plan_batch(write(text + "{id: c, repo: ../two, ref: v1}]\nisolation: {kind: worktree}\n"), trust=False)
    second = git(tmp_path / "two", "rev-parse", "HEAD")
    assert [(Path(item.repo).name, item.base_commit) for item in batch.items] == [
        *(("project", one), ("two", second), ("two", two))
    ]
    batch = plan_batch(write(text + "{id: c, repo: .., ref: v9}]\n"), trust=False)
    assert [item.base_commit for item in batch.items] == [one, second, None], "it is what there is"


def test_a_worktree_needs_the_root_of_a_repository_and_a_commit(write: Write, tmp_path: Path) -> None:
    make_repository(tmp_path / "two")
    (tmp_path / "two" / "sub").mkdir()
    text = "version: 1\nprofiles: [demo]\nprompt: x\ntasks:\n- {id: a}\n- {id: b, repo: ../gone}\n"
    text += "- {id: c, repo: ../two/sub}\n- {id: d, repo: ../two, ref: v9}\n- {id: e, repo: ../two, ref: --x}\n"
    found = problems(write(text + "isolation: {kind: worktree}\n"))
    root = tmp_path
    assert found == [
        f"nightly.yaml:5:3: {root}/project is not a git repository | make it one: git init; or write isolation: "
        "{kind: none}",
        f"nightly.yaml:6:3: the directory {root}/gone does not exist | correct the path; it begins at the directory of "
        "the batch",
        f"nightly.yaml:7:3: {root}/two/sub lies in the repository {root}/two | write {root}/two",
        'nightly.yaml:8:3: the repository of this task has no commit "v9" | write a branch, a tag or a commit that '
        "it has, or fetch it",
        'nightly.yaml:9:3: the repository of this task has no commit "--x" | write a branch, a tag or a commit that '
        "it has, or fetch it",
    ]


def test_an_address_is_cloned_and_nothing_else(write: Write, tmp_path: Path) -> None:
    commit = make_repository(tmp_path / "two")
    text = f"version: 1\nprofiles: [demo]\nprompt: x\ntasks: [{{id: a, repo: 'file://{tmp_path}/two'}}]\n"
    (item,) = plan_batch(write(text + "isolation: {kind: clone}\n"), trust=False).items
    assert (item.repo, item.base_commit) == (f"file://{tmp_path}/two", commit)
    for kind in ("none", "worktree"):
        (found,) = problems(write(text + f"isolation: {{kind: {kind}}}\n"))
        assert found == "nightly.yaml:4:9: an address can only be cloned | write isolation: {kind: clone}"


def test_what_an_item_copies_is_in_the_checkout(write: Write, tmp_path: Path) -> None:
    make_repository(tmp_path / "two")
    (tmp_path / "two" / ".env").write_text("x")
    (tmp_path / "two" / "out").symlink_to(tmp_path)
    text = "version: 1\nprofiles: [demo]\nprompt: x\ntasks: [{id: a, repo: ../two}]\nisolation: {kind: clone, copy: "
    assert plan_batch(write(text + "[.env]}\n"), trust=False).isolation.copy == (".env",)
    for name, why in (("none", f"{tmp_path}/two has no none"), ("out/two", f"out/two leads out of {tmp_path}/two")):
        (found,) = problems(write(text + f"[.env, {name}]}}\n"))
        assert why in found
    url = text.replace("../two", f"'file://{tmp_path}/two'")
    (found,) = problems(write(url + "[.env]}\n"))
    assert "an address has no files to copy" in found


LEADING = """version: 1
agent: {command: "${project}/agent", args: ["${project}/a.py"], env: {A: "x${project}", cwd: x}}
workspace: {cwd: ., additional_directories: [lib, "${home}"]}
permissions: {rules: [{deny: {path: "**/.env"}}, {allow: {path: "${workdir}/src/**"}}]}
mcp_servers:
  s: {command: ./tool, cwd: sub, args: [./data]}
  t: {command: cat, cwd: "${workdir}", args: ["${cwd}"]}
"""


def test_what_leads_an_item_to_the_checkout_is_refused_where_it_has_a_tree(write: Write, tmp_path: Path) -> None:
    make_repository(tmp_path / "project")
    text = TASKS.replace("demo", "p") + "isolation: {kind: worktree}\n"
    found = problems(write(text, p=LEADING))
    checkout = "your own checkout; an item works in a directory of its own | write ${workdir}"
    assert found == [
        ".acp-launch/p.yaml:2:45: agent.args[0]: ${project} is " + checkout,
        ".acp-launch/p.yaml:2:76: agent.env.A: ${project} is " + checkout,
        '.acp-launch/p.yaml:3:46: workspace.additional_directories[0]: "lib" lies in ' + checkout + "/lib",
        '.acp-launch/p.yaml:4:37: permissions.rules[0].deny.path: "**/.env" lies in ' + checkout + "/**/.env",
        '.acp-launch/p.yaml:6:29: mcp_servers.s.cwd: "sub" lies in ' + checkout + "/sub",
    ]


def test_an_item_resolves_its_profile_for_its_own_directory(write: Write, tmp_path: Path) -> None:
    args = PROFILE.replace("acp_launch.demo.agent", "x, '${project}', '${cwd}', '${workdir}'")
    file = write(mine=args + "workspace: {cwd: .}\n")
    tree = tmp_path / "tree"
    tree.mkdir()
    loaded = load(Found("mine", file.parent / ".acp-launch" / "mine.yaml", file.parent, "project"))
    plan = resolved_from(loaded, cwd=tree, typed=tree).plan
    assert plan is not None
    assert [argument.reveal({}) for argument in plan.agent.args[-3:]] == [str(file.parent), str(tree), str(tree)]


def test_a_file_too_large_is_not_read(write: Write) -> None:
    file = write("version: 1\nprofiles: [demo]\ntasks: big.jsonl\n")
    with (file.parent / "big.jsonl").open("wb") as big:
        big.truncate(300 * 1024 * 1024)
    (found,) = problems(file)
    assert found.startswith("nightly.yaml:3:8: tasks: big.jsonl is larger than 16777216 bytes")
    with file.open("ab") as big:
        big.truncate(300 * 1024 * 1024)
    with pytest.raises(UsageError, match="is larger than"):
        plan_batch(file, trust=False)


@pytest.mark.parametrize("name", ["gone.yaml", ".", "pipe"])
def test_a_file_that_cannot_be_read_is_named(write: Write, name: str) -> None:
    os.mkfifo(write().parent / "pipe")
    with pytest.raises(UsageError) as refused:
        plan_batch(Path(name), trust=False)
    assert (name if name != "." else "cannot read .") in refused.value.message


def test_a_name_that_no_file_can_have_is_a_problem(write: Write) -> None:
    found = problems(write('version: 1\nprofiles: [demo]\ntasks: "\\0"\n'))
    assert found == [
        "nightly.yaml:3:8: no program can receive the character U+0000 | remove the escape",
        "nightly.yaml:3:8: tasks: no such file: \ufffd | correct the path",
    ]


def test_check_prints_problems_or_counts(launch: Launcher) -> None:
    file = launch.project / "b.yaml"
    file.write_text(TASKS + "samples: 2\n")
    assert launch.forked("trust", "b.yaml", "--yes").code == 0
    assert launch.forked("batch", "check", "b.yaml").out == b"b.yaml: ok, 4 items with 1 profile\n"
    good: dict[str, Any] = json.loads(launch.forked("batch", "check", "b.yaml", "--json").out)
    assert good == {"problems": [], "items": 4, "profiles": ["demo"]}
    file.write_text(TASKS.replace("add 2 3", "''") + "samples: 0\n")
    done = launch.forked("batch", "check", "b.yaml")
    assert (done.code, done.out) == (2, b"")
    assert done.err.splitlines()[-1] == "2 problems; b.yaml cannot be used"
    wrong = launch.forked("batch", "check", "b.yaml", "--json")
    assert wrong.code == 2
    assert [problem["line"] for problem in json.loads(wrong.out)["problems"]] == [3, 4]
    assert launch.forked("batch", "check", "gone.yaml").code == 2


def test_check_tells_what_this_machine_lacks_and_needs_no_trust(launch: Launcher) -> None:
    launch.write({"agent": {"command": "no-such-agent-here"}})
    (launch.project / "b.yaml").write_text(TASKS.replace("demo", "p"))
    done = launch.forked("batch", "check", "b.yaml")
    assert done.code == 3
    assert '"no-such-agent-here" is not on PATH' in done.err
    assert launch.forked("batch", "prepare", "b.yaml").code == 7
    assert launch.forked("batch", "prepare", "b.yaml", "--trust").code == 3
    assert not (launch.project / ".acp-launch" / "batches").exists()


def test_prepare_prints_the_directory_and_the_ids(launch: Launcher) -> None:
    (launch.project / "b.yaml").write_text(TASKS)
    done = launch.forked("batch", "prepare", "b.yaml", "--out", "out", "--trust")
    assert done.out.decode().splitlines() == [str(launch.project / "out"), "a.demo", "b.demo"]
    again = launch.forked("batch", "prepare", "b.yaml", "--out", "out")
    assert (again.code, again.out) == (2, b"")
    assert "acp-launch batch run --resume out" in again.err
