"""
The check of a batch: the text of its file becomes a `CheckedBatch`, or every problem at once. Pure.

`model` has the shapes; the functions here have the rules that shapes cannot express. Rules look at raw values and skip
those of the wrong type, which the shapes report. Values of tasks are data: only the file's own `prompt` is a template.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from acp_launch.batch.model import BatchFile, BatchTask, Item
from acp_launch.batch.store import ID
from acp_launch.document.faults import REQUIRED, UNKNOWN_KEY, Fault, described, misplaced, unknown_key
from acp_launch.document.nodes import Kind, Place, Plain, Positions, Table, found, number_text, section, shorten
from acp_launch.document.shape import Shape, build, shape_at
from acp_launch.document.yaml import Document, parse
from acp_launch.errors import UsageError
from acp_launch.problem import KeyPath, Problem, count, did_you_mean, dotted
from acp_launch.profile.check import version
from acp_launch.regex import regex

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

S = TypeVar("S", bound=Shape)
KIND = Kind("a batch", "version: 1")
MAX_TASKS = 10_000
MAX_ITEMS = 20_000  # each costs a directory, and a look at every resume
MAX_TASKS_SIZE = 16 * 1024 * 1024  # bytes of a file of tasks
MAX_PROMPTS = 32 * 1024 * 1024  # characters of all items; each process of an item reads them
MAX_ID = 200  # characters; it names files and directories, which may have 255
MAX_PROBLEMS = 100  # lines of a file of tasks that are reported
VARIABLE = r"[A-Za-z_][A-Za-z0-9_-]*"
_OWN = ("id", "repo", "ref")  # what a template may name besides variables
_REFERENCE = regex(rf"\$?\$\{{(?:task\.(?P<name>{VARIABLE})\}})?")
_SUFFIX = regex(r"\.ya?ml$")
_OTHERS = regex("[^A-Za-z0-9_.-]+")
_TASK = '{"id": "a", "prompt": "…"}'
_NAMES = ", ".join(_OWN)
SEVERAL = "make several batches"


class Draft(NamedTuple):
    """An item whose repository was not looked at, so that `repo` is empty; `at` is the place of its task."""

    item: Item
    task: BatchTask
    at: Place


class CheckedBatch(NamedTuple):
    """A batch, as far as its file is right: `file` is None if there is a problem.

    `profiles` are the places of the profiles by their names, as written.
    """

    file: BatchFile | None
    profiles: Mapping[str, Place] = {}
    drafts: Sequence[Draft] = ()
    problems: Sequence[Problem] = ()


class Tasks(NamedTuple):
    """Tasks with their paths in `positions`: of the batch, or of a file, where a path begins with a line's index."""

    given: Sequence[tuple[KeyPath, BatchTask]]
    positions: Positions
    faults: Sequence[Fault] = ()


def check(text: str, label: str, *, repo: str, read_tasks: Callable[[str], tuple[bytes, str]]) -> CheckedBatch:
    """Check a batch; its problems are in the order of lines.

    `repo` is that of a task that names none. `read_tasks` reads the file of tasks: its content, and its name in
    messages; it raises UsageError.
    """
    document, problems = parse(text, label, KIND)
    if document is None:
        return CheckedBatch(None, problems=problems)
    root, faults = document.root, list(_find_faults(document.root))
    file = _validate(BatchFile, {**root, "matrix": {}, "exclude": [], "tasks": ""}, (), faults)
    tasks = _read_tasks(root.get("tasks"), document.positions, read_tasks)
    faults += _check_template(root.get("prompt"), tasks)
    problems += _place(document.positions, faults)
    problems += _place(tasks.positions, (*tasks.faults, *_find_promptless(root, tasks)))
    drafts = list[Draft]()
    if file is not None and not problems:
        drafts, problems = _make_items(document, file, tasks, repo)
    problems.sort(key=lambda each: (each.file != label, each.line, each.column))
    listed = enumerate(root["profiles"] if isinstance(root.get("profiles"), list) else ())
    places = {name: document.where(("profiles", index)) for index, name in listed if isinstance(name, str) and name}
    return CheckedBatch(None if problems else file, places, drafts, problems)


