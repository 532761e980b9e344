"""
Ring 3. An environment that leads us into the repository, as one that a tool sets on entering it may: what lies there
speaks for the repository, and never for the user. And a store of acceptances that is not what it should be.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE
from tests.redteam.clone import CHANGED, GOOD, NEW, Clone, profile

IN_PROJECT = (
    "this file lies in a project; a project cannot choose your settings, because they may name a command to run"
)


@pytest.mark.parametrize("variable", ["ACP_LAUNCH_CONFIG_DIR", "XDG_CONFIG_HOME", "HOME"])
def test_a_profile_in_a_configuration_directory_of_the_project_is_the_projects(
    clone: Clone, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = {"ACP_LAUNCH_CONFIG_DIR": "", "XDG_CONFIG_HOME": "acp-launch", "HOME": ".config/acp-launch"}[variable]
    profiles = clone.root / "c" / below / "profiles"
    profiles.mkdir(parents=True)
    (profiles / "review.yaml").write_text(profile())
    monkeypatch.delenv("ACP_LAUNCH_CONFIG_DIR")
    env: dict[str, Any] = {variable: str(clone.root / "c")}
    deep = clone.root / "a" / "b"
    deep.mkdir(parents=True)
    clone.refuses(why=NEW, cwd=deep, **env)


@pytest.mark.parametrize("way", ["relative", "/proc/self/cwd/c", "link"])
def test_no_detour_makes_a_directory_of_the_project_the_users(clone: Clone, way: str, tmp_path: Path) -> None:
    (clone.root / "c" / "profiles").mkdir(parents=True)
    (clone.root / "c" / "profiles" / "review.yaml").write_text(profile())
    (tmp_path / "link").symlink_to(clone.root / "c")
    ways = {"relative": "c", "link": str(tmp_path / "link")}
    clone.refuses(why=NEW, ACP_LAUNCH_CONFIG_DIR=ways.get(way, way))


@pytest.mark.whole
def test_settings_in_the_project_choose_nothing(clone: Clone) -> None:
    """A store that runs a command, asked for a secret of the user's own profile."""
    clone.own.mkdir(parents=True)
    secret = {**GOOD, "env": {"T": "${secret:t}"}}
    (clone.own / "mine.yaml").write_text(profile(secret))
    planted = clone.root / "c"
    shutil.copytree(clone.own, planted / "profiles")
    settings = {"secrets": {"store": "command", "command": [str(clone.root / "tool"), "{name}"]}}
    (planted / "config.yaml").write_text(json.dumps(settings))
    for verb in (("run", "mine", "hello"), ("validate", "--secrets", "mine"), ("secret", "list"), ("doctor",)):
        ended = clone.acp_launch(*verb, ACP_LAUNCH_CONFIG_DIR=str(planted))
        assert (ended.returncode, clone.sang) == (2, False), verb
        assert IN_PROJECT in " ".join((ended.stdout + ended.stderr).split()), verb


@pytest.mark.parametrize("place", ["inside", "beside"])
def test_acceptances_in_the_project_are_not_believed(clone: Clone, place: str) -> None:
    """Not even where the project is but a part of the repository that they lie in."""
    inner = clone.root if place == "inside" else clone.root / "service"
    (inner / ".acp-launch").mkdir(exist_ok=True, parents=True)
    shutil.copy(clone.root / "tool", inner / "tool") if place == "beside" else None
    (inner / ".acp-launch" / "review.yaml").write_text(profile())
    clone.accepts(cwd=inner)
    planted = clone.root / "state"
    shutil.copytree(clone.store, planted / "trust")
    clone.starts(cwd=inner)
    clone.refuses(why=NEW, cwd=inner, ACP_LAUNCH_STATE_DIR=str(planted))
    why = "lies in the project, so acceptances in it cannot be trusted"
    clone.refuses("trust", "review", "--yes", why=why, code=3, cwd=inner, ACP_LAUNCH_STATE_DIR=str(planted))


