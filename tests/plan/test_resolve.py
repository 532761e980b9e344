"""A profile and this machine become a plan, or every problem at once with its place (ours)."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from acp_launch.errors import ProfileError, UsageError
from acp_launch.plan.model import LaunchPlan, LoginPlan, RemotePlan, StdioPlan
from acp_launch.plan.resolve import Resolved, adhoc, resolve, split_command
from acp_launch.profile.discover import Found
from acp_launch.profile.load import load
from acp_launch.secret.value import Secret, SecretReference
from tests.patience import PATIENCE


class Machine:
    """A project with a `bin` on PATH, and a profile in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.typed = root / "typed"
        self.home = root / "home"
        for folder in ("bin", "typed", "home", "shared"):
            (root / folder).mkdir()
        self.agent = self.program("bin/agent")
        self.environ: dict[str, str] = {"PATH": str(root / "bin"), "TOKEN": "hunter2", "HOME": str(self.home)}

    def program(self, name: str) -> Path:
        file = self.root / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("#!/bin/sh\n")
        file.chmod(0o755)
        return file

    def resolved(self, text: str, *, cwd_override: Path | None = None, session_override: str | None = None) -> Resolved:
        file = self.root / "work.yaml"
        file.write_text("version: 1\n" + text)
        return resolve(
            load(Found("work", file, self.root, "path")),
            cwd=self.typed,
            environ=self.environ,
            cwd_override=cwd_override,
            session_override=session_override,
        )

    def plan(self, text: str) -> LaunchPlan:
        made = self.resolved(text)
        assert made.plan is not None, made.problems
        return made.plan

    def complaints(self, text: str) -> list[str]:
        made = self.resolved(text)
        assert made.plan is None
        return [str(problem).replace(f"{self.root}/", "") for problem in made.problems]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def revealed(values: Mapping[str, object]) -> dict[str, str]:
    return {name: value.reveal({}) for name, value in values.items()}  # type: ignore[attr-defined]


def test_the_smallest_profile_works_where_the_command_was_typed(machine: Machine) -> None:
    plan = machine.plan("agent: {command: agent}")
    assert plan.agent.command == machine.agent
    assert (plan.cwd, plan.agent.cwd, plan.project) == (machine.typed, machine.typed, machine.root)
    assert (plan.profile, plan.session, plan.permission, plan.servers) == ("work", None, "ask", ())
    assert revealed(plan.agent.env) == machine.environ


def test_variables_and_the_environment_are_filled_in(machine: Machine) -> None:
    """An empty variable takes the default. What came from there is shown as its reference."""
    machine.environ["EMPTY"] = ""
    line = (
        'agent: {command: "${project}/bin/agent", args: ["${cwd}", "${home}", "${profile}", "${python}", '
        '"${env:NO:-a b}", "$${x}", "${env:EMPTY:-d}", "x${env:EMPTY}"], env: {A: "x${env:TOKEN}${secret:x}"}}'
    )
    plan = machine.plan(line)
    where = [str(machine.typed), str(machine.home), "work", sys.executable]
    assert [argument.reveal({}) for argument in plan.agent.args] == [*where, "a b", "${x}", "d", "x"]
    given = plan.agent.env["A"]
    assert (given.reveal({"x": Secret("y")}), given.display()) == ("xhunter2y", "x${env:TOKEN}${secret:x}")
    column = line.index('"x$', line.index("env: {")) + 1
    assert str(given.origin) == f"{machine.root / 'work.yaml'}:2:{column}"


def test_workdir_is_the_directory_of_the_session(machine: Machine) -> None:
    text = (
        'agent: {command: agent, args: ["${workdir}"], env: {A: "${workdir}/a"}}\n'
        "permissions: {rules: [{deny: {path: '${workdir}/x'}}]}\n"
        "mcp_servers: {s: {command: agent, args: ['${workdir}'], cwd: '${workdir}'}}\n"
    )
    for override, more, directory in (
        (None, "", machine.typed),
        (None, "workspace: {cwd: shared}", machine.root / "shared"),
        (machine.home, "workspace: {cwd: shared}", machine.home),
    ):
        plan = machine.resolved(text + more, cwd_override=override).plan
        assert plan is not None
        (server,) = plan.servers
        assert isinstance(server, StdioPlan)
        assert [value.reveal({}) for value in (*plan.agent.args, *server.args)] == [str(directory)] * 2
        assert plan.agent.env["A"].reveal({}) == f"{directory}/a"
        assert (plan.cwd, server.cwd, plan.rules[0].match.path) == (directory, directory, (f"{directory}/x",))