def _place(positions: Positions, faults: Sequence[Fault]) -> Iterator[Problem]:
    for fault in dict.fromkeys(faults):
        at = positions.where(fault.path, key=fault.at_key, offset=fault.offset)
        inner = fault.path[1:] if isinstance(fault.path[0], int) else fault.path  # the line says which task
        yield at.problem(dotted(inner), fault.message, fault.fix)


def _validate(shape: type[S], plain: Plain, path: KeyPath, faults: list[Fault]) -> S | None:
    """Build the struct; the faults of its shape are added to `faults`, unless one was found at the same path."""
    try:
        return build(shape, plain)
    except ValueError:
        from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(shape).validate_python(plain)
    except ValidationError as invalid:
        told = {fault.path for fault in faults}
        shaped = [_describe(error, shape, path) for error in invalid.errors(include_url=False)]
        faults += [fault for fault in shaped if fault.path not in told]
        return None


def _describe(error: "ErrorDetails", shape: type[Shape], path: KeyPath) -> Fault:
    inner = error["loc"]
    if error["type"] in UNKNOWN_KEY:
        return unknown_key((*path, *inner), shape_at(shape, inner[:-1]).__struct_fields__)
    return described(error, path)


# What the file says besides its tasks.


def _find_faults(root: Mapping[str, Plain]) -> Iterator[Fault]:
    if "version" not in root:
        yield Fault(("version",), "the batch does not state its version", "add: version: 1")
    yield from version(root)
    yield from _check_profiles(root.get("profiles"))
    yield from _check_matrix(root)
    yield from _check_exclude(root)
    yield from _check_accounts(root)
    yield from _check_numbers(root)
    yield from _check_retry(root)
    command = section(root, "check").get("command")
    if isinstance(command, list) and not (command and str(command[0]).strip()):
        yield Fault(("check", "command"), "the command is empty", "write a program and its arguments: [pytest, -q]")


def _texts(value: Plain) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _check_profiles(names: Plain) -> Iterator[Fault]:
    if names == []:
        yield Fault(("profiles",), "the batch names no profile", "write their names: [claude, codex]")
    for index, name in enumerate(names) if isinstance(names, list) else ():
        if isinstance(name, str) and not name.strip():
            yield Fault(("profiles", index), "the profile's name is empty", "write a name or a path, or remove it")
        elif isinstance(name, str) and name in names[:index]:
            yield Fault(("profiles", index), f'"{shorten(name)}" appears twice', "remove it; samples repeats items")


def _check_matrix(root: Mapping[str, Plain]) -> Iterator[Fault]:
    matrix = root.get("matrix", {})
    if not isinstance(matrix, dict):
        yield misplaced(("matrix",), "a mapping of options to lists of values", matrix)
        return
    for key, values in matrix.items():
        path = ("matrix", key)
        if not key.strip() or "=" in key or key.strip() != key or key == "profile":
            what = f'"{shorten(key)}" cannot be an option'
            yield Fault(path, what, "write the name of an option as for --set: model", at_key=True)
        if not isinstance(values, list):
            yield misplaced(path, "a list", values)
            continue
        if not values:
            yield Fault(path, "this option has no value", "write its values: [a, b], or remove it")
        yield from (_refuse_value((*path, at), each) for at, each in enumerate(values) if not _is_scalar(each))


def _is_scalar(value: Plain) -> bool:
    return isinstance(value, str | bool | int | float)


def _refuse_value(path: KeyPath, value: Plain) -> Fault:
    return Fault(path, f"expected text, a number, true or false, found {found(value)}", "write one value")


def write_scalar(value: Plain) -> str:
    """Write a value as text: a number as it was written."""
    if isinstance(value, bool):
        return str(value).lower()
    return number_text(value) if isinstance(value, int | float) else str(value)


def _list_values(root: Mapping[str, Plain]) -> dict[str, list[str]]:
    """List what each key of `exclude` may say."""
    matrix = {key: each for key, each in section(root, "matrix").items() if isinstance(each, list)}
    return {
        "profile": _texts(root.get("profiles")),
        **{key: [write_scalar(value) for value in values] for key, values in matrix.items()},
    }