def test_a_cache_in_the_project_does_not_say_what_a_profile_means(clone: Clone) -> None:
    """An entry made for the text that was accepted, but with another command in it."""
    clone.write(profile({**GOOD, "env": {"A": "good"}}))
    clone.accepts()
    planted = clone.root / "cache"
    shutil.copytree(os.environ["ACP_LAUNCH_CACHE_DIR"], planted)
    (entry,) = (planted / "profiles").glob("*.json")
    text = json.loads(entry.read_bytes())
    text["answer"]["merged"]["agent"] |= {"command": "./tool", "args": []}
    entry.write_text(json.dumps(text))
    here = clone.decides("plan", "review", ACP_LAUNCH_CACHE_DIR=str(planted))
    assert "tool" not in here.stdout, "what is shown is what the text says"
    ended = clone.acp_launch("run", "review", "where", ACP_LAUNCH_CACHE_DIR=str(planted))
    assert (ended.returncode, clone.sang) == (0, False)
    shutil.copy(entry, Path(os.environ["ACP_LAUNCH_CACHE_DIR"]) / "profiles")
    assert "tool" in clone.decides("plan", "review").stdout, "such an entry would do it, were it believed"
    clone.refuses(why=CHANGED)  # and even then it is not what was accepted


@pytest.fixture
def at_home(a_home_of_its_own: Path, clone: Clone, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a profile of the user's own, in the usual places below it."""
    for kind in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.delenv(f"ACP_LAUNCH_{kind}_DIR")
    own = a_home_of_its_own / ".config" / "acp-launch" / "profiles"
    own.mkdir(parents=True)
    (a_home_of_its_own / ".local" / "state").mkdir(parents=True)
    (own / "mine.yaml").write_text(profile({"command": str(clone.root / "tool")}))
    return a_home_of_its_own


@pytest.mark.parametrize("mark", ["", ".git"])
@pytest.mark.parametrize("below", ["", "..", ".config/acp-launch/profiles", ".local/state"])
def test_a_profile_of_ones_own_is_ones_own_in_and_around_the_home(
    clone: Clone, at_home: Path, below: str, mark: str
) -> None:
    """A home may be a repository, of dotfiles say, and an editor may start an agent in it."""
    if mark:
        (at_home / mark).mkdir()
    told = clone.decides("trust", "mine", cwd=at_home / below)
    assert (told.returncode, told.stderr) == (
        0,
        "acp-launch: mine is trusted already: it is your own, or built in\n",
    )
    if below == "":
        clone.starts("mine", cwd=at_home)


@pytest.mark.parametrize("variable", ["ACP_LAUNCH_CONFIG_DIR", "XDG_CONFIG_HOME"])
def test_a_directory_without_a_mark_is_a_project_to_a_variable_that_leads_into_it(
    clone: Clone, at_home: Path, variable: str
) -> None:
    unpacked = at_home / "unpacked"
    shutil.copytree(at_home / ".config", unpacked / "c")
    name = {"ACP_LAUNCH_CONFIG_DIR": "c/acp-launch", "XDG_CONFIG_HOME": "c"}[variable]
    env: dict[str, Any] = {variable: str(unpacked / name)}
    clone.refuses("run", "mine", "hello", why=NEW, cwd=unpacked, **env)


@pytest.mark.parametrize(
    ("variables", "fix"),
    [
        ({"XDG_STATE_HOME": "c"}, "unset XDG_STATE_HOME, or set it to a directory outside of the project"),
        (
            {"HOME": "c", "XDG_STATE_HOME": "c/.local/state"},
            "set ACP_LAUNCH_STATE_DIR to a directory outside of the project",
        ),
    ],
    ids=["common", "both"],
)
def test_the_fix_names_the_variable_that_leads_into_the_project(
    clone: Clone, at_home: Path, variables: dict[str, str], fix: str
) -> None:
    clone.write()
    env: dict[str, Any] = {name: str(clone.root / below) for name, below in variables.items()}
    said = clone.refuses("trust", "review", "--yes", why="lies in the project, so acceptances", code=3, **env)
    assert said.endswith(f"fix: {fix}")


def test_a_damaged_acceptance_counts_as_none(clone: Clone) -> None:
    clone.write()
    clone.accepts()
    (kept,) = clone.store.iterdir()
    whole = kept.read_bytes()
    for damage in (b"", b"null", b"[]", b"{", whole[:-9], whole.replace(b'"version"', b'"v"'), b"\xff" * 99):
        kept.write_bytes(damage)
        clone.refuses(why=NEW)
        assert clone.decides("trust", "--list").returncode == 0
    clone.accepts()
    clone.starts()


def test_an_acceptance_of_another_profile_does_not_count_in_this_ones_place(clone: Clone) -> None:
    clone.write()
    clone.accepts()
    (mine,) = clone.store.iterdir()
    clone.write(name="other.yaml")
    clone.accepts("other")
    (other,) = set(clone.store.iterdir()) - {mine}
    shutil.copy(other, mine)
    clone.refuses(why=NEW)


def a_directory(path: Path) -> None:
    path.mkdir()


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (a_directory, "cannot read the acceptance from {}: Is a directory"),
        (a_pipe, "{} is not a regular file fix: remove it, and trust the profile again"),
        (a_device, "{} is not a regular file fix: remove it, and trust the profile again"),
    ],
)
def test_a_store_that_cannot_be_read_starts_nothing_and_says_why(
    clone: Clone, make: Callable[[Path], None], why: str
) -> None:
    clone.write()
    clone.accepts()
    (kept,) = clone.store.iterdir()
    kept.unlink()
    make(kept)
    clone.refuses(why=why.format(kept), code=3)
    listed = clone.decides("trust", "--list")
    assert (listed.returncode, listed.stdout) == (0, "")


