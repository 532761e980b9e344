"""Ring 1. What `plan` says of the servers we would start (ours)."""

import json
import re
import sys
from pathlib import Path
from typing import Any

from acp_launch.console.plans import as_text, plan_json
from acp_launch.plan.model import LaunchPlan
from acp_launch.plan.resolve import resolve
from acp_launch.profile.discover import Found, Origin
from acp_launch.profile.load import load

PROFILE = """\
version: 1
agent: {command: "${python}", inherit_env: []}
mcp_servers:
  plain: {command: "${python}", env: {TOKEN: "${secret:t}"}}
  tuned:
    command: ${python}
    cwd: sub
    data: [sub/x.db]
    inherit_env: [LANG]
    required: false
    restart: {policy: always, max: 3, backoff: {initial: 1s, max: 1m, factor: 1.5}, min_uptime: 1h}
    timeouts: {start: 2m, call: 500ms}
    tools: {allow: ["get_*", search], deny: [get_secret]}
    roots: session
    protocol: 2025-06-18
    start: lazy
    idle: 10m
    share: true
  once: {command: "${python}", restart: {max: 0}, tools: {allow: []}}
  theirs: {command: "${python}", bridge: false, env: {A: b}}
"""


def plan_of(root: Path, text: str, origin: Origin = "path", cwd_override: Path | None = None, **env: str) -> LaunchPlan:
    (root / "p.yaml").write_text(text)
    loaded = load(Found("p", root / "p.yaml", root, origin))
    made = resolve(loaded, cwd=root, environ=env, cwd_override=cwd_override)
    assert made.plan is not None and not made.problems
    return made.plan


def served(root: Path, text: str) -> str:
    """What a plan says from its first server, without the names of this machine."""
    return text.replace(f"{root}/", "").replace(sys.executable, "python").replace(str(root), "ROOT").split("agent\n")[1]


def test_a_plan_says_how_each_server_is_kept_alive_and_what_it_may_do(tmp_path: Path) -> None:
    """No value is shown, and the names of what is inherited on demand."""
    (tmp_path / "sub").mkdir()
    plan = plan_of(tmp_path, PROFILE, PATH="/bin", LANG="hunter2", NPM_TOKEN="hunter2")
    assert served(tmp_path, as_text(plan)).splitlines() == [
        "  command    python  p.yaml:2:18",
        "mcp server plain (stdio)",
        "  command    python  p.yaml:4:20",
        "  variables  TOKEN  p.yaml:4:46, ${secret:t}",
        "             2 inherited",
        "  directory  ROOT  (the session's)",
        "  restart    on-failure, 5 in a row, after 200ms to 10s (x2); the count resets after 10s",
        "  timeouts   start 30s, download 10m, call none",
        "mcp server tuned (stdio, not required)  p.yaml:10:15",
        "  command    python  p.yaml:6:14",
        "  variables  1 inherited  p.yaml:9:18",
        "  directory  sub  p.yaml:7:10",
        "  data       sub/x.db: it runs nothing from there  p.yaml:8:11",
        "  restart    always, 3 in a row, after 1s to 1m (x1.5); the count resets after 1h  p.yaml:11",
        "  timeouts   start 2m, download 10m, call 500ms  p.yaml:12",
        "  lazy       started at its first use  p.yaml:16:12",
        "  idle       stopped after 10m without use, until its next use  p.yaml:17:11",
        "  shared     one process for all sessions of the agent  p.yaml:18:12",
        "  tools      allow get_*, search; deny get_secret  p.yaml:13",
        "  roots      the session's directories, whatever the agent declares  p.yaml:14:12",
        "  protocol   2025-06-18  p.yaml:15:15",
        "mcp server once (stdio)",
        "  command    python  p.yaml:19:19",
        "  variables  2 inherited",
        "  directory  ROOT  (the session's)",
        "  restart    never  p.yaml:19:47",
        "  timeouts   start 30s, download 10m, call none",
        "  tools      allow none  p.yaml:19:66",
        "mcp server theirs (stdio)",
        "  command    python  p.yaml:20:21",
        "  variables  A  p.yaml:20:58",
        "  directory  ROOT  (the session's)",
        "  bridge     none: the agent starts this server and gets its secrets  p.yaml:20:42",
    ]
    verbose = as_text(plan, verbose=True)
    assert served(tmp_path, verbose).splitlines()[3:6] == [
        "  variables  LANG  inherited",
        "             PATH  inherited",
        "             TOKEN  p.yaml:4:46, ${secret:t}",
    ]
    data = plan_json(plan)
    servers = json.loads(json.dumps(data["mcp_servers"]))
    assert "hunter2" not in verbose + json.dumps(data)
    for server in servers:
        server["env"] = sorted(server["env"])
    command: dict[str, Any] = {"type": "stdio", "command": sys.executable, "missing": None, "args": []}
    assert servers[1] == {
        "name": "tuned",
        **command,
        "env": ["LANG"],
        "cwd": str(tmp_path / "sub"),
        "cwd_from": "profile",
        "data": [str(tmp_path / "sub" / "x.db")],
        "required": False,
        "bridge": True,
        "protocol": "2025-06-18",
        "restart": {
            "policy": "always",
            "max": 3,
            "backoff": {"initial": 1.0, "max": 60.0, "factor": 1.5},
            "min_uptime": 3600.0,
        },
        "timeouts": {"start": 120.0, "download": 600.0, "call": 0.5},
        "tools": {"allow": ["get_*", "search"], "deny": ["get_secret"]},
        "roots": "session",
        "session_elevation": "off",
        "start": "lazy",
        "idle": 600.0,
        "share": True,
    }
    here = {"cwd": str(tmp_path), "cwd_from": "session"}
    assert servers[3] == {"name": "theirs", **command, "env": ["A"], **here, "required": True, "bridge": False}