def _check_exclude(root: Mapping[str, Plain]) -> Iterator[Fault]:
    entries, known = root.get("exclude", []), _list_values(root)
    if not isinstance(entries, list):
        yield misplaced(("exclude",), "a list", entries)
        return
    for index, entry in enumerate(entries):
        path = ("exclude", index)
        if not isinstance(entry, dict):
            yield misplaced(path, "a mapping of profile and options to values", entry)
        elif not entry:
            yield Fault(path, "this excludes every item", "write {profile: NAME, OPTION: VALUE}")
        else:
            yield from _check_excluded(path, entry, known)


def _check_excluded(path: KeyPath, entry: Mapping[str, Plain], known: Mapping[str, Sequence[str]]) -> Iterator[Fault]:
    for key, value in entry.items():
        if key not in known:
            yield unknown_key((*path, key), tuple(known))
        elif not _is_scalar(value):
            yield _refuse_value((*path, key), value)
        elif (text := write_scalar(value)) not in known[key]:
            what = f'"{shorten(text)}" is not among the values of {key}{did_you_mean(text, known[key])}'
            yield Fault((*path, key), what, f"write one of {', '.join(known[key])}, or remove it")


def _check_accounts(root: Mapping[str, Plain]) -> Iterator[Fault]:
    names, owners = _texts(root.get("profiles")), dict[str, str]()
    for account, entry in section(section(root, "limits"), "accounts").items():
        listed = section({account: entry}, account).get("profiles")
        for index, name in enumerate(listed) if isinstance(listed, list) else ():
            path = ("limits", "accounts", account, "profiles", index)
            if isinstance(name, str) and name not in names:
                what = f'the batch has no profile "{shorten(name)}"{did_you_mean(name, names)}'
                yield Fault(path, what, "write it as under profiles")
            elif isinstance(name, str) and owners.setdefault(name, account) != account:
                what = f'"{shorten(name)}" belongs to the account {owners[name]} already'
                yield Fault(path, what, "keep it in one of them")


def _check_numbers(root: Mapping[str, Plain]) -> Iterator[Fault]:
    limits, retry = section(root, "limits"), section(root, "retry")
    yield from _check_count(("samples",), root)
    yield from _check_count(("limits", "jobs"), limits)
    yield from _check_count(("limits", "failures"), limits)
    yield from _check_count(("retry", "attempts"), retry)
    for name in (accounts := section(limits, "accounts")):
        yield from _check_count(("limits", "accounts", name, "jobs"), section(accounts, name))
    for currency, amount in section(limits, "cost").items():
        path = ("limits", "cost", currency)
        if not re.fullmatch("[A-Z]{3}", currency):
            yield Fault(path, f'"{shorten(currency)}" is not a currency', "write it as agents do: USD", at_key=True)
        if isinstance(amount, bool) or not isinstance(amount, int | float) or not 0 < amount < float("inf"):
            yield Fault(path, f"expected a positive amount, found {found(amount)}", "write a number such as 50")


def _check_count(path: KeyPath, owner: Mapping[str, Plain]) -> Iterator[Fault]:
    value = owner.get(str(path[-1]), 1)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        yield Fault(path, f"expected a whole number from 1 up, found {found(value)}", "write a number such as 4")


def _check_retry(root: Mapping[str, Plain]) -> Iterator[Fault]:
    retry, isolation = root.get("retry"), section(root, "isolation")
    if not isinstance(retry, dict):
        return
    if isolation.get("kind", "none") == "none" and isolation.get("unsafe", False) is False:
        what = "without isolation the next attempt works on what a failed one has left"
        fix = "add: isolation: {kind: worktree}; or, if that does not matter: isolation: {unsafe: true}"
        yield Fault(("retry",), what, fix, at_key=True)


# Tasks.


