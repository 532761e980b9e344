"""A document becomes a profile or every problem at once (ours, docs/profiles.md). Whole messages are asserted."""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_launch.document.scalars import Duration
from acp_launch.document.yaml import parse
from acp_launch.problem import Problem, errors
from acp_launch.profile.agents import AGENTS
from acp_launch.profile.check import check
from acp_launch.profile.discover import built_in
from acp_launch.profile.model import (
    Backoff,
    Client,
    HttpServer,
    Match,
    OAuth,
    Profile,
    Restart,
    Rule,
    ServerTimeouts,
    SseServer,
    StdioServer,
    Tools,
)
from acp_launch.profile.values import Template

GOOD = """\
version: 1
description: Reviews pull requests
agent:
  command: claude-agent-acp
  args: [--model, "${env:MODEL:-opus}"]
  env: {KEY: "${secret:anthropic}"}
  inherit_env: [PATH, LC_*]
  timeouts: {initialize: 2m, session: 500ms}
workspace: {cwd: "${project}", additional_directories: [../shared]}
session: {name: default}
permissions: {default: deny}
mcp_servers:
  a: {command: npx, args: [-y, x], env: {A: b}}
  b: {type: http, url: "https://${env:HOST}/mcp", headers: {Authorization: "Bearer ${secret:docs}"}}
  c: {type: sse, url: https://events.example.com/sse}
  d: {type: stdio, command: ./server}
  e:
    command: uvx
    cwd: ${project}/sub
    inherit_env: [PATH, AWS_*]
    required: false
    restart: {policy: always, max: 0, backoff: {initial: 1s, max: 1m, factor: 1.5}, min_uptime: 1h}
    timeouts: {start: 2m, call: 500ms}
    tools: {allow: ["get_*", search], deny: [get_secret]}
    bridge: true
"""


class Checked(NamedTuple):
    profile: Profile | None
    problems: tuple[Problem, ...]


def checked(text: str) -> Checked:
    document, problems = parse(text, "f.yaml")
    assert document is not None and not problems
    return Checked(*check(document))


def complaints(text: str) -> list[str]:
    return [str(problem) for problem in checked(text).problems]


def placed(place: str, entry: str) -> str:
    return PLACES[place].replace("@", entry)


def test_a_good_profile_becomes_typed_values() -> None:
    profile = checked(GOOD).profile
    assert profile is not None
    assert (profile.description, profile.permissions.default, profile.session.name) == (
        "Reviews pull requests",
        "deny",
        "default",
    )
    assert profile.agent.args == ("--model", "${env:MODEL:-opus}")
    assert profile.agent.inherit_env == ["PATH", "LC_*"]
    timeouts = profile.agent.timeouts
    assert (float(timeouts.initialize), float(timeouts.session), float(timeouts.silence)) == (120.0, 0.5, 1800.0)
    assert profile.mcp_servers == {
        "a": StdioServer(command="npx", args=("-y", "x"), env={"A": "b"}),  # type: ignore[arg-type,dict-item]
        "b": HttpServer(
            type="http",
            url="https://${env:HOST}/mcp",  # type: ignore[arg-type]
            headers={"Authorization": "Bearer ${secret:docs}"},  # type: ignore[dict-item]
        ),
        "c": SseServer(type="sse", url="https://events.example.com/sse"),  # type: ignore[arg-type]
        "d": StdioServer(command="./server"),  # type: ignore[arg-type]
        "e": StdioServer(
            command="uvx",  # type: ignore[arg-type]
            cwd="${project}/sub",  # type: ignore[arg-type]
            inherit_env=["PATH", "AWS_*"],
            required=False,
            restart=Restart(
                policy="always",
                max=0,
                backoff=Backoff(initial=Duration(1), max=Duration(60), factor=1.5),
                min_uptime=Duration(3600),
            ),
            timeouts=ServerTimeouts(start=Duration(120), call=Duration(0.5)),
            tools=Tools(allow=("get_*", "search"), deny=("get_secret",)),
        ),
    }


@pytest.mark.parametrize(
    ("written", "read"), [("false", False), ("true", "launch"), ("launch", "launch"), ("user",) * 2]
)
def test_true_shares_within_a_launch(written: str, read: str | bool) -> None:
    profile, problems = checked(placed("server", f"{{command: x, share: {written}, start: lazy, idle: 10m}}"))
    assert profile is not None and not problems
    assert profile.mcp_servers["s"].share == read


def test_a_server_of_one_word_has_the_documented_defaults() -> None:
    """docs/profiles.md "Keys of a profile"."""
    profile = checked(placed("server", "{command: x, timeouts: {call: null}}")).profile
    assert profile is not None
    server = profile.mcp_servers["s"]
    assert isinstance(server, StdioServer)
    assert (server.cwd, server.inherit_env, server.required, server.bridge) == (None, "minimal", True, True)
    assert (server.restart.policy, server.restart.max, float(server.restart.min_uptime)) == ("on-failure", 5, 10.0)
    backoff = server.restart.backoff
    assert (float(backoff.initial), float(backoff.max), backoff.factor) == (0.2, 10.0, 2)
    assert (float(server.timeouts.start), server.timeouts.call) == (30.0, None)
    assert (server.tools.allow, server.tools.deny) == (("*",), ())


@pytest.mark.parametrize(
    ("runtime", "inherits"),
    [("{confined: true}", "minimal"), ("{confined: {}}", "minimal"), ("{confined: false}", "all"), ("{}", "all")],
)
def test_a_confined_agent_inherits_little_by_default(runtime: str, inherits: str) -> None:
    """A profile that says what the agent inherits is obeyed."""
    found = checked(f"version: 1\nagent: {{command: x}}\nruntime: {runtime}")
    assert found.profile is not None and found.profile.agent_inherits == inherits
    said = checked(f"version: 1\nagent: {{command: x, inherit_env: [A]}}\nruntime: {runtime}")
    assert said.profile is not None and list(said.profile.agent_inherits) == ["A"]