def test_a_disk_that_is_full_keeps_nothing_and_says_so(clone: Clone) -> None:
    clone.write()
    ended = subprocess.run(
        ["/bin/sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *clone.argv("trust", "review", "--yes")],
        cwd=clone.root,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=clone.environment(),
    )
    assert ended.returncode == 3
    assert re.search(r"acp-launch: cannot store the acceptance in \S+: File too large\n", ended.stderr)
    assert not list(clone.store.iterdir()), "and no half of one is left"
    clone.refuses(why=NEW)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_an_acceptance_that_somebody_else_wrote_or_could_have_does_not_count(clone: Clone) -> None:
    clone.write()
    clone.accepts()
    (kept,) = clone.store.iterdir()
    kept.chmod(0o666)
    clone.refuses(why=NEW)
    kept.chmod(0o600)
    os.chown(kept, 4321, 4321)
    clone.refuses(why=NEW)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("verb", "variable"), [("secret list", "HOME"), ("validate --secrets mine", "XDG_CONFIG_HOME")]
)
def test_a_keyring_of_the_projects_is_not_loaded(clone: Clone, variable: str, verb: str) -> None:
    clone.own.mkdir(parents=True)
    (clone.own / "mine.yaml").write_text(profile({**GOOD, "env": {"T": "${secret:t}"}}))
    below = clone.root / "c" / ("python_keyring" if variable == "XDG_CONFIG_HOME" else ".config/python_keyring")
    below.mkdir(parents=True)
    (below / "evil.py").write_text(f"import os\nos.system({str(clone.root / 'tool')!r})\n")
    (below / "keyringrc.cfg").write_text(f"[backend]\ndefault-keyring=evil.Keyring\nkeyring-path={below}\n")
    deep = clone.root / "a" / "b"
    deep.mkdir(parents=True)
    env = {**clone.environment(), variable: str(clone.root / "c")}
    env.pop("PYTHON_KEYRING_BACKEND")
    ended = subprocess.run(
        clone.argv(*verb.split()), cwd=deep, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE
    )
    assert b"evil" not in ended.stdout + ended.stderr
    assert not clone.sang
    # The proof that it would be: from outside of the project it is the user's own choice.
    subprocess.run(clone.argv("secret", "list"), cwd="/", env=env, stdin=subprocess.DEVNULL, timeout=PATIENCE)
    assert clone.sang


def test_a_projects_file_that_is_linked_among_the_users_own_is_the_projects(clone: Clone, tmp_path: Path) -> None:
    """Else whoever changes the branch changes what runs, from any directory."""
    clone.write()
    clone.own.mkdir(parents=True)
    (clone.own / "linked.yaml").symlink_to(clone.file())
    (clone.own / "mine.yaml").write_text(profile(GOOD))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    refused = clone.acp_launch("run", "linked", "hello", cwd=elsewhere)
    assert (refused.returncode, clone.sang) == (7, False)
    assert f"is a link that leads out of the project, to {clone.file()}" in refused.stderr
    (clone.own / "mine.local.yaml").symlink_to(clone.write(json.dumps({"agent": {"command": "./tool"}}), "x.yaml"))
    refused = clone.acp_launch("run", "mine", "hello", cwd=elsewhere)
    assert (refused.returncode, clone.sang) == (7, False)


def test_a_profile_of_ones_own_may_be_linked_from_ones_dotfiles(clone: Clone, tmp_path: Path) -> None:
    dotfiles = tmp_path / "dotfiles" / "acp-launch" / "profiles"
    dotfiles.mkdir(parents=True)
    (tmp_path / "dotfiles" / ".git").mkdir()
    (dotfiles / "mine.yaml").write_text(profile({"command": str(clone.root / "tool")}))
    clone.own.mkdir(parents=True)
    (clone.own / "mine.yaml").symlink_to(dotfiles / "mine.yaml")
    clone.acp_launch("run", "mine", "hello", cwd=tmp_path)
    assert clone.sang


