"""Where the programs of a profile run, and what of that directory they are kept from (ours)."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from acp_launch.plan.executable import imports_from_here, is_of_session, names_project, speaks_for, taken_over
from acp_launch.plan.model import StdioPlan
from acp_launch.plan.resolve import Resolved, resolve
from acp_launch.profile.discover import Found, Origin
from acp_launch.profile.load import load


def found(project: Path, origin: Origin) -> Found:
    return Found("p", project / ".acp-launch" / "p.yaml", project, origin)


@pytest.mark.parametrize("origin", ["user", "built-in"])
def test_a_profile_of_ones_own_speaks_for_no_directory(tmp_path: Path, origin: Origin) -> None:
    (tmp_path / ".git").mkdir()
    for is_named in (True, False):
        assert not speaks_for(found(tmp_path, origin), tmp_path, is_named=is_named)


@pytest.mark.parametrize("origin", ["project", "path"])
def test_a_profile_of_a_project_speaks_for_its_repository_and_no_other(tmp_path: Path, origin: Origin) -> None:
    repository, other = tmp_path / "repository", tmp_path / "other"
    within, further, inner = repository / "a" / "b", repository / "c", repository / "vendor"
    for directory in (repository, other, inner):
        (directory / ".git").mkdir(parents=True)
    for directory in (within, further):
        directory.mkdir(parents=True)
    (tmp_path / "link").symlink_to(within)
    profile = found(repository / "a", origin)
    spoken = [repository, repository / "a", within, further, tmp_path / "link"]
    silent = [other, inner, tmp_path, Path("/")]
    assert all(speaks_for(profile, session, is_named=False) for session in spoken)
    assert not any(speaks_for(profile, session, is_named=False) for session in silent)
    assert all(speaks_for(profile, session, is_named=True) for session in (*spoken, *silent))


def test_outside_of_any_repository_a_profile_speaks_for_what_lies_in_its_project(tmp_path: Path) -> None:
    (tmp_path / "project" / "a").mkdir(parents=True)
    (tmp_path / "project" / "clone" / ".git").mkdir(parents=True)
    profile = found(tmp_path / "project", "path")
    assert speaks_for(profile, tmp_path / "project" / "a", is_named=False)
    assert not speaks_for(profile, tmp_path / "project" / "clone", is_named=False)
    assert not speaks_for(profile, tmp_path, is_named=False)


@pytest.mark.parametrize(
    "path", ["./x", "bin/x", "../x", ".", "${project}", "${project}/x", "${cwd}/../x", "${workdir}"]
)
def test_a_path_can_name_whatever_project_the_user_works_in(tmp_path: Path, path: str) -> None:
    assert names_project(path, found(tmp_path, "user"))
    is_elsewhere = path.startswith(("${cwd}", "${workdir}"))
    assert names_project(path, found(tmp_path, "path")) == is_elsewhere, "the project is the profile's"
    for other in ("/x", "${home}/x", "${python}", "${env:X}/y", "${env:X:-./y}", ""):
        assert not names_project(other, found(tmp_path, "user")), "it is the same in every project"


FILES = [".", "..", "./gone", "../x", "--root=./gone", "there.py", "a/b", "--file=a/b"]
OTHERS = ["a", "serve", "-m", "gone.py", "@a/b", "https://a/b", "/etc/passwd", "", "=", "x\0.y", "a/" * 3000]


def test_an_argument_can_mean_a_file_of_the_session(tmp_path: Path) -> None:
    (tmp_path / "there.py").touch()
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert [each for each in (*FILES, *OTHERS) if is_of_session(each, tmp_path)] == FILES


@pytest.mark.parametrize(
    "line",
    [
        "python3 -m x",
        "python -c pass",
        "/usr/bin/python3.11 -um x",
        "python3 -Bcpass",
        "python3 -W ignore -X dev -m x",
        "python3 --check-hash-based-pycs always -m x",
        "env -i A=b python3 -m x",
        "sh -c 'exec python3 -m x'",
        "sh -c (cd /;python3 -m x)",
        "uv run python -m x",
        "pypy3 -m x",
    ],
)
def test_python_with_code_to_find_would_look_in_its_directory(line: str) -> None:
    assert imports_from_here(line.split())
    assert imports_from_here([line])


def test_a_script_has_the_directory_that_it_lies_in() -> None:
    for line in [
        "python3",
        "python3 x.py -m y",
        "python3 -u x.py",
        "python3 -I -m x",
        "python3 -Im x",
        "python3 -P -c x",
        "python3 -",
        "python3 - -m",
        "python3 -- x.py",
        "python3 --version",
        "pythonic -m x",
        "node -e x",
        "npx -y python -- -m",
        "mypython.sh -m x",
        "python3 -W",
    ]:
        assert not imports_from_here(line.split())


Snare = tuple[str, str]
TAKEN = [
    ("node_modules/it/index.js", ""),
    ("node_modules/.bin/it", ""),
    ("package.json", '{"name": "it"}'),
    ("package.json", '{"name": "@scope/it", "bin": "x.js"}'),
    ("package.json", '{"bin": {"it": "x.js"}}'),
    ("package.json", '\ufeff{"bin": {"it": "x.js"}}'),
    ("package.json", '{"directories": {"bin": "."}}'),
    ("package.json", '{"name": "x", "name": "it"}'),
    ("package.json", "{"),
    ("package.json", "[" * 100_000),
    (".npmrc", "# not even a line"),
    ("bunfig.toml", ""),
]
LEFT = [
    ("package.json", '{"name": "other", "bin": {"others": "x"}, "dependencies": {"it": "*"}}'),
    ("package.json", '["it"]'),
    ("package.json", '{"name": ["it"], "bin": 7, "directories": "bin"}'),
    ("node_modules/other/it", ""),
    ("it", ""),
]
LINES = [
    "npx -y it",
    "npx it@1.2 --flag",
    "npm exec -y -- it",
    "npm --silent x it",
    "bunx it",
    "bun x it",
    "npx -p it x",
]


def planted(tmp_path: Path, snare: Snare) -> Path:
    """A directory of a repository with this file in the repository's root."""
    name, text = snare
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text)
    return deep