def test_the_directory_of_the_session_is_not_named_by_itself(machine: Machine) -> None:
    file = machine.root / "work.yaml"
    file.write_text("version: 1\nagent: {command: agent}\nworkspace: {cwd: 'x/${workdir}'}\n")
    with pytest.raises(ProfileError) as wrong:
        load(Found("work", file, machine.root, "path"))
    (problem,) = wrong.value.problems
    assert (problem.line, problem.column, problem.path) == (3, 21, "workspace.cwd")
    assert (problem.message, problem.fix) == ("${workdir} is this directory itself", "write ${cwd} or ${project}")


def test_secrets_stay_references_and_are_counted_once(machine: Machine) -> None:
    plan = machine.plan(
        'agent: {command: agent, env: {A: "${secret:a}"}}\n'
        'mcp_servers: {s: {command: agent, env: {A: "${secret:a}${secret:b}"}}}\n'
    )
    assert plan.secrets == (SecretReference("a"), SecretReference("b"))


def test_a_secret_is_needed_even_where_the_profile_gives_no_plan(machine: Machine) -> None:
    """Also one beside a variable that is not set."""
    made = machine.resolved('agent: {command: nope, env: {A: "${secret:a}${env:UNSET}"}}\n')
    assert made.plan is None
    assert [problem.path for problem in made.problems] == ["agent.command", "agent.env.A"]
    assert [need.name for need in made.needs] == ["a"]


def test_all_problems_come_at_once_with_their_places(machine: Machine) -> None:
    text = (
        'agent:\n  command: gone\n  args: ["x${env:NO}"]\n  env: {A: "${env:NEITHER}"}\n'
        "workspace: {cwd: nowhere, additional_directories: [missing]}\n"
        "mcp_servers:\n  s: {command: absent}\n"
    )
    assert machine.complaints(text) == [
        'work.yaml:3:12: agent.command: "gone" is not on PATH (looked in 1 folder)\n'
        "    fix: install it, or give an absolute path; aliases and functions of a shell do not work here",
        "work.yaml:4:12: agent.args[0]: the environment variable NO is not set\n"
        "    fix: export NO=..., or write ${env:NO:-default}",
        "work.yaml:5:12: agent.env.A: the environment variable NEITHER is not set\n"
        "    fix: export NEITHER=..., or write ${env:NEITHER:-default}",
        'work.yaml:6:18: workspace.cwd: the directory "nowhere" does not exist\n    fix: mkdir -p nowhere',
        'work.yaml:6:52: workspace.additional_directories[0]: the directory "missing" does not exist\n'
        "    fix: mkdir -p missing",
        'work.yaml:8:16: mcp_servers.s.command: "absent" is not on PATH (looked in 1 folder)\n'
        "    fix: install it, or give an absolute path; aliases and functions of a shell do not work here",
    ]


def test_the_agent_is_found_on_the_path_its_profile_gives_it(machine: Machine) -> None:
    other = machine.program("other/agent")
    plan = machine.plan('agent: {command: agent, env: {PATH: "${project}/other:${env:PATH}"}}')
    assert plan.agent.command == other


def stdio(plan: LaunchPlan) -> dict[str, StdioPlan]:
    return {server.name: server for server in plan.servers if isinstance(server, StdioPlan)}


def test_a_server_is_found_on_the_path_it_will_have(machine: Machine) -> None:
    """We start it: what the agent's profile says of PATH is the agent's own business."""
    mine, ours = machine.program("mine/tool"), machine.program("bin/tool")
    machine.program("theirs/tool")
    plan = machine.plan(
        'agent: {command: bin/agent, env: {PATH: "${project}/theirs"}}\n'
        'mcp_servers:\n  a: {command: tool, env: {PATH: "${project}/mine"}}\n  b: {command: tool, args: [x]}\n'
    )
    assert {name: server.command for name, server in stdio(plan).items()} == {"a": mine, "b": ours}
    text = "agent: {command: agent}\nmcp_servers: {s: {command: tool, inherit_env: [TOKEN]}}"
    assert machine.complaints(text)[0].startswith('work.yaml:3:28: mcp_servers.s.command: "tool" is not on PATH')


def test_a_server_of_the_agents_is_found_on_its_own_path_and_else_on_the_agents(machine: Machine) -> None:
    mine, theirs = machine.program("mine/tool"), machine.program("theirs/tool")
    plan = machine.plan(
        'agent: {command: bin/agent, env: {PATH: "${project}/theirs"}}\n'
        'mcp_servers:\n  a: {command: tool, bridge: false, env: {PATH: "${project}/mine"}}\n'
        "  b: {command: tool, bridge: false, args: [x]}\n"
    )
    assert [(server.command, list(server.env), server.bridge) for server in stdio(plan).values()] == [
        (mine, ["PATH"], False),
        (theirs, [], False),
    ]


