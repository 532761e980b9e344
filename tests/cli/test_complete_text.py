"""What is found in the text of a profile without parsing it, compared with what parsing gives."""

import json
from typing import Any

import pytest

from acp_launch.cli.completion import description, secrets
from acp_launch.document.yaml import parse
from acp_launch.profile.discover import built_in

TEXTS = {
    "blocks": "version: 1\ndescription: One two\nmcp_servers:\n  a:\n    command: x\n  b.c-d:\n    type: http\n",
    "quotes": """description: "It's # one"\nmcp_servers:\n    "a":\n        command: x\n    'b': {command: y}\n""",
    "single": "description: 'one: two' # why\nextends: 'base'\n",
    "comments": "# description: no\ndescription: yes-it-is # no\nmcp_servers: # all\n  # no:\n  a: # one\n    x: y\n",
    "flow": "mcp_servers: {a: {command: x, args: [b, 'c: d']}, 'e f': {g: {h: i}},\n  j: null, k: {l: m}}\n",
    "flow-keys": 'mcp_servers: {"a": {"command": "x"}, b: {command: "}"}}\ndescription: after\n',
    "null": "extends: base\nmcp_servers:\n  a: null\n  b: ~\n  c:\n    command: x\n",
    "list": "extends:\n  - one\n  - ./two.yaml\ndescription: x\n",
    "list-at-the-edge": "extends:\n- one\n- 'two'\ndescription: x\n",
    "list-in-brackets": "extends: [one, './two.yaml', \"three\"] # why\n",
    "folded": "description: >-\n  First line\n  and more\nversion: 1\n",
    "literal": "description: |\n\n  First line\n",
    "json": json.dumps({"version": 1, "description": "d", "extends": ["e"], "mcp_servers": {"a": {}, "b": None}}),
    "json-lines": json.dumps({"extends": "e", "mcp_servers": {"a": {"env": {"x": "y"}}}}, indent=2),
    "nested": "agent:\n  description: no\n  mcp_servers: {no: {}}\nmcp_servers:\n  a:\n    mcp_servers:\n      no: x\n",
    "mark": "\ufeffdescription: after a mark\n",
    "carriage": "description: d\r\nmcp_servers:\r\n  a:\r\n    command: x\r\n",
    "empty": "",
    "emptiness": "mcp_servers:\ndescription:\nextends:\n",
}
PROFILES = {file.name: file.read_text() for file in sorted(built_in().glob("*.yaml"))}


def known(text: str) -> dict[str, Any]:
    document, _ = parse(text, "p.yaml")
    return dict(document.root) if document else {}


@pytest.mark.parametrize("text", [*TEXTS.values(), *PROFILES.values()], ids=[*TEXTS, *PROFILES])
def test_a_description_is_found_where_it_is(text: str) -> None:
    assert description(text) == (known(text).get("description") or "").strip().partition(" and more")[0]


@pytest.mark.parametrize("text", [r'{"description": "a\x"}', '{"description": "a', '{"description": 3}'])
def test_a_description_that_is_none_is_no_fault(text: str) -> None:
    assert description(text) == ""


def test_only_secrets_that_are_asked_for_are_found() -> None:
    text = "agent:\n  env: {A: '${secret:one}', B: \"x${secret:team/two}\"}\n  # C: ${secret:three}\n  D: ${env:four}\n"
    assert secrets(text) == {"one", "team/two"}


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers: {"' + "\\" * 200_000,
        "mcp_servers: " + "{" * 400_000,
        "a" * 400_000 + ":",
        " " * 400_000 + "x",
        "description: " + "'" * 400_000,
        "description: x" + " " * 400_000 + "y",
        "[" * 400_000,
        '{"a":' * 100_000,
        "extends: [" + "," * 400_000,
        "${secret:" * 50_000,
        "\n" * 400_000,
        "#\n" * 200_000,
    ],
    ids=lambda text: text[:20],
)
@pytest.mark.timeout(10)
def test_a_hostile_text_costs_no_more_than_its_length(text: str) -> None:
    """The limit is the time this test may take."""
    assert (secrets(text), len(description(text)) <= len(text)) == (set(), True)