# A profile, or what stands in one of PLACES, then the whole message.
FAULTS = r"""
agent: {command: x}
f.yaml:1:1: version: the profile does not state its version
    fix: add: version: 1

version: "1"
agent: {command: x}
f.yaml:1:10: version: expected version 1, found the text "1"
    fix: write: version: 1

version: 1
f.yaml:1:1: agent: this key is required
    fix: add: agent: ...

profile runtime: {confined: {state: [.claude]}}
f.yaml:3:30: runtime.confined.state[0]: ".claude": state lies in your home, and this path begins at the project
    fix: write ~/.claude, or write: for a path of the project

profile runtime: {confined: {read: ["~x"]}}
f.yaml:3:29: runtime.confined.read[0]: "~x" is not a path
    fix: write ~/NAME, or an absolute path

profile runtime: {confined: {write: ["${secret:t}"]}}
f.yaml:3:30: runtime.confined.write[0]: a path cannot come from a secret
    fix: write it as text, or use ${env:NAME}

profile runtime: {confined: {network: lan}}
f.yaml:3:31: runtime.confined.network: expected shared or none, found the text "lan"
    fix: write one of them: shared

profile runtime: {confined: }
f.yaml:3:11: runtime.confined: confined has no value
    fix: write confined: true, or a mapping; false runs the agent as you

version: 1
agent:
  args: []
f.yaml:2:1: agent.command: this key is required
    fix: add: command: ...

version: 1
agent:
f.yaml:2:7: agent: expected a mapping, found nothing
    fix: write a value, or remove the key

vesion: 1
agent: {command: x}
f.yaml:1:1: vesion: unknown key "vesion"; did you mean "version"?
    fix: write version

profile mcpServers: {}
f.yaml:3:1: mcpServers: unknown key "mcpServers"; did you mean "mcp_servers"?
    fix: write mcp_servers

agent working-dir: y
f.yaml:4:3: agent.working-dir: unknown key "working-dir"
    fix: use one of command, registry, args, env, inherit_env, timeouts, mcp

server {command: x, disabled: true}
f.yaml:4:19: mcp_servers.s.disabled: unknown key "disabled"
    fix: use one of required, tools, roots, protocol, session_elevation, start, idle, share, restart, timeouts, bridge, command, type, args, env, cwd, data, inherit_env

version: 1
agent: {command: x, mcp: sse}
f.yaml:2:26: agent.mcp: expected auto, stdio or http, found the text "sse"
    fix: write one of them: auto

server {type: sse, url: https://x, restart: {max: many}}
f.yaml:4:49: mcp_servers.s.restart.max: expected a whole number from 0 up, or null, found the text "many"
    fix: write a number such as 5, 0 for none, or null for no limit

server {type: http, url: https://x, timeouts: {download: 5s}}
f.yaml:4:46: mcp_servers.s.timeouts.download: unknown key "download"
    fix: use one of start, call

server {type: http, url: https://x, protocol: 2025-06-19}
f.yaml:4:45: mcp_servers.s.protocol: expected auto, legacy, modern, 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25 or 2026-07-28, found the text "2025-06-19"
    fix: write 2025-06-18

server {command: x, insecure: true}
f.yaml:4:19: mcp_servers.s.insecure: "insecure" is only for a server with a url
    fix: remove it, or remove the type if the server has a url

server {type: http, url: https://x, cwd: /}
f.yaml:4:35: mcp_servers.s.cwd: "cwd" is only for a server with a command
    fix: remove it, or remove the type if the server has a command

server {command: x, oauth: true}
f.yaml:4:19: mcp_servers.s.oauth: "oauth" is only for a server with a url
    fix: remove it, or remove the type if the server has a url

login 'yes'
f.yaml:4:42: mcp_servers.s.oauth: expected true or a mapping, found the text "yes"
    fix: write true

login {scopes: [a, b c]}
f.yaml:4:55: mcp_servers.s.oauth.scopes[1]: "b c" is not one scope
    fix: write scopes: [b, c]

login {scopes: []}
f.yaml:4:51: mcp_servers.s.oauth.scopes: an empty list asks for nothing
    fix: write a scope, or remove the key

login {client_id: ' '}
f.yaml:4:54: mcp_servers.s.oauth.client_id: the client id is empty
    fix: write the id of your client, or remove it

login {client_id: '${secret:a}'}
f.yaml:4:54: mcp_servers.s.oauth.client_id: a client id cannot come from a secret
    fix: write it as text, or use ${env:NAME}

login {client_id: a, client_secret: not-a-reference}
f.yaml:4:72: mcp_servers.s.oauth.client_secret: a client secret is written in the profile
    fix: acp-launch secret set s/client-secret, then write "${secret:s/client-secret}" here

login {client_id: a, client_secret: 'x${secret:a}'}
f.yaml:4:72: mcp_servers.s.oauth.client_secret: a client secret is written in the profile
    fix: acp-launch secret set s/client-secret, then write "${secret:s/client-secret}" here

login {client_secret: '${secret:a}'}
f.yaml:4:43: mcp_servers.s.oauth.client_secret: a client secret needs a client_id
    fix: add: client_id: ...

login {issuer: 'http://login.example'}
f.yaml:4:51: mcp_servers.s.oauth.issuer: expected an https url without a query, found "http://login.example"
    fix: write the address of the authorization server: https://...

login {issuer: login.example}
f.yaml:4:51: mcp_servers.s.oauth.issuer: expected an http or https url, found "login.example"
    fix: write the address of the authorization server: https://...

login {client_metadata_url: 'https://x/'}
f.yaml:4:64: mcp_servers.s.oauth.client_metadata_url: expected an https url with a path, found "https://x/"
    fix: write the https:// address of the document

login {callback_port: 80}
f.yaml:4:58: mcp_servers.s.oauth.callback_port: expected a port from 1024 to 65535, found the number 80
    fix: write a number such as 8976, or remove it for any free port

login {callback: 0.0.0.0}
f.yaml:4:53: mcp_servers.s.oauth.callback: expected 127.0.0.1 or localhost, found the text "0.0.0.0"
    fix: write 127.0.0.1

login true, bridge: false
f.yaml:4:35: mcp_servers.s.oauth: the agent connects to this server itself (bridge: false), and never gets your login
    fix: remove bridge: false, or oauth

login true, headers: {AUTHORIZATION: x}
f.yaml:4:58: mcp_servers.s.headers.AUTHORIZATION: the login sets AUTHORIZATION, so it cannot be set here
    fix: remove it, or oauth

server {type: http, oauth: true, insecure: true, url: http://x.example/}
f.yaml:4:53: mcp_servers.s.url: the tokens of the login would be sent unencrypted: the url is http, and its host is not this machine
    fix: write https://, or reach it through a tunnel on localhost

server {command: x, timeouts: {session: 1s}}
f.yaml:4:30: mcp_servers.s.timeouts.session: unknown key "session"
    fix: use one of start, download, call

server {command: x, restart: {policy: on_failure}}
f.yaml:4:37: mcp_servers.s.restart.policy: expected always, on-failure or never, found the text "on_failure"
    fix: write on-failure

server {command: x, restart: {max: -1}}
f.yaml:4:34: mcp_servers.s.restart.max: expected a whole number from 0 up, found the number -1
    fix: write a number such as 5, or 0 for none

server {command: x, restart: {backoff: {factor: 0.5}}}
f.yaml:4:47: mcp_servers.s.restart.backoff.factor: expected a number from 1 to 100, found the number 0.5
    fix: write a number such as 2, or 1 for equal pauses

server {command: x, restart: {backoff: {factor: .nan}}}
f.yaml:4:47: mcp_servers.s.restart.backoff.factor: expected a number from 1 to 100, found the number .nan
    fix: write a number such as 2, or 1 for equal pauses

server {command: x, restart: {backoff: {initial: 0s}}}
f.yaml:4:48: mcp_servers.s.restart.backoff.initial: expected a duration, found the text "0s"
    fix: write a positive number and its unit: 200ms, 10s, 2m, 1h

server {command: x, restart: {min_uptime: 10}}
f.yaml:4:41: mcp_servers.s.restart.min_uptime: expected a duration, found the number 10
    fix: write 10s

server {command: x, timeouts: {start: null}}
f.yaml:4:37: mcp_servers.s.timeouts.start: expected a duration, found nothing
    fix: write a duration such as 10s

server {command: x, tools: {allow: get_*}}
f.yaml:4:34: mcp_servers.s.tools.allow: expected a list, found the text "get_*"
    fix: write allow: [get_*]

server {command: x, tools: {deny: ['']}}
f.yaml:4:34: mcp_servers.s.tools.deny[0]: the tool's name is empty
    fix: write a name, or a glob: get_*

server {command: x, required: 'no'}
f.yaml:4:29: mcp_servers.s.required: expected true or false, found the text "no"
    fix: write true or false

server {command: x, inherit_env: minimall}
f.yaml:4:32: mcp_servers.s.inherit_env: expected all, minimal or a list of names, found the text "minimall"
    fix: write all, minimal, or names: [PATH, LC_*]

server {command: x, inherit_env: ['*_X']}
f.yaml:4:33: mcp_servers.s.inherit_env[0]: "*_X" is neither a variable's name nor a PREFIX_* pattern
    fix: write NAME or PREFIX_*

agent env: {PORT: 8080}
f.yaml:4:15: agent.env.PORT: expected text, found the number 8080
    fix: quote it: "8080"

agent env: {A: }
f.yaml:4:11: agent.env.A: expected text, found nothing
    fix: write a value, or remove the key

server {command: []}
f.yaml:4:16: mcp_servers.s.command: expected text, found a list
    fix: write command: "..."

server {command: [npx, -y, "a: b"]}
f.yaml:4:16: mcp_servers.s.command: expected text, found a list
    fix: write command: npx and args: [-y, "a: b"]

server {command: [npx, {a: b}]}
f.yaml:4:16: mcp_servers.s.command: expected text, found a list
    fix: write one text, in quotes if need be

agent args: [[a]]
f.yaml:4:10: agent.args[0]: expected text, found a list
    fix: write a

agent env: {A: 'token ${GITHUB}'}
f.yaml:4:19: agent.env.A: unknown reference ${GITHUB}; did you mean ${env:GITHUB}?
    fix: write ${env:GITHUB}

agent env: {A B: c}
f.yaml:4:9: agent.env."A B": "A B" is not a variable's name
    fix: use a name without spaces and =

agent env: {ACP_LAUNCH_SECRET_X: c}
f.yaml:4:9: agent.env.ACP_LAUNCH_SECRET_X: ACP_LAUNCH_SECRET_* is reserved for acp-launch's secrets; children never receive it
    fix: choose another name

version: 1
agent: {command: ' '}
f.yaml:2:18: agent.command: the command is empty
    fix: write the program to start

profile permissions: {default: alow}
f.yaml:3:24: permissions.default: expected ask, allow or deny, found the text "alow"
    fix: write allow

profile session: {name: "a\tb"}
f.yaml:3:17: session.name: the session's name holds characters that cannot be printed
    fix: choose a printable name of 1 to 200 characters that begins with no dash

profile session: {name: ''}
f.yaml:3:17: session.name: the session's name is empty
    fix: choose a printable name of 1 to 200 characters that begins with no dash

profile session: {name: -x}
f.yaml:3:17: session.name: the session's name "-x" begins with "-" like an option
    fix: choose a printable name of 1 to 200 characters that begins with no dash

profile session: {name: nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn}
f.yaml:3:17: session.name: the session's name has 201 characters; at most 200 are allowed
    fix: choose a printable name of 1 to 200 characters that begins with no dash

profile mcp_servers: [a]
f.yaml:3:14: mcp_servers: expected a mapping of names to servers, found a list
    fix: write mcp_servers: {NAME: {command: a}}

profile mcp_servers: {my server: {command: x}}
f.yaml:3:15: mcp_servers."my server": "my server" is not a server name
    fix: use letters, digits, _ . and - only

server {url: https://x/mcp}
f.yaml:4:3: mcp_servers.s.type: a server with a url needs a type
    fix: add: type: http

server {command: x, url: https://x}
f.yaml:4:19: mcp_servers.s.url: a server has a command or a url, not both
    fix: keep the command (a local program) or the url (a server on the network)

server {type: streamable-http, url: https://x}
f.yaml:4:13: mcp_servers.s.type: expected stdio, http or sse, found the text "streamable-http"
    fix: write http

server {}
f.yaml:4:3: mcp_servers.s: a server needs a command or a url
    fix: add: command: ...

server npx
f.yaml:4:6: mcp_servers.s: expected a mapping with a command or a url, found the text "npx"
    fix: write s: {command: npx}

server {type: http, url: ftp://x}
f.yaml:4:24: mcp_servers.s.url: expected an http or https url, found "ftp://x"
    fix: write an address that begins with https:// or http://

server {type: http, url: "https:///x"}
f.yaml:4:24: mcp_servers.s.url: the url "https:///x" has no host
    fix: write an address that begins with https:// or http://

server {type: sse, url: https://x, headers: {"a b": c}}
f.yaml:4:44: mcp_servers.s.headers."a b": "a b" is not a header's name
    fix: use letters, digits and -

server {type: sse, url: https://x, headers: {A: "b\nc"}}
f.yaml:4:47: mcp_servers.s.headers.A: a header cannot hold the character U+000A
    fix: write it on one line, in ASCII

server {type: http, url: https://x, env: {"a(b": c}}
f.yaml:4:41: mcp_servers.s.env."a(b": the variable "a(b" cannot be sent as the header X-Env-a(b
    fix: use letters, digits and _

server {type: http, url: https://x, env: {KEY: "v4lue\n"}}
f.yaml:4:46: mcp_servers.s.env.KEY: it is sent as a header, and a header cannot hold the character U+000A
    fix: write it on one line, in ASCII

server {type: http, url: https://x, headers: {x-env-key: a}, env: {KEY: b}}
f.yaml:4:66: mcp_servers.s.env.KEY: the header X-Env-KEY would be sent twice; upper and lower case are the same
    fix: remove one of them

server {type: http, url: https://x, headers: {x-env-a-b: a}, env: {A_B: b}, env_headers: dashes}
f.yaml:4:66: mcp_servers.s.env.A_B: the header X-Env-A-B would be sent twice; upper and lower case are the same
    fix: remove one of them

server {type: http, url: https://x, headers: {A: a, a: b}}
f.yaml:4:51: mcp_servers.s.headers.a: the header a would be sent twice; upper and lower case are the same
    fix: remove one of them

server {type: http, url: 'https://me:pw@x/mcp'}
f.yaml:4:24: mcp_servers.s.url: the url holds a user name or a password, which end up in logs
    fix: remove it, and write headers: {Authorization: "Basic ${secret:NAME}"}

server {type: http, url: 'http://x/mcp', env: {KEY: a}}
f.yaml:4:24: mcp_servers.s.url: KEY would be sent unencrypted: the url is http, and its host is not this machine
    fix: write https://, or reach it through a tunnel on localhost; insecure: true sends it anyway

rule {allow: {}}
f.yaml:5:8: permissions.rules[0].allow: this rule matches everything
    fix: write permissions.default: allow

rule {deny: {kind: '*'}}
f.yaml:5:8: permissions.rules[0].deny: this rule matches everything
    fix: write permissions.default: deny

rule {}
f.yaml:5:7: permissions.rules[0]: this rule is empty
    fix: write one of allow, deny or ask: {kind: ...}

rule {allow: {kind: read}, deny: {kind: edit}}
f.yaml:5:29: permissions.rules[0].deny: a rule has one answer, but this one has allow and deny
    fix: make it two rules; the first that matches decides

rule {deny: {kind: [read, bash]}}
f.yaml:5:28: permissions.rules[0].deny.kind[1]: expected read, edit, delete, move, search, execute, think, fetch, switch_mode or other, found the text "bash"
    fix: write execute

rule {deny: {tool: [5]}}
f.yaml:5:22: permissions.rules[0].deny.tool[0]: expected text, found the number 5
    fix: quote it: "5"

rule {deny: {tool: []}}
f.yaml:5:21: permissions.rules[0].deny.tool: an empty list matches nothing
    fix: write a glob, or remove the key

rule {deny: {title: ' '}}
f.yaml:5:22: permissions.rules[0].deny.title: the pattern is empty
    fix: write a glob, or remove it

rule {deny: {path: ~/x}}
f.yaml:5:21: permissions.rules[0].deny.path: "~/x": acp-launch does not expand "~"
    fix: write ${home}/x

rule {deny: {path: 'a/${projet}'}}
f.yaml:5:24: permissions.rules[0].deny.path: unknown reference ${projet}; did you mean ${project}?
    fix: write ${project}

rule {deny: {command: ['x', 'a${secret:t}']}}
f.yaml:5:32: permissions.rules[0].deny.command[1]: a pattern cannot come from a secret
    fix: write it as text, or use ${env:NAME}

rule allow
f.yaml:5:7: permissions.rules[0]: expected a mapping, found the text "allow"
    fix: write {allow: {kind: "..."}}

session mode: ' '
f.yaml:3:17: session.mode: the mode is empty
    fix: write the id of a mode, or remove the key

session config: {a: 5}
f.yaml:3:23: session.config.a: expected text, true or false, found the number 5
    fix: write text, true or false

session config: {'': x}
f.yaml:3:20: session.config."": the option's name is empty
    fix: write the id of a config option, or its category

profile client: [fs, terminal]
f.yaml:3:9: client: expected a mapping, found a list
    fix: write client: {fs: true, terminal: true}

profile permissions: 5
f.yaml:3:14: permissions: expected a mapping, found the number 5
    fix: write its keys below it: default, rules, inherit, unattended

profile permissions: {rules: {allow: {kind: read}, deny: {kind: edit}}}
f.yaml:3:22: permissions.rules: expected a list, found a mapping
    fix: write rules: [{allow: {kind: read}}, {deny: {kind: edit}}]

version: 1
agent: [npx, -y, coder]
f.yaml:2:8: agent: expected a mapping, found a list
    fix: write agent: {command: npx, args: [-y, coder]}

client fs: rw
f.yaml:3:14: client.fs: expected true, false or read, found the text "rw"
    fix: write true, false or read

server {command: x, bridge: false, tools: {deny: [a]}}
f.yaml:4:34: mcp_servers.s.tools: the agent starts this server itself (bridge: false), so acp-launch cannot hide its tools
    fix: remove tools, or bridge: false

server {command: x, share: user, session_elevation: probe}
f.yaml:4:32: mcp_servers.s.session_elevation: the sessions of a shared server have one conversation with it, which none of them can resume alone
    fix: remove it, or share

server {command: x, share: user, bridge: false}
f.yaml:4:19: mcp_servers.s.share: the agent starts this server itself (bridge: false), so launches cannot share it
    fix: remove share, or bridge: false

server {command: x, share: team}
f.yaml:4:26: mcp_servers.s.share: expected false, launch or user, found the text "team"
    fix: write false, launch or user

server {type: http, url: https://x, share: user}
f.yaml:4:42: mcp_servers.s.share: only a server that acp-launch starts has one process for all launches
    fix: write launch: one connection for all sessions of the agent

server {command: x, start: late}
f.yaml:4:26: mcp_servers.s.start: expected eager or lazy, found the text "late"
    fix: write one of them: eager

version: 1
agent: claude
f.yaml:2:8: agent: expected a mapping, found the text "claude"
    fix: use extends: claude instead of agent

version: 1
agent: my-agent --acp
f.yaml:2:8: agent: expected a mapping, found the text "my-agent --acp"
    fix: write agent: {command: my-agent, args: [--acp]}

profile runtime: confine
f.yaml:3:10: runtime.confine: unknown key "confine"; did you mean "confined"?
    fix: write confined
"""  # noqa: E501
PLACES = {
    "profile": "version: 1\nagent: {command: x}\n@\n",
    "session": "version: 1\nagent: {command: x}\nsession: {@}\n",
    "client": "version: 1\nagent: {command: x}\nclient: {@}\n",
    "server": "version: 1\nagent: {command: x}\nmcp_servers:\n  s: @\n",
    "login": "version: 1\nagent: {command: x}\nmcp_servers:\n  s: {type: http, url: https://x, oauth: @}\n",
    "agent": "version: 1\nagent:\n  command: x\n  @\n",
    "rule": "version: 1\nagent: {command: x}\npermissions:\n  rules:\n    - @\n",
}


