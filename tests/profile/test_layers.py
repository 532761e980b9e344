"""A profile is made of files that extend each other, and of one person's overlay (ours, docs/profiles.md).

Everything that an untrusted repository may hold gives an answer with a place, within the bounds of one file: never a
wait, a crash, or a file from outside of it.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from acp_launch.document.nodes import MAX_SIZE
from acp_launch.errors import ProfileError, UsageError
from acp_launch.plan.resolve import resolve
from acp_launch.profile.discover import Found, built_in, discover, find
from acp_launch.profile.load import Loaded, examine, inspect, load, read_cache
from acp_launch.profile.model import StdioServer
from acp_launch.settings import load as settings
from tests.patience import PATIENCE

AGENT = "version: 1\nagent: {command: cat}\n"


class Project:
    """A repository, typed in; its profiles lie in `.acp-launch`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cache = root.parent / "cache"
        (root / ".git").mkdir(parents=True)
        self.holder.mkdir()

    @property
    def holder(self) -> Path:
        return self.root / ".acp-launch"

    def put(self, name: str, text: str) -> Path:
        file = self.holder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def find(self, name: str = "work") -> Found:
        return find(name, start=self.root, settings=settings.load())

    def load(self, name: str = "work") -> Loaded:
        return load(self.find(name))

    def warm(self) -> Loaded:
        return load(self.find(), cache=self.cache)

    def is_cached(self) -> bool:
        return read_cache(self.cache, self.find()) is not None

    def problems(self, name: str = "work") -> list[str]:
        return [str(problem) for problem in inspect(self.find(name))[1]]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    made = Project(tmp_path / "p")
    monkeypatch.chdir(made.holder)
    return made


def user(name: str, text: str) -> Path:
    file = settings.load().config / "profiles" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def files(loaded: Loaded) -> list[tuple[str, str, str]]:
    return [(layer.file.name, layer.origin, layer.role) for layer in loaded.layers]


def test_what_a_profile_extends_lies_below_it_and_the_overlay_above(project: Project) -> None:
    project.put("base.yaml", "version: 1\nagent:\n  command: cat\n  env: {A: base, B: base, C: base, D: base}\n")
    project.put("more.yaml", "agent: {args: [more], env: {B: more, C: more, D: more}}\n")
    project.put("work.yaml", "extends: [base, ./more.yaml]\nagent:\n  args: []\n  env: {C: work, D: work}\n")
    project.put("work.local.yaml", "agent: {env: {D: null, E: mine}}\n")
    loaded = project.load()
    assert loaded.profile.agent.args == ()
    assert loaded.profile.agent.env == {"A": "base", "B": "more", "C": "work", "E": "mine"}
    assert files(loaded) == [
        ("base.yaml", "project", "parent"),
        ("more.yaml", "project", "parent"),
        ("work.yaml", "project", "profile"),
        ("work.local.yaml", "project", "overlay"),
    ]
    assert loaded.merged == {
        "version": 1,
        "agent": {"command": "cat", "args": [], "env": {"A": "base", "B": "more", "C": "work", "E": "mine"}},
    }
    assert [layer.text for layer in loaded.layers] == [layer.file.read_text() for layer in loaded.layers]
    assert "mine" not in repr(loaded.layers), "a text may hold a credential"


def test_every_value_knows_its_file_through_any_depth(project: Project) -> None:
    project.put("a.yaml", "version: 1\nagent:\n  command: cat\n")
    project.put("b.yaml", "extends: a\nagent:\n  env:\n    B: b\n")
    project.put("c.yaml", "extends: ./b.yaml\nagent:\n  env:\n\n    C: c\n")
    project.put("work.yaml", "extends: c\n\nagent: {env: {W: '${project}'}}\n")
    loaded = project.load()
    resolved = resolve(loaded, cwd=project.root, environ=dict(os.environ))
    assert resolved.plan
    origins = {name: str(value.origin) for name, value in resolved.plan.agent.env.items() if value.origin.path}
    assert origins == {"B": "b.yaml:4:8", "C": "c.yaml:5:8", "W": "work.yaml:3:18"}
    assert resolved.plan.agent.env["W"].reveal({}) == str(project.root)


