"""
The check of a batch: the text of its file becomes a `CheckedBatch`, or every problem at once. Pure.

`model` has the shapes; the functions here have the rules that shapes cannot express, for all keys whose shape is right.
Values of tasks are data: only the file's own `prompt` is a template.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from acp_launch.batch.model import BatchFile, BatchTask, Isolation, Item
from acp_launch.batch.store import ID, MAX_ID
from acp_launch.document.faults import REQUIRED, UNKNOWN_KEY, Fault, described, misplaced, unknown_key
from acp_launch.document.flow import needs_shell, words
from acp_launch.document.nodes import Kind, Node, Place, Plain, Positions, Table, shorten, wrap, wrap_scalar
from acp_launch.document.shape import Shape, list_meant, shape_at, validate
from acp_launch.document.yaml import Document, parse
from acp_launch.errors import UsageError
from acp_launch.problem import KeyPath, Problem, count, did_you_mean, dotted
from acp_launch.profile.check import NO_VERSION, VERSION, version
from acp_launch.protocol.splice import replace_halves
from acp_launch.regex import regex

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

S = TypeVar("S", bound=Shape)
ReadTasks = Callable[[str], tuple[bytes, str]]
MAX_TASKS = 10_000
MAX_ITEMS = 20_000  # each costs a directory, and a look at every resume
MAX_TASKS_SIZE = 16 * 1024 * 1024  # bytes of a file of tasks
MAX_PROMPTS = 32 * 1024 * 1024  # characters of all items; each process of an item reads them
MAX_PROBLEMS = 100  # lines of a file of tasks that are reported
VARIABLE = r"[A-Za-z_][A-Za-z0-9_-]*"
_OWN = ("id", "repo", "ref")  # what a template may name besides variables
_REFERENCE = regex(rf"\$?\$\{{(?:task\.(?P<name>{VARIABLE})\}})?")
_SUFFIX = regex(r"\.ya?ml$")
_OTHERS = regex("[^A-Za-z0-9_.-]+")
_TASK = '{"id": "a", "prompt": "…"}'
_NAMES = ", ".join(_OWN)
SEVERAL = "make several batches"


def _split(node: Node) -> Node:
    """Split a command line into words. One that needs a shell stays: the fix of that writes `sh -c`."""
    if not isinstance(node.value, str) or needs_shell(node.value):
        return node
    several = Node(node.place, [])
    for word in words(node.value):
        several.append(Node(node.place, word))
    return several


def _make_check(node: Node) -> Node:
    """Make a command line, or its words, a check."""
    command = _split(node)
    return wrap(node, "command", command) if isinstance(command.value, list) else node


_SHORT_FORMS = ((("isolation",), wrap_scalar("kind")), (("check",), _make_check), (("check", "command"), _split))
KIND = Kind("a batch", "version: 1", short_forms=_SHORT_FORMS)


class Draft(NamedTuple):
    """An item whose repository was not looked at, so that `repo` is empty; `at` is the place of its task."""

    item: Item
    task: BatchTask
    at: Place


class CheckedBatch(NamedTuple):
    """A batch, as far as its file is right: `file` is None if there is a problem, and `said` what it says.

    `profiles` are the places of the profiles by their names, as written.
    """

    file: BatchFile | None
    said: Mapping[str, Plain] = {}
    profiles: Mapping[str, Place] = {}
    drafts: Sequence[Draft] = ()
    problems: Sequence[Problem] = ()


class Tasks(NamedTuple):
    """Tasks with their paths in `positions`: of the batch, or of a file, where a path begins with a line's index."""

    given: Sequence[tuple[KeyPath, BatchTask]]
    positions: Positions
    faults: Sequence[Fault] = ()


