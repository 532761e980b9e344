"""The file of a batch becomes items, or every problem at once with its place (ours)."""

import json
import string
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.batch import check as checking
from acp_launch.batch.check import CheckedBatch, check, fill_in, name_profile, write_part
from acp_launch.batch.model import Limits, Retry
from acp_launch.batch.store import ID
from acp_launch.document.scalars import Duration
from acp_launch.errors import UsageError

HEAD = "version: 1\nprofiles: [demo]\n"
TASK = "tasks: [{id: a, prompt: hello}]\n"


def read(text: str, lines: bytes | None = None) -> CheckedBatch:
    def read_tasks(name: str) -> tuple[bytes, str]:
        if lines is None:
            raise UsageError(f"no such file: {name}", fix="correct the path")
        return lines, name

    return check(text, "batch.yaml", repo="/project", read_tasks=read_tasks)


def items(text: str, lines: bytes | None = None) -> dict[str, str]:
    """The prompts of a good batch by the ids of its items."""
    found = read(text, lines)
    assert list(found.problems) == []
    assert [draft.item.index for draft in found.drafts] == list(range(len(found.drafts)))
    return {draft.item.id: draft.item.prompt for draft in found.drafts}


def problems(text: str, lines: bytes | None = None) -> list[str]:
    found = read(text, lines)
    assert found.file is None
    return [str(problem).replace("\n    fix:", " |") for problem in found.problems]


def test_an_item_is_a_task_with_a_profile_a_row_of_the_matrix_and_a_sample() -> None:
    text = "version: 1\nprofiles: [claude, ./fast.yaml]\nmatrix: {model: [opus, gpt-5/mini], on: [true, 1.50]}\n"
    found = read(text + TASK + "samples: 2\n")
    ids = [draft.item.id for draft in found.drafts]
    assert ids[:5] == [
        *("a.claude.opus.true.1", "a.claude.opus.true.2", "a.claude.opus.1.50.1", "a.claude.opus.1.50.2"),
        "a.claude.gpt-5-mini.true.1",
    ]
    assert (len(ids), ids[-1]) == (16, "a.fast.gpt-5-mini.1.50.2")
    last = found.drafts[-1].item
    assert (last.task, last.profile, last.sample) == ("a", "./fast.yaml", 2)
    assert last.matrix == {"model": "gpt-5/mini", "on": "1.50"}
    assert list(found.profiles) == ["claude", "./fast.yaml"]


HALF = "\\ud83d"
HALVES = [
    f'limits: {{timeout: "{HALF}"}}\n',
    f'"{HALF}": 1\n',
    f'approve: "{HALF}"\n',
    f'matrix: {{"{HALF}": ["{HALF}"]}}\n',
    f'check: {{command: ["{HALF}"], timeout: "{HALF}"}}\n',
    f'limits: {{cost: {{"{HALF}": "{HALF}"}}}}\n',
    f'limits: {{accounts: {{"{HALF}": {{profiles: ["{HALF}"], start_every: "{HALF}"}}}}}}\n',
    f'retry: {{on: ["{HALF}"], backoff: {{initial: "{HALF}"}}}}\n',
    f'isolation: {{kind: "{HALF}", ref: "{HALF}"}}\n',
    f'exclude: [{{profile: "{HALF}"}}]\n',
    f'prompt: "{HALF} ${{task.id}}"\n',
]


@pytest.mark.parametrize("more", HALVES, ids=ascii)
def test_half_a_surrogate_pair_is_a_problem_with_its_place(more: str) -> None:
    told = problems(HEAD + TASK + more)
    assert any("no program can receive the character U+D83D | remove the escape" in each for each in told)
    assert all(each.startswith("batch.yaml:4:") for each in told)
    "".join(told).encode()


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("isolation: worktree", "isolation: {kind: worktree}"),
        ("check: pytest -q 'a b'", "check: {command: [pytest, -q, a b]}"),
        ("check: [pytest, -q]", "check: {command: [pytest, -q]}"),
        ("check: {command: pytest -q}", "check: {command: [pytest, -q]}"),
    ],
)
def test_a_short_form_stands_for_a_mapping(short: str, long: str) -> None:
    text = "version: 1\nprofiles: demo\n" + TASK
    found = read(text + short + "\n")
    assert (found.problems, found.file) == ([], read(HEAD + TASK + long + "\n").file)


