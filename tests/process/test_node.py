"""Which Node.js a package wants, and what tells that a program died of an old one (semver ranges are npm's; ours)."""

import pytest

from acp_launch.process.node import advice, parse_version, satisfies

HERE = (20, 20, 2)


@pytest.mark.parametrize(
    ("engines", "fits"),
    [
        (">=22", False),
        (">=20", True),
        (">=20.0.0", True),
        (">= 20.21", False),
        (">20", False),
        ("<20.20", False),
        ("<=20", True),
        ("^20.19.0 || >=22.12.0", True),
        ("^18 || >=22", False),
        ("~20.20.1", True),
        ("~20.19", False),
        ("~20", True),
        ("20.x", True),
        ("22", False),
        ("=20.20.2", True),
        (">=18 <21", True),
        (">=18 <20", False),
        ("18 - 22", True),
        ("16 - 18", False),
        ("*", True),
        ("whatever", True),
    ],
)
def test_a_version_is_compared_with_a_range_of_npm(engines: str, fits: bool) -> None:
    assert satisfies(HERE, engines) == fits


def test_a_version_is_read_as_node_prints_it() -> None:
    assert parse_version("v20.20.2-nightly2026") == HERE
    assert (parse_version("v20.20.2\n"), parse_version("node: not found"), parse_version(">=3")) == (HERE, (), ())


SYNTAX = [
    "/x/agent.js:2",
    "using x = 1;",
    "      ^",
    "SyntaxError: Unexpected identifier 'x'",
    "    at wrapSafe (node:internal/modules/cjs/loader:1464:18)",
    "Node.js v20.20.2",
]


@pytest.mark.parametrize(
    "stderr",
    [
        SYNTAX,
        ["Error [ERR_UNKNOWN_BUILTIN_MODULE]: No such built-in module: node:sqlite", "Node.js v20.20.2"],
        ["TypeError: Promise.withResolvers is not a function", "    at f (/x.js:1:2)", "Node.js v20.20.2"],
        ["ReferenceError: File is not defined", "Node.js v20.20.2"],
        ["TypeError: Array.fromAsync is not a function", "Node.js v20.20.2"],
        ["TypeError: list.toSorted is not a function", "Node.js v20.20.2"],
        ["Error: Cannot find module 'node:sqlite'", "Node.js v20.20.2"],
        ["ERROR: This version requires Node.js >=22.12", "Node.js v20.20.2"],
    ],
)
def test_a_program_that_its_node_does_not_understand_needs_a_newer_one(stderr: list[str]) -> None:
    assert advice(stderr) == (
        "Node.js 20.20.2 does not understand this program: install a newer one (https://nodejs.org), then try again"
    )


def test_a_node_without_a_version_in_its_words_is_named_without() -> None:
    assert advice(["node: bad option: --experimental-x"]).startswith("this Node.js does not understand")


@pytest.mark.parametrize(
    "stderr",
    [
        [],
        ["SyntaxError: Unexpected token 'x'", "    at JSON.parse (<anonymous>)", "Node.js v20.20.2"],
        ["SyntaxError: mine", "    at Object.<anonymous> (/x/d.js:1:7)", "Node.js v20.20.2"],
        ['  File "x.py", line 1', "SyntaxError: invalid syntax"],
        ["Error: no API key", "Node.js v20.20.2"],
        ["TypeError: client.connect is not a function", "Node.js v20.20.2"],
        ["Error: Cannot find module './dist/index.js'", "Node.js v20.20.2"],
    ],
)
def test_any_other_end_is_not_blamed_on_node(stderr: list[str]) -> None:
    assert advice(stderr) == ""