@pytest.mark.parametrize("entry", ["", "bin"])
def test_a_relative_entry_of_path_does_not_lead_into_the_project(clone: Clone, entry: str) -> None:
    clone.own.mkdir(parents=True)
    (clone.own / "mine.yaml").write_text(profile({"command": "tool"}))
    (clone.root / entry).mkdir(parents=True, exist_ok=True)
    if not (clone.root / entry / "tool").exists():
        shutil.copy(clone.root / "tool", clone.root / entry / "tool")
    ended = clone.acp_launch("run", "mine", "hello", PATH=f"{entry}:{os.environ['PATH']}")
    assert (ended.returncode, clone.sang) == (3, False)
    assert '"tool" is not on PATH' in ended.stderr


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("runner", "args"), [("npx", ["-y", "@scope/server@1.2.3", "--flag"]), ("bunx", ["--", "tool"])]
)
def test_a_package_of_the_project_is_not_run_for_the_published_one(
    clone: Clone, runner: str, args: list[str], tmp_path: Path
) -> None:
    """By a profile of the user's own: `npx` prefers what lies in node_modules."""
    programs = tmp_path / "programs"
    programs.mkdir()
    shutil.copy(clone.root / "tool", programs / runner)
    env = {"PATH": f"{programs}:{os.environ['PATH']}"}
    for package in ("@scope/server", "plain"):
        (clone.root / "node_modules" / package).mkdir(parents=True)
    (clone.root / "node_modules" / ".bin").mkdir()
    (clone.root / "node_modules" / ".bin" / "tool").touch()
    deep = clone.root / "a" / "b"
    deep.mkdir(parents=True)
    clone.own.mkdir(parents=True)
    (clone.own / "agent.yaml").write_text(profile({"command": runner, "args": args}))
    server = {"command": runner, "args": args, "cwd": "${project}"}  # else there would be nothing to take it over
    (clone.own / "server.yaml").write_text(profile({"command": "cat"}, mcp_servers={"s": server}))
    for name in ("agent", "server"):
        ended = clone.acp_launch("run", name, "hello", cwd=deep, **env)
        assert (ended.returncode, clone.sang) == (3, False)
        assert f"{runner} would run {clone.root}/node_modules/" in ended.stderr
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    clone.acp_launch("run", "agent", "hello", cwd=elsewhere, **env)
    assert clone.sang


# What `pip` writes for `[project.scripts]`.
SCRIPT = """
import re
import sys
from acp_launch.__main__ import main
if __name__ == "__main__":
    sys.argv[0] = re.sub(r"(-script\\.pyw|\\.exe)?$", "", sys.argv[0])
    sys.exit(main())
"""
PLANTED = ("msgspec", "typer", "typing_extensions", "json", "pathlib", "keyring", "platformdirs", "ruamel", "rich")


@pytest.mark.sample(4)
@pytest.mark.parametrize("entries", [".", "", "a/..", "{root}:", ":{root}", "{clone}:.:"])
@pytest.mark.parametrize("verb", [("list",), ("run", "demo", "where")])
def test_a_relative_pythonpath_does_not_let_the_project_choose_what_is_imported(
    clone: Clone, entries: str, verb: tuple[str, ...], tmp_path: Path
) -> None:
    script = tmp_path / "bin" / "acp-launch"
    script.parent.mkdir()
    script.write_text(SCRIPT)
    (clone.root / "a").mkdir()
    for place in (clone.root, clone.root / "a"):
        for module in PLANTED:
            (place / f"{module}.py").write_text(f"open({str(clone.trace)!r}, 'w').close()\nraise ImportError")
    root = Path(__file__).parents[2]
    if "{root}" not in entries and not (Path(sys.prefix) / "bin" / "acp-launch").exists():
        pytest.skip("acp-launch is not installed, and so found nowhere else")
    given = entries.format(root=root, clone=tmp_path)
    done = subprocess.run(
        [sys.executable, str(script), *verb],
        cwd=clone.root,
        env={**os.environ, "PYTHONPATH": given},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (done.returncode, clone.sang) == (0, False), done.stderr
    assert done.stdout
    assert ("acp-launch: PYTHONPATH: " in done.stderr) is bool(entries)