def test_a_server_has_its_whole_environment_minimal_unless_it_says_more(machine: Machine) -> None:
    machine.environ |= {"LANG": "C", "ACP_LAUNCH_SECRET_X": "s", "AWS_PROFILE": "p"}
    del machine.environ["HOME"]
    plan = machine.plan(
        "agent: {command: agent, env: {OPENAI_API_KEY: k}}\nmcp_servers:\n"
        '  a: {command: agent, env: {LANG: "${env:TOKEN}"}}\n'
        "  b: {command: agent, inherit_env: all}\n  c: {command: agent, inherit_env: [PATH, AWS_*, ACP_*]}\n"
    )
    servers = stdio(plan)
    path = machine.environ["PATH"]
    assert revealed(servers["a"].env) == {"PATH": path, "LANG": "hunter2"}
    assert revealed(servers["b"].env) == {"PATH": path, "LANG": "C", "TOKEN": "hunter2", "AWS_PROFILE": "p"}
    assert revealed(servers["c"].env) == {"PATH": path, "AWS_PROFILE": "p"}
    assert [str(value.origin).rpartition("/")[2] for value in servers["a"].env.values()] == [
        "inherited",
        "work.yaml:4:35",
    ]


def test_a_server_works_where_the_session_does_unless_it_says_where(machine: Machine) -> None:
    plan = machine.plan(
        'agent: {command: agent}\nworkspace: {cwd: "${project}/shared"}\n'
        'mcp_servers: {a: {command: agent}, b: {command: agent, cwd: typed}, c: {command: agent, cwd: "${home}"}}\n'
    )
    assert [server.cwd for server in stdio(plan).values()] == [machine.root / "shared", machine.typed, machine.home]


def test_the_directory_of_a_server_must_be_there(machine: Machine) -> None:
    text = "agent: {command: agent}\nmcp_servers:\n  s: {command: agent, cwd: gone}\n  t: {command: no, cwd: work.yaml}"
    assert machine.complaints(text) == [
        'work.yaml:4:28: mcp_servers.s.cwd: the directory "gone" does not exist\n    fix: mkdir -p gone',
        'work.yaml:5:16: mcp_servers.t.command: "no" is not on PATH (looked in 1 folder)\n'
        "    fix: install it, or give an absolute path; aliases and functions of a shell do not work here",
        'work.yaml:5:25: mcp_servers.t.cwd: "work.yaml" is not a directory\n    fix: name a directory',
    ]


def test_a_server_that_is_not_required_may_be_missing_on_this_machine(machine: Machine) -> None:
    """Then its secrets are not needed either."""
    made = machine.resolved(
        "agent: {command: agent}\nmcp_servers:\n"
        '  a: {command: gone, required: false, env: {X: "${secret:a}"}}\n'
        '  b: {command: agent, cwd: nowhere, required: false, env: {X: "${secret:b}"}}\n'
        '  c: {command: agent, required: false, env: {X: "${secret:c}"}}\n'
    )
    assert made.plan is not None
    assert [(server.name, server.required) for server in stdio(made.plan).values()] == [("c", False)]
    assert made.draft is not None and "a" in stdio(made.draft)
    assert [need.name for need in made.needs] == ["c"]
    assert [
        (problem.path, problem.severity, problem.message.replace(f"{machine.root}/", "")) for problem in made.problems
    ] == [
        (
            "mcp_servers.a.command",
            "warning",
            '"gone" is not on PATH (looked in 1 folder); the session opens without this server',
        ),
        (
            "mcp_servers.b.cwd",
            "warning",
            'the directory "nowhere" does not exist; the session opens without this server',
        ),
    ]


def test_a_draft_has_every_program_that_is_not_installed(machine: Machine) -> None:
    made = machine.resolved(
        "agent: {command: ghost, args: [--acp]}\nmcp_servers:\n"
        "  a: {command: gone}\n  b: {command: absent, required: false}\n  c: {command: agent}\n"
    )
    assert made.plan is None and made.draft is not None
    assert (str(made.draft.agent.command), [arg.display() for arg in made.draft.agent.args]) == ("ghost", ["--acp"])
    assert made.draft.agent.missing == '"ghost" is not on PATH (looked in 1 folder)'
    assert [(server.name, str(server.command), bool(server.missing)) for server in stdio(made.draft).values()] == [
        ("a", "gone", True),
        ("b", "absent", True),
        ("c", str(machine.agent), False),
    ]
    assert {path for path in made.found if path[-1] == "command"} == {("mcp_servers", "c", "command")}


