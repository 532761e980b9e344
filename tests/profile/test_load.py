"""A found file becomes a checked profile, or one error with every problem (ours)."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from acp_launch.document.nodes import MAX_SIZE, Place
from acp_launch.errors import ProfileError
from acp_launch.profile import load as module
from acp_launch.profile.discover import Found
from acp_launch.profile.load import examine, inspect, inspect_all, is_unread, load, read_cache, shown
from tests.patience import PATIENCE


def at(file: Path) -> Found:
    return Found(file.stem, file, file.parent, "path")


def refused(file: Path) -> list[str]:
    with pytest.raises(ProfileError) as caught:
        load(at(file))
    return [str(problem) for problem in caught.value.problems]


def test_a_good_file_is_loaded_with_its_positions_and_warnings(tmp_path: Path) -> None:
    file = tmp_path / "work.yaml"
    file.write_text("version: 1\nagent:\n  command: x\n  args: ['${secret:a}']\n")
    loaded = load(at(file))
    assert loaded.profile.agent.command == "x"
    assert loaded.positions.where(("agent", "command")) == Place(3, 12, loaded.label)
    assert [problem.severity for problem in loaded.problems] == ["warning"]


def test_problems_of_the_text_and_of_its_meaning_come_together(tmp_path: Path) -> None:
    file = tmp_path / "work.yaml"
    file.write_text("version: 1\nversion: 1\nagent: {comand: x}\n")
    assert refused(file) == [
        f'{file}:2:1: the key "version" appears twice; the first is on line 1\n    fix: keep one of them',
        f'{file}:3:9: agent.comand: unknown key "comand"; did you mean "command"?\n    fix: write command',
    ]


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    assert refused(tmp_path / "no.yaml") == [
        f"{tmp_path / 'no.yaml'}: no such file\n    fix: acp-launch list shows all profiles"
    ]


def test_a_directory_is_no_profile(tmp_path: Path) -> None:
    assert refused(tmp_path) == [
        f"{tmp_path}: this is a directory, not a profile\n    fix: name a .yaml file in it",
    ]


def test_a_pipe_is_no_profile_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p.yaml")
    assert refused(tmp_path / "p.yaml") == [
        f"{tmp_path / 'p.yaml'}: this is not a regular file\n    fix: copy it into one"
    ]


def test_a_file_too_large_is_not_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "big.yaml"
    with file.open("wb") as stream:
        stream.truncate(MAX_SIZE * 100)
    assert refused(file) == [f"{file}: this file is larger than 256 KiB\n    fix: check that this is a profile"]


def test_bytes_that_are_no_text_are_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "work.yaml"
    file.write_bytes(b"version: 1\nx: \xff\n")
    assert refused(file) == [f"{file}:2:4: the byte 0xff is not UTF-8 text\n    fix: save the file as UTF-8"]


def test_a_loop_of_links_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to(tmp_path / "a.yaml")
    assert refused(tmp_path / "a.yaml")[0].startswith(f"{tmp_path / 'a.yaml'}: ")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_we_may_not_read_is_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "work.yaml"
    file.write_text("version: 1")
    file.chmod(0)
    assert refused(file) == [f"{file}: cannot be read: Permission denied"]


def test_inspecting_answers_instead_of_raising(tmp_path: Path) -> None:
    loaded, problems = inspect(at(tmp_path / "no.yaml"))
    assert loaded is None
    assert [problem.message for problem in problems] == ["no such file"]


def make_profiles(directory: Path, number: int, comment: str = "") -> list[Found]:
    """Profiles of a project: the first half is good."""
    directory.mkdir()
    found = list[Found]()
    for index in range(number):
        file = directory / f"p{index}.yaml"
        key = "command" if index < number // 2 else "comand"
        file.write_text(f"version: 1\nagent: {{{key}: x}}\n{comment}")
        found.append(Found(file.stem, file, directory, "project"))
    return found


def unread(found: list[Found], cache: Path | None = None) -> list[str]:
    return [each.name for each, loaded, problems in inspect_all(found, cache=cache) if is_unread(problems)]


def test_a_list_parses_so_many_profiles_of_a_project_and_all_that_are_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clone may have thousands. The user's own and the built-in ones are read in any case."""
    monkeypatch.setattr(module, "MAX_PARSED", 4)
    found, own = make_profiles(tmp_path / "a", 8), make_profiles(tmp_path / "own", 8)
    theirs = [replace(each, origin="user") for each in own]
    cache = tmp_path / "cache"
    assert unread([*found, *theirs], cache) == ["p4", "p5", "p6", "p7"]
    assert unread([*found, *theirs], cache) == []  # those that were good are not parsed again
    assert unread(make_profiles(tmp_path / "b", 4), cache) == []
    (_, loaded, problems) = inspect_all(found)[4]
    assert loaded is None
    (problem,) = problems
    assert problem.message == "it was not read, as the profiles of this project are too many or too large for a list"
    assert (problem.file, problem.fix) == (str(tmp_path / "a" / "p4.yaml"), "acp-launch validate p4")