@pytest.mark.parametrize("command", ["a && b", "a *.py", "A=1 b", "a $B", 'a "$B"', "a 'b"])
def test_a_check_that_needs_a_shell_is_told_how_to_get_one(command: str) -> None:
    (problem,) = problems(HEAD + TASK + f"check: {json.dumps(command)}\n")
    assert problem.partition(" | ")[2].startswith("write check: {command: [sh, -c, ")


@pytest.mark.parametrize(
    ("short", "fix"),
    [
        ("retry: 3", "write retry: {attempts: 3}"),
        ("limits: 4", "write limits: {jobs: 4}"),
        ("limits: {accounts: {a: demo}}", "write a: {profiles: [demo]}"),
        ("matrix: {model: opus}", "write model: [opus]"),
        ("matrix: [model=opus]", "write matrix: {model: opus}"),
        ("exclude: {profile: demo, model: x}", "write exclude: [{profile: demo, model: x}]"),
        ("approve: [all]", "write all"),
    ],
)
def test_a_value_in_place_of_a_mapping_is_written_out_in_the_fix(short: str, fix: str) -> None:
    assert [problem.partition(" | ")[2] for problem in problems(HEAD + TASK + short + "\n")] == [fix]


def test_what_is_excluded_is_no_item() -> None:
    text = "version: 1\nprofiles: [claude, codex]\nmatrix: {model: [opus, mini], n: [1, 2]}\n" + TASK
    left = items(text + "exclude: [{profile: codex, model: opus}, {model: mini, n: 1}]\n")
    assert list(left) == ["a.claude.opus.1", "a.claude.opus.2", "a.claude.mini.2", "a.codex.mini.2"]


def test_a_file_of_numbers_and_lists_is_built() -> None:
    text = (
        "limits: {jobs: 4, timeout: 30m, cost: {USD: 50, EUR: 0.5}, failures: 20, accounts: {a: {profiles: [demo], "
        "jobs: 2, start_every: 2s}}}\nretry: {attempts: 0x2, on: [timed_out], session: continue}\n"
        "isolation: {kind: worktree}\n"
    )
    file = read(HEAD + TASK + text).file
    assert file is not None
    assert isinstance(file.limits, Limits)
    assert (file.limits.jobs, file.limits.timeout, file.limits.failures) == (4, Duration(1800), 20)
    assert file.limits.cost == {"USD": 50, "EUR": 0.5}
    assert isinstance(file.retry, Retry)
    assert (file.retry.attempts, list(file.retry.on), file.retry.backoff.initial) == (2, ["timed_out"], Duration(30))


def test_the_template_is_filled_in_once_and_a_prompt_of_a_task_not_at_all() -> None:
    text = HEAD + (
        "tasks:\n  - {id: a, repo: ../x, ref: main, vars: {note: '${secret:X} ${task.id} $${y}', n: 0x1f, yes: true}}\n"
        "  - {id: b, vars: {note: '', n: 1, yes: no}}\n  - {id: c, prompt: 'as ${task.it} $${is}'}\n"
        "prompt: '${task.id}|${task.repo}|${task.ref}|${task.note}|${task.n}|${task.yes}|$${task.id}|$5'\n"
        "isolation: {kind: worktree, ref: origin/main}\n"
    )
    assert items(text) == {
        "a.demo": "a|../x|main|${secret:X} ${task.id} $${y}|0x1f|true|${task.id}|$5",
        "b.demo": "b|/project|origin/main||1|no|${task.id}|$5",
        "c.demo": "as ${task.it} $${is}",
    }


@given(st.text(), st.text())
def test_what_is_filled_in_is_not_looked_at_again(before: str, value: str) -> None:
    escaped = before.replace("${", "$${")
    if not escaped.endswith("$"):
        assert fill_in(escaped + "${task.x}", {"x": value}) == before + value


@given(st.text(), st.text(min_size=1))
def test_every_name_and_value_makes_a_part_of_an_id(profile: str, value: str) -> None:
    assert ID.fullmatch(f"t.{name_profile(profile)}.{write_part(value)}")


@given(st.text(string.ascii_letters + string.digits + "_-."))
def test_what_is_allowed_in_an_id_stays(value: str) -> None:
    assert write_part(value) == (value or "-")


def test_tasks_come_from_a_file_of_lines() -> None:
    lines = b'\xef\xbb\xbf{"id": "a", "prompt": "one"}\r\n\n{"id": "b", "vars": {"n": 2}}\n'
    assert items(HEAD + "tasks: tasks.jsonl\nprompt: 'n ${task.id}'\n", lines) == {"a.demo": "one", "b.demo": "n b"}