def test_each_fault_has_its_place_a_sentence_and_a_way_out() -> None:
    for paragraph in FAULTS.strip().split("\n\n"):
        written, message, fix = paragraph.rsplit("\n", 2)
        place, _, entry = written.partition(" ")
        text = placed(place, entry) if place in PLACES else written
        assert complaints(text) == [f"{message}\n{fix}"], written
        assert checked(text).profile is None


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        *(
            ("comand", "command"),
            ("cmd", "command"),
            ("arguments", "args"),
            ("environment", "env"),
            ("workingDirectory", "cwd"),
        ),
        *(("serverUrl", "url"), ("inherit-env", "inherit_env")),
    ],
)
def test_a_misspelt_key_or_that_of_another_tool_is_told_as_ours(written: str, wanted: str) -> None:
    kind = "type: http" if wanted == "url" else "command: x"
    (told, *_) = [each for each in complaints(placed("server", f"{{{kind}, {written}: y}}")) if written in each]
    assert told.endswith(f'unknown key "{written}"; did you mean "{wanted}"?\n    fix: write {wanted}')
    assert f"mcp_servers.s.{written}: " in told


def test_a_command_to_store_a_client_secret_names_it_so_that_a_shell_reads_text() -> None:
    """A repository chooses the names of its servers."""
    server = "{type: http, url: https://x, oauth: {client_id: a, client_secret: b}}"
    *_, told = complaints(f'version: 1\nagent: {{command: x}}\nmcp_servers: {{"$(touch x) y": {server}}}\n')
    assert "fix: acp-launch secret set touch-x-y/client-secret, then write" in told