def test_there_is_no_draft_if_something_else_is_wrong(machine: Machine) -> None:
    for also in ("workspace: {cwd: nowhere}", 'mcp_servers: {a: {command: agent, env: {X: "${env:NOT_SET}"}}}'):
        made = machine.resolved(f"agent: {{command: ghost}}\n{also}\n")
        assert (made.plan, made.draft) == (None, None)


def test_what_a_server_inherits_is_no_value_of_the_profile(machine: Machine) -> None:
    plan = machine.plan(
        "agent: {command: bin/agent, inherit_env: []}\nmcp_servers: {s: {command: agent, env: {A: b}, args: [c]}}"
    )
    assert [value.display() for value in plan.values] == ["c", "b"]


def test_a_remote_server_keeps_its_type_address_and_headers(machine: Machine) -> None:
    machine.environ["HOST"] = "docs.example.com"
    plan = machine.plan(
        "agent: {command: agent}\nmcp_servers:\n"
        '  s: {type: sse, url: "https://${env:HOST}/sse", headers: {A: "Bearer ${secret:t}"}}\n'
    )
    (server,) = plan.servers
    assert isinstance(server, RemotePlan)
    assert (server.type, server.url.reveal({})) == ("sse", "https://docs.example.com/sse")
    assert server.headers["A"].reveal({"t": Secret("v")}) == "Bearer v"


@pytest.mark.parametrize(
    ("value", "server", "complaint"),
    [
        (
            "hunter2",
            'url: "${env:TOKEN}"',
            "36: mcp_servers.s.url: ${env:TOKEN} is not an http or https url\n"
            "    fix: write an address that begins with https:// or http://",
        ),
        (
            "a\nb",
            'url: https://x, headers: {A: "${env:TOKEN}"}',
            "60: mcp_servers.s.headers.A: a header cannot hold the character U+000A\n"
            "    fix: write it on one line, in ASCII",
        ),
        (
            "http://docs.example/mcp",
            'url: "${env:TOKEN}", oauth: true',
            "36: mcp_servers.s.url: the tokens of the login would be sent unencrypted: the url is http, and its host "
            "is not this machine\n    fix: write https://, or reach it through a tunnel on localhost",
        ),
        ("http://127.0.0.1:8080/mcp", 'url: "${env:TOKEN}", oauth: true', ""),
    ],
    ids=["no address", "a newline", "unencrypted", "this machine"],
)
def test_what_comes_from_the_environment_is_checked_and_not_repeated(
    machine: Machine, value: str, server: str, complaint: str
) -> None:
    machine.environ["TOKEN"] = value
    made = machine.resolved(f"agent: {{command: agent}}\nmcp_servers: {{s: {{type: http, {server}}}}}")
    wanted = [f"{machine.root}/work.yaml:3:{complaint}"] if complaint else []
    assert [str(problem) for problem in made.problems] == wanted


def test_directories_are_relative_to_the_project_and_duplicates_are_dropped(machine: Machine) -> None:
    """C-42: duplicates and those equal to cwd are removed, links resolved."""
    (machine.root / "link").symlink_to(machine.root / "shared")
    plan = machine.plan(
        'agent: {command: agent}\nworkspace: {cwd: "${project}", additional_directories: '
        '[shared, ./shared/, link, "${project}", "${cwd}"]}'
    )
    assert plan.cwd == machine.root
    assert plan.additional_directories == (machine.root / "shared", machine.typed)


def test_the_cwd_option_wins_and_is_relative_to_where_it_was_typed(machine: Machine) -> None:
    (machine.typed / "sub").mkdir()
    text = "agent: {command: agent}\nworkspace: {cwd: nowhere}"
    made = machine.resolved(text, cwd_override=Path("sub"))
    assert made.plan is not None and made.plan.cwd == machine.typed / "sub"
    bad = machine.resolved(text, cwd_override=Path("no"))
    assert [str(problem) for problem in bad.problems] == [
        f'--cwd: the directory "{machine.typed / "no"}" does not exist\n    fix: mkdir -p {machine.typed / "no"}'
    ]


def test_the_session_option_wins_and_keeps_to_the_same_rule(machine: Machine) -> None:
    text = "agent: {command: agent}\nsession: {name: default}"
    assert machine.plan(text).session == "default"
    made = machine.resolved(text, session_override="fix-42")
    assert made.plan is not None and made.plan.session == "fix-42"
    assert [str(problem) for problem in machine.resolved(text, session_override="a\nb").problems] == [
        "--session: the session's name holds characters that cannot be printed\n"
        "    fix: choose a printable name of 1 to 200 characters that begins with no dash"
    ]