def test_problems_of_a_line_name_the_file_and_the_line() -> None:
    lines = (
        b'{"id": "a", "prompt": "x"}\n{"id": "a", "prompt": "x"}\n\n{"id": "b", "prompt": 3}\n{"id": "c"}\nnull\n'
        b'{"id"\n{"id": "d", "prompt": "\\u0000"}\n{"id": "e", "vars": {"x": [1]}, "prompt": "x", "more": 1}\n"\xff"\n'
    )
    assert problems(HEAD + "tasks: t.jsonl\nsamples: 0\n", lines) == [
        "batch.yaml:4:10: samples: expected a whole number from 1 up, found the number 0 | write a number such as 4",
        't.jsonl:2: id: the id "a" appears twice; the first is on line 1 | change one',
        "t.jsonl:4: prompt: expected text that is not empty and holds no NUL, found the number 3 | "
        "write it in quotes, or remove it",
        't.jsonl:5: the task "c" has no prompt | write one here, or a template as the prompt of all',
        "t.jsonl:6: expected a mapping, found nothing | write a value, or remove the key",
        't.jsonl:7: not valid JSON: Input data was truncated | write a task on each line: {"id": "a", "prompt": "…"}',
        't.jsonl:8: prompt: expected text that is not empty and holds no NUL, found the text "\0" | '
        "write it in quotes, or remove it",
        "t.jsonl:9: vars.x: expected text, a number, true or false, found a list | write one value",
        't.jsonl:9: more: unknown key "more" | use one of id, prompt, repo, ref, vars',
        "t.jsonl:10: not valid JSON: 'utf-8' codec can't decode byte 0xff in position 1: invalid start byte | "
        'write a task on each line: {"id": "a", "prompt": "…"}',
    ]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (b"", 't.jsonl: the batch has no task | write at least one: {"id": "a", "prompt": "…"}'),
        (b"\n \n", 't.jsonl: the batch has no task | write at least one: {"id": "a", "prompt": "…"}'),
        (b"[" * 5000, "t.jsonl:1: not valid JSON: "),
        (b'{"id": 1e999}', "t.jsonl:1: not valid JSON: "),
    ],
)
def test_a_file_without_a_task_that_can_be_read_is_a_problem(lines: bytes, problem: str) -> None:
    (found,) = problems(HEAD + "tasks: t.jsonl\n", lines)
    assert found.startswith(problem)


def test_a_file_of_tasks_that_is_not_there_is_a_problem_of_the_batch() -> None:
    assert problems(HEAD + "tasks: t.jsonl\n") == ["batch.yaml:3:8: tasks: no such file: t.jsonl | correct the path"]


def test_many_lines_end_in_one_problem() -> None:
    lines = b'{"id":"a","prompt":"x"}\n' * 1_000_000
    assert problems(HEAD + "tasks: t.jsonl\n", lines) == [
        "t.jsonl:10001: more than 10,000 tasks | make several batches"
    ]
    assert len(problems(HEAD + "tasks: t.jsonl\n", b"{\n" * 1_000_000)) == checking.MAX_PROBLEMS


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("samples: 20001", "batch.yaml:3:8: tasks: these are 20,001 items; at most 20,000 are allowed"),
        (f"matrix: {{a: {[*range(200)]}, b: {[*range(200)]}}}", "batch.yaml:3:8: tasks: these are 40,000 items; at"),
        ("samples: 1000000000000000000000", "batch.yaml:3:8: tasks: these are 1,000,000,000,000,000,000,000 items; "),
    ],
)
def test_too_many_items_are_counted_and_not_made(more: str, problem: str) -> None:
    (found,) = problems(HEAD + TASK + more)
    assert found.startswith(problem)


def test_the_prompts_of_all_items_are_bounded() -> None:
    (found,) = problems(HEAD + f"tasks: [{{id: a, prompt: {'x' * 2000}}}]\nsamples: 20000\n")
    assert found.startswith("batch.yaml:3:8: tasks: the prompts of all items have 40,000,000 characters; at most 33,")


CLASHES = [
    (
        "profiles: [fast, ./fast.yaml]\n" + TASK,
        "two items have the id a.fast: task a with fast, and task a with ./fast.yaml",
    ),
    (
        "profiles: [x, b.x]\ntasks: [{id: a, prompt: p}, {id: a.b, prompt: p}]\n",
        "two items have the id a.b.x: task a with b.x, and task a.b with x",
    ),
    (
        "profiles: [x]\nmatrix: {m: [a/b, a b]}\n" + TASK,
        "two items have the id a.x.a-b: task a with x m=a/b, and task a with x m=a b",
    ),
    (
        "profiles: [x]\ntasks: [{id: a, prompt: p}, {id: A, prompt: p}]\n",
        "two items have the id A.x: task a with x, and task A with x",
    ),
]