def test_a_list_parses_so_much_text_of_a_project_with_all_that_its_profiles_extend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_PARSED_TEXT", 2500)
    found = make_profiles(tmp_path / "a", 8, comment="extends: ./_large.yaml\n")
    (tmp_path / "a" / "_large.yaml").write_text(f"version: 1\n# {'x' * 1000}\n")
    assert unread(found) == ["p3", "p4", "p5", "p6", "p7"]


def test_files_below_the_working_directory_are_named_relative_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown(tmp_path / "x" / "work.yaml") == str(Path("x") / "work.yaml")
    assert shown(tmp_path.parent / "work.yaml") == str(tmp_path.parent / "work.yaml")


def test_importing_the_module_loads_neither_yaml_nor_pydantic() -> None:
    """A cache of checked profiles may sit here later: then nothing of this is needed."""
    code = "import sys, acp_launch.profile.load; print(sorted({'pydantic', 'ruamel.yaml'} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert answer.stdout == "[]\n"


TOKEN = "ghp_" + "a1B2" * 9
LEAKING = f"version: 1\nagent:\n  command: x\n  args: [-a, '--token={TOKEN}']\n  env: {{LOG: info}}\n"
LEAK = (
    "agent.args[1]: this looks like a GitHub token\n"
    "    fix: acp-launch secret set token, then write ${secret:token} in its place"
)


def test_a_login_in_an_address_is_told_once_and_with_one_fix(tmp_path: Path) -> None:
    file = tmp_path / "work.yaml"
    file.write_text(
        "version: 1\nagent:\n  command: x\nmcp_servers:\n  s: {type: http, url: 'http://u:p@x.example/mcp'}\n"
    )
    assert [str(problem) for problem in examine(at(file))[1]] == [
        f"{file}:5:24: mcp_servers.s.url: the url holds a user name or a password, which end up in logs\n"
        '    fix: remove it, and write headers: {Authorization: "Basic ${secret:NAME}"}'
    ]


def test_examining_finds_the_same_in_a_profile_and_in_one_from_the_cache(tmp_path: Path) -> None:
    file, cache = tmp_path / "work.yaml", tmp_path / "cache"
    file.write_text("version: 1\nagent:\n  command: x\n  env: {A_TOKEN: changeme}\n")
    for known in (False, True):
        assert (read_cache(cache, at(file)) is not None) is known
        loaded, problems = examine(at(file), cache=cache)
        assert loaded is not None and loaded.problems == ()
        assert [str(problem) for problem in problems] == [
            f'{file}:4:18: agent.env.A_TOKEN: warning: "changeme" is a placeholder, not a token\n'
            '    fix: acp-launch secret set a-token, then write "${secret:a-token}" here'
        ]


def test_a_profile_that_gives_a_credential_away_is_not_copied_into_the_cache(tmp_path: Path) -> None:
    file, cache = tmp_path / "work.yaml", tmp_path / "cache"
    for text in (LEAKING, f"# {TOKEN}\nversion: 1\nagent: {{command: x}}\n"):
        file.write_text(text)
        assert load(at(file), cache=cache).problems == ()
        assert [str(each) for each in cache.rglob("*") if each.is_file()] == []


