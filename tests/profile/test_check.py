"""A document becomes a profile or every problem at once (ours, DESIGN §4). Whole messages are asserted."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.document.tree import parse
from acp_launch.problem import Problem, errors
from acp_launch.profile.check import Checked, check
from acp_launch.profile.model import HttpServer, SseServer, StdioServer

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
"""


def checked(text: str) -> Checked:
    document, problems = parse(text, "f.yaml")
    assert document is not None and not problems
    return check(document)


def complaints(text: str) -> list[str]:
    return [str(problem) for problem in checked(text).problems]


def within(agent: str) -> str:
    return f"version: 1\nagent:\n  command: x\n  {agent}\n"


def with_server(server: str) -> str:
    return f"version: 1\nagent: {{command: x}}\nmcp_servers:\n  s: {server}\n"


def test_a_good_profile_becomes_typed_values() -> None:
    profile = checked(GOOD).profile
    assert profile is not None
    assert (profile.description, profile.permissions.default, profile.session.name) == (
        "Reviews pull requests",
        "deny",
        "default",
    )
    assert profile.agent.args == ("--model", "${env:MODEL:-opus}")
    assert profile.agent.inherit_env == ("PATH", "LC_*")
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
    }


def test_the_smallest_profile_is_two_lines() -> None:
    found = checked("version: 1\nagent: {command: x}")
    assert found.profile is not None and not found.problems
    assert found.profile.permissions.default == "ask"
    assert found.profile.agent.inherit_env == "all"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "agent: {command: x}",
            "f.yaml:1:1: version: the profile does not say which version of the format it is\n    fix: add: version: 1",
        ),
        (
            "version: 2\nagent: {command: x}",
            "f.yaml:1:10: version: expected version 1, the only one there is; found the number 2\n"
            "    fix: write: version: 1",
        ),
        (
            'version: "1"\nagent: {command: x}',
            'f.yaml:1:10: version: expected version 1, the only one there is; found the text "1"\n'
            "    fix: write: version: 1",
        ),
        (
            "version: true\nagent: {command: x}",
            "f.yaml:1:10: version: expected version 1, the only one there is; found the truth value true\n"
            "    fix: write: version: 1",
        ),
        ("version: 1", "f.yaml:1:1: agent: this key is required\n    fix: add: agent: ..."),
        (
            "version: 1\nagent:\n  args: []",
            "f.yaml:2:1: agent.command: this key is required\n    fix: add: command: ...",
        ),
        (
            "version: 1\nagent:",
            "f.yaml:2:7: agent: expected a mapping, found nothing\n    fix: write a value, or remove the key",
        ),
        (
            "vesion: 1\nagent: {command: x}",
            'f.yaml:1:1: vesion: unknown key "vesion"; did you mean "version"?\n    fix: write version',
        ),
        (
            "version: 1\nagnt: {command: x}",
            'f.yaml:2:1: agnt: unknown key "agnt"; did you mean "agent"?\n    fix: write agent',
        ),
        (
            "version: 1\nagent: {cmd: x}",
            'f.yaml:2:9: agent.cmd: unknown key "cmd"; did you mean "command"?\n    fix: write command',
        ),
        (
            with_server("{comand: npx}"),
            'f.yaml:4:7: mcp_servers.s.comand: unknown key "comand"; did you mean "command"?\n    fix: write command',
        ),
        (
            with_server("{type: http, ulr: https://x}"),
            'f.yaml:4:19: mcp_servers.s.ulr: unknown key "ulr"; did you mean "url"?\n    fix: write url',
        ),
        (
            within("comand: y"),
            'f.yaml:4:3: agent.comand: unknown key "comand"; did you mean "command"?\n    fix: write command',
        ),
        (
            within("inherit-env: all"),
            'f.yaml:4:3: agent.inherit-env: unknown key "inherit-env"; did you mean "inherit_env"?\n'
            "    fix: write inherit_env",
        ),
        (
            within("zzz: y"),
            'f.yaml:4:3: agent.zzz: unknown key "zzz"\n    fix: use one of command, args, env, inherit_env, timeouts',
        ),
        (
            "version: 1\nextends: base\nagent: {command: x}",
            'f.yaml:2:1: extends: "extends" is not supported by this version yet\n    fix: remove it',
        ),
        (
            "version: 1\nagent: {command: x}\nsession: {mode: plan}",
            'f.yaml:3:11: session.mode: "mode" is not supported by this version yet\n    fix: remove it',
        ),
        (
            with_server("{command: x, restart: {}}"),
            'f.yaml:4:19: mcp_servers.s.restart: "restart" is not supported by this version yet\n    fix: remove it',
        ),
        (
            within("env: {PORT: 8080}"),
            'f.yaml:4:15: agent.env.PORT: expected text, found the number 8080\n    fix: quote it: "8080"',
        ),
        (
            within("env: {DEBUG: true}"),
            'f.yaml:4:16: agent.env.DEBUG: expected text, found the truth value true\n    fix: quote it: "true"',
        ),
        (
            within("env: {A: }"),
            "f.yaml:4:11: agent.env.A: expected text, found nothing\n    fix: write a value, or remove the key",
        ),
        (
            within("env: [A=b]"),
            "f.yaml:4:8: agent.env: expected a mapping, found a list\n"
            "    fix: write it on lines of its own as KEY: VALUE",
        ),
        (
            within("args: -y foo"),
            'f.yaml:4:9: agent.args: expected a list, found the text "-y foo"\n    fix: write it as a list: [-y, foo]',
        ),
        (
            within("args: [[a]]"),
            "f.yaml:4:10: agent.args[0]: expected text, found a list\n    fix: write one text, in quotes if need be",
        ),
        (
            within("args: {a: b}"),
            "f.yaml:4:9: agent.args: expected a list, found a mapping\n"
            "    fix: write each item on a line of its own after a dash: - ITEM",
        ),
        (
            within("timeouts: {session: [1]}"),
            "f.yaml:4:23: agent.timeouts.session: expected a duration, found a list\n"
            "    fix: write a duration such as 10s",
        ),
        (
            within("inherit_env: {A: b}"),
            "f.yaml:4:16: agent.inherit_env: expected all, minimal or a list of names, found a mapping\n"
            "    fix: write one of them: all",
        ),
        (
            within("inherit_env: minimall"),
            "f.yaml:4:16: agent.inherit_env: expected all, minimal or a list of names, "
            'found the text "minimall"\n    fix: write minimal',
        ),
        (
            within("inherit_env: [A, 1]"),
            'f.yaml:4:20: agent.inherit_env[1]: expected text, found the number 1\n    fix: quote it: "1"',
        ),
        (
            within('inherit_env: ["*_X"]'),
            'f.yaml:4:17: agent.inherit_env[0]: "*_X" is neither a variable\'s name nor a PREFIX_* pattern\n'
            "    fix: write NAME or PREFIX_*",
        ),
        (
            within("timeouts: {initialize: 10}"),
            "f.yaml:4:26: agent.timeouts.initialize: expected a duration, found the number 10\n    fix: write 10s",
        ),
        (
            within("timeouts: {session: 5 minutes}"),
            'f.yaml:4:23: agent.timeouts.session: expected a duration, found the text "5 minutes"\n'
            "    fix: write a positive number and its unit: 200ms, 10s, 2m, 1h",
        ),
        (
            within("env: {A: 'token ${GITHUB}'}"),
            "f.yaml:4:19: agent.env.A: unknown reference ${GITHUB}; did you mean ${env:GITHUB}?\n"
            "    fix: write ${env:GITHUB}",
        ),
        (
            within("env: {A B: c}"),
            'f.yaml:4:9: agent.env."A B": "A B" is not a variable\'s name\n    fix: use a name without spaces and =',
        ),
        (
            within("env: {ACP_LAUNCH_SECRET_X: c}"),
            "f.yaml:4:9: agent.env.ACP_LAUNCH_SECRET_X: ACP_LAUNCH_SECRET_* is where acp-launch finds secrets; "
            "no child ever receives it\n    fix: choose another name",
        ),
        (
            "version: 1\nagent: {command: ' '}",
            "f.yaml:2:18: agent.command: the command is empty\n    fix: write the program to start",
        ),
        (
            "version: 1\nagent: {command: x}\npermissions: {default: alow}",
            'f.yaml:3:24: permissions.default: expected ask, allow or deny, found the text "alow"\n'
            "    fix: write allow",
        ),
        (
            "version: 1\nagent: {command: x}\npermissions: {default: [a]}",
            "f.yaml:3:24: permissions.default: expected ask, allow or deny, found a list\n"
            "    fix: write one of them: ask",
        ),
        (
            'version: 1\nagent: {command: x}\nsession: {name: "a\\tb"}',
            "f.yaml:3:17: session.name: the session's name holds characters that cannot be printed\n"
            "    fix: choose a printable name of 1 to 200 characters that begins with no dash",
        ),
        (
            "version: 1\nagent: {command: x}\nsession: {name: ''}",
            "f.yaml:3:17: session.name: the session's name is empty\n"
            "    fix: choose a printable name of 1 to 200 characters that begins with no dash",
        ),
        (
            "version: 1\nagent: {command: x}\nsession: {name: -x}",
            'f.yaml:3:17: session.name: the session\'s name "-x" begins with "-" like an option\n'
            "    fix: choose a printable name of 1 to 200 characters that begins with no dash",
        ),
        (
            f"version: 1\nagent: {{command: x}}\nsession: {{name: {'n' * 201}}}",
            "f.yaml:3:17: session.name: the session's name has 201 characters; at most 200 are allowed\n"
            "    fix: choose a printable name of 1 to 200 characters that begins with no dash",
        ),
        (
            "version: 1\nagent: {command: x}\nmcp_servers: [a]",
            "f.yaml:3:14: mcp_servers: expected a mapping of names to servers, found a list\n"
            "    fix: write it on lines of its own as KEY: VALUE",
        ),
        (
            "version: 1\nagent: {command: x}\nmcp_servers: {my server: {command: x}}",
            'f.yaml:3:15: mcp_servers."my server": "my server" is not a server name\n'
            "    fix: use letters, digits, _ . and - only",
        ),
        (
            with_server("{url: https://x/mcp}"),
            "f.yaml:4:3: mcp_servers.s.type: a server with a url needs a type\n    fix: add: type: http",
        ),
        (
            with_server("{command: x, url: https://x}"),
            "f.yaml:4:19: mcp_servers.s.url: a server has a command or a url, not both\n"
            "    fix: keep the command (a local program) or the url (a server on the network)",
        ),
        (
            with_server("{type: htp, url: https://x}"),
            'f.yaml:4:13: mcp_servers.s.type: expected stdio, http or sse, found the text "htp"\n    fix: write http',
        ),
        (
            with_server("{type: streamable-http, url: https://x}"),
            'f.yaml:4:13: mcp_servers.s.type: expected stdio, http or sse, found the text "streamable-http"\n'
            "    fix: write http",
        ),
        (
            with_server("{}"),
            "f.yaml:4:3: mcp_servers.s: a server needs a command or a url\n    fix: add: command: ...",
        ),
        (
            with_server("npx"),
            'f.yaml:4:6: mcp_servers.s: expected a mapping with a command or a url, found the text "npx"\n'
            "    fix: write it on lines of its own as KEY: VALUE",
        ),
        (
            with_server("{type: http, url: https://x, args: [a]}"),
            'f.yaml:4:35: mcp_servers.s.args: "args" belongs to a server with a command\n'
            "    fix: remove it, or the type if the server is such a one",
        ),
        (
            with_server("{type: http, url: ftp://x}"),
            'f.yaml:4:24: mcp_servers.s.url: expected an http or https url, found "ftp://x"\n'
            "    fix: write an address that begins with https:// or http://",
        ),
        (
            with_server('{type: http, url: "https:///x"}'),
            'f.yaml:4:24: mcp_servers.s.url: the url "https:///x" has no host\n'
            "    fix: write an address that begins with https:// or http://",
        ),
        (
            with_server('{type: sse, url: https://x, headers: {"a b": c}}'),
            'f.yaml:4:44: mcp_servers.s.headers."a b": "a b" is not a header\'s name\n'
            "    fix: use letters, digits and -",
        ),
        (
            with_server('{type: sse, url: https://x, headers: {A: "b\\nc"}}'),
            "f.yaml:4:47: mcp_servers.s.headers.A: a header cannot hold the character U+000A\n"
            "    fix: write it on one line",
        ),
    ],
)
def test_each_fault_has_its_place_a_sentence_and_a_way_out(text: str, expected: str) -> None:
    assert complaints(text) == [expected]
    assert checked(text).profile is None