def test_a_plan_says_which_servers_have_a_directory_of_their_own(tmp_path: Path) -> None:
    """Those of a profile of the user's own that says nothing else; and what keeps the others from the project."""
    module = '{command: "${python}", args: [-m, x], inherit_env: []'
    text = f"""version: 1
agent: {module}}}
mcp_servers:
  apart: {module}}}
  within: {module}, cwd: "${{project}}"}}
"""
    plan = plan_of(tmp_path, text, "user")
    lines = as_text(plan).replace(str(tmp_path), "/project").splitlines()
    first = lines.index("agent")
    kept = [line for line in lines[first:] if line.split()[0] in ("agent", "mcp", "variables", "directory")]
    assert kept == [
        "agent",
        "  variables  PYTHONSAFEPATH  acp-launch",
        "mcp server apart (stdio)",
        "  directory  (a private, empty one; set cwd to choose another)",
        "mcp server within (stdio)",
        "  variables  PYTHONSAFEPATH  acp-launch",
        "  directory  /project  /project/p.yaml:5:71",
    ]
    apart, within = plan_json(plan)["mcp_servers"]
    assert (apart["cwd"], apart["cwd_from"]) == (None, "private")
    assert (within["cwd"], within["cwd_from"]) == (str(tmp_path), "profile")


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
    plan = plan_of(tmp_path, CONVERSATION, TOOL="git")
    lines = as_text(plan).replace(str(tmp_path), "/project").splitlines()
    first = lines.index("session      (a new one)") + 1
    assert lines[first : lines.index("agent") - 1] == [
        "mode         plan  /project/p.yaml:3:17",
        "config       model: opus  /project/p.yaml:3:39",
        "             fast: true  /project/p.yaml:3:51",
        "permissions  deny  /project/p.yaml:5:12",
        "  allow      kind read, search; path /project/src/**  /project/p.yaml:7:7",
        "  ask        command git *  /project/p.yaml:8:7",
        "client       reads files, runs commands for the agent  /project/p.yaml:9",
    ]
    data = json.loads(json.dumps(plan_json(plan)).replace(str(tmp_path), "/project"))
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
            "unattended": "wait 30m",
        },
        "client": {"fs": "read", "terminal": True},
    }


BASE = """\
version: 1
description: base
agent:
  command: ${python}
  args: [-c, pass]
  env:
    A: a
    B: b
  inherit_env: minimal
  timeouts:
    initialize: 1s
    session: 2s
    silence: 3s
workspace:
  cwd: .
  additional_directories: [sub]
permissions:
  default: deny
"""
MIDDLE = """\
extends: base
mcp_servers:
  local:
    command: ${python}
    required: true
    cwd: sub
    inherit_env: all
    restart:
      max: 3
    timeouts:
      call: 9s
    tools:
      allow: [a]
    roots: session
  remote:
    type: http
    url: https://example.org
    headers:
      X-A: a
  theirs:
    command: ${python}
    bridge: false
"""
TOP = """\
extends: middle
description: top
agent:
  env:
    B: c
session:
  name: work
  mode: code
  config:
    model: opus
client:
  fs: true
  terminal: true
mcp_servers:
  local:
    restart:
      policy: always
    tools:
      deny: [b]
"""
HIDDEN = {"description": 2, "agent.env.B": 8}  # in the base, and written again above


