"""Ring 1. The rules of a profile on this machine (ours)."""

from pathlib import Path

import pytest

from acp_launch.plan.model import RulePlan
from acp_launch.plan.resolve import Resolved, resolve
from acp_launch.profile.discover import Found
from acp_launch.profile.load import load


def resolved(project: Path, rules: str, **environ: str) -> Resolved:
    file = project / "work.yaml"
    file.write_text(f'version: 1\nagent: {{command: "${{python}}"}}\npermissions:\n  rules: [{rules}]\n')
    found = Found("work", file, project, "path")
    return resolve(load(found), cwd=project / "typed", environ=environ | {"HOME": str(project / "home")})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "a[b]c"  # which is no glob
    (made / "typed").mkdir(parents=True)
    return made


def rule(project: Path, rules: str, **environ: str) -> RulePlan:
    made = resolved(project, rules, **environ)
    assert made.plan is not None, made.problems
    (found,) = made.plan.rules
    return found


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("src/**", "PROJECT/src/**"),
        ("./src/../lib/*.py", "PROJECT/lib/*.py"),
        ("src/", "PROJECT/src/**"),
        (".", "PROJECT"),
        ("/etc/**", "/etc/**"),
        ("${project}/x", "PROJECT/x"),
        ("${cwd}/*", "PROJECT/typed/*"),
        ("${home}/.ssh/", "PROJECT/home/.ssh/**"),
        ("${env:WHERE:-d}/x", "PROJECT/d/x"),
    ],
)
def test_a_path_is_absolute_and_the_name_of_a_directory_is_no_glob(project: Path, written: str, expected: str) -> None:
    found = rule(project, f"{{deny: {{path: '{written}'}}}}")
    quoted = str(project).replace("[", "[[]")
    assert found.match.path == (expected.replace("PROJECT", quoted),)


def test_a_command_keeps_its_words_and_has_its_references_filled_in(project: Path) -> None:
    found = rule(project, "{allow: {command: ['${env:TOOL} test', './run *']}}", TOOL="npm")
    assert (found.answer, found.match.command) == ("allow", ("npm test", "./run *"))


def test_a_rule_knows_its_place(project: Path) -> None:
    made = resolved(project, "{deny: {kind: edit}}, {ask: {title: x}}")
    assert made.plan is not None
    name = f"{project}/work.yaml"
    assert [(each.answer, str(each)) for each in made.plan.rules] == [
        ("deny", f"permissions.rules[0] ({name}:4:11)"),
        ("ask", f"permissions.rules[1] ({name}:4:33)"),
    ]


def test_where_the_fixed_part_of_a_path_is_a_link_the_place_it_leads_to_counts_too(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    (real / "typed").mkdir(parents=True)
    link.symlink_to(real)
    assert rule(link, "{deny: {path: 'src/**'}}").match.path == (f"{link}/src/**", f"{real}/src/**")


def test_a_reference_that_is_unresolved_is_a_problem_at_its_place(project: Path) -> None:
    made = resolved(project, "{deny: {path: 'x/${env:NO_SUCH}', command: [y, '${env:NO_SUCH}']}}")
    assert made.plan is None
    assert [str(problem).replace(f"{project}/", "") for problem in made.problems] == [
        "work.yaml:4:28: permissions.rules[0].deny.path: the environment variable NO_SUCH is not set\n"
        "    fix: export NO_SUCH=..., or write ${env:NO_SUCH:-default}",
        "work.yaml:4:58: permissions.rules[0].deny.command[1]: the environment variable NO_SUCH is not set\n"
        "    fix: export NO_SUCH=..., or write ${env:NO_SUCH:-default}",
    ]
