"""Settings become choices or every problem at once (ours). Whole messages are asserted."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.settings.check import UserSettings, choices
from acp_launch.settings.model import Choices, SecretSettings


def complaints(text: str, **variables: str) -> list[str]:
    said = {f"ACP_LAUNCH_{name}": value for name, value in variables.items()}
    chosen, problems = choices(text, "c.yaml", said)
    assert (chosen is None) == bool(problems)
    return [str(problem) for problem in problems]


def test_each_fault_has_its_place_a_sentence_and_a_way_out() -> None:
    for text, fault, fix in [
        ("- a", "1:1: a settings file is a mapping of keys to values, found a list", "begin with: max_line: 64MiB"),
        (
            "max_line: 8192\n---\nmax_line: 8192",
            "2:1: a settings file is one YAML document; a second one begins here",
            'remove the "---"',
        ),
        ("secrets: '", "1:10: not valid YAML: this quoted text is not closed", "add the closing quote"),
        (
            "agent: {}",
            '1:1: agent: unknown key "agent"',
            "use one of max_line, secrets, attention, headers_command, batch, hangup, registry, notify_command",
        ),
        (
            "batch: {insecure_scheduler: maybe}",
            '1:29: batch.insecure_scheduler: expected true or false, found the text "maybe"',
            "correct the value",
        ),
        (
            "attention: {notify: never}",
            '1:13: attention.notify: "notify" was removed',
            "remove it; terminals can show a bell as a notification, and attention.bell is the bell",
        ),
        (
            "attention: {progress: auto}",
            '1:13: attention.progress: "progress" was removed',
            "remove it; the title shows the state: attention.title",
        ),
        ("secret: {}", '1:1: secret: unknown key "secret"; did you mean "secrets"?', "write secrets"),
        ("store: file", '1:1: store: unknown key "store"; did you mean secrets.store?', "move it to secrets.store"),
        (
            "secrets: {key_file: x}",
            '1:11: secrets.key_file: unknown key "key_file"; did you mean secrets.file.key_file?',
            "move it to secrets.file.key_file",
        ),
        (
            "secrets: keyring",
            '1:10: secrets: expected a mapping, found the text "keyring"',
            "write secrets: {store: keyring}",
        ),
        (
            "secrets:\n  store: comand",
            '2:10: secrets.store: expected keyring, file or command, found the text "comand"',
            "write command",
        ),
        (
            "secrets: {store: 5}",
            "1:18: secrets.store: expected keyring, file or command, found the number 5",
            "write one of them: keyring",
        ),
        (
            "secrets: {store: command}",
            "1:18: secrets.store: the store is a command, but secrets.command is not set",
            'add secrets.command: [op, read, "op://dev/{name}/credential"]',
        ),
        (
            "secrets: {store: command, command: []}",
            "1:36: secrets.command: the command is empty",
            'write a program and its arguments: [op, read, "op://dev/{name}/credential"]',
        ),
        (
            "secrets: {command: op read x}",
            '1:20: secrets.command: expected a list, found the text "op read x"',
            "write command: [op, read, x]",
        ),
        (
            "secrets: {command: [pass, show]}",
            "1:20: secrets.command: no argument contains {name}, so every secret would get the same value",
            "put {name} where the secret's name belongs",
        ),
        (
            "secrets: {command: [pass, 7, '{name}']}",
            "1:27: secrets.command[1]: expected text, found the number 7",
            'quote it: "7"',
        ),
        (
            "secrets: {command: ['bin/{name}', '{name}']}",
            "1:26: secrets.command[0]: the program must not depend on the secret's name, because profiles "
            "choose the names",
            "put {name} in an argument",
        ),
        ("secrets: {timeout: 10}", "1:20: secrets.timeout: expected a duration, found the number 10", "write 10s"),
        (
            "secrets: {timeout: 999ms}",
            '1:20: secrets.timeout: expected a duration from 1s to 10m, found the text "999ms"',
            "write 1s",
        ),
        (
            "secrets: {keyring: {backend: kwallet}}",
            '1:30: secrets.keyring.backend: expected a keyring backend by its full name, found the text "kwallet"',
            "write it as keyring.backends.kwallet.DBusKeyring; keyring --list-backends lists them",
        ),
        (
            "secrets: {file: {path: ''}}",
            "1:24: secrets.file.path: the path is empty",
            "write a path, or remove the key",
        ),
        (
            "secrets: {file: }",
            "1:16: secrets.file: expected a mapping, found nothing",
            "write a value, or remove the key",
        ),
    ]:
        assert complaints(text) == [f"c.yaml:{fault}\n    fix: {fix}"]


@pytest.mark.parametrize("word", ["${HOME}/x {name}", "awk '{print $1}' {name}", '{"a": "{name}"}', "{name}{name}"])
def test_braces_that_are_a_programs_own_pass(word: str) -> None:
    chosen, problems = choices(json.dumps({"secrets": {"command": ["sh", "-c", word]}}), "c.yaml", {})
    assert not problems
    assert chosen is not None and chosen.secrets.command == ("sh", "-c", word)


def test_a_fault_in_a_variable_is_told_by_its_name() -> None:
    for name, text, expected in (
        (
            "STORE",
            "command",
            "the store is a command, but secrets.command is not set\n"
            '    fix: add secrets.command: [op, read, "op://dev/{name}/credential"]',
        ),
        (
            "COMMAND",
            "op read {name}",
            'expected a list in JSON, found the text "op read {name}"\n'
            """    fix: write it as '["op", "read", "op://dev/{name}/credential"]'""",
        ),
        ("COMMAND", '["op", 5, "{name}"]', 'expected text, found the number 5\n    fix: quote it: "5"'),
        ("FILE__PATH", "/h\udcff", "this variable does not hold UTF-8 text\n    fix: set it in a UTF-8 locale"),
        (
            "STOER",
            "x",
            "unknown setting; did you mean ACP_LAUNCH_SECRETS__STORE?\n    fix: rename it to ACP_LAUNCH_SECRETS__STORE",
        ),
        (
            "KEYRING_BACKEND",
            "x",
            "unknown setting; did you mean ACP_LAUNCH_SECRETS__KEYRING__BACKEND?\n"
            "    fix: rename it to ACP_LAUNCH_SECRETS__KEYRING__BACKEND",
        ),
    ):
        assert complaints("", **{f"SECRETS__{name}": text}) == [f"ACP_LAUNCH_SECRETS__{name}: {expected}"]


def test_a_variable_can_complete_what_the_file_says() -> None:
    variables = {"ACP_LAUNCH_SECRETS__COMMAND": '["pass", "{name}"]'}
    chosen, problems = choices("secrets: {store: command}", "c.yaml", variables)
    assert not problems
    assert chosen is not None and chosen.secrets == SecretSettings(store="command", command=("pass", "{name}"))


@pytest.mark.parametrize(
    "text", ['registry: "\\ud83d"', 'secrets: {"\\ud83d": 1}', 'notify_command: ["x\\ud83d"]', '"\\ud83d": 1']
)
def test_half_a_surrogate_pair_is_a_problem_with_its_place(text: str) -> None:
    _, problems = choices(text, "config.yaml", {})
    told = [str(problem) for problem in problems]
    assert told[0].startswith("config.yaml:1:")
    assert "no program can receive the character U+D83D" in told[0]
    "".join(told).encode()


def test_what_the_file_lacks_is_not_guessed_while_it_cannot_be_read() -> None:
    assert complaints("secrets: {command: [x", SECRETS__STORE="command") == [
        'c.yaml:1:20: not valid YAML: this "[" list is not closed, or a comma is missing\n    fix: close it with "]"'
    ]


def test_all_problems_come_at_once_in_the_order_of_their_lines() -> None:
    text = "max_line: 1\nfoo: 1\nsecrets:\n  timeout: 1h\n  store: x\n  store: y\n  command: [a]\n  file: {path: 3}\n"
    _, problems = choices(text, "c.yaml", {"ACP_LAUNCH_SECRETS__KEYRING__BACKEND": "x", "ACP_LAUNCH_SECRETS__A": "1"})
    variables, in_file = problems[:2], problems[2:]
    assert [each.file for each in variables] == ["ACP_LAUNCH_SECRETS__A", "ACP_LAUNCH_SECRETS__KEYRING__BACKEND"]
    places = [(each.line, each.column) for each in in_file]
    assert places == [(1, 11), (2, 1), (4, 12), (5, 10), (6, 3), (7, 12), (8, 16)]


def test_what_is_read_and_what_is_kept_have_the_same_settings_and_defaults() -> None:
    chosen, problems = choices("{}", "c.yaml", {})
    assert not problems
    assert chosen == Choices()
    assert tuple(UserSettings.model_fields) == Choices.__struct_fields__


KEYS = ["max_line", "secrets", "store", "timeout", "keyring", "backend", "file", "path", "key_file", "command", "x"]
TEXTS = st.sampled_from(["", "file", "command", "10s", "1h", "a.b", "{name}", "{x}", "64MiB", "64M", "\ud83d\ude00"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
)


@pytest.mark.whole
@given(st.dictionaries(st.sampled_from(KEYS), VALUES))
def test_any_mapping_is_choices_or_has_problems_with_places(root: dict[str, object]) -> None:
    """JSON is YAML: written as JSON it reaches the checker as it is."""
    text = json.dumps({**root, "secrets": root.get("secrets", root)})
    text = text.replace("NaN", ".nan").replace("-Infinity", "-.inf").replace("Infinity", ".inf")
    chosen, problems = choices(text, "c.yaml", {})
    assert (chosen is None) == bool(problems)
    assert all(problem.line == 1 and problem.column >= 1 and problem.fix for problem in problems)