def test_every_value_of_every_layer_has_its_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / ".acp-launch").mkdir()
    texts = {"base": BASE, "middle": MIDDLE, "top": TOP}
    for name, text in texts.items():
        (tmp_path / ".acp-launch" / f"{name}.yaml").write_text(text)
    file = tmp_path / ".acp-launch" / "top.yaml"
    made = resolve(load(Found("top", file, tmp_path, "project")), cwd=tmp_path, environ={"PATH": "/bin"})
    assert made.plan is not None
    written = {
        f"{tmp_path}/.acp-launch/{name}.yaml:{number}"
        for name, text in texts.items()
        for number, line in enumerate(text.splitlines(), 1)
        if not line.endswith(":") and not line.startswith("extends")
    }
    written -= {f"{tmp_path}/.acp-launch/base.yaml:{number}" for number in HIDDEN.values()}
    origins = plan_json(made.plan)["origins"]
    assert {origin.rpartition(":")[0] for origin in origins.values()} == written
    assert origins["agent.env.B"] == f"{tmp_path}/.acp-launch/top.yaml:5:8"
    assert origins["mcp_servers.local.restart.max"] == f"{tmp_path}/.acp-launch/middle.yaml:9:12"

    shown = set()
    for match in re.finditer(r"(\S+\.yaml):(\d+)((?:,\d+)*)", as_text(made.plan)):
        shown |= {f"{match[1]}:{number}" for number in (match[2], *match[3].split(",")[1:])}
    assert shown == written - {f"{tmp_path}/.acp-launch/base.yaml:1"}  # the version of the format