def _read_tasks(listed: Plain, positions: Positions, read_file: Callable[[str], tuple[bytes, str]]) -> Tasks:
    path: KeyPath = ("tasks",)
    if isinstance(listed, list):
        return _build_tasks([((*path, index), raw) for index, raw in enumerate(listed)], positions, path)
    if isinstance(listed, str) and listed.strip():
        try:
            return read_lines(*read_file(listed))
        except UsageError as error:
            return Tasks((), positions, [Fault(path, error.message, error.fix)])
    if listed is None and path not in positions.table:
        return Tasks((), positions, [Fault(path, REQUIRED, "add: tasks: tasks.jsonl, or a list")])
    return Tasks((), positions, [misplaced(path, "a list, or the name of a file", listed)])


def read_lines(content: bytes, label: str) -> Tasks:
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
    tasks = _build_tasks(raws, Positions(table), (0,))
    return tasks._replace(faults=[*faults, *tasks.faults] if raws else faults or tasks.faults)


def _build_tasks(raws: Sequence[tuple[KeyPath, Plain]], positions: Positions, owner: KeyPath) -> Tasks:
    """Build the tasks; `owner` is where to report that there are none. After many faults no others are looked for."""
    known, tasks, faults = dict[str, KeyPath](), list[tuple[KeyPath, BatchTask]](), list[Fault]()
    if not raws:
        return Tasks((), positions, [Fault(owner, "the batch has no task", f"write at least one: {_TASK}")])
    if len(raws) > MAX_TASKS:
        return Tasks((), positions, [Fault(raws[MAX_TASKS][0], f"more than {MAX_TASKS:,} tasks", SEVERAL)])
    for path, raw in raws:
        if len(faults) >= MAX_PROBLEMS:
            break
        wrong = list(_check_task(path, raw, known, positions))
        if isinstance(raw, dict):
            texts = {key: write_scalar(value) for key, value in section(raw, "vars").items()}
            given = {**raw, "vars": texts} if isinstance(raw.get("vars"), dict) else raw
            if (task := _validate(BatchTask, given, path, wrong)) is not None:
                tasks.append((path, task))
        faults += wrong
    return Tasks(tasks, positions, faults)


def _check_task(path: KeyPath, raw: Plain, known: dict[str, KeyPath], positions: Positions) -> Iterator[Fault]:
    if not isinstance(raw, dict):
        yield misplaced(path, "a mapping with an id", raw)
        return
    id = raw.get("id")
    if isinstance(id, str) and not ID.fullmatch(id):
        what = f'"{shorten(id)}" is not an id: letters, digits, "_", "-" and "." are allowed, "." not as the first'
        yield Fault((*path, "id"), what, f"write {write_part(id.lstrip('.'))}")
    elif isinstance(id, str) and known.setdefault(id, path) != path:
        first = positions.where(known[id]).line
        yield Fault((*path, "id"), f'the id "{shorten(id)}" appears twice; the first is on line {first}', "change one")
    for key in ("prompt", "repo", "ref"):
        if isinstance(text := raw.get(key), str) and (not text.strip() or "\0" in text):
            yield Fault((*path, key), "there is no text here that can be used", "write it, or remove the key")
    yield from _check_variables((*path, "vars"), section(raw, "vars"))


def _check_variables(path: KeyPath, variables: Mapping[str, Plain]) -> Iterator[Fault]:
    for name, value in variables.items():
        if name in _OWN or not re.fullmatch(VARIABLE, name):
            what, fix = f'"{shorten(name)}" cannot be a variable', f"write letters, digits, _ and -; not {_NAMES}"
            yield Fault((*path, name), what, fix, at_key=True)
        if not _is_scalar(value) or "\0" in str(value):
            yield _refuse_value((*path, name), value)


# The template.


def _find_promptless(root: Mapping[str, Plain], tasks: Tasks) -> Iterator[Fault]:
    """Yield a fault for each task that has no prompt, if the file has none either."""
    for path, task in tasks.given if root.get("prompt") is None else ():
        if task.prompt is None:
            yield Fault(
                path, f'the task "{task.id}" has no prompt', "write one here, or a template as the prompt of all"
            )