def test_a_required_key_that_is_missing_beside_an_unknown_one_is_a_problem_of_its_own() -> None:
    """Only a misspelt key explains why it is missing, and only in its own mapping."""
    assert complaints("version: 1\nagent: {zzz: x}\nsession: {agnt: y}\n") == [
        "f.yaml:2:1: agent.command: this key is required\n    fix: add: command: ...",
        'f.yaml:2:9: agent.zzz: unknown key "zzz"\n    fix: use one of command, args, env, inherit_env, timeouts',
        'f.yaml:3:11: session.agnt: unknown key "agnt"\n    fix: use one of name',
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
    assert found.problems == (
        Problem(
            "f.yaml",
            4,
            17,
            "agent.args[0]",
            "${secret:a} is visible to every user of this machine in ps",
            "pass it in env",
            "warning",
        ),
        Problem(
            "f.yaml",
            6,
            38,
            "mcp_servers.s.url",
            "${secret:b} in a url ends up in logs",
            "pass it in headers",
            "warning",
        ),
    )


KEYS = sorted({*re.findall(r"\w+", GOOD), "extends", "mode", "x y", "é", ""})
TEXTS = st.sampled_from(["", "all", "http", "stdio", "10s", "https://x", "${env:A}", "${b}", "a\nb", "é", "ask"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
)


@given(st.dictionaries(st.sampled_from(KEYS), VALUES), st.booleans())
def test_any_mapping_is_a_profile_or_has_problems_with_places(root: dict[str, object], whole: bool) -> None:
    """JSON is YAML: written as JSON it reaches the checker as it is."""
    text = json.dumps({"version": 1, "agent": {"command": "x"}, **root} if whole else root)
    text = text.replace("NaN", ".nan").replace("-Infinity", "-.inf").replace("Infinity", ".inf")
    document, problems = parse(text, "f.yaml")
    if document is None:
        assert problems
        return
    found = check(document)
    assert (found.profile is None) == bool(errors(found.problems))
    assert all(problem.line == 1 and problem.column >= 1 and problem.path for problem in found.problems)


def test_a_fault_in_an_anchored_value_is_reported_where_it_is_written() -> None:
    text = "version: 1\nagent: {command: x, env: &e {A: 1}}\nmcp_servers: {s: {command: y, env: *e}}"
    assert [(problem.line, problem.column, problem.path) for problem in checked(text).problems] == [
        (2, 33, "agent.env.A"),
        (2, 33, "mcp_servers.s.env.A"),
    ]


@pytest.mark.parametrize(
    ("key", "fix"),
    [
        ("secrets", "move it to config.yaml in your configuration directory"),
        ("max_line", "move it to config.yaml in your configuration directory"),
        ("secret", 'move it to "secrets" in config.yaml in your configuration directory'),
        ("store", 'move it to "secrets" in config.yaml in your configuration directory'),
        ("stores", 'move it to "secrets" in config.yaml in your configuration directory'),
        ("trust", "remove it"),
    ],
)
def test_a_profile_cannot_set_what_belongs_to_the_user(key: str, fix: str) -> None:
    """Nor is it told what the key held: that may have been a secret."""
    assert complaints(f"version: 1\nagent: {{command: x}}\n{key}: {{github: canary}}\n") == [
        f'f.yaml:3:1: {key}: "{key}" belongs to your own settings; a profile cannot set it\n    fix: {fix}'
    ]


def test_what_this_machine_is_asked_about_cannot_come_from_a_secret() -> None:
    """It is asked before any secret is looked up."""
    text = (
        'version: 1\nagent: {command: "x${secret:a}"}\n'
        'workspace: {cwd: "/${secret:b}", additional_directories: ["/c/${secret:c}"]}\n'
        'mcp_servers: {s: {command: "${secret:d}", env: {command: "${secret:e}"}}}\n'
    )
    fix = "\n    fix: write it as text, or use ${env:NAME}"
    assert complaints(text) == [
        f"f.yaml:2:20: agent.command: a command cannot come from a secret{fix}",
        f"f.yaml:3:20: workspace.cwd: a directory cannot come from a secret{fix}",
        f"f.yaml:3:63: workspace.additional_directories[0]: a directory cannot come from a secret{fix}",
        f"f.yaml:4:28: mcp_servers.s.command: a command cannot come from a secret{fix}",
    ]
