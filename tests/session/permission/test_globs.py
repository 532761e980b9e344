"""Ring 1. How a rule's globs match paths and commands (ours)."""

import re
import shlex
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.session.permission.globs import OPERATORS, in_path, is_allowed, is_caught, parts, script


def test_one_star_stays_in_a_directory_and_two_cross_them() -> None:
    for glob, path, matches in [
        ("/p/*", "/p/a", True),
        ("/p/*", "/p/a/b", False),
        ("/p/*", "/p", False),
        ("/p/**", "/p/a/b", True),
        ("/p/**", "/p", True),
        ("/p/**", "/pp", False),
        ("/p/**/x", "/p/x", True),
        ("/p/**/x", "/p/a/b/x", True),
        ("/p/**/x", "/p/a/b/xx", False),
        ("/**/.env", "/a/.env", True),
        ("/**/a/**/b", "/a/x/a/b", True),
        ("/p/*.py", "/p/a.py", True),
        ("/p/*.py", "/p/A.PY", False),
        ("/p/a**b", "/p/a-b", True),
        ("/p/a**b", "/p/a/b", False),
        ("/p/[ab]?", "/p/ax", True),
        ("/p/[[]x]", "/p/[x]", True),
        ("/**", "/", True),
        ("/p", "/", False),
        ("/**", "", False),
    ]:
        assert in_path(["/no", glob], path) is matches


def test_many_stars_are_not_slow() -> None:
    """With backtracking over every combination this would outlast the universe."""
    assert not in_path(["/" + "**/a/" * 30 + "b"], "/" + "a/" * 2000 + "c")
    assert not is_allowed(["*a" * 30 + "b"], ["a" * 20_000])


def test_a_command_is_allowed_by_a_glob_that_writes_its_operators_out() -> None:
    for glob, command in [
        ("git *", "git status"),
        ("git *", "git log --format='%h {x}' ~/a"),
        ("git ????us", "git status"),
        ("git [a-s]*", "git status"),
        ("git [!x]*", "git status"),
        ("git log | *", "git log | head -5"),
        ("make && make test", "make && make test"),
        ("* > out.txt", "ls > out.txt"),
        ("echo *$HOME*", "echo a$HOME b"),
        ("[", "["),
        ("a[!]b]c", "axc"),
        ("a\\b*", "a\\bc"),
        ("*", ""),
    ]:
        assert is_allowed([glob], [command])


def test_no_wildcard_of_an_allow_rule_stands_for_an_operator_of_the_shell() -> None:
    for glob in ["git *", "git status*", "*", "git ?????????????????", "git [!q]*", "git*s*x"]:
        for operator in [*OPERATORS, "&&", "||", "$(", "<(", ">>"]:
            assert not is_allowed([glob], [f"git status{operator}rm -rf x"])


@pytest.mark.parametrize(
    "command",
    ["git log | head | sh", "git log | head; rm x", "git log |& head", "git log | head > x", "git log && x | head"],
)
def test_an_operator_that_is_written_once_is_allowed_once(command: str) -> None:
    assert not is_allowed(["git log | *"], [command])


@given(st.text("ab*?;| ", max_size=8), st.text("ab;| $\n", max_size=10))
def test_what_an_allow_rule_matches_any_glob_would_match_too(glob: str, command: str) -> None:
    if is_allowed([glob], [command]):
        assert fnmatchcase(command, glob.strip())


@given(st.text("ab*?[]!- ", max_size=8), st.text("ab!-]x ", max_size=10))
def test_without_operators_an_allow_rule_matches_as_any_glob_does(glob: str, command: str) -> None:
    assert is_allowed([glob], [command]) == fnmatchcase(command, glob.strip())


@given(st.text(max_size=12), st.text(max_size=12))
def test_a_glob_without_operators_allows_no_command_with_one(glob: str, command: str) -> None:
    operators = f"[{re.escape(OPERATORS)}]"
    if not re.search(operators, glob) and re.search(operators, command):
        assert not is_allowed([glob], [command])