@pytest.mark.parametrize("snare", TAKEN)
def test_a_runner_that_would_run_what_the_project_brought_is_found_out(tmp_path: Path, snare: Snare) -> None:
    deep = planted(tmp_path, snare)
    for line in (*LINES, f"sh -c '{LINES[0]}; true'", f"env A=b {LINES[0]}"):
        assert taken_over(line.split(), deep), line
        assert taken_over([line], deep), line
    assert taken_over(["npx", "-y", "github:a/b"], deep) is None or snare[0] in (".npmrc", "bunfig.toml")


@pytest.mark.parametrize("snare", LEFT)
def test_a_runner_that_would_fetch_what_it_names_is_left_alone(tmp_path: Path, snare: Snare) -> None:
    deep = planted(tmp_path, snare)
    assert [taken_over(line.split(), deep) for line in LINES] == [None] * len(LINES)


def test_a_package_that_cannot_be_read_may_be_what_it_pleases(tmp_path: Path) -> None:
    (tmp_path / "package.json").mkdir()
    assert taken_over(["npx", "it"], tmp_path)


def test_what_is_taken_over_is_named_and_what_to_do(tmp_path: Path) -> None:
    deep = planted(tmp_path, ("package.json", json.dumps({"bin": {"it": "x"}})))
    fault = taken_over(["npx", "-y", "it@3"], deep)
    assert fault is not None
    assert fault.message == (f"npx would run {tmp_path}/package.json from this project, and not the published it")
    assert fault.fix == "install it and name its command; or, for a server, leave out cwd and bridge"


def resolved(tmp_path: Path, server: str, origin: Origin = "user") -> Resolved:
    (tmp_path / "p.yaml").write_text(
        f"version: 1\nagent: {{command: '${{python}}'}}\nmcp_servers: {{s: {{{server}}}}}\n"
    )
    environ = {"PATH": "/usr/bin:/bin"}
    return resolve(load(Found("p", tmp_path / "p.yaml", tmp_path, origin)), cwd=tmp_path, environ=environ)


def planned(made: Resolved) -> StdioPlan:
    assert made.plan is not None, made.problems
    (server,) = made.plan.servers
    assert isinstance(server, StdioPlan)
    return server


def complaints(made: Resolved) -> Sequence[tuple[str, str, str]]:
    return [(problem.path, problem.message, problem.severity) for problem in made.problems]


def test_a_server_is_warned_of_arguments_that_mean_files_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "server.py").touch()
    line = "command: sh, args: [server.py, --root=., /etc, '${project}/server.py', gone.py]"
    made = resolved(tmp_path, line)
    assert planned(made).cwd is None
    what = 'the server runs in an empty directory of its own, but "{}" is a relative path'
    assert complaints(made) == [
        ("mcp_servers.s.args[0]", what.format("server.py"), "warning"),
        ("mcp_servers.s.args[1]", what.format("--root=."), "warning"),
    ]
    assert made.problems[0].fix == "begin it with ${project}/, or set cwd: ${project}"
    for made in (resolved(tmp_path, f"{line}, cwd: '${{project}}'"), resolved(tmp_path, line, "path")):
        assert (planned(made).cwd, complaints(made)) == (tmp_path, [])


def test_a_directory_that_is_the_same_in_every_project_is_the_users_to_choose(tmp_path: Path) -> None:
    """What is imported from there, and installed there, is what the profile means."""
    (tmp_path / ".npmrc").touch()
    made = resolved(tmp_path, f"command: env, args: [python3, -m, x], cwd: '{tmp_path}'")
    assert (planned(made).cwd, "PYTHONSAFEPATH" in planned(made).env) == (tmp_path, False)
    made = resolved(tmp_path, f"command: env, args: [npx, x], cwd: '{tmp_path}'")
    assert planned(made).cwd == tmp_path


@pytest.mark.parametrize("required", [True, False])
def test_a_server_that_would_be_taken_over_is_a_problem_at_its_command(tmp_path: Path, required: bool) -> None:
    (tmp_path / ".npmrc").touch()
    made = resolved(tmp_path, f"command: env, args: [npx, x], cwd: ., required: {str(required).lower()}")
    (problem,) = made.problems
    assert (problem.path, problem.severity) == ("mcp_servers.s.command", "error" if required else "warning")
    assert problem.message.startswith(f"npx would follow {tmp_path}/.npmrc from this project")