def _check_template(template: Plain, tasks: Tasks) -> Iterator[Fault]:
    """Check the file's prompt against the tasks that use it. If tasks are wrong, names may be missing for that."""
    path: KeyPath = ("prompt",)
    if not isinstance(template, str):
        return
    if not template.strip():
        yield Fault(path, "the prompt is empty", "write it, or remove it if each task has its own")
    given = [task for _, task in tasks.given]
    known = dict.fromkeys((*_OWN, *(name for task in given for name in task.vars)))
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
            hint = did_you_mean(name, [each for each in known if each != name])
            what = f'${{task.{name}}}: no such variable in the task "{lacking[0]}"{others}{hint}'
            yield Fault(path, what, f"add {name} to the vars of each task", match.start())


def fill_in(template: str, values: Mapping[str, str]) -> str:
    """Fill in a template that was checked; what is filled in is not looked at again."""
    return _REFERENCE.sub(lambda it: it[0][1:] if it[0].startswith("$$") else values[it["name"]], template)


# Items.


def write_part(text: str) -> str:
    """Write a text as a part of ids."""
    return _OTHERS.sub("-", text) or "-"


def name_profile(name: str) -> str:
    """Write a profile's name as a part of ids: `./fast.yaml` is `fast`."""
    return write_part(_SUFFIX.sub("", name.rpartition("/")[2]))


def _make_items(document: Document, file: BatchFile, tasks: Tasks, repo: str) -> tuple[list[Draft], list[Problem]]:
    """Make the items that are not excluded; return them and what is wrong with them."""
    root = document.root
    options = {key: [write_scalar(value) for value in values] for key, values in root.get("matrix", {}).items()}
    excluded = [{key: write_scalar(value) for key, value in entry.items()} for entry in root.get("exclude", ())]
    number = len(tasks.given) * len(file.profiles) * prod(map(len, options.values())) * file.samples
    if number > MAX_ITEMS:
        what = f"these are {number:,} items; at most {MAX_ITEMS:,} are allowed"
        return [], [document.where(("tasks",)).problem("tasks", what, SEVERAL)]
    drafts, known, problems, characters = list[Draft](), dict[str, Draft](), list[Problem](), 0
    for item, task, at in _make_drafts(file, tasks, options, repo):
        if any(entry.items() <= {"profile": item.profile, **item.matrix}.items() for entry in excluded):
            continue
        draft = Draft(replace(item, index=len(drafts)), task, at)
        problems += _find_clash(draft, known.setdefault(item.id.lower(), draft))
        drafts.append(draft)
        characters += len(item.prompt)
    if not drafts:
        problems.append(document.where(("exclude",)).problem("exclude", "every item is excluded", "exclude fewer"))
    if characters > MAX_PROMPTS:
        what = f"the prompts of all items have {characters:,} characters; at most {MAX_PROMPTS:,} are allowed"
        problems.append(document.where(("tasks",)).problem("tasks", what, "write long ones to files that agents read"))
    return drafts, problems[:MAX_PROBLEMS]


def _make_drafts(file: BatchFile, tasks: Tasks, options: Mapping[str, Sequence[str]], repo: str) -> Iterator[Draft]:
    rows = [(values, dict(zip(options, values, strict=True))) for values in product(*options.values())]
    for path, task in tasks.given:
        at, prompt = tasks.positions.where(path), _make_prompt(file, task, repo)
        for profile, (values, row), sample in product(file.profiles, rows, range(1, file.samples + 1)):
            parts = [task.id, name_profile(profile), *map(write_part, values)]
            id = ".".join([*parts, str(sample)] if file.samples > 1 else parts)
            item = Item(
                id=id, index=0, task=task.id, profile=profile, matrix=row, sample=sample, prompt=prompt, repo=""
            )
            yield Draft(item, task, at)


def _make_prompt(file: BatchFile, task: BatchTask, repo: str) -> str:
    if task.prompt is not None:
        return task.prompt
    own = {"id": task.id, "repo": task.repo or repo, "ref": task.ref or file.isolation.ref}
    return fill_in(file.prompt or "", {**own, **{name: str(value) for name, value in task.vars.items()}})


def _find_clash(draft: Draft, first: Draft) -> Iterator[Problem]:
    """Find what is wrong with an id. Some file systems take ids that differ only in case for one."""
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