LOGIN = """\
agent: {command: agent}
mcp_servers:
  docs:
    type: http
    url: ${env:DOCS}
    oauth: {client_id: "${env:ID:-ours}", client_secret: "${secret:docs}", scopes: read, callback_port: 8976}
  wiki: {type: sse, url: "https://wiki.example/sse", oauth: true}
  open: {type: http, url: "https://open.example/mcp"}
"""


def test_a_login_is_planned_with_its_client_and_its_secret_is_one_of_the_launch(machine: Machine) -> None:
    machine.environ["DOCS"] = "https://docs.example/mcp"
    plan = machine.plan(LOGIN)
    docs, wiki, opened = (server for server in plan.servers if isinstance(server, RemotePlan))
    assert docs.oauth is not None and docs.oauth.client_secret is not None
    assert (docs.oauth.client_id, docs.oauth.scopes, docs.oauth.callback_port) == ("ours", ("read",), 8976)
    assert docs.oauth.client_secret.concealed({"docs": Secret("s3cret")}) == Secret("s3cret")
    assert (wiki.oauth, opened.oauth) == (LoginPlan(), None)
    assert plan.secrets == (SecretReference("docs"),)


def test_a_command_line_becomes_a_plan_without_any_profile(machine: Machine) -> None:
    made = adhoc("agent --flag 'a b' ''", cwd=machine.typed, environ={**machine.environ, "ACP_LAUNCH_SECRET_X": "s"})
    plan = made.plan
    assert plan is not None and made.problems == ()
    assert (plan.file, plan.cwd) == (None, machine.typed)
    assert plan.agent.command == machine.agent
    assert [argument.reveal({}) for argument in plan.agent.args] == ["--flag", "a b", ""]
    assert {str(argument.origin) for argument in plan.agent.args} == {"--agent"}
    assert set(plan.agent.env) == {"HOME", "PATH", "TOKEN"}


def test_sessions_of_a_command_line_are_told_apart_without_keeping_its_arguments(machine: Machine) -> None:
    """An argument may be a secret, and the session store is a file."""

    def name(line: str) -> str:
        plan = adhoc(line, cwd=machine.typed, environ=machine.environ).plan
        assert plan is not None
        return plan.profile

    assert name("agent --token hunter2").startswith("--agent agent #")
    assert "hunter2" not in name("agent --token hunter2")
    assert name("agent a") == name("agent a") != name("agent b")


def test_the_options_beside_a_command_line_are_checked_all_at_once(machine: Machine) -> None:
    made = adhoc("gemini --acp", cwd=machine.typed, environ=machine.environ, cwd_override=Path("gone"))
    assert made.plan is None
    agent, cwd = made.problems
    assert (str(agent), cwd.file) == (
        '--agent: "gemini" is not on PATH (looked in 1 folder)\n'
        "    fix: npm install -g @google/gemini-cli (needs Node.js >=20), or give an absolute path",
        "--cwd",
    )


@pytest.mark.parametrize(
    ("line", "message", "fix"),
    [
        ("'x", "--agent: no closing quotation in 'x", "correct the quoting"),
        ("x \\", "--agent: no escaped character in x \\", "correct the quoting"),
        ("", "--agent: the command is empty", "give a program: --agent 'claude-agent-acp'"),
        (" ", "--agent: the command is empty", "give a program: --agent 'claude-agent-acp'"),
        ("'' x", "--agent: the command is empty", "give a program: --agent 'claude-agent-acp'"),
    ],
)
def test_a_command_line_that_is_none_is_a_usage_error(line: str, message: str, fix: str, machine: Machine) -> None:
    with pytest.raises(UsageError) as caught:
        adhoc(line, cwd=machine.typed, environ=machine.environ)
    assert (caught.value.message, caught.value.fix) == (message, fix)
    with pytest.raises(UsageError):
        split_command(line)


def test_resolving_imports_neither_yaml_nor_pydantic() -> None:
    """`run --agent` and a cached profile must not pay for them."""
    code = (
        "import os, shlex, sys\nfrom pathlib import Path\nfrom acp_launch.plan.resolve import adhoc\n"
        "made = adhoc(shlex.quote(sys.executable), cwd=Path.cwd(), environ=dict(os.environ))\n"
        "assert made.plan, made.problems\n"
        "print(sorted({'pydantic', 'ruamel.yaml', 'asyncio', 'typer'} & set(sys.modules)))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert answer.stdout == "[]\n"
