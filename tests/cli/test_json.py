"""Every command that prints a table has `--json`, and the documentation says what it answers (docs/scripting.md)."""

import json
import re
from typing import Any

import pytest

from tests.cli.launcher import DEMO, DEMO_SERVER, Launcher
from tests.cli.verbs import commands
from tests.test_readme import ROOT

# The commands without `--json`, and what they print instead of a table.
WITHOUT = {
    "": "where the user stands, for a user; each part of it has a command with --json",
    **dict.fromkeys(("run", "batch run"), "events, with --output json"),
    "batch prepare": "a path and ids",
    **dict.fromkeys(("batch item", "batch cancel", "batch clean"), "files of the batch's directory"),
    "batch report": "a view of results.jsonl",
    **dict.fromkeys(("serve", "replay"), "messages of ACP"),
    "show": "a file",
    "schema": "a JSON Schema",
    "completion": "a script",
    "config path": "a path",
    "session": "a list to choose from",
    "trace": "a view of a file that is JSON",
    **dict.fromkeys(("init", "export", "config set", "config unset", "profile add-server"), "a change of a file"),
    **dict.fromkeys(("profile set", "profile remove"), "a change of a file"),
    **dict.fromkeys(("edit", "config edit"), "an editor"),
    **dict.fromkeys(
        (
            "mcp login",
            "mcp logout",
            "logout",
            "session rename",
            "session cancel",
            "session move",
            "session import",
            "session close",
            "session rm",
            "permission forget",
            "agents rm",
        ),
        "nothing",
    ),
    **dict.fromkeys(("up", "reload", "down", "attach"), "a launch; ps shows it"),
    "session wait": "a turn; its output is that of run",
    "session history": "turns; a line of JSON for each with --output json",
    "session export": "JSON",
    **dict.fromkeys(("secret set", "secret rm", "secret rename", "secret copy-to-env"), "nothing of its own"),
}


def with_json() -> set[str]:
    return {name for name, verb in commands().items() if any("--json" in each.opts for each in verb.params)}


def documented() -> dict[str, str]:
    """What the table says about each command."""
    page = (ROOT / "docs" / "scripting.md").read_text()
    (section,) = re.findall(r"^## Answers in JSON\n(.*?)^## ", page, re.DOTALL | re.MULTILINE)
    rows = re.findall(r"^\| (`.*?) \| (.*) \|$", section, re.MULTILINE)
    return {name: text for names, text in rows for name in re.findall(r"`([a-z -]+)`", names)}


def test_every_command_has_json_or_a_reason_to_have_none() -> None:
    verbs = commands().items()
    single = {name for name, verb in verbs if not hasattr(verb, "commands") or name in with_json() | {"", "session"}}
    assert sorted(single - with_json() - set(WITHOUT)) == []
    assert sorted(with_json() & set(WITHOUT)) == []


def test_every_answer_in_json_is_documented() -> None:
    told = {name.partition(" --")[0] for name in documented()}
    assert sorted(told) == sorted(with_json())


def members(text: str) -> set[str]:
    """The members of the answer itself: those outside of parentheses."""
    return set(re.findall(r"`([a-z_A-Z]+)`", re.sub(r"\([^()]*\)", "", text.partition("; ")[0])))


@pytest.fixture
def answering(launch: Launcher) -> Launcher:
    """A project with a profile, a session and a server."""
    launch.write({"agent": DEMO, "mcp_servers": {"notes": DEMO_SERVER}})
    assert launch("run", "p", "hello", "--session", "s").code == 0
    assert launch("trust", "p", "--yes").code == 0
    return launch


ASKED: dict[str, list[str]] = {
    "validate": ["p"],
    "plan": ["p"],
    "list": [],
    "import": [],
    "trust --list": [],
    "login --list": ["p"],
    "secret list": [],
    "secret check": ["p"],
    "session show": ["s"],
    "mcp list": ["p"],
    "mcp inspect": ["p", "notes"],
    "mcp tools": ["p", "notes"],
    "permission test": ["p", '{"kind": "read"}'],
    "permission list": ["p"],
    "ps": [],
    "reap": [],
    "config": [],
    "config show": [],
}


def answer(launch: Launcher, name: str, *words: str) -> Any:
    verb, _, option = name.partition(" --")
    done = launch(*verb.split(), *words, *([f"--{option}"] if option else []), "--json")
    no_keyring = 3 if name == "secret list" else 0  # the answer is whole all the same
    assert done.code in (0, no_keyring), done.err
    return json.loads(done.out)


@pytest.mark.promise("events")
def test_the_answers_have_the_documented_members(answering: Launcher) -> None:
    told = documented()
    for name, words in ASKED.items():
        found = set(answer(answering, name, *words))
        assert found == members(told[name]), name


def test_the_entries_of_lists_have_the_documented_members(answering: Launcher) -> None:
    told = documented()
    for name, words in {"list": [], "validate": ["p"], "trust --list": [], "config": [], "mcp list": ["p"]}.items():
        for member, inner in re.findall(r"`(\w+)` \(([^()]*)\)", told[name]):
            for entry in answer(answering, name, *words)[member]:
                assert set(entry) <= set(re.findall(r"`(\w+)`", inner)), (name, member)


def test_sessions_are_listed_as_they_are_shown(answering: Launcher) -> None:
    (listed,) = answer(answering, "session list")["sessions"]
    assert listed == answer(answering, "session show", "s")
    assert listed["turns"] == 1


def test_the_documentation_answers_in_json_too(launch: Launcher) -> None:
    topics = {each["topic"]: each["about"] for each in answer(launch, "help")["topics"]}
    assert topics["trust"] in (ROOT / "docs" / "trust.md").read_text()
    assert set(answer(launch, "help", "trust")) == {"topic", "text"}
    (match, *_) = answer(launch, "help", "passphrase")["matches"]
    assert set(match) == {"topic", "heading", "line"}
    assert answer(launch, "help", "no-such-word-at-all") == {"matches": []}


def test_json_of_trust_goes_with_its_list(launch: Launcher) -> None:
    done = launch("trust", "p", "--json")
    assert (done.code, "--json goes with --list" in done.err) == (2, True)
