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
    **dict.fromkeys(("mcp login", "mcp logout", "logout", "permission forget", "agents rm"), "nothing"),
    **dict.fromkeys((f"session {verb}" for verb in ("rename", "cancel", "move", "import", "close", "rm")), "nothing"),
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


def test_every_command_has_json_that_is_documented_or_a_reason_to_have_none() -> None:
    verbs = commands().items()
    single = {name for name, verb in verbs if not hasattr(verb, "commands") or name in with_json() | {"", "session"}}
    assert sorted(single - with_json() - set(WITHOUT)) == []
    assert sorted(with_json() & set(WITHOUT)) == []
    assert sorted({name.partition(" --")[0] for name in documented()}) == sorted(with_json())


def members(text: str) -> set[str]:
    """The members of the answer itself: those outside of parentheses."""
    return set(re.findall(r"`([a-z_A-Z]+)`", re.sub(r"\([^()]*\)", "", text.partition("; ")[0])))


ASKED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("validate", "plan", "login --list", "secret check", "mcp list", "permission list"), ("p",)),
    **dict.fromkeys(("mcp inspect", "mcp tools"), ("p", "notes")),
    **dict.fromkeys(("list", "import", "trust --list", "secret list", "ps", "reap", "config", "config show"), ()),
    "session show": ("s",),
    "permission test": ("p", '{"kind": "read"}'),
}


def answer(launch: Launcher, name: str, *words: str) -> Any:
    verb, _, option = name.partition(" --")
    done = launch(*verb.split(), *words, *([f"--{option}"] if option else []), "--json")
    no_keyring = 3 if name == "secret list" else 0  # the answer is whole all the same
    assert done.code in (0, no_keyring), done.err
    return json.loads(done.out)


@pytest.mark.promise("events")
def test_the_answers_and_the_entries_of_their_lists_have_the_documented_members(launch: Launcher) -> None:
    launch.write({"agent": DEMO, "mcp_servers": {"notes": DEMO_SERVER}})
    assert launch("run", "p", "hello", "--session", "s").code == 0
    assert launch("trust", "p", "--yes").code == 0
    told = documented()
    for name, words in ASKED.items():
        found = answer(launch, name, *words)
        assert set(found) == members(told[name]), name
        if name in ("list", "validate", "trust --list", "config", "mcp list"):
            for member, inner in re.findall(r"`(\w+)` \(([^()]*)\)", told[name]):
                for entry in found[member]:
                    assert set(entry) <= set(re.findall(r"`(\w+)`", inner)), (name, member)
    (listed,) = answer(launch, "session list")["sessions"]
    assert listed == answer(launch, "session show", "s")
    assert listed["turns"] == 1
    done = launch("trust", "p", "--json")
    assert (done.code, "--json goes with --list" in done.err) == (2, True)


def test_the_documentation_answers_in_json_too(launch: Launcher) -> None:
    topics = {each["topic"]: each["about"] for each in answer(launch, "help")["topics"]}
    assert topics["trust"] in (ROOT / "docs" / "trust.md").read_text()
    assert set(answer(launch, "help", "trust")) == {"topic", "text"}
    (match, *_) = answer(launch, "help", "passphrase")["matches"]
    assert set(match) == {"topic", "heading", "line"}
    assert answer(launch, "help", "no-such-word-at-all") == {"matches": []}