def check(text: str, label: str, *, repo: str, read_tasks: ReadTasks) -> CheckedBatch:
    """Check a batch; its problems are in the order of lines.

    `repo` is for a task that names none. `read_tasks` reads the file of tasks: its content, and its name in
    messages; it raises UsageError.
    """
    document, problems = parse(text, label, KIND)
    if document is None:
        return CheckedBatch(None, problems=problems)
    root, faults = document.root, list[Fault]()
    if problems:  # half of a surrogate pair among them would end in an error of what builds the structs
        root = {replace_halves(key): replace_halves(value) for key, value in root.items()}
    file = _build_file(root, faults)
    wrong = {fault.path[0] for fault in faults}
    tasks = _read_tasks(root, document.positions, read_tasks)
    faults += _find_faults(root, file)
    if not wrong & {"profiles", "matrix"}:
        faults += [*_check_exclude(file), *_check_accounts(file)]
    faults += _check_template(file.prompt or "", tasks)
    lacking = [] if "prompt" in root else [(path, task) for path, task in tasks.given if task.prompt is None]
    what, fix = "has no prompt", "write one here, or a template as the prompt of all"
    promptless = [Fault(path, f'the task "{task.id}" {what}', fix) for path, task in lacking]
    problems += [*_place(document.positions, faults), *_place(tasks.positions, [*tasks.faults, *promptless])]
    drafts = list[Draft]()
    if not problems:
        drafts, problems = _make_items(document, file, tasks, repo)
    problems.sort(key=lambda each: (each.file != label, each.line, each.column))
    places = {name: document.where(("profiles", index)) for index, name in enumerate(file.profiles)}
    return CheckedBatch(None if problems else file, root, places, drafts, problems)


def _place(positions: Positions, faults: Sequence[Fault]) -> Iterator[Problem]:
    for fault in faults:
        at = positions.where(fault.path, key=fault.at_key, offset=fault.offset)
        inner = fault.path[1:] if isinstance(fault.path[0], int) else fault.path  # the line says which task
        yield at.problem(dotted(inner), fault.message, fault.fix)


def _build_file(root: Mapping[str, Plain], faults: list[Fault]) -> BatchFile:
    """Build the file without its tasks; faulty parts are added to `faults`, and left out."""
    plain = {**root, "version": VERSION, "tasks": ""}
    while (file := _validate(BatchFile, plain, (), faults)) is None:
        for fault in faults:
            plain = _drop(plain, fault.path)
        plain = {"profiles": [], **plain}
    wrong = [fault.path for fault in faults if fault.message != REQUIRED]
    faults[:] = [fault for fault in faults if fault.message != REQUIRED or fault.path not in wrong]
    return file


def _drop(plain: dict[str, Plain], path: KeyPath) -> dict[str, Plain]:
    """Leave out the value at `path`, or the mapping or list that is wrong because of it."""
    step, *rest = path
    inner = plain.get(str(step))
    if rest and isinstance(inner, dict) and rest[0] in inner:
        return {**plain, str(step): _drop(inner, tuple(rest))}
    return {key: value for key, value in plain.items() if key != step}


def _validate(shape: type[S], plain: Plain, path: KeyPath, faults: list[Fault]) -> S | None:
    """Build the struct; the faults of its shape are added to `faults`."""

    def report(error: "ErrorDetails") -> None:
        inner = error["loc"]
        is_unknown, known = error["type"] in UNKNOWN_KEY, shape_at(shape, inner[:-1]).__struct_fields__
        faults.append(unknown_key((*path, *inner), known) if is_unknown else described(error, path, shape))

    return validate(shape, plain, report)


# What the file says besides its tasks.


def _find_faults(root: Mapping[str, Plain], file: BatchFile) -> Iterator[Fault]:
    if "version" not in root:
        yield Fault(("version",), NO_VERSION.replace("profile", "batch"), "add: version: 1")
    yield from version(root)
    if root.get("profiles") == []:
        yield Fault(("profiles",), "the batch names no profile", "write their names: [claude, codex]")
    yield from _check_names(file)
    if file.retry is not None and file.isolation.kind == "none" and not file.isolation.unsafe:
        what = "without isolation the next attempt works on what a failed one has left"
        fix = "add: isolation: {kind: worktree}; or, if that does not matter: isolation: {unsafe: true}"
        yield Fault(("retry",), what, fix, at_key=True)
    yield from _check_isolation(root.get("isolation"), file.isolation)
    for path, command in ((("check",), file.check), (("isolation", "setup"), file.isolation.setup)):
        if command is not None and not command.command:
            fix = "write a program and its arguments: [pytest, -q]"
            yield Fault((*path, "command"), "the command is empty", fix)