def test_a_directory_given_for_once_is_not_the_files(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    text = 'version: 1\nagent: {command: "${python}"}\nworkspace: {cwd: .}\n'
    plan = plan_of(tmp_path, text, cwd_override=Path("sub"))
    assert f"directory    {tmp_path / 'sub'}  --cwd" in as_text(plan).splitlines()
    assert "workspace.cwd" not in plan_json(plan)["origins"]


REMOTE = """\
version: 1
agent: {command: "${python}", inherit_env: []}
mcp_servers:
  docs: {type: http, url: "https://docs.example.com/mcp", headers: {Authorization: "Bearer ${secret:d}"}}
  tuned:
    type: sse
    url: http://10.0.0.1/sse
    env: {REGION: eu, KEY: "${secret:k}"}
    insecure: true
    required: false
    restart: {max: 3}
    timeouts: {start: 5s, call: 1m}
    tools: {deny: [drop_*]}
    protocol: legacy
  theirs: {type: http, url: "https://x/mcp", headers: {A: b}, bridge: false}
"""


def test_a_plan_says_the_same_of_remote_servers_and_what_the_agent_is_given(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, REMOTE)
    text = as_text(plan).replace(f"{tmp_path}/", "")
    assert text.split("mcp server ", 1)[1].splitlines() == [
        "docs (http)  p.yaml:4:16",
        "  url        https://docs.example.com/mcp  p.yaml:4:27",
        "  headers    Authorization  p.yaml:4:84, ${secret:d}",
        "  restart    on-failure, no limit once it has answered, after 200ms to 30s (x2); the count resets after 10s",
        "  timeouts   start 30s, call none",
        "mcp server tuned (sse, not required)  p.yaml:6,10",
        "  url        http://10.0.0.1/sse  p.yaml:7:10",
        "  variables  KEY  p.yaml:8:28, ${secret:k}",
        "             REGION  p.yaml:8:19",
        "  insecure   headers and variables may be sent unencrypted  p.yaml:9:15",
        "  restart    on-failure, 3 in a row, after 200ms to 30s (x2); the count resets after 10s  p.yaml:11:20",
        "  timeouts   start 5s, call 1m  p.yaml:12",
        "  tools      allow *; deny drop_*  p.yaml:13:19",
        "  protocol   legacy  p.yaml:14:15",
        "mcp server theirs (http)  p.yaml:15:18",
        "  url        https://x/mcp  p.yaml:15:29",
        "  headers    A  p.yaml:15:59",
        "  bridge     none: the agent connects to this server and gets its address, headers and secrets  p.yaml:15:71",
    ]
    data = json.loads(json.dumps(plan_json(plan)))
    docs, tuned, theirs = data["mcp_servers"]
    assert (tuned["env"]["KEY"]["secrets"], data["secrets"]) == (["k"], ["d", "k"])
    assert docs["restart"] == {
        "policy": "on-failure",
        "max": None,
        "backoff": {"initial": 0.2, "max": 30.0, "factor": 2},
        "min_uptime": 10.0,
    }
    assert (tuned["timeouts"], tuned["insecure"], tuned["protocol"]) == ({"start": 5.0, "call": 60.0}, True, "legacy")
    assert (theirs["bridge"], "restart" in theirs) == (False, False)


LOGINS = """\
version: 1
agent: {command: "${python}", inherit_env: []}
mcp_servers:
  docs:
    type: http
    url: https://docs.example/mcp
    oauth:
      {client_id: ours, client_secret: "${secret:docs}", scopes: [read, write], callback_port: 8976,
       issuer: https://login.example/}
  wiki: {type: sse, url: "https://wiki.example/sse", oauth: true}
"""


def test_a_plan_names_the_servers_that_ask_for_a_login_and_the_scopes(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, LOGINS)
    lines = [line for line in as_text(plan).replace(f"{tmp_path}/", "").splitlines() if "login" in line]
    assert lines == [
        "  login      OAuth at https://login.example, for the scopes read, write, as the client ours with "
        "${secret:docs}, answered at port 8976  p.yaml:8,9",
        "  login      OAuth, for the scopes that the server names  p.yaml:10:61",
    ]
    docs, wiki = json.loads(json.dumps(plan_json(plan)))["mcp_servers"]
    assert docs["oauth"] == {
        "scopes": ["read", "write"],
        "client_id": "ours",
        "client_secret": {"origin": f"{tmp_path}/p.yaml:8:40", "secrets": ["docs"]},
        "issuer": "https://login.example",
        "client_metadata_url": None,
        "callback": "127.0.0.1",
        "callback_port": 8976,
        "resource": True,
    }
    usual = {"scopes": [], "callback": "127.0.0.1", "resource": True}
    assert wiki["oauth"] == {**dict.fromkeys(docs["oauth"]), **usual}


SHARED = """\
version: 1
agent: {command: "${python}"}
mcp_servers:
  here: {command: "${python}", share: user}
  apart: {command: "${python}", share: user, cwd: "${project}", idle: 5m, env: {TOKEN: "${secret:t}"}}
  session: {command: "${python}", share: user, roots: session, inherit_env: [LANG, AWS_*]}
"""


def test_a_plan_says_which_launches_share_a_process(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, SHARED, PATH="/bin", LANG="C", TERM="xterm", AWS_PROFILE="dev")
    lines = as_text(plan, verbose=True).replace(f"{tmp_path}/", "").splitlines()
    same = "             the same are command, arguments, directory{}, protocol, restart, timeouts.start,"
    shared = [line for at, line in enumerate(lines) if "  shared  " in "".join(lines[max(0, at - 2) : at + 1])]
    assert shared == [
        "  shared     one process for all your launches with this server in this directory; with cwd in those of any"
        "  p.yaml:4:39",
        same.format(""),
        "             and all variables but TERM",
        "  shared     one process for all your launches with this server  p.yaml:5:40",
        same.format(""),
        "             and all variables but TERM",
        "  shared     one process for all your launches with this server in this directory; with cwd in those of any"
        "  p.yaml:6:42",
        same.format(", the session's directories"),
        "             and all variables",
    ]
    assert [line.strip() for line in lines if "  idle  " in line] == [
        "idle       it ends 2m after the last launch has left it",
        "idle       it ends 5m after the last launch has left it  p.yaml:5:71",
        "idle       it ends 2m after the last launch has left it",
    ]
    assert [server["share"] for server in plan_json(plan)["mcp_servers"]] == ["user"] * 3
