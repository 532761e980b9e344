"""What `terminal/create` asks for, as it is run, and as it is shown to the user who decides."""

from pathlib import Path
from typing import Any

import pytest

from acp_launch.plan.model import Mount, Origin, Place, RulePlan
from acp_launch.plan.place import arrange
from acp_launch.profile.model import Match
from acp_launch.profile.values import Template
from acp_launch.session import terminals as module
from acp_launch.session.events import Refusal
from acp_launch.session.permission.policy import Policy, judge
from acp_launch.session.permission.subject import subject
from acp_launch.session.terminals import Command, command

ENV = {"PATH": "/usr/bin:/bin", "HOME": "/nowhere"}


def read(**params: Any) -> Command:
    return command({"sessionId": "s", **params}, cwd=Path("/"), env=ENV)


def refusal(**params: Any) -> tuple[int, str]:
    with pytest.raises(Refusal) as raised:
        read(**params)
    return raised.value.code, raised.value.message


def found(name: str) -> str:
    return next(str(Path(folder, name)) for folder in ("/usr/bin", "/bin") if Path(folder, name).exists())


def test_a_program_is_looked_up_on_the_path_of_the_command() -> None:
    it = read(command="ls", args=["-l", "a b"])
    assert it.argv == (found("ls"), "-l", "a b")
    assert it.line == "ls -l 'a b'"
    assert (it.env, it.cwd, it.limit) == (ENV, Path("/"), module.DEFAULT_OUTPUT_BYTES)


@pytest.mark.parametrize("args", [{}, {"args": []}, {"args": None}])
@pytest.mark.parametrize(
    "line", ["ls -l | wc", "cd /tmp && ls", "X=1 env", "echo $HOME", "./a;b", "~/bin/x", "exit 3", '"ls"']
)
def test_a_whole_line_without_args_is_given_to_a_shell(line: str, args: dict[str, Any]) -> None:
    """Agents put shell lines there."""
    it = read(command=line, **args)
    assert it.argv == ("/bin/sh", "-c", line)
    assert it.line == line


def test_a_program_with_a_space_in_its_name_is_a_program(tmp_path: Path) -> None:
    script = tmp_path / "my tool"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    it = read(command=str(script))
    assert (it.argv, it.line) == ((str(script),), f"'{script}'")


def test_a_line_with_args_is_no_line() -> None:
    said = (
        'cannot run it: "npm run" is not on PATH (looked in 2 folders); '
        "put the arguments under args; command is the program alone"
    )
    assert refusal(command="npm run", args=["test"]) == (-32002, said)


def test_a_missing_program_is_said_with_what_to_do() -> None:
    said = (
        'cannot run it: "no-such-tool" is not on PATH (looked in 2 folders); '
        "install it, or give an absolute path; aliases and functions of a shell do not work here"
    )
    assert refusal(command="no-such-tool") == (-32002, said)


def test_its_variables_are_added_and_those_that_change_what_runs_are_shown() -> None:
    variables = [{"name": "CI", "value": "1"}, {"name": "PATH", "value": "/usr/bin"}, {"name": "X", "value": "a b"}]
    it = read(command="ls", args=["-l"], env=variables)
    assert it.env == {**ENV, "CI": "1", "PATH": "/usr/bin", "X": "a b"}
    assert it.line == "PATH=/usr/bin X='a b' ls -l"
    assert it.tool_call() == {
        "kind": "execute",
        "title": "PATH=/usr/bin X='a b' ls -l",
        "rawInput": {"command": "PATH=/usr/bin X='a b' ls", "args": ["-l"], "cwd": "/"},
    }