def test_a_required_key_that_is_missing_beside_an_unknown_one_is_a_problem_of_its_own() -> None:
    """Only a misspelt key explains why it is missing, and only in its own mapping."""
    assert complaints("version: 1\nagent: {zzz: x}\nsession: {agnt: y}\n") == [
        "f.yaml:2:1: agent.command: this key is required\n    fix: add: command: ...",
        'f.yaml:2:9: agent.zzz: unknown key "zzz"\n'
        "    fix: use one of command, registry, args, env, inherit_env, timeouts, mcp",
        'f.yaml:3:11: session.agnt: unknown key "agnt"\n    fix: use one of name, mode, config',
    ]


def test_all_problems_come_at_once_in_the_order_of_their_lines() -> None:
    text = (
        "foo: 1\nagent:\n  args: x\n  timeouts: {session: 5}\nsession: {name: ''}\n"
        "mcp_servers:\n  a: {}\n  b: {type: http}\n  c: {command: x, argz: []}\n"
    )
    assert [(problem.line, problem.column, problem.path) for problem in checked(text).problems] == [
        (1, 1, "version"),
        (1, 1, "foo"),
        (2, 1, "agent.command"),
        (3, 9, "agent.args"),
        (4, 23, "agent.timeouts.session"),
        (5, 17, "session.name"),
        (7, 3, "mcp_servers.a"),
        (8, 3, "mcp_servers.b.url"),
        (9, 19, "mcp_servers.c.argz"),
    ]