def test_credentials_are_looked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the profile may be kept, and what is told of it, is one question."""
    asked: list[str] = []

    def in_comments(text: str, told: object) -> Iterator[object]:
        asked.append(text)
        return iter(())

    monkeypatch.setattr("acp_launch.profile.check.in_comments", in_comments)
    file = tmp_path / "work.yaml"
    file.write_text("version: 1\nagent: {command: x}\n")
    examine(at(file), cache=tmp_path / "cache")
    assert len(asked) == 1


def test_a_profile_with_a_leak_can_be_loaded(tmp_path: Path) -> None:
    file = tmp_path / "work.yaml"
    file.write_text(LEAKING)
    assert load(at(file)).problems == ()
    assert inspect(at(file))[1] == ()


def test_leaks_of_a_profile_that_is_wrong_come_among_its_problems(tmp_path: Path) -> None:
    file = tmp_path / "work.yaml"
    file.write_text(LEAKING.replace("version: 1", "version: 2") + "mcp_servers: {a: {comand: x}}\n")
    loaded, problems = examine(at(file))
    assert loaded is None
    assert [(problem.line, problem.path) for problem in problems] == [
        (1, "version"),
        (4, "agent.args[1]"),
        (6, "mcp_servers.a.comand"),
    ]


@pytest.mark.parametrize("text", ["", "version: [", "- 1\n", "PASSWORD=hunter22\n", "\ufffe"])
def test_a_text_that_is_no_mapping_has_no_leaks(tmp_path: Path, text: str) -> None:
    file = tmp_path / "work.yaml"
    file.write_text(text, encoding="utf-8")
    assert examine(at(file)) == inspect(at(file))


REMOVE = "remove it, and rotate the token: everyone who can read this file has it"


@pytest.mark.parametrize(
    "text", [f"{TOKEN}\n", f"- {TOKEN}\n", f"version: [{TOKEN}\n", f"a: {TOKEN}\n\0", f"a: b: {TOKEN}"]
)
def test_a_token_is_found_in_a_text_that_is_no_profile(tmp_path: Path, text: str) -> None:
    file = tmp_path / "work.yaml"
    file.write_text(text, encoding="utf-8")
    _, known = inspect(at(file))
    loaded, problems = examine(at(file))
    column = text.index(TOKEN) + 1
    assert loaded is None and known
    assert [str(each) for each in problems if each not in known] == [
        f"{file}:1:{column}: this looks like a GitHub token\n    fix: {REMOVE}"
    ]
    assert TOKEN not in str(problems)


def test_a_token_outside_of_what_a_program_receives_is_found_with_a_cache_and_without(tmp_path: Path) -> None:
    file, cache = tmp_path / "work.yaml", tmp_path / "cache"
    file.write_text(f"\ufeff# {TOKEN}\n{LEAKING}description: {TOKEN}\n", encoding="utf-8")
    for where in (None, cache):
        loaded, problems = examine(at(file), cache=where)
        assert loaded is not None
        assert [str(problem) for problem in problems] == [
            f"{file}:1:3: this looks like a GitHub token\n    fix: {REMOVE}",
            f"{file}:5:23: {LEAK}",
            f"{file}:7:14: this looks like a GitHub token\n    fix: {REMOVE}",
        ]


def test_a_misspelt_section_hides_no_token(tmp_path: Path) -> None:
    file = tmp_path / "work.yaml"
    file.write_text(f"version: 1\nagent: {{command: x, evn: {{A_TOKEN: {TOKEN}}}}}\n")
    assert [str(problem) for problem in examine(at(file))[1]] == [
        f'{file}:2:21: agent.evn: unknown key "evn"; did you mean "env"?\n    fix: write env',
        f"{file}:2:36: this looks like a GitHub token\n    fix: {REMOVE}",
    ]


@pytest.mark.parametrize(
    ("written", "column", "message", "fix"),
    [
        ("${secret:x:-def-1234}", 36, "a secret has no default", "write ${secret:x}"),
        ("Bearer ${secret:}", 44, "the name is missing in ${secret:}", "write ${secret:NAME}"),
        (
            "${env:ACP_LAUNCH_PASSPHRASE}",
            36,
            "${env:ACP_LAUNCH_PASSPHRASE} is reserved for acp-launch; a profile cannot use it",
            "remove it",
        ),
    ],
)
def test_a_misspelt_reference_is_told_once_and_is_no_leak(
    tmp_path: Path, written: str, column: int, message: str, fix: str
) -> None:
    file = tmp_path / "work.yaml"
    file.write_text(f"version: 1\nagent: {{command: x, env: {{A_TOKEN: '{written}'}}}}\n")
    assert [str(problem) for problem in examine(at(file))[1]] == [
        f"{file}:2:{column}: agent.env.A_TOKEN: {message}\n    fix: {fix}"
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        f"agent: {{command: x, env: {TOKEN}}}",
        f"agent: {{command: x, args: '--token {TOKEN}'}}",
        f"agent: {{command: x, {TOKEN}: 1}}",
        f"agent: {{command: x, env: {{A: '${{{TOKEN}}}'}}}}",
        f"agent: {{command: x, env: {{A: '${{secret.{TOKEN}}}'}}}}",
        f"agent: {{command: x, env: {{{TOKEN}: 1, {TOKEN}: 2}}}}",
        f"agent: !{TOKEN} {{command: x}}",
        f"agent: {TOKEN}",
        f"mcp_servers: {{{TOKEN}: {{command: x, env: {{A: {TOKEN}}}}}}}",
        f"mcp_servers: {{'{TOKEN} x': {{command: x, foo: 1}}}}",
        f"mcp_servers: {{a: {{type: {TOKEN}}}}}",
        f"mcp_servers: {{a: {{type: http, url: 'ftp://me:{TOKEN}@x'}}}}",
        f"session: {{name: '-{TOKEN}'}}",
        f"permissions: {{default: {TOKEN}}}",
    ],
)
def test_no_problem_of_the_file_shows_a_credential(tmp_path: Path, wrong: str) -> None:
    file = tmp_path / "work.yaml"
    file.write_text(f"version: 1\n{wrong}\n")
    _, problems = examine(at(file))
    assert problems
    assert TOKEN not in "".join(map(str, problems))
    assert "a1B2a1B2" not in str([problem.as_json() for problem in inspect(at(file))[1]])


def test_a_number_where_a_password_belongs_is_not_repeated(tmp_path: Path) -> None:
    file = tmp_path / "work.yaml"
    file.write_text("version: 1\nagent: {command: x, args: [--pin-token, 4711], env: {PASSWORD: 12345678, N: 8080}}\n")
    assert refused(file) == [
        f'{file}:2:41: agent.args[1]: expected text, found the number ***\n    fix: quote it: "***"',
        f'{file}:2:64: agent.env.PASSWORD: expected text, found the number ***\n    fix: quote it: "***"',
        f'{file}:2:77: agent.env.N: expected text, found the number 8080\n    fix: quote it: "8080"',
    ]