def test_the_program_is_looked_up_on_the_path_the_agent_gives(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    assert read(command="tool", env=[{"name": "PATH", "value": str(tmp_path)}]).argv == (str(tool),)


@pytest.mark.parametrize(
    ("params", "rule", "answer"),
    [
        ({"command": "git", "args": ["status"]}, "git status", "allow"),
        ({"command": "git status"}, "git status", "allow"),
        ({"command": "bash", "args": ["-c", "git status"]}, "git status", "allow"),
        ({"command": "git", "args": ["status; rm -rf /"]}, "git *", "ask"),
        ({"command": "git status", "env": [{"name": "LD_PRELOAD", "value": "/tmp/x"}]}, "git status", "ask"),
        ({"command": "git status", "env": [{"name": "CI", "value": "1"}]}, "git status", "allow"),
    ],
)
def test_rules_see_the_command_as_it_is_run(params: dict[str, Any], rule: str, answer: str, tmp_path: Path) -> None:
    git = tmp_path / "git"
    git.write_text("#!/bin/sh\n")
    git.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    call = command(params, cwd=Path("/"), env=env).tool_call()
    rules = (RulePlan("allow", Match(command=(Template(rule),)), Origin("f.yaml")),)
    assert judge(Policy("ask", rules=rules), call).answer == answer


def test_a_command_that_was_allowed_in_words_is_the_same_in_a_terminal() -> None:
    """What the gate compares: agents ask with a line, and run with args."""
    asked = {"kind": "execute", "rawInput": {"command": "ls -l"}}
    assert subject(read(command="ls", args=["-l"]).tool_call()).command == subject(asked).command == "ls -l"


def test_it_may_be_run_anywhere_and_the_place_must_be_there(tmp_path: Path) -> None:
    assert read(command="ls", cwd=str(tmp_path)).cwd == tmp_path
    assert read(command="ls", cwd=None).cwd == Path("/")
    (tmp_path / "file").write_text("")
    assert refusal(command="ls", cwd="tmp") == (-32602, '"cwd" must be absolute, not "tmp"')
    assert refusal(command="ls", cwd=f"{tmp_path}/no") == (-32002, f'there is no directory "{tmp_path}/no"')
    assert refusal(command="ls", cwd=f"{tmp_path}/file") == (-32002, f'there is no directory "{tmp_path}/file"')


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, '"command": expected some text'),
        ({"command": ""}, '"command": expected some text'),
        ({"command": 5}, '"command": expected some text'),
        ({"command": "a\0b"}, '"command" holds a NUL character'),
        ({"command": "a\ud800"}, '"command" holds half a surrogate pair, which is not valid text'),
        ({"command": "ls", "args": "-l"}, '"args" must be a list of strings'),
        ({"command": "ls", "args": [1]}, '"args": expected text'),
        ({"command": "ls", "args": ["a\0"]}, '"args" holds a NUL character'),
        ({"command": "ls", "env": {"A": "1"}}, '"env" must be a list of objects with "name" and "value"'),
        ({"command": "ls", "env": ["A=1"]}, '"env" must be a list of objects with "name" and "value"'),
        ({"command": "ls", "env": [{"name": "", "value": ""}]}, '"env": expected some text'),
        ({"command": "ls", "env": [{"name": "A"}]}, '"env": expected text'),
        ({"command": "ls", "env": [{"name": "A=B", "value": ""}]}, '"env": "A=B" is not a valid name for a variable'),
        ({"command": "ls", "outputByteLimit": -1}, '"outputByteLimit" must be a whole number, at least 0'),
        ({"command": "ls", "outputByteLimit": True}, '"outputByteLimit" must be a whole number, at least 0'),
        ({"command": "ls", "outputByteLimit": "9"}, '"outputByteLimit" must be a whole number, at least 0'),
        ({"command": "ls", "cwd": 5}, '"cwd": expected some text'),
    ],
)
def test_malformed_params_are_refused_in_words(params: dict[str, Any], message: str) -> None:
    assert refusal(**params) == (-32602, message)


@pytest.mark.parametrize(
    ("given", "kept"), [(0, 0), (5, 5), (2**64 - 1, module.MAX_OUTPUT_BYTES), (None, module.DEFAULT_OUTPUT_BYTES)]
)
def test_the_output_that_is_kept_is_bounded_whatever_is_asked_for(given: int | None, kept: int) -> None:
    assert read(command="ls", outputByteLimit=given).limit == kept


def test_a_confined_agent_is_told_of_nothing_outside_of_its_place(tmp_path: Path) -> None:
    """What it does not see is missing, whether it exists or not: programs, directories, interpreters, and all of them
    through a link that it has laid."""
    top = tmp_path.resolve()
    inside, outside = top / "p", top / "home"
    for each in (inside, outside):
        each.mkdir()
        (each / "tool").write_text(f"#!{outside}/python\n")
        (each / "tool").chmod(0o755)
    (outside / "plain").write_text("")
    (inside / "way").symlink_to(outside)
    (inside / "here").symlink_to(inside)
    mounts = [Mount(inside, "write", "session"), Mount(Path("/usr"), "read", "system"), Mount(top, "empty", "system")]
    place = Place(program=Path("/bwrap"), mounts=arrange(mounts), links={Path("/bin"): Path("/usr/bin")})

    def said(**params: Any) -> str:
        with pytest.raises(Refusal) as raised:
            command({"sessionId": "s", "args": ["x"], **params}, cwd=inside, env=ENV, place=place)
        return raised.value.message

    for where in (outside, inside / "way", Path("/etc")):
        for name in ("tool", "plain", "absent"):
            path = str(where / name)
            assert said(command=path) == (
                f'cannot run it: the agent does not see a program "{path}"; install it where the agent sees it'
            )
            env = [{"name": "PATH", "value": str(where)}]
            assert said(command=name, env=env) == said(command=path).replace(path, name)
        for name in (".", "absent"):
            directory = where / name
            assert said(command="ls", cwd=str(directory)) == f'there is no directory "{directory}"'
    for cwd in (inside, inside / "here", inside / "here" / ".." / "p", top, Path("/")):
        made = command(
            {"command": "tool", "args": [], "cwd": str(cwd)}, cwd=inside, env={"PATH": f"{inside}"}, place=place
        )
        assert made.argv[0] == "/bwrap" and made.argv[-4:] == ("--chdir", str(cwd), "--", f"{inside}/tool")
    assert command({"command": "a" * 300 + "; ls"}, cwd=inside, env=ENV, place=place).argv[-3:-1] == ("/bin/sh", "-c")
    assert command({"command": "ls"}, cwd=inside, env=ENV, place=place).argv[-1] in ("/usr/bin/ls", "/bin/ls")
