"""Ring 1. What `plan` says of the servers we would start (ours)."""

import json
import sys
from pathlib import Path

from acp_launch.console.plans import as_text, described
from acp_launch.plan.resolve import resolve
from acp_launch.profile.discover import Found
from acp_launch.profile.load import load

PROFILE = """\
version: 1
agent: {command: "${python}", inherit_env: []}
mcp_servers:
  plain: {command: "${python}", env: {TOKEN: "${secret:t}"}}
  tuned:
    command: ${python}
    cwd: sub
    inherit_env: [LANG]
    required: false
    restart: {policy: always, max: 3, backoff: {initial: 1s, max: 1m, factor: 1.5}, min_uptime: 1h}
    timeouts: {start: 2m, call: 500ms}
    tools: {allow: ["get_*", search], deny: [get_secret]}
    roots: session
  once: {command: "${python}", restart: {max: 0}, tools: {allow: []}}
  theirs: {command: "${python}", bridge: false, env: {A: b}}
"""


def planned(root: Path, *, verbose: bool = False) -> tuple[list[str], dict[str, object]]:
    (root / "sub").mkdir()
    (root / "p.yaml").write_text(PROFILE)
    environ = {"PATH": "/bin", "LANG": "hunter2", "NPM_TOKEN": "hunter2"}
    made = resolve(load(Found("p", root / "p.yaml", root, "path")), cwd=root, environ=environ)
    assert made.plan is not None and not made.problems
    text = as_text(made.plan, verbose=verbose).replace(f"{root}/", "").replace(sys.executable, "python")
    return text.split("agent\n", 1)[1].splitlines(), described(made.plan)


def test_a_plan_says_how_each_server_is_kept_alive_and_what_it_may_do(tmp_path: Path) -> None:
    assert planned(tmp_path)[0] == [
        "  command    python",
        "mcp server plain (stdio)",
        "  command    python",
        "  variables  TOKEN  p.yaml:4:46, ${secret:t}",
        "             2 inherited",
        "  restart    on-failure, 5 in a row, after 200ms to 10s (x2); counted anew after 10s",
        "  timeouts   start 30s, call none",
        "mcp server tuned (stdio, not required)",
        "  command    python",
        "  variables  1 inherited",
        "  directory  sub",
        "  restart    always, 3 in a row, after 1s to 1m (x1.5); counted anew after 1h",
        "  timeouts   start 2m, call 500ms",
        "  tools      allow get_*, search; deny get_secret",
        "  roots      the session's directories, whatever the agent declares",
        "mcp server once (stdio)",
        "  command    python",
        "  variables  2 inherited",
        "  restart    never",
        "  timeouts   start 30s, call none",
        "  tools      allow none",
        "mcp server theirs (stdio)",
        "  command    python",
        "  variables  A  p.yaml:15:58",
        "  bridge     none: the agent starts it, secrets and all",
    ]


def test_the_names_of_what_a_server_inherits_are_shown_on_demand_and_no_value_ever(tmp_path: Path) -> None:
    lines, data = planned(tmp_path, verbose=True)
    assert lines[3:6] == [
        "  variables  LANG  inherited",
        "             PATH  inherited",
        "             TOKEN  p.yaml:4:46, ${secret:t}",
    ]
    assert "hunter2" not in "\n".join(lines) + json.dumps(data)


def test_a_plan_as_data_holds_the_same(tmp_path: Path) -> None:
    servers = json.loads(json.dumps(planned(tmp_path)[1]["mcp_servers"]))
    for server in servers:
        server["env"] = sorted(server["env"])
    command = {"type": "stdio", "command": sys.executable, "args": []}
    assert servers[1] == {
        "name": "tuned",
        **command,
        "env": ["LANG"],
        "cwd": str(tmp_path / "sub"),
        "required": False,
        "bridge": True,
        "restart": {
            "policy": "always",
            "max": 3,
            "backoff": {"initial": 1.0, "max": 60.0, "factor": 1.5},
            "min_uptime": 3600.0,
        },
        "timeouts": {"start": 120.0, "call": 0.5},
        "tools": {"allow": ["get_*", "search"], "deny": ["get_secret"]},
        "roots": "session",
    }
    assert servers[3] == {"name": "theirs", **command, "env": ["A"], "required": True, "bridge": False}


CONVERSATION = """\
version: 1
agent: {command: "${python}", inherit_env: []}
session: {mode: plan, config: {model: opus, fast: true}}
permissions:
  default: deny
  rules:
    - allow: {kind: [read, search], path: src/}
    - ask: {command: "${env:TOOL} *"}
client: {fs: read, terminal: true}
"""


def test_a_plan_shows_what_the_session_is_put_into_and_what_the_agent_may_do(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(CONVERSATION)
    environ = {"TOOL": "git"}
    made = resolve(load(Found("p", tmp_path / "p.yaml", tmp_path, "path")), cwd=tmp_path, environ=environ)
    assert made.plan is not None
    lines = as_text(made.plan).replace(str(tmp_path), "/project").splitlines()
    first = lines.index("session      (a new one)") + 1
    assert lines[first : lines.index("agent") - 1] == [
        "mode         plan",
        "config       model: opus",
        "             fast: true",
        "permissions  deny",
        "  allow      kind read, search; path /project/src/**  /project/p.yaml:7:7",
        "  ask        command git *  /project/p.yaml:8:7",
        "client       reads files, runs commands for the agent",
    ]
    data = json.loads(json.dumps(described(made.plan)).replace(str(tmp_path), "/project"))
    assert {key: data[key] for key in ("mode", "config", "permissions", "client")} == {
        "mode": "plan",
        "config": {"model": "opus", "fast": True},
        "permissions": {
            "default": "deny",
            "rules": [
                {
                    "answer": "allow",
                    "match": {"kind": ["read", "search"], "path": ["/project/src/**"]},
                    "origin": "/project/p.yaml:7:7",
                },
                {"answer": "ask", "match": {"command": ["git *"]}, "origin": "/project/p.yaml:8:7"},
            ],
        },
        "client": {"fs": "read", "terminal": True},
    }