def test_a_problem_is_where_it_was_written_through_any_depth(project: Project) -> None:
    project.put("a.yaml", "version: 1\nagent:\n  comand: cat\n")
    project.put("b.yaml", "version: 1\nversion: 1\nextends: a\n")
    project.put("work.yaml", "extends: b\nmcp_servers: {x: {command: 5}}\n")
    project.put("work.local.yaml", "session:\n  nam: x\n")
    assert project.problems() == [
        'work.yaml:2:28: mcp_servers.x.command: expected text, found the number 5\n    fix: quote it: "5"',
        'a.yaml:3:3: agent.comand: unknown key "comand"; did you mean "command"?\n    fix: write command',
        'b.yaml:2:1: the key "version" appears twice; the first is on line 1\n    fix: keep one of them',
        'work.local.yaml:2:3: session.nam: unknown key "nam"; did you mean "name"?\n    fix: write name',
    ]


def test_what_this_machine_lacks_is_where_it_was_written(project: Project) -> None:
    project.put("base.yaml", "version: 1\nagent:\n  command: no-such-program-here\n")
    project.put("work.yaml", "extends: base\nworkspace: {cwd: nowhere}\n")
    found = resolve(project.load(), cwd=project.root, environ={"PATH": "/nonexistent"}).problems
    assert [problem.place for problem in found] == ["work.yaml:2:18", "base.yaml:3:12"]


def test_what_is_required_may_come_from_any_layer_and_is_missing_in_the_profile_itself(project: Project) -> None:
    project.put("_base.yaml", "version: 1\ndescription: nothing else\n")
    project.put("work.yaml", "extends: _base\n")
    project.put("work.local.yaml", "session: {name: x}\n")
    assert project.problems() == ["work.yaml:1:1: agent: this key is required\n    fix: add: agent: ..."]
    project.put("work.local.yaml", "agent: {command: cat}\n")
    assert project.load().profile.agent.command == "cat"


def test_every_file_is_written_for_the_version_there_is(project: Project) -> None:
    project.put("base.yaml", "version: 2\nagent: {command: cat}\n")
    project.put("work.yaml", "extends: base\nversion: 1\n")
    assert project.problems() == [
        "base.yaml:1:10: version: expected version 1, found the number 2\n    fix: write: version: 1"
    ]


def test_variables_and_relative_paths_are_those_of_the_profile_that_was_asked_for(project: Project) -> None:
    user("mine.yaml", AGENT + "workspace: {cwd: sub, additional_directories: ['${project}']}\nsession: {name: x}\n")
    (project.root / "sub").mkdir()
    project.put("work.yaml", "extends: mine\nagent: {env: {P: '${profile}'}}\n")
    plan = resolve(project.load(), cwd=project.root, environ=dict(os.environ)).plan
    assert plan and plan.profile == "work"
    assert (plan.cwd, plan.additional_directories) == (project.root / "sub", (project.root,))
    assert plan.agent.env["P"].reveal({}) == "work"


def test_a_name_is_looked_for_from_where_the_file_lies_that_says_it(project: Project) -> None:
    project.put("base.yaml", AGENT + "session: {name: ours}\n")
    project.put("work.yaml", "extends: base\n")
    deeper = project.root / "deeper"
    (deeper / ".acp-launch").mkdir(parents=True)
    (deeper / ".acp-launch" / "base.yaml").write_text(AGENT + "session: {name: deeper}\n")
    from_below = find("work", start=deeper, settings=settings.load())
    assert load(from_below).profile.session.name == "ours"


def test_a_profile_that_extends_its_own_name_means_the_next_one(project: Project) -> None:
    user("claude.yaml", "extends: claude\nsession: {name: mine}\n")
    project.put("claude.yaml", "extends: claude\nagent: {env: {X: ours}}\n")
    loaded = project.load("claude")
    assert [layer.file.parent for layer in loaded.layers] == [
        built_in(),
        settings.load().config / "profiles",
        project.holder,
    ]
    assert [layer.origin for layer in loaded.layers] == ["built-in", "user", "project"]
    assert loaded.profile.session.name == "mine"
    assert loaded.profile.agent.env["X"] == "ours"


def test_a_description_is_about_its_own_file_alone(project: Project) -> None:
    project.put("base.yaml", AGENT + "description: the base\n")
    project.put("work.yaml", "extends: base\n")
    assert (project.load("base").profile.description, project.load().profile.description) == ("the base", "")
    project.put("work.local.yaml", "description: over\n")
    assert project.load().profile.description == "over"


