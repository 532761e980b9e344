"""`schema.json` is fresh, and it and `validate` agree."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from msgspec.structs import fields

from acp_launch.document.yaml import Document, parse
from acp_launch.profile.check import check, extends_faults
from acp_launch.profile.layers import merge
from acp_launch.profile.model import Agent
from acp_launch.profile.schema import schema, text
from acp_launch.secret.value import PREFIX

ROOT = Path(__file__).parents[2]
PROFILES = sorted((ROOT / "profiles").glob("*.yaml"))
BAD = [
    "agent: {command: x}",
    "version: 2\nagent: {command: x}",
    "version: 1",
    "version: 1\nagent: {comand: x}",
    "version: 1\nagent: {command: ''}",
    "version: 1\nagent: {command: x, zzz: 1}",
    "version: 1\nagent: {command: x, args: y}",
    "version: 1\nagent: {command: x, env: {A: 1}}",
    "version: 1\nagent: {command: x, env: {'A B': c}}",
    "version: 1\nagent: {command: x, env: {A: '${B}'}}",
    "version: 1\nagent: {command: x, inherit_env: most}",
    "version: 1\nagent: {command: x, inherit_env: ['*X']}",
    "version: 1\nagent: {command: x, timeouts: {initialize: 10}}",
    "version: 1\nagent: {command: x, timeouts: {initialize: 0s}}",
    "version: 1\nagent: {command: x}\npermissions: {default: maybe}",
    f"version: 1\nagent: {{command: x}}\nsession: {{name: {'n' * 201}}}",
    "version: 1\nagent: {command: x}\nmcp_servers: {a b: {command: x}}",
    "version: 1\nagent: {command: x}\nmcp_servers: {a: {command: x, url: http://x}}",
    "version: 1\nagent: {command: x}\nmcp_servers: {a: {url: http://x}}",
    "version: 1\nagent: {command: x}\nmcp_servers: {a: {type: htp, url: http://x}}",
    "version: 1\nagent: {command: x}\nmcp_servers: {a: {type: http, url: http://x, headers: {'a b': c}}}",
    "version: 1\nextend: base\nagent: {command: x}",
    "version: 1\nagent: {command: x}\ndescription: null",
    *(
        f"version: 1\nagent: {{command: x}}\npermissions: {{rules: [{rule}]}}"
        for rule in (
            "{}",
            "allow",
            "{allow: {}}",
            "{allow: read}",
            "{alow: {kind: read}}",
            "{allow: {kind: read}, deny: {kind: edit}}",
            "{allow: {kind: reed}}",
            "{allow: {kind: [read, '']}}",
            "{allow: {kind: 5}}",
            "{allow: {tool: []}}",
            "{allow: {tool: ''}}",
            "{allow: {path: ''}}",
            "{allow: {path: '${x}'}}",
            "{allow: {paths: x}}",
        )
    ),
    *(
        f"version: 1\nagent: {{command: x}}\n{keys}"
        for keys in (
            "client: {fs: rw}",
            "client: {terminal: 1}",
            "client: {x: true}",
            "session: {config: {a: 5}}",
            "session: {config: {a: null}}",
            "session: {mode: true}",
        )
    ),
    *(
        f"version: 1\nagent: {{command: x}}\nmcp_servers: {{a: {{command: x, {keys}}}}}"
        for keys in (
            "restart: {max: -1}",
            "restart: {max: '1'}",
            "restart: {policy: sometimes}",
            "restart: {backoff: {factor: 0.9}}",
            "restart: {backoff: {factor: 101}}",
            "restart: {backof: {}}",
            "timeouts: {call: 10}",
            "timeouts: {initialize: 10s}",
            "tools: {allow: x}",
            "tools: {deny: ['']}",
            "inherit_env: ['*X']",
            "required: 1",
            "bridge: 'no'",
            "cwd: '${x}'",
        )
    ),
    *(
        f"version: 1\nagent: {{command: x}}\nmcp_servers: {{a: {{type: http, url: 'https://x', oauth: {login}}}}}"
        for login in (
            "yes",
            "[read]",
            "{scopes: []}",
            "{scopes: [a b]}",
            "{client_secret: '${secret:a}'}",
            "{client_id: a, client_secret: literal}",
            "{client_metadata_url: 'http://x/y'}",
            "{issuer: login.example}",
            "{issuer: 'https://x?y'}",
            "{callback_port: 80}",
            "{callback_port: '8976'}",
            "{callback_port: true}",
            "{port: 8976}",
        )
    ),
]
GOOD = [
    "restart: never",
    "restart: {policy: never, max: 0, min_uptime: 1s, backoff: {initial: 1s, max: 1s, factor: 1}}",
    "restart: {backoff: {factor: 2.5}}",
    "timeouts: {start: 1m, call: null}",
    "tools: {allow: [], deny: ['a*']}",
    "inherit_env: [PATH, 'AWS_*']",
    "cwd: '${project}/x', required: false, bridge: true",
]
LOGINS = [
    "true",
    "false",
    "null",
    "{}",
    "{scopes: read}",
    "{scopes: [read, write], callback_port: 8976, callback: localhost, resource: false}",
    "{client_id: '${env:A}', client_secret: '${secret:a}'}",
    "{client_metadata_url: 'https://x.example/client.json'}",
    "{client_id: a, client_secret: '${secret:a}', issuer: 'https://login.example/tenant/'}",
]


def root(yaml: str) -> Any:
    document, problems = parse(yaml, "f.yaml")
    assert document is not None and not problems
    return document.root


def accepts(yaml: str) -> bool:
    document, _ = parse(yaml, "f.yaml")
    assert document is not None
    return check(document)[0] is not None


def test_schema_json_is_fresh() -> None:
    written = (ROOT / "schema.json").read_text(encoding="utf-8")
    assert written == text(), "run: acp-launch schema --write schema.json"


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("file", PROFILES, ids=lambda file: str(file.name))
def test_every_shipped_profile_is_good_by_both(file: Path) -> None:
    content = file.read_text(encoding="utf-8")
    assert content.startswith("# yaml-language-server: $schema=../schema.json\n")
    assert accepts(content)
    jsonschema.Draft202012Validator(schema()).validate(root(content))


def test_a_bad_profile_is_refused_by_both() -> None:
    validator = jsonschema.Draft202012Validator(schema())
    assert [yaml for yaml in BAD if accepts(yaml) or validator.is_valid(root(yaml))] == []


@pytest.mark.parametrize("login", LOGINS)
def test_both_accept_a_login(login: str) -> None:
    yaml = f"version: 1\nagent: {{command: x}}\nmcp_servers: {{a: {{type: sse, url: 'https://x', oauth: {login}}}}}"
    assert accepts(yaml)
    jsonschema.Draft202012Validator(schema()).validate(root(yaml))
    layer = f"extends: b\nmcp_servers: {{a: {{oauth: {login}}}}}"
    jsonschema.Draft202012Validator(schema()).validate(root(layer))


@pytest.mark.parametrize(
    "keys",
    [
        *(f"mcp_servers:\n  a: {{command: x, {keys}}}" for keys in GOOD),
        "permissions: {rules: [{allow: {kind: read}}, {deny: {kind: ['s*', edit], path: a/**}}]}",
        "permissions: {rules: [{ask: {command: [x], title: y, tool: [z]}}]}",
        "permissions: {rules: []}",
        "client: {fs: read, terminal: false}",
        "client: {fs: true}",
        "session: {mode: plan, config: {model: opus, fast: false}}",
    ],
)
def test_what_a_profile_may_say_is_accepted_by_both(keys: str) -> None:
    yaml = f"version: 1\nagent: {{command: x}}\n{keys}"
    assert accepts(yaml)
    jsonschema.Draft202012Validator(schema()).validate(root(yaml))


def test_every_key_has_the_description_of_its_field() -> None:
    made = schema()
    shapes = [made, *made["$defs"].values()]
    assert all(field["description"] for shape in shapes for field in shape["properties"].values())
    command = made["$defs"]["Agent"]["properties"]["command"]["description"]
    assert command == "The program to start: a name on PATH, an absolute path, or a path relative to the project."
    assert set(made["$defs"]["Agent"]["properties"]) == {field.name for field in fields(Agent)}


def test_defaults_are_written_the_way_a_profile_writes_them() -> None:
    timeouts = schema()["$defs"]["Timeouts"]["properties"]
    assert {name: field["default"] for name, field in timeouts.items()} == {
        "initialize": "2m",
        "session": "1m",
        "silence": "30m",
    }
    backoff = schema()["$defs"]["Backoff"]["properties"]
    assert {name: field["default"] for name, field in backoff.items()} == {
        "initial": "200ms",
        "max": "10s",
        "factor": 2,
    }


def test_no_shipped_profile_holds_a_secret() -> None:
    assert not any(PREFIX + "=" in file.read_text(encoding="utf-8") for file in PROFILES)
    assert json.loads(text())["title"] == "acp-launch profile"


BELOW = "version: 1\nagent: {command: x}\nmcp_servers: {a: {command: x, env: {A: b}}, b: {command: x}}\n"
EXTENDING = [
    "{}",
    "agent: {env: {A: null}}",
    "agent: {timeouts: {silence: null}}",
    "mcp_servers: {a: null}",
    "mcp_servers: {a: {env: {A: null, B: c}, timeouts: null}}",
    "mcp_servers: {a: {command: null, env: null, type: http, url: 'https://x'}}",
    "permissions: {rules: [{allow: {kind: read}}]}",
]
WRONG = [
    "agent: {comand: x}",
    "agent: {args: [null]}",
    "version: 2",
    "mcp_servers: {a: {env: {A: 5}}}",
    "mcp_servers: {a b: {command: x}}",
    "permissions: {rules: [{allow: {kind: null}}]}",
    "extends: ~/x",
    "extends: /x",
    "extends: x/y",
    "extends: ['$x']",
    "extends: []",
]


def together(over: str) -> bool:
    """Whether the profile that `over` makes with what is below it is a good one."""
    parsed = [parse(text, "f.yaml")[0] for text in (BELOW, over)]
    trees = [document.tree for document in parsed if document]
    return check(Document("f.yaml", merge(trees)[0]))[0] is not None


@pytest.mark.parametrize("over", EXTENDING)
def test_what_a_profile_that_extends_another_may_say_is_accepted_by_both(over: str) -> None:
    assert together(over)
    jsonschema.Draft202012Validator(schema()).validate({"extends": ["base", "./x.yaml"], **root(over)})


@pytest.mark.parametrize("over", WRONG)
def test_what_is_wrong_in_a_profile_that_extends_another_is_refused_by_both(over: str) -> None:
    written = {"extends": "base", **root(over)}
    assert not together(over) or list(extends_faults(written["extends"]))
    assert not jsonschema.Draft202012Validator(schema()).is_valid(written)


def test_nothing_is_referred_to_that_is_not_there_and_nothing_is_there_that_is_not_referred_to() -> None:
    made = schema()
    referred = set(re.findall(r"#/\$defs/(\w+)", json.dumps(made)))
    assert referred == set(made["$defs"])