def test_a_secret_where_others_see_it_is_a_warning_and_the_profile_stands() -> None:
    text = (
        "version: 1\nagent:\n  command: x\n  args: ['--key=${secret:a}']\n"
        "mcp_servers:\n  s: {type: http, url: 'https://x/?k=${secret:b}'}\n"
    )
    found = checked(text)
    assert found.profile is not None
    assert [str(problem) for problem in found.problems] == [
        "f.yaml:4:17: agent.args[0]: warning: ${secret:a} is visible to every user of this machine in ps\n"
        "    fix: pass it in env",
        "f.yaml:6:38: mcp_servers.s.url: warning: ${secret:b} in a url ends up in logs\n    fix: pass it in headers",
    ]


KEYS = sorted({*re.findall(r"\w+", GOOD), "extends", "mode", "x y", "é", ""})
TEXTS = st.sampled_from(["", "all", "http", "stdio", "10s", "https://x", "${env:A}", "${b}", "a\nb", "é", "ask"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
)


@pytest.mark.whole
@given(st.dictionaries(st.sampled_from(KEYS), VALUES), st.booleans())
@example({"mcp_servers": ""}, False)
def test_any_mapping_is_a_profile_or_has_problems_with_places(root: dict[str, object], whole: bool) -> None:
    """JSON is YAML: written as JSON it reaches the checker as it is."""
    text = json.dumps({"version": 1, "agent": {"command": "x"}, **root} if whole else root)
    text = text.replace("NaN", ".nan").replace("-Infinity", "-.inf").replace("Infinity", ".inf")
    document, problems = parse(text, "f.yaml")
    if document is None:
        assert problems
        return
    found = Checked(*check(document))
    assert (found.profile is None) == bool(errors(found.problems))
    assert all(problem.line == 1 and problem.column >= 1 and problem.path for problem in found.problems)


def spoil_each(value: object, spoiled: str) -> Iterator[object]:
    """Yield the value with each of its keys and texts, one after the other, spoiled."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield {spoiled if name == key else name: each for name, each in value.items()}
            yield from ({**value, key: each} for each in spoil_each(inner, spoiled))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from ([*value[:index], each, *value[index + 1 :]] for each in spoil_each(inner, spoiled))
    else:
        yield spoiled


@pytest.mark.parametrize("spoiled", ["a\udfff", "\0"])
def test_a_text_that_no_program_can_receive_is_a_problem_wherever_it_stands(spoiled: str) -> None:
    good, _ = parse(GOOD, "f.yaml")
    assert good is not None
    for root in spoil_each(good.root, spoiled):
        document, problems = parse(json.dumps(root), "f.yaml")
        if document is None:
            assert root == spoiled
            continue
        _, more = check(document)
        told = [str(problem) for problem in (*problems, *more)]
        assert "no program can receive the character U+" in told[0]
        "".join(told).encode()


def test_a_fault_in_an_anchored_value_is_reported_where_it_is_written() -> None:
    text = "version: 1\nagent: {command: x, env: &e {A: 1}}\nmcp_servers: {s: {command: y, env: *e}}"
    assert [(problem.line, problem.column, problem.path) for problem in checked(text).problems] == [
        (2, 33, "agent.env.A"),
        (2, 33, "mcp_servers.s.env.A"),
    ]


@pytest.mark.parametrize("key", ["secrets", "max_line"])
def test_a_profile_cannot_set_what_belongs_to_the_user(key: str) -> None:
    """Nor is it told what the key held: that may have been a secret."""
    assert complaints(f"version: 1\nagent: {{command: x}}\n{key}: {{github: canary}}\n") == [
        f'f.yaml:3:1: {key}: "{key}" belongs to your own settings; a profile cannot set it\n'
        "    fix: move it to config.yaml in your configuration directory"
    ]


def test_what_this_machine_is_asked_about_cannot_come_from_a_secret() -> None:
    """It is asked before any secret is looked up."""
    text = (
        'version: 1\nagent: {command: "x${secret:a}"}\n'
        'workspace: {cwd: "/${secret:b}", additional_directories: ["/c/${secret:c}"]}\n'
        'mcp_servers: {s: {command: "${secret:d}", env: {command: "${secret:e}"}, cwd: "${secret:f}"}}\n'
    )
    fix = "\n    fix: write it as text, or use ${env:NAME}"
    assert complaints(text) == [
        f"f.yaml:2:20: agent.command: a command cannot come from a secret{fix}",
        f"f.yaml:3:20: workspace.cwd: a directory cannot come from a secret{fix}",
        f"f.yaml:3:63: workspace.additional_directories[0]: a directory cannot come from a secret{fix}",
        f"f.yaml:4:28: mcp_servers.s.command: a command cannot come from a secret{fix}",
        f"f.yaml:4:79: mcp_servers.s.cwd: a directory cannot come from a secret{fix}",
    ]


def test_what_means_nothing_to_a_server_of_the_agents_is_a_warning() -> None:
    found = checked(
        placed("server", "{command: x, bridge: false, required: false, restart: {}, cwd: /, inherit_env: all}")
    )
    assert found.profile is not None
    assert [(problem.column, problem.severity, problem.message, problem.fix) for problem in found.problems] == [
        (
            column,
            "warning",
            f'the agent starts this server itself (bridge: false), so "{key}" has no effect',
            "remove it",
        )
        for column, key in [(51, "restart"), (64, "cwd"), (72, "inherit_env")]
    ]


CONVERSATION = """\
version: 1
agent: {command: x}
session:
  mode: plan
  config: {model: opus, fast: true, level: "5"}
permissions:
  rules:
    - allow: {kind: [read, search], path: ["src/**", "${home}/notes"]}
    - deny: {kind: execute, title: "rm *", tool: Bash, command: 'rm *'}
    - ask: {kind: "*e*"}
client: {fs: read, terminal: true}
"""


def test_what_a_session_is_put_into_and_may_do_becomes_typed_values() -> None:
    """A text stands for a list of one."""
    found = checked(CONVERSATION)
    assert found.profile is not None and not found.problems
    assert (found.profile.session.mode, found.profile.session.config) == (
        "plan",
        {"model": "opus", "fast": True, "level": "5"},
    )
    assert found.profile.permissions.rules == (
        Rule(allow=Match(kind=("read", "search"), path=("src/**", "${home}/notes"))),  # type: ignore[arg-type]
        Rule(deny=Match(kind=("execute",), title=("rm *",), tool=("Bash",), command=("rm *",))),  # type: ignore[arg-type]
        Rule(ask=Match(kind=("*e*",))),
    )
    assert found.profile.client == Client(fs="read", terminal=True)


def test_nothing_is_served_and_nothing_is_ruled_unless_it_is_said() -> None:
    profile, problems = checked("version: 1\nagent: {command: x}")
    assert profile is not None and not problems
    assert (profile.permissions.default, profile.agent_inherits) == ("ask", "all")
    assert (profile.client, profile.permissions.rules) == (Client(fs=False, terminal=False), ())
    assert (profile.session.mode, profile.session.config) == (None, {})


@pytest.mark.parametrize("kind", ["fetch", "switch_mode", "think", "other", "[f-t]*"])
def test_allowing_a_kind_that_agents_hide_things_behind_is_a_warning_unless_more_is_said(kind: str) -> None:
    """docs/agents.md "What published agents do differently"."""
    for rule in (f"{{allow: {{kind: '{kind}', tool: WebFetch}}}}", f"{{deny: {{kind: '{kind}'}}}}"):
        assert not complaints(placed("rule", rule))
    found = checked(placed("rule", f"{{allow: {{kind: [read, '{kind}']}}}}"))
    assert found.profile is not None
    hidden = "switch_mode" if kind == "[f-t]*" else kind
    assert [str(problem) for problem in found.problems] == [
        "f.yaml:5:29: permissions.rules[0].allow.kind[1]: warning: agents also ask for other decisions with the "
        f"kind {hidden}, and this allows them unseen\n    fix: add the tool or the title, or write ask"
    ]


@pytest.mark.parametrize("written", ["1.50", "1e3", "0x1F", "007", "8080"])
def test_a_number_in_a_texts_place_is_quoted_as_it_is_written(written: str) -> None:
    """The text after the suggested fix means what the user wrote."""
    (problem,) = complaints(f"version: 1\nagent: {{command: x, env: {{V: {written}}}}}\n")
    assert problem.endswith(f'expected text, found the number {written}\n    fix: quote it: "{written}"')


ONLY = "takes MCP servers over {} only, as far as is known\n    fix: give the server's http url, or use another agent"


@pytest.mark.parametrize(
    ("agent", "takes"),
    [
        ("command: codex-acp", "Codex"),
        ("command: ./node_modules/.bin/codex-acp", "Codex"),
        ("command: npx, args: [-y, '@agentclientprotocol/codex-acp@2.6.0']", "Codex"),
        ("command: npx, args: [-y, another-agent]", ""),
        ("command: claude-agent-acp", ""),
        ("command: 3", ""),
    ],
)
def test_a_server_that_a_known_agent_does_not_take_is_a_warning_before_it_is_refused(agent: str, takes: str) -> None:
    remote = "bridge: false, url: https://x.example/s"
    servers = f"{{a: {{type: sse, {remote}}}, b: {{type: http, {remote}}}, c: {{command: y}}, d: {{type: sse, url: https://x}}}}"
    told = complaints(f"version: 1\nagent: {{{agent}}}\nmcp_servers: {servers}\n")
    found = [each for each in told if "as far as is known" in each]
    warning = f"f.yaml:3:15: mcp_servers.a: warning: Codex {ONLY.format('stdio and http')}"
    assert found == ([warning] if takes else [])


@pytest.mark.parametrize(
    ("mcp", "server", "fix"),
    [
        ("auto", "command: y", ""),
        ("http", "command: y", ""),
        ("stdio", "command: y", "remove agent.mcp, or use another agent"),
        ("auto", "command: y, bridge: false", "give the server's http url, or use another agent"),
    ],
)
def test_a_server_that_a_known_agent_drops_is_a_warning_unless_it_is_given_over_http(
    mcp: str, server: str, fix: str
) -> None:
    told = complaints(f"version: 1\nagent: {{command: copilot, mcp: {mcp}}}\nmcp_servers: {{c: {{{server}}}}}\n")
    said = "f.yaml:3:15: mcp_servers.c: warning: GitHub Copilot CLI takes MCP servers over http and sse only"
    assert told == ([f"{said}, as far as is known\n    fix: {fix}"] if fix else [])


def test_a_header_that_belongs_to_the_connection_is_refused() -> None:
    """RFC 9110 7.6 and 8.6, MCP "Streamable HTTP": each request has its own."""
    names = "Host content-length Transfer-Encoding Connection Mcp-Session-Id MCP-Protocol-Version Last-Event-ID"
    for name in names.split():
        (problem,) = complaints(placed("server", f"{{type: http, url: https://x, headers: {{{name}: a}}}}"))
        said = f'headers.{name}: the connection itself sets "{name}", for each request\n    fix: remove it'
        assert problem == f"f.yaml:4:45: mcp_servers.s.{said}"


@pytest.mark.parametrize(
    ("url", "headers", "told"),
    [
        ("http://docs.example.com/mcp", "{Authorization: 'Bearer ${secret:a}'}", "Authorization"),
        ("HTTP://docs.example.com:8080", "{X-A: '${secret:a}', Authorization: '${env:B}'}", "X-A, Authorization"),
        ("http://localhost.example.com", "{X-A: '${secret:a}'}", "X-A"),
        ("http://evil.example/", "{X-A: '${secret:a}'}, insecure: true", ""),
        ("https://docs.example.com/mcp", "{Authorization: '${secret:a}'}", ""),
        ("http://localhost:8080/mcp", "{Authorization: '${secret:a}'}", ""),
        ("http://docs.example.com/mcp", "{Accept-Language: en}", ""),
        ("http://${env:HOST}/mcp", "{Authorization: '${secret:a}'}", ""),  # known when it is planned
    ],
)
def test_a_secret_that_would_go_in_the_clear_is_told(url: str, headers: str, told: str) -> None:
    found = complaints(placed("server", f"{{type: http, url: '{url}', headers: {headers}}}"))
    clear = (
        f"f.yaml:4:24: mcp_servers.s.url: {told} would be sent unencrypted: the url is http, and its host is not this "
        "machine\n    fix: write https://, or reach it through a tunnel on localhost; insecure: true sends it anyway"
    )
    assert [each for each in found if "unencrypted" in each] == ([clear] if told else [])


@pytest.mark.parametrize(
    ("written", "fix"),
    [
        ("gemini --acp", "write command: gemini, args: [--acp, z]"),
        ("npx -y @scope/name@1.2 80", 'write command: npx, args: [-y, "@scope/name@1.2", "80", z]'),
        ("my tool", "write command: my, args: [tool, z]"),
        ("sh -c 'a | b'", "write command: sh, args: [-c, a | b, z]"),
        ("a | b", "write command: sh, args: [-c, a | b, z]"),
        ("npx ${home}/x", 'write command: npx, args: ["${home}/x", z]'),
    ],
)
def test_a_command_with_arguments_in_it_is_named(written: str, fix: str) -> None:
    program = f"{{command: {json.dumps(written)}, args: [z]}}"
    problems = checked(f"version: 1\nagent: {program}\nmcp_servers: {{x: {program}}}\n").problems
    assert [problem.path for problem in problems] == ["agent.command", "mcp_servers.x.command"]
    said = ("error", f'"{written}" holds arguments; command is the program alone', fix)
    assert {(problem.severity, problem.message, problem.fix) for problem in problems} == {said}


def test_a_short_form_stands_for_a_mapping() -> None:
    short, long = (
        checked(
            f"version: 1\nagent: {{command: x}}\nruntime: {runtime}\n"
            f"mcp_servers: {{s: {{command: x, restart: {restart}}}}}\n"
        )
        for runtime, restart in (("confined", "never"), ("{confined: true}", "{policy: never}"))
    )
    assert short.problems == () and short.profile == long.profile


def test_a_rule_of_one_word_is_about_a_kind_and_another_text_about_a_command() -> None:
    rules = "permissions: {rules: [{allow: read}, {deny: 'rm *'}]}"
    problems = checked(f"version: 1\nagent: {{command: x}}\n{rules}\n").problems
    assert [problem.fix for problem in problems] == ["write allow: {kind: read}", "write deny: {command: rm *}"]


@pytest.mark.parametrize(
    ("entry", "warned"),
    [
        ("env: {Y: '$HOME/x'}", [('"$HOME"', "${home}")]),
        ("env: {Y: '~/x', Z: 'a:$TEMP_DIR'}", [('"~"', "${home}"), ('"$TEMP_DIR"', "${env:TEMP_DIR}")]),
        ("cwd: $HOME/x", [('"$HOME"', "${home}")]),
        ("args: [--dir=$DATA/x, ~/y, 'a$DATA', '^x$']", [('"$DATA"', "${env:DATA}"), ('"~"', "${home}")]),
        ("env: {Y: '$${x}', Z: '\\$HOME', P: 'a$b'}", []),
        ("env: {Y: '$(pwd)/x', Z: '`pwd`'}", [('"$("', ""), ('"`"', "")]),
    ],
)
def test_what_a_shell_would_expand_is_a_warning(entry: str, warned: list[tuple[str, str]]) -> None:
    found = checked(f"version: 1\nagent: {{command: a}}\nmcp_servers: {{x: {{command: x, {entry}}}}}\n").problems
    assert [(each.message.partition(" stays")[0], each.severity) for each in found] == [
        (it, "warning") for it, _ in warned
    ]
    itself = "write the value itself: no command is run"
    assert [each.fix for each in found] == [f"write {it} in its place" if it else itself for _, it in warned]


def test_a_shell_expands_its_own_arguments() -> None:
    assert checked("version: 1\nagent: {command: /bin/bash, args: [-c, $HOME/x]}\n").problems == ()
    rule = 'permissions: {rules: [{deny: {path: "$HOME/*", command: "cat $HOME/*"}}]}'
    (problem,) = checked(f"version: 1\nagent: {{command: a}}\n{rule}\n").problems
    assert (problem.path, problem.fix) == ("permissions.rules[0].deny.path[0]", "write ${home} in its place")


@pytest.mark.parametrize(
    ("written", "severities"),
    [
        ("/opt/My App/bin/agent", []),
        ("./run.sh --acp", ["warning"]),
        ("${home}/bin/agent --acp", ["warning"]),
        ("${python}", []),
        ("${env:AGENT:-a b}", []),
        ("${env:AGENT}", []),
    ],
)
def test_a_path_may_hold_spaces_and_only_an_option_in_it_is_suspicious(written: str, severities: list[str]) -> None:
    problems = checked(f"version: 1\nagent: {{command: {json.dumps(written)}}}\n").problems
    assert [problem.severity for problem in problems] == severities


def test_a_credential_in_a_command_is_not_repeated_in_the_fix() -> None:
    token = "ghp_" + "a1B2" * 9
    (problem, *_) = checked(f"version: 1\nagent: {{command: 'agent --token {token}'}}\n").problems
    assert token not in problem.fix


def test_the_agents_with_a_built_in_profile_are_those_in_the_directory() -> None:
    assert {agent.name for agent in AGENTS.values() if agent.is_built_in} == {
        file.stem for file in built_in().glob("*.yaml")
    }


@pytest.mark.parametrize(
    ("written", "oauth"),
    [
        ("true", OAuth()),
        ("false", None),
        ("{scopes: [read, 'a:b/c']}", OAuth(scopes=("read", "a:b/c"))),
        (
            "{client_id: '${env:ID}', client_secret: '${secret:a}', callback_port: 8976}",
            OAuth(client_id=Template("${env:ID}"), client_secret=Template("${secret:a}"), callback_port=8976),
        ),
        ("{callback: localhost, resource: false}", OAuth(callback="localhost", resource=False)),
        ("{client_metadata_url: 'https://x/y'}", OAuth(client_metadata_url="https://x/y")),
        ("{issuer: 'http://127.0.0.1:9'}", OAuth(issuer="http://127.0.0.1:9")),
    ],
)
def test_a_login_is_true_or_a_mapping(written: str, oauth: OAuth | None) -> None:
    found = checked(placed("login", written))
    assert found.profile is not None and not found.problems
    server = found.profile.mcp_servers["s"]
    assert isinstance(server, HttpServer) and server.oauth == oauth


@pytest.mark.parametrize(("spelling", "header"), [("exact", "X-Env-API_KEY"), ("dashes", "X-Env-API-KEY"), ("off", "")])
def test_the_headers_of_a_remote_servers_variables_are_spelled_as_the_profile_says(spelling: str, header: str) -> None:
    text = placed("server", f"{{type: http, url: https://x.example/, env: {{API_KEY: a}}, env_headers: {spelling}}}")
    assert complaints(text) == []
    profile = checked(text).profile
    assert profile is not None
    server = profile.mcp_servers["s"]
    assert isinstance(server, HttpServer)
    assert list(server.sent) == ([header] if header else [])


def test_variables_that_are_not_sent_may_be_those_of_a_server_without_tls() -> None:
    entry = "{type: http, url: http://x.example/, env: {KEY: a}, env_headers: "
    assert len(complaints(placed("server", entry + "exact}"))) == 1
    assert complaints(placed("server", entry + "off}")) == []