def _check_isolation(said: Plain, isolation: Isolation) -> Iterator[Fault]:
    is_none = not isinstance(said, dict) or said.get("kind", "none") == "none"  # else a wrong kind was told already
    for key in ("copy", "setup"):
        if is_none and getattr(isolation, key):
            what = "without isolation an item works in the checkout itself"
            yield Fault(("isolation", key), what, f"remove {key}, or add: kind: worktree", at_key=True)
    for index, name in enumerate(isolation.copy):
        parts = PurePosixPath(name).parts
        if name.startswith("/") or ".." in parts or not parts or ".git" in parts:
            what = f'"{shorten(name)}" is not a path within the checkout'
            yield Fault(("isolation", "copy", index), what, "write it from the checkout's top: [.env, node_modules]")


def _check_names(file: BatchFile) -> Iterator[Fault]:
    for index, name in enumerate(file.profiles):
        if name in file.profiles[:index]:
            yield Fault(("profiles", index), f'"{shorten(name)}" appears twice', "remove it; samples repeats items")
    for key, values in file.matrix.items():
        if not key.strip() or "=" in key or key.strip() != key or key == "profile":
            what = f'"{shorten(key)}" cannot be an option'
            yield Fault(("matrix", key), what, "write the name of an option as for --set: model", at_key=True)
        if not values:
            yield Fault(("matrix", key), "this option has no value", "write its values: [a, b], or remove it")
    for currency in file.limits.cost:
        if not re.fullmatch("[A-Z]{3}", currency):
            what = f'"{shorten(currency)}" is not a currency'
            yield Fault(("limits", "cost", currency), what, "write it as agents do: USD", at_key=True)


def _check_exclude(file: BatchFile) -> Iterator[Fault]:
    known: dict[str, tuple[str, ...]] = {"profile": file.profiles, **file.matrix}
    for index, entry in enumerate(file.exclude):
        if not entry:
            yield Fault(("exclude", index), "this excludes every item", "write {profile: NAME, OPTION: VALUE}")
        for key, text in entry.items():
            path = ("exclude", index, key)
            if key not in known:
                yield unknown_key(path, tuple(known))
            elif text not in known[key]:
                what = f'"{shorten(text)}" is not among the values of {key}{did_you_mean(text, known[key])}'
                yield Fault(path, what, f"write one of {', '.join(known[key])}, or remove it")


def _check_accounts(file: BatchFile) -> Iterator[Fault]:
    owners = dict[str, str]()
    for account, owner in file.limits.accounts.items():
        for index, name in enumerate(owner.profiles):
            path = ("limits", "accounts", account, "profiles", index)
            if name not in file.profiles:
                what = f'the batch has no profile "{shorten(name)}"{did_you_mean(name, file.profiles)}'
                yield Fault(path, what, "write it as under profiles")
            elif (first := owners.setdefault(name, account)) != account:
                yield Fault(path, f'"{shorten(name)}" belongs to the account {first} already', "keep it in one of them")


# Tasks.


def _read_tasks(root: Mapping[str, Plain], positions: Positions, read_file: ReadTasks) -> Tasks:
    listed, path = root.get("tasks"), ("tasks",)
    if isinstance(listed, list):
        return _build_tasks([((*path, index), raw) for index, raw in enumerate(listed)], positions, path, [])
    try:
        if isinstance(listed, str):
            return _read_lines(*read_file(listed))
        meant = list_meant(tuple[BatchTask, ...], listed) if isinstance(listed, dict) else None
        fault = misplaced(path, "a list, or the name of a file", listed, meant)
    except UsageError as error:
        fault = Fault(path, error.message, error.fix)
    absent = Fault(path, REQUIRED, "add: tasks: tasks.jsonl, or a list")
    return Tasks((), positions, [fault if "tasks" in root else absent])