def test_a_short_form_is_merged_as_the_mapping_that_it_stands_for(project: Project) -> None:
    written = "mcp_servers: {s: {command: x, restart: always}}\n"
    project.put("base.yaml", f"{AGENT}{written}runtime: confined\n")
    project.put("work.yaml", "extends: base\nmcp_servers: {s: {restart: {max: 3}}}\nruntime: {}\n")
    loaded = project.load()
    server = loaded.profile.mcp_servers["s"]
    assert isinstance(server, StdioServer)
    assert (server.restart.policy, server.restart.max) == ("always", 3)
    assert loaded.profile.runtime.confined is not None
    assert loaded.positions.where(("mcp_servers", "s", "restart", "policy")).file.endswith("base.yaml")


def test_no_profile_of_a_user_means_one_of_a_project(project: Project) -> None:
    user("mine.yaml", "version: 1\nextends: base\n")
    project.put("base.yaml", AGENT)
    assert project.problems("mine")[0].split(": ", 1)[1].startswith('extends: no profile named "base" to extend\n')


def test_a_file_that_several_parents_extend_undoes_nothing_that_one_of_them_changes(project: Project) -> None:
    project.put("base.yaml", AGENT + "permissions: {default: ask}\n")
    project.put("strict.yaml", "extends: base\npermissions: {default: deny}\n")
    project.put("tools.yaml", "extends: base\ndescription: tools\n")
    project.put("work.yaml", "extends: [strict, tools]\n")
    loaded = project.load()
    assert loaded.profile.permissions.default == "deny"
    assert [layer.file.stem for layer in loaded.layers] == ["base", "strict", "tools", "work"]


@pytest.mark.parametrize(
    ("entry", "message", "fix"),
    [
        ("bse", 'no profile named "bse" to extend; did you mean "base"?', "write base"),
        (
            "./bse.yaml",
            'cannot find the file "./bse.yaml" to extend',
            "correct the path; it is relative to this file",
        ),
        ("./base", 'cannot find the file "./base" to extend', "write ./base.yaml"),
        ("base.yaml", '"base.yaml" is neither a profile\'s name nor a ./path', "write ./base.yaml"),
        ("x/base.yaml", '"x/base.yaml" is neither a profile\'s name nor a ./path', "write ./x/base.yaml"),
        (".hidden", '".hidden" is neither a profile\'s name nor a ./path', "write ./.hidden"),
        ("''", "this does not name a profile", "name one, or remove the key"),
        ("[]", "this does not name a profile", "name one, or remove the key"),
        ("5", "expected a profile's name, a ./path or a list of them, found the number 5", 'quote it: "5"'),
        (
            "null",
            "expected a profile's name, a ./path or a list of them, found nothing",
            "write the name of a profile, or remove the key",
        ),
        ("'${env:B}'", '"${env:B}" is neither a profile\'s name nor a ./path', "write a profile's name or a ./path"),
        (
            "work.local",
            '"work.local" is an overlay, which cannot be extended',
            "write the name of its profile",
        ),
        (
            "~/base.yaml",
            '"~/base.yaml" is a path that other machines do not have',
            "copy the file beside this one and write ./NAME.yaml, or put it among your own profiles and write its name",
        ),
        (
            "/etc/base.yaml",
            '"/etc/base.yaml" is a path that other machines do not have',
            "copy the file beside this one and write ./NAME.yaml, or put it among your own profiles and write its name",
        ),
        (".", ".: this is a directory, not a profile", "name a .yaml file in it"),
    ],
)
def test_an_entry_that_leads_nowhere_says_why_at_its_line(project: Project, entry: str, message: str, fix: str) -> None:
    project.put("base.yaml", AGENT)
    project.put("work.yaml", f"{AGENT}extends: {entry}\n")
    assert project.problems() == [f"work.yaml:3:10: extends: {message}\n    fix: {fix}"]