@pytest.mark.parametrize(("text", "clash"), CLASHES)
def test_two_items_of_one_id_are_a_problem_that_names_both(text: str, clash: str) -> None:
    (found,) = problems("version: 1\n" + text)
    assert clash in found


def test_an_id_fits_the_name_of_a_file() -> None:
    assert len(items(HEAD + f"tasks: [{{id: {'a' * 195}, prompt: p}}]\n")) == 1
    (found,) = problems(HEAD + f"tasks: [{{id: {'a' * 196}, prompt: p}}]\n")
    assert found.startswith("batch.yaml:3:9: the id aaa")
    assert "is longer than 200 characters" in found


ONE_PROBLEM = [
    ("tasks: []", 'tasks: the batch has no task | write at least one: {"id": "a", "prompt": "…"}'),
    ("{}", "tasks: this key is required | add: tasks: tasks.jsonl, or a list"),
    ("tasks: 3", "tasks: expected a list, or the name of a file, found the number 3"),
    ("tasks: {id: a, prompt: x}", "found a mapping | write tasks: [{id: a, prompt: x}]"),
    ("tasks: {a: {prompt: x}}", "found a mapping | write tasks: [{id: a, prompt: x}]"),
    ("tasks: [{id: .a, prompt: x}]", 'are allowed, then also "-" and "." | write a'),
    ("tasks: [{id: -x, prompt: x}]", '"-x" is not an id: letters, digits and "_" are allowed'),
    ("tasks: [{id: .., prompt: x}]", 'then also "-" and "." | write _'),
    ("tasks: [{id: a/b, prompt: x}]", 'are allowed, then also "-" and "." | write a-b'),
    ("tasks: [{id: a, prompt: x, repos: y}]", 'unknown key "repos"; did you mean "repo"? | write repo'),
    ("tasks: [{prompt: x}]", "tasks[0].id: this key is required"),
    ("tasks: [{id: a}]", 'tasks[0]: the task "a" has no prompt'),
    ("tasks: [{id: a, prompt: x, vars: {id: b}}]", '"id" cannot be a variable'),
    ("tasks: [{id: a, prompt: x, vars: {n: null}}]", "vars.n: expected text, a number, true or false, found nothing"),
    (TASK + "prompt: '${task.note'", "prompt: unknown reference ${task.note | use ${task.NAME}"),
    (TASK + "prompt: '${env:HOME}'", "prompt: unknown reference ${env:HOME} | use ${task.NAME}"),
    (TASK + "prompt: ' '", 'prompt: expected text that is not empty and holds no NUL, found the text " "'),
    (TASK + "exclude: [{profile: dem}]", '"dem" is not among the values of profile; did you mean "demo"?'),
    (TASK + "exclude: [{modle: x}]\nmatrix: {model: [x]}", 'unknown key "modle"; did you mean "model"? | write model'),
    (TASK + "exclude: [{}]", "exclude[0]: this excludes every item"),
    (TASK + "exclude: [{profile: demo}]", "exclude: every item is excluded"),
    (TASK + "matrix: {m: []}", "matrix.m: this option has no value"),
    (TASK + "matrix: {a=b: [x]}", '"a=b" cannot be an option'),
    (TASK + "matrix: {profile: [x]}", '"profile" cannot be an option'),
    (TASK + "matrix: [x]", "matrix: expected a mapping, found a list"),
    (TASK + "samples: '3'", "samples: expected a whole number from 1 up, found the text"),
    (TASK + "samples: true", "samples: expected a whole number from 1 up, found the truth value true"),
    (TASK + "limits: {jobs: 0}", "limits.jobs: expected a whole number from 1 up"),
    (TASK + "limits: {cost: {USD: 0}}", "limits.cost.USD: expected a positive amount, found the number 0"),
    (TASK + "limits: {cost: {usd: 5}}", '"usd" is not a currency'),
    (TASK + "limits: {accounts: {a: {profiles: [dmo]}}}", 'the batch has no profile "dmo"; did you mean "demo"?'),
    (TASK + "limits: {accounts: {a: {profiles: [demo]}, b: {profiles: [demo]}}}", "belongs to the account a already"),
    (TASK + "check: {command: []}", "check.command: the command is empty"),
    (TASK + "retry: {}", "retry: without isolation the next attempt works on what a failed one has left"),
    (TASK + "isolation: {kind: worktre}", "isolation.kind: expected none, worktree or clone, found the text"),
    (TASK + "isolation: {kind: worktre, copy: [x]}", "isolation.kind: expected none, worktree or clone, found"),
    (TASK + "isolation: {copy: [x]}", "isolation.copy: without isolation an item works in the checkout itself"),
    (TASK + "isolation: {kind: none, setup: {command: [x]}}", "isolation.setup: without isolation an item works in"),
    (TASK + "isolation: {kind: clone, setup: {command: []}}", "isolation.setup.command: the command is empty"),
    (
        TASK + "isolation: {kind: clone, setup: {command: [x], outside: true}}",
        'isolation.setup.outside: unknown key "outside"',
    ),
    (TASK + "isolation: {kind: clone, copy: [.env, /etc]}", 'isolation.copy[1]: "/etc" is not a path within'),
    (TASK + "isolation: {kind: clone, copy: [a/../../b]}", 'isolation.copy[0]: "a/../../b" is not a path within'),
    (TASK + "isolation: {kind: clone, copy: [./]}", 'isolation.copy[0]: "./" is not a path within the checkout'),
    (TASK + "isolation: {kind: clone, copy: [x/.git/hooks]}", 'isolation.copy[0]: "x/.git/hooks" is not a path'),
    (TASK + "version: 2", 'the key "version" appears twice'),
]