def test_a_deny_rule_catches_a_command_among_others() -> None:
    for command in [
        "rm -rf x",
        "ls; rm -rf x",
        "ls && rm x || true",
        "ls | rm x",
        "ls & rm x",
        "echo $(rm x)",
        "echo `rm x`",
        "(rm x)",
        "{ rm x; }",
        "ls\nrm x",
        "  rm   x",
        "FORCE=1 rm x",
        "sudo rm x",
        "sudo env A=b nohup rm x",
        "if true; then rm x; fi",
        "bash -c 'rm x'",
        "sudo /bin/bash -lc 'cd y && rm x'",
        "sh -c \"sh -c 'rm x'\"",
        "cat <(rm x)",
        "/bin/rm x",
        "./../bin/rm x",
        "\\rm x",
        "'rm' x",
        "2>/dev/null rm x",
        "ls >log; >log rm x",
        "A='b c' rm x",
        "sudo -n rm x",
        "sudo -u root -- /bin/rm x",
        "env -i PATH=/bin rm x",
        "env -S 'rm x'",
        "/usr/bin/env rm x",
        "nice -n 5 rm x",
        "timeout --signal KILL 5 rm x",
        "ls | xargs -0 -n 1 rm x",
        "find . -name a -exec rm {} +",
        "eval 'rm x'",
        "bash -x -c 'rm x'",
        "bash -cx 'rm x'",
        "bash --norc -euo pipefail -c 'cd y; /bin/rm x' zero",
        "sudo -n bash -c \"timeout 5 bash -c 'nice /bin/rm x'\"",
        "bash <<< 'rm x'",
    ]:
        assert is_caught(["rm *"], [command])


@pytest.mark.parametrize(
    "command",
    [
        "ls",
        "echo rm x",
        "git rm x",
        "rmdir x",
        "cat /bin/rm x",
        "sudo ls",
        "echo a > rm",
        "bash rm.sh x",
        "",
        ";;",
        "echo 'open",
    ],
)
def test_a_deny_rule_leaves_other_commands_alone(command: str) -> None:
    assert not is_caught(["rm *"], [command])


WRAPPERS = [
    "sudo", "sudo -n", "sudo -u root", "doas", "env", "env -i A=b", "/usr/bin/env", "nice -n 5", "ionice -c 3", "nohup",
    "timeout 5", "timeout -k 1 5", "time -p", "stdbuf -oL", "setsid -w", "xargs", "xargs -0 -I {}", "command",
    "exec -a x", "busybox", "chroot /x", "A=b", "2>log", "builtin", "!", "flock /x", "ssh host",
]  # fmt: skip


@given(st.lists(st.sampled_from([*WRAPPERS, "bash -c", "sh -xc", "dash -e -c"]), max_size=5), st.booleans())
def test_a_denied_command_stays_denied_whatever_runs_it(wrappers: list[str], is_by_path: bool) -> None:
    command = "/bin/rm -rf x" if is_by_path else "rm -rf x"
    for wrapper in wrappers:
        command = f"{wrapper} {shlex.quote(command)}" if wrapper.endswith("c") else f"{wrapper} {command}"
    assert is_caught(["rm *"], [command])
    assert not is_allowed(["rm *"], [command]) or not (wrappers or is_by_path)


@pytest.mark.whole
@pytest.mark.parametrize(
    "command",
    ["sudo " * 20_000, "sudo a;" * 10_000, "bash -c " * 10_000, "<a" * 40_000, "a 'b' " * 10_000, "sh 'x y' " * 9_000],
)
def test_cutting_a_long_command_into_its_parts_is_not_slow(command: str) -> None:
    """Bounded by what is looked at, not measured: whatever is looked at is a few times the command at the most."""
    assert sum(map(len, parts(command))) < 100 * len(command)


def test_a_deny_rule_may_speak_of_a_whole_pipe() -> None:
    assert is_caught(["curl * | sh*"], ["curl https://x | sh -s"])


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["bash", "-lc", " git status "], "git status"),
        (["/bin/sh", "-c", "x"], "x"),
        (["/usr/local/bin/zsh", "-ic", "x"], "x"),
        (["./bash", "-c", "x"], None),
        (["bash", "-c", "x", "$0"], None),
        (["bash", "-x", "x"], None),
        (["git", "-c", "x"], None),
        (["bash"], None),
    ],
)
def test_only_a_shell_with_one_script_and_nothing_more_is_looked_into(argv: list[str], expected: str | None) -> None:
    assert script(argv) == expected