def _read_lines(content: bytes, label: str) -> Tasks:
    """Read a file of tasks: an object of JSON on each line."""
    table: Table = {(): (label, 0, 0, 0, 0, None)}
    raws, faults = list[tuple[KeyPath, Plain]](), list[Fault]()
    for index, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n")):
        if not line.strip():
            continue
        table[index,] = (label, index + 1, 0, index + 1, 0, None)
        try:
            raws.append(((index,), msgspec.json.decode(line.decode())))
        except (ValueError, RecursionError) as error:
            what = f"not valid JSON: {str(error).removeprefix('JSON is malformed: ')}"
            faults.append(Fault((index,), what, f"write a task on each line: {_TASK}"))
        if len(raws) > MAX_TASKS or len(faults) == MAX_PROBLEMS:
            break
    return _build_tasks(raws, Positions(table), (0,), faults)


def _build_tasks(
    raws: Sequence[tuple[KeyPath, Plain]], positions: Positions, owner: KeyPath, faults: list[Fault]
) -> Tasks:
    """Build the tasks; `owner` is where to report that there are none. After many faults no others are looked for."""
    known, tasks = dict[str, KeyPath](), list[tuple[KeyPath, BatchTask]]()
    if not raws and not faults:
        faults.append(Fault(owner, "the batch has no task", f"write at least one: {_TASK}"))
    if len(raws) > MAX_TASKS:
        return Tasks((), positions, [Fault(raws[MAX_TASKS][0], f"more than {MAX_TASKS:,} tasks", SEVERAL)])
    for path, raw in raws:
        if len(faults) >= MAX_PROBLEMS:
            break
        if (task := _validate(BatchTask, raw, path, faults)) is not None:
            tasks.append((path, task))
            first = positions.where(known.setdefault(task.id, path)).line
            faults += _check_task(path, task, first if known[task.id] != path else 0)
    return Tasks(tasks, positions, faults)


def _check_task(path: KeyPath, task: BatchTask, first: int) -> Iterator[Fault]:
    """Yield the faults of a task; `first` is the line of another one with its id, or 0."""
    if not ID.fullmatch(task.id):
        what = f'"{shorten(task.id)}" is not an id: letters, digits and "_" are allowed, then also "-" and "."'
        yield Fault((*path, "id"), what, f"write {write_part(task.id).lstrip('.-') or '_'}")
    if first:
        what = f'the id "{shorten(task.id)}" appears twice; the first is on line {first}'
        yield Fault((*path, "id"), what, "change one")
    for name in task.vars:
        if name in _OWN or not re.fullmatch(VARIABLE, name):
            what, fix = f'"{shorten(name)}" cannot be a variable', f"write letters, digits, _ and -; not {_NAMES}"
            yield Fault((*path, "vars", name), what, fix, at_key=True)


# The template.


def _check_template(template: str, tasks: Tasks) -> Iterator[Fault]:
    """Check the file's prompt against the tasks that use it. If tasks are wrong, names may be missing for that."""
    path: KeyPath = ("prompt",)
    given = [task for _, task in tasks.given]
    known = dict.fromkeys(name for task in given for name in task.vars)
    for match in _REFERENCE.finditer(template):
        name = match["name"]
        if match[0].startswith("$$") or name in _OWN:
            continue
        lacking = [task.id for task in given if task.prompt is None and name not in task.vars]
        if name is None:
            end = template.find("}", match.start())
            what = f"unknown reference {shorten(template[match.start() : end + 1 if end >= 0 else None])}"
            fix = f'use ${{task.NAME}} with {_NAMES} or a variable of the tasks, or "$${{" for a literal "${{"'
            yield Fault(path, what, fix, match.start())
        elif lacking and not tasks.faults:
            others = f" and {count(len(lacking) - 1, 'other')}" if lacking[1:] else ""
            hint = did_you_mean(name, [each for each in (*_OWN, *known) if each != name])
            what = f'${{task.{name}}}: no such variable in the task "{lacking[0]}"{others}{hint}'
            yield Fault(path, what, f"add {name} to the vars of each task", match.start())