@pytest.mark.parametrize(("text", "problem"), ONE_PROBLEM)
def test_a_mistake_is_one_problem_with_its_place(text: str, problem: str) -> None:
    (found,) = problems("{version: 1, profiles: [demo]}" if text == "{}" else HEAD + text)
    assert found.startswith("batch.yaml:")
    assert problem in found


def test_the_template_names_what_each_task_has() -> None:
    tasks = "tasks: [{id: a, vars: {note: x}}, {id: b}, {id: c, prompt: own}, {id: d}]\n"
    assert problems(HEAD + tasks + "prompt: 'Do ${task.note} ${task.nte}'\n") == [
        'batch.yaml:4:13: prompt: ${task.note}: no such variable in the task "b" and 1 other | '
        "add note to the vars of each task",
        'batch.yaml:4:26: prompt: ${task.nte}: no such variable in the task "a" and 2 others; did you mean "note"? | '
        "add nte to the vars of each task",
    ]


def test_retries_without_isolation_need_a_word() -> None:
    assert list(items(HEAD + TASK + "retry: {}\nisolation: {unsafe: true}\n")) == ["a.demo"]
    assert list(items(HEAD + TASK + "retry: {}\nisolation: {kind: clone}\n")) == ["a.demo"]


OTHER = "accounts: {a: {profiles: [claude]}}"


@pytest.mark.parametrize(
    "wrong",
    [
        *(f"{each}, {OTHER}" for each in ("jobs: 0", "timeout: 3", "failures: x", "nope: 1", "cost: {USD: x}")),
        "accounts: {a: {profiles: [claude]}, b: {jobs: 2}}",
    ],
)
def test_a_wrong_limit_hides_no_other(wrong: str) -> None:
    found = problems(HEAD + TASK + "limits: {" + wrong + "}\n")
    assert len(found) == 2
    assert any("claude" in each for each in found)


def test_all_problems_come_at_once_in_the_order_of_lines() -> None:
    text = "version: 2\nprofiles: [demo, demo]\nsamples: 0\ntasks: [{id: .a}, {id: b}]\napprove: some\nmore: 1\n"
    found = read(text)
    assert found.file is None
    assert [(problem.line, problem.path) for problem in found.problems] == [
        *((1, "version"), (2, "profiles[1]"), (3, "samples"), (4, "tasks[0]"), (4, "tasks[0].id")),
        *((4, "tasks[1]"), (5, "approve"), (6, "more")),
    ]
    assert list(found.profiles) == ["demo"], "its problems are told with these"


@given(st.lists(st.text(string.printable, max_size=5), min_size=1, max_size=4))
def test_ids_differ_or_there_is_a_problem(values: Sequence[str]) -> None:
    found = read(HEAD + TASK + f"matrix: {{m: {json.dumps(values)}}}\n")
    ids = [draft.item.id for draft in found.drafts]
    assert found.file is None or (len({id.lower() for id in ids}) == len(ids) == len(values))
    assert all(ID.fullmatch(id) for id in ids)