def test_what_is_wrong_with_an_item_points_at_the_item_and_the_others_are_followed(project: Project) -> None:
    project.put("base.yaml", AGENT + "descripton: x\n")
    project.put("work.yaml", "version: 1\nextends:\n  - base\n  - bse\nsesion: {}\n")
    assert project.problems() == [
        'work.yaml:4:5: extends: no profile named "bse" to extend; did you mean "base"?\n    fix: write base',
        'work.yaml:5:1: sesion: unknown key "sesion"; did you mean "session"?\n    fix: write session',
        'base.yaml:3:1: descripton: unknown key "descripton"; did you mean "description"?\n    fix: write description',
    ]


@pytest.mark.parametrize(
    ("texts", "place", "chain"),
    [
        ({"work.yaml": "./work.yaml"}, "work.yaml:1:10", "work.yaml → work.yaml"),
        ({"work.yaml": "a", "a.yaml": "work"}, "a.yaml:1:10", "work.yaml → a.yaml → work.yaml"),
        (
            {"work.yaml": "a", "a.yaml": "b", "b.yaml": "c", "c.yaml": "b"},
            "c.yaml:1:10",
            "work.yaml → a.yaml → b.yaml → c.yaml → b.yaml",
        ),
    ],
)
def test_a_cycle_names_its_chain(project: Project, texts: dict[str, str], place: str, chain: str) -> None:
    for name, entry in texts.items():
        project.put(name, f"extends: {entry}\n")
    assert project.problems() == [
        f"{place}: extends: this profile extends itself: {chain}\n    fix: remove one of these entries"
    ]


def test_a_cycle_through_links_is_one(project: Project) -> None:
    project.put("work.yaml", "extends: ./other.yaml\n")
    (project.holder / "other.yaml").symlink_to("work.yaml")
    assert "this profile extends itself: work.yaml → work.yaml" in project.problems()[0]


def test_a_thousand_parents_are_one_problem_and_none_is_read(project: Project) -> None:
    os.mkfifo(project.holder / "p.yaml")
    project.put("work.yaml", f"extends: [{', '.join(['./p.yaml'] * 1000)}]\n")
    assert project.problems() == [
        "work.yaml:1:10: extends: 1,000 profiles to extend; at most 63 are allowed\n    fix: merge some of them"
    ]


def test_a_thousand_parents_of_parents_are_one_problem(project: Project) -> None:
    for number in range(1000):
        project.put(f"p{number}.yaml", "{}\n" if number >= 31 else f"extends: [{entries(number)}]\n")
    project.put("work.yaml", "extends: p0\n")
    (problem,) = project.problems()
    assert problem.endswith(
        "extends: this profile extends too much: at most 64 files, 1024 KiB and 20,000 values are allowed in all\n"
        "    fix: extend fewer or smaller files"
    )


def entries(number: int) -> str:
    return ", ".join(f"p{number * 31 + index + 1}" for index in range(31))


def test_a_thousand_ways_that_lead_nowhere_are_not_all_tried(project: Project) -> None:
    for number in range(40):
        project.put(f"p{number}.yaml", f"extends: [{', '.join(f'missing{index}' for index in range(40))}]\n")
    project.put("work.yaml", f"extends: [{', '.join(f'p{number}' for number in range(40))}]\n")
    assert len(project.problems()) == 100


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b]\n"


def test_bombs_that_are_harmless_alone_are_one_problem_together(project: Project) -> None:
    """Each holds less than one file may."""
    bomb = BOMB + "d: [" + ", ".join(["*c"] * 20) + "]\n"
    for name in ("a", "b", "c", "d"):
        project.put(f"{name}.yaml", bomb)
    project.put("work.yaml", "extends: [a, b, c, d]\n")
    found = project.problems()
    assert [problem for problem in found if "too much" in problem] == [
        "work.yaml:1:20: extends: this profile extends too much: at most 64 files, 1024 KiB and 20,000 values are "
        "allowed in all\n    fix: extend fewer or smaller files"
    ]


def test_a_bomb_is_refused_in_its_own_file(project: Project) -> None:
    project.put("bomb.yaml", BOMB + "d: [" + ", ".join(["*c"] * 1000) + "]\n")
    project.put("work.yaml", f"{AGENT}extends: bomb\n")
    (problem,) = project.problems()
    assert problem.startswith("bomb.yaml:4:") and "more than 10,000 keys and values, aliases expanded" in problem