def fill_in(template: str, values: Mapping[str, str]) -> str:
    """Fill in a template that was checked; values are not looked at again."""
    return _REFERENCE.sub(lambda it: it[0][1:] if it[0].startswith("$$") else values[it["name"]], template)


# Items.


def write_part(text: str) -> str:
    return _OTHERS.sub("-", text) or "-"


def name_profile(name: str) -> str:
    """Write a profile's name as a part of ids: `./fast.yaml` is `fast`."""
    return write_part(_SUFFIX.sub("", name.rpartition("/")[2]))


def _make_items(document: Document, file: BatchFile, tasks: Tasks, repo: str) -> tuple[list[Draft], list[Problem]]:
    """Make the items that are not excluded; return them and their faults."""
    number = len(tasks.given) * len(file.profiles) * prod(map(len, file.matrix.values())) * file.samples
    if number > MAX_ITEMS:
        what = f"these are {number:,} items; at most {MAX_ITEMS:,} are allowed"
        return [], [document.where(("tasks",)).problem("tasks", what, SEVERAL)]
    drafts, known, problems, characters = list[Draft](), dict[str, Draft](), list[Problem](), 0
    for draft in _make_drafts(file, tasks, repo):
        item = draft.item
        if any(entry.items() <= {"profile": item.profile, **item.matrix}.items() for entry in file.exclude):
            continue
        problems += _find_clash(draft, known.setdefault(item.id.lower(), draft))
        drafts.append(draft._replace(item=replace(item, index=len(drafts))))
        characters += len(item.prompt)
    if not drafts:
        problems.append(document.where(("exclude",)).problem("exclude", "every item is excluded", "exclude fewer"))
    if characters > MAX_PROMPTS:
        what = f"the prompts of all items have {characters:,} characters; at most {MAX_PROMPTS:,} are allowed"
        problems.append(document.where(("tasks",)).problem("tasks", what, "write long ones to files that agents read"))
    return drafts, problems[:MAX_PROBLEMS]


def _make_drafts(file: BatchFile, tasks: Tasks, repo: str) -> Iterator[Draft]:
    rows = [dict(zip(file.matrix, values, strict=True)) for values in product(*file.matrix.values())]
    for path, task in tasks.given:
        at, prompt = tasks.positions.where(path), _make_prompt(file, task, repo)
        for profile, row, sample in product(file.profiles, rows, range(1, file.samples + 1)):
            parts = [task.id, name_profile(profile), *map(write_part, row.values())]
            id = ".".join([*parts, str(sample)] if file.samples > 1 else parts)
            item = Item(
                id=id, index=0, task=task.id, profile=profile, matrix=row, sample=sample, prompt=prompt, repo=""
            )
            yield Draft(item, task, at)


def _make_prompt(file: BatchFile, task: BatchTask, repo: str) -> str:
    if task.prompt is not None:
        return task.prompt
    own = {"id": task.id, "repo": task.repo or repo, "ref": task.ref or file.isolation.ref}
    return fill_in(file.prompt or "", {**own, **task.vars})


def _find_clash(draft: Draft, first: Draft) -> Iterator[Problem]:
    """Find the fault of an id. Some file systems take ids that differ only in case for one."""
    id = shorten(draft.item.id)
    if len(draft.item.id) > MAX_ID:
        what = f"the id {id} is longer than {MAX_ID} characters"
        yield draft.at.problem("", what, "write a shorter id of the task, or shorter values")
    if first is not draft:
        what = f"two items have the id {id}: {_describe_item(first.item)}, and {_describe_item(draft.item)}"
        yield draft.at.problem("", what, "rename one of them; other characters than A-Za-z0-9_.- count as -")


def _describe_item(item: Item) -> str:
    options = (f"{key}={value}" for key, value in item.matrix.items())
    return " ".join([f"task {item.task}", f"with {item.profile}", *options])