STRANGE = {
    "pipe": "this is not a regular file\n    fix: copy it into one",
    "directory": "this is a directory, not a profile\n    fix: name a .yaml file in it",
    "huge": "this file is larger than 256 KiB\n    fix: check that this is a profile",
    "loop": "no such file\n    fix: acp-launch list shows all profiles",
    "dangling": "no such file\n    fix: acp-launch list shows all profiles",
}


@pytest.mark.parametrize("kind", STRANGE)
def test_a_parent_that_is_not_a_file_is_a_problem_without_a_wait(project: Project, kind: str) -> None:
    strange(project.holder / "p.yaml", kind)
    project.put("work.yaml", f"{AGENT}extends: ./p.yaml\n")
    assert project.problems() == [f"work.yaml:3:10: extends: p.yaml: {STRANGE[kind]}"]


@pytest.mark.parametrize("kind", STRANGE)
def test_an_overlay_that_is_no_file_is_a_problem_and_is_not_passed_over(project: Project, kind: str) -> None:
    strange(project.holder / "work.local.yaml", kind)
    project.put("work.yaml", AGENT)
    assert project.problems() == [f"work.local.yaml: {STRANGE[kind]}"]


def strange(file: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "directory":
        file.mkdir()
    elif kind == "huge":
        with file.open("wb") as stream:
            stream.truncate(MAX_SIZE * 100)
    else:
        file.symlink_to(file.name if kind == "loop" else "nowhere")


def test_a_device_is_not_read(project: Project) -> None:
    user("mine.yaml", f"{AGENT}extends: ./zero.yaml\n").with_name("zero.yaml").symlink_to("/dev/zero")
    (problem,) = project.problems("mine")
    assert problem.endswith("zero.yaml: this is not a regular file\n    fix: copy it into one")


def test_a_parent_that_is_no_text_or_no_yaml_is_wrong_where_it_is(project: Project) -> None:
    (project.holder / "bytes.yaml").write_bytes(b"version: 1\nx: \xff\n")
    project.put("empty.yaml", "")
    project.put("syntax.yaml", "version: 'x\n")
    project.put("work.yaml", "extends: [bytes, empty, syntax]\n")
    assert project.problems() == [
        "bytes.yaml:2:4: the byte 0xff is not UTF-8 text\n    fix: save the file as UTF-8",
        "empty.yaml:1:1: this file is empty\n    fix: begin with: version: 1",
        "syntax.yaml:1:10: not valid YAML: this quoted text is not closed\n    fix: add the closing quote",
    ]


@pytest.mark.parametrize("climb", ["../../outside.yaml", "../../../../../../../etc/passwd", "../../p-evil/x.yaml"])
def test_no_path_leads_out_of_the_project(project: Project, climb: str) -> None:
    """The answer must not tell whether the file exists."""
    (project.root.parent / "outside.yaml").write_text(AGENT)
    project.put("work.yaml", f"{AGENT}extends: {climb}\n")
    (problem,) = project.problems()
    real = os.path.normpath(project.holder / climb)
    assert problem == (
        f"work.yaml:3:10: extends: {real} leads out of the project: {real} is not below {project.root}\n"
        "    fix: copy it into the project"
    )


@pytest.mark.parametrize("entry", ["./link.yaml", "link", "./dir/outside.yaml"])
def test_no_link_leads_out_of_the_project(project: Project, entry: str) -> None:
    outside = project.root.parent / "outside.yaml"
    outside.write_text(AGENT)
    (project.holder / "link.yaml").symlink_to(outside)
    (project.holder / "dir").symlink_to(outside.parent)
    project.put("work.yaml", f"{AGENT}extends: {entry}\n")
    (problem,) = project.problems()
    assert f"leads out of the project: {outside} is not below {project.root}\n" in problem


def test_no_overlay_of_a_project_leads_out_of_it(project: Project) -> None:
    outside = project.root.parent / "outside.yaml"
    outside.write_text("agent: {env: {A: x}}\n")
    (project.holder / "work.local.yaml").symlink_to(outside)
    project.put("work.yaml", AGENT)
    assert project.problems() == [
        f"work.local.yaml: work.local.yaml leads out of the project: {outside} is not below {project.root}\n"
        "    fix: copy it into the project"
    ]


def test_a_path_within_the_repository_is_in_the_project(project: Project) -> None:
    inner = project.root / "inner" / ".acp-launch"
    inner.mkdir(parents=True)
    (inner / "work.yaml").write_text("extends: ../../.acp-launch/base.yaml\n")
    project.put("base.yaml", AGENT)
    loaded = load(find("work", start=inner.parent, settings=settings.load()))
    assert files(loaded) == [("base.yaml", "project", "parent"), ("work.yaml", "project", "profile")]


def test_a_users_own_files_may_lead_anywhere_and_are_told_apart(project: Project) -> None:
    elsewhere = settings.load().config / "shared"
    elsewhere.mkdir(parents=True)
    (elsewhere / "base.yaml").write_text(AGENT)
    user("own.yaml", "version: 1\n")
    user("mine.yaml", "extends: [../shared/base.yaml, ./own.yaml]\n")
    loaded = project.load("mine")
    assert files(loaded) == [
        ("base.yaml", "path", "parent"),
        ("own.yaml", "user", "parent"),
        ("mine.yaml", "user", "profile"),
    ]


def test_an_overlay_extends_nothing(project: Project) -> None:
    project.put("work.yaml", AGENT)
    project.put("work.local.yaml", "extends: demo\n")
    assert project.problems() == [
        "work.local.yaml:1:1: extends: an overlay cannot extend; it is merged over the profile and all that the "
        "profile extends\n    fix: move it to the profile"
    ]


def test_an_overlay_may_be_empty_and_may_be_of_the_user(project: Project) -> None:
    project.put("work.yaml", AGENT)
    project.put("work.local.yaml", "# nothing yet\n")
    assert project.load().profile.agent.command == "cat"
    user("mine.yaml", AGENT)
    user("mine.local.yml", "description: over\n")
    assert project.load("mine").profile.description == "over"


def test_only_the_profile_that_is_asked_for_is_overlaid(project: Project) -> None:
    project.put("base.yaml", AGENT)
    project.put("base.local.yaml", "description: not for work\n")
    project.put("work.yaml", "extends: base\n")
    assert project.load().profile.description == ""


def test_neither_overlays_nor_mere_parents_are_profiles(project: Project) -> None:
    project.put("work.yaml", AGENT)
    project.put("work.local.yaml", "description: x\n")
    project.put("_base.yaml", "version: 1\n")
    found = discover(start=project.root, settings=settings.load())
    assert [each.name for each in found if each.origin == "project"] == ["work"]
    for name, profile in (("work.local", "work"), ("./work.local.yaml", "./work.yaml")):
        with pytest.raises(UsageError) as caught:
            project.find(name)
        assert caught.value.message == f'"{name}" is an overlay, not a profile'
        assert caught.value.fix == f"name the profile: {profile}"


def test_a_mere_parent_is_examined_for_what_it_says_and_not_for_what_it_leaves_out(project: Project) -> None:
    project.put("_base.yaml", "agent: {env: {A: 5}}\nmcp_servers: {a: {env: {}}}\n")
    _, problems = examine(project.find("_base"))
    assert [str(problem) for problem in problems] == [
        '_base.yaml:1:18: agent.env.A: expected text, found the number 5\n    fix: quote it: "5"'
    ]
    with pytest.raises(ProfileError, match="this key is required"):
        load(project.find("_base"))


TOKEN = "ghp_" + "a1B2" * 9


def test_a_credential_is_found_in_every_layer_even_where_another_replaces_it(project: Project) -> None:
    project.put("base.yaml", f"{AGENT}mcp_servers: {{a: {{command: x, env: {{A_TOKEN: {TOKEN}}}}}}}\n")
    project.put("work.yaml", f"# {TOKEN}\nextends: base\nmcp_servers: {{a: {{env: {{A_TOKEN: '${{secret:a}}'}}}}}}\n")
    loaded, problems = examine(project.find(), cache=project.cache)
    assert loaded
    assert [(problem.place, problem.message) for problem in problems] == [
        ("work.yaml:1:3", "this looks like a GitHub token"),
        ("base.yaml:3:46", "this looks like a GitHub token"),
    ]
    assert TOKEN not in str(problems)
    assert not [file for file in project.cache.rglob("*") if file.is_file()]


def test_no_problem_of_an_entry_shows_a_credential(project: Project) -> None:
    project.put("work.yaml", f"{AGENT}extends: [{TOKEN}, ./{TOKEN}.yaml, 'x/{TOKEN}']\n")
    assert project.problems()
    assert "a1B2a1B2" not in "".join(project.problems())


def test_a_profile_of_several_files_is_recalled_to_the_last_place(project: Project) -> None:
    project.put("base.yaml", AGENT + "description: x\nmcp_servers: {a: {command: y, env: {B: '${secret:b}'}}}\n")
    project.put("work.yaml", "extends: base\nmcp_servers: {a: {env: {C: changeme}}}\n")
    project.put("work.local.yaml", "session: {name: mine}\n")
    first, again = project.warm(), project.warm()
    assert project.is_cached()
    assert (again.profile, again.layers, again.merged) == (first.profile, first.layers, first.merged)
    for path in again.positions.table:
        assert again.positions.where(path, offset=2) == first.positions.where(path, offset=2)


def test_warnings_about_credentials_are_recalled_where_they_are(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.put("base.yaml", AGENT + "mcp_servers: {a: {command: y, env: {A_TOKEN: changeme}}}\n")
    project.put("work.yaml", "extends: base\n")
    first = examine(project.find(), cache=project.cache)[1]
    again = examine(project.find(), cache=project.cache)[1]
    assert [problem.place for problem in again] == ["base.yaml:3:46"]
    assert again == first
    monkeypatch.chdir(project.root)
    (moved,) = examine(project.find(), cache=project.cache)[1]
    assert moved.place == ".acp-launch/base.yaml:3:46"


def put_a_nearer_parent(project: Project) -> None:
    """`base` was found at the repository's root, and now it is beside the profile."""
    (project.holder / "base.yaml").rename(project.holder / "other.yaml")
    project.put("base.yml", AGENT + NEWS)


def link_elsewhere(project: Project) -> None:
    project.put("other.yaml", AGENT + NEWS)
    (project.holder / "base.yaml").unlink()
    (project.holder / "base.yaml").symlink_to("other.yaml")


NEWS = "session: {name: news}\n"
CHANGES: dict[str, Callable[[Project], object]] = {
    "parent": lambda project: project.put("base.yaml", AGENT + NEWS),
    "profile": lambda project: project.put("work.yaml", f"extends: base\n{NEWS}"),
    "new overlay": lambda project: project.put("work.local.yaml", NEWS),
    "new nearer parent": put_a_nearer_parent,
    "link": link_elsewhere,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_any_file_is_seen(project: Project, change: str) -> None:
    project.put("base.yaml", AGENT)
    project.put("work.yaml", "extends: base\n")
    project.warm()
    assert project.is_cached()
    CHANGES[change](project)
    assert project.warm().profile.session.name == "news"


def test_a_file_that_shadows_a_parent_is_seen(project: Project) -> None:
    user("base.yaml", AGENT)
    project.put("work.yaml", "extends: base\n")
    project.warm()
    assert project.is_cached()
    project.put("base.yaml", AGENT + NEWS)
    assert project.warm().profile.session.name == "news"


def test_an_overlay_that_has_gone_and_a_link_that_leads_out_are_seen(project: Project) -> None:
    project.put("base.yaml", AGENT)
    project.put("work.yaml", "extends: base\n")
    overlay = project.put("work.local.yaml", "description: over\n")
    assert project.warm().profile.description == "over"
    overlay.unlink()
    assert project.warm().profile.description == ""
    outside = project.root.parent / "outside.yaml"
    (project.holder / "base.yaml").rename(outside)
    (project.holder / "base.yaml").symlink_to(outside)
    with pytest.raises(ProfileError, match="leads out of the project"):
        project.warm()


def test_a_profile_that_was_known_needs_neither_yaml_nor_pydantic(project: Project) -> None:
    project.put("base.yaml", AGENT)
    project.put("work.yaml", "extends: base\n")
    project.warm()
    code = (
        "import sys; from pathlib import Path; from acp_launch.profile.discover import Found\n"
        "from acp_launch.profile.load import examine\n"
        "file, cache = map(Path, sys.argv[1:])\n"
        "assert examine(Found('work', file, file.parent.parent, 'project'), cache=cache)[0]\n"
        "print(sorted({'pydantic', 'ruamel.yaml', 'hashlib'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code, str(project.holder / "work.yaml"), str(project.cache)]
    assert subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout == "[]\n"
