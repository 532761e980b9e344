"""
Everything the README and the pages of docs/ show is true: the blocks of a page are run or validated, in their order, in
one temporary project.

The rules, by the language of the block:

    console   `$ command`, lines beginning with `> ` that continue it, then exactly what it prints, stdout and stderr
              together. `...` stands for any text, also over several lines. A block is one shell: `cd` lasts, and
              `$ echo $?` shows how the command before it ended. Blank lines at the end of an output do not count.
    sh        runs to its end without a failure; its output matters if the next block is marked as that
    yaml      is YAML; one that starts with `version:` is a profile, or a batch if it has tasks, without any problem
    json      one JSON text a line
    text      nothing

No other language is allowed. A comment right above a block says more about it:

    <!-- not run: REASON -->    it needs an account, the network or a person
    <!-- needs: a keyring -->   it is run where a real one can be started, as in CI
    <!-- file: PATH -->         its text is also put into that file of the project, for the blocks below
    <!-- output: OF WHAT -->    it is what the sh block above it prints, as in a console block

`acp-launch` means this checkout. As after `pipx install`, it is on PATH, and `python3` knows nothing of it. `pip …` at
the beginning of a line is not run, nor is the making of an environment before it; what follows it after `&&` is. (The
lines at the top of the README are also run as they are, in a test of their own.) The project is a repository with
nothing in it, the home is empty, nothing is on stdin, and output is 80 columns wide and has no colour.
"""

import doctest
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import pytest

from acp_launch.batch.check import check as batch
from acp_launch.document.yaml import parse
from acp_launch.profile.check import check
from tests.patience import PATIENCE
from tests.secret.bus import REQUIRED, missing_programs, session_bus

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
MARK = re.compile(r"<!-- (not run|needs|file|output): (\S.*) -->")
INSTALLING = re.compile(r"^(?:python3 -m venv \S+ && \. \S+/bin/activate && )?pip .*?(?:$|&& )")
END_OF_OUTPUT = "\x1e"  # ASCII record separator


@dataclass(frozen=True)
class Block:
    line: int  # of its first line of content, from 1
    language: str
    lines: tuple[str, ...]
    above: str  # the line right above it

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    def mark(self, kind: str) -> str | None:
        found = MARK.fullmatch(self.above.strip())
        return found[2] if found and found[1] == kind else None


@dataclass
class Command:
    line: int
    text: str
    expected: str = ""

    @property
    def to_run(self) -> str:
        return INSTALLING.sub("", self.text)


def blocks(text: str) -> Iterator[Block]:
    """Every fenced block, indented ones included."""
    numbered = iter(enumerate(text.splitlines(), 1))
    above = ""
    for number, line in numbered:
        if not line.lstrip().startswith("```"):
            above = line
            continue
        indent = len(line) - len(line.lstrip())
        lines: list[str] = []
        for _, inside in numbered:
            if inside.strip() == "```":
                break
            lines.append(inside[indent:])
        yield Block(number + 1, line.strip().removeprefix("```"), tuple(lines), above)
        above = ""


def commands(block: Block) -> list[Command]:
    found: list[Command] = []
    for number, line in enumerate(block.lines, block.line):
        if line.startswith("$ "):
            found.append(Command(number, line[2:]))
        elif line.startswith("> ") and not found[-1].expected:
            found[-1].text += f"\n{line[2:]}"
        else:
            found[-1].expected += f"{line}\n"
    return found


def faults(text: str, project: Path, keyring: Mapping[str, str] | None = None) -> list[str]:
    """What is wrong with the `text` of a page; `keyring` are the variables of a desktop that has one."""
    runnable = [block for block in blocks(text) if block.mark("needs") is None or keyring]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (keyring or {}).items():
            patch.setenv(name, value)
            patch.delenv("PYTHON_KEYRING_BACKEND", raising=False)
        return [
            fault
            for block, after in zip_longest(runnable, runnable[1:])
            for fault in _wrong(block, project, after.text if after and after.mark("output") else None)
        ]


def _wrong(block: Block, project: Path, output: str | None) -> Iterable[str]:
    _write(block, project)
    if block.mark("not run") or block.language == "text":
        return []
    match block.language:
        case "console":
            return _console(block, project)
        case "sh":
            return _sh(block, project, output)
        case "yaml":
            return _yaml(block)
        case "json":
            return _json(block)
        case "python":
            return _python(block, project)
    return [f"line {block.line}: a block in {block.language!r}, of which nothing is known"]


def _write(block: Block, project: Path) -> None:
    if path := block.mark("file"):
        file = project / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.text)


def _console(block: Block, project: Path) -> Iterator[str]:
    if not block.text.startswith("$ "):
        yield f"line {block.line}: a console block begins with a command"
        return
    running = [command for command in commands(block) if command.to_run]
    script = "".join(f"{command.to_run}\nstatus=$?; printf {END_OF_OUTPUT}; (exit $status)\n" for command in running)
    outputs = _shell(project, "-c", script).stdout.split(END_OF_OUTPUT)
    outputs += ["(the shell ended before this)"] * (len(running) - len(outputs))
    for command, output in zip(running, outputs, strict=False):
        if not _alike(command.expected, output):
            yield f"line {command.line}: $ {command.text}\n{_differing(command.expected, output)}"


def _alike(expected: str, output: str) -> bool:
    expected, output = (f"{text.rstrip()}\n" for text in (expected, output))
    return doctest.OutputChecker().check_output(expected, output, doctest.ELLIPSIS)


def _differing(expected: str, output: str) -> str:
    return f"is to print:\n{expected}but prints:\n{output}"


def _sh(block: Block, project: Path, output: str | None) -> Iterator[str]:
    script = "".join(f"{INSTALLING.sub('', line)}\n" for line in block.lines)
    ended = _shell(project, "-e", "-c", script)
    if ended.returncode:
        yield f"line {block.line}: the block ends with {ended.returncode} and prints:\n{ended.stdout}"
    elif output is not None and not _alike(output, ended.stdout):
        yield f"line {block.line}: the block {_differing(output, ended.stdout)}"


def _yaml(block: Block) -> list[str]:
    source = "\n" * (block.line - 1) + block.text  # so that the lines of problems are those of the page
    document, problems = parse(source, "page")
    written = [line for line in block.lines if line.strip() and not line.startswith("#")]
    if document is not None and written[0].startswith("version:"):
        if "tasks" in document.root:
            task = b'{"id": "a", "vars": {"note": ""}}'
            return [str(each) for each in batch(source, "page", repo="", read_tasks=lambda name: (task, name)).problems]
        inherited = {"agent"} if "extends" in document.root else set()
        problems = [*problems, *(each for each in check(document)[1] if each.path not in inherited)]
    return [str(problem) for problem in problems]


def _json(block: Block) -> Iterator[str]:
    for number, line in enumerate(block.lines, block.line):
        try:
            json.loads(line)
        except ValueError as error:
            yield f"line {number}: not JSON: {error}"


PYTHON = """
import ast, asyncio, importlib.util, inspect, sys
source = sys.stdin.read()
wanted = {each.module for each in ast.walk(ast.parse(source)) if isinstance(each, ast.ImportFrom)}
if all(map(importlib.util.find_spec, {name.partition(".")[0] for name in wanted})):
    made = eval(compile(source, "block", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), {"__name__": "block"})
    if inspect.iscoroutine(made):
        asyncio.run(made)
"""


def _python(block: Block, project: Path) -> Iterator[str]:
    """Run a block as a notebook does, or pytest if it is a file of tests; not without the packages that it needs."""
    testing = block.mark("file")
    how = ["-m", "pytest", "-q", "-p", "no:cacheprovider", testing] if testing else ["-X", "dev", "-c", PYTHON]
    ended = subprocess.run(
        [sys.executable, *how],
        cwd=project,
        env=_at_home(),
        input=block.text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if ended.returncode or "Warning" in ended.stdout:
        yield f"line {block.line}: the block ends with {ended.returncode} and prints:\n{ended.stdout}"


def _shell(project: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    programs = project.parent / "bin"
    programs.mkdir(exist_ok=True)
    ours = shlex.quote(sys.executable)
    for name, argv in (("acp-launch", f"{ours} -m acp_launch"), ("python3", f"{ours} -I -S")):
        (programs / name).write_text(f'#!/bin/sh\nexec {argv} "$@"\n')
        (programs / name).chmod(0o755)
    path = os.pathsep.join([str(programs), os.environ["PATH"]])
    return subprocess.run(
        ["sh", *arguments],
        cwd=project,
        env={**_at_home(), "PATH": path, "COLUMNS": "80"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def _at_home() -> dict[str, str]:
    """Our directories are where docs/settings.md says they are."""
    return {name: value for name, value in os.environ.items() if not re.fullmatch("ACP_LAUNCH_.*_DIR", name)}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    return project


@pytest.mark.whole
@pytest.mark.timeout(240)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_of_a_page_does_what_it_says(page: Path, project: Path) -> None:
    text = page.read_text()
    with ExitStack() as running:
        wrong = faults(text, project, _keyring(running) if "<!-- needs: a keyring" in text else None)
    assert not wrong, "\n\n".join(wrong)


def _keyring(running: ExitStack) -> Mapping[str, str] | None:
    if missing_programs() and not REQUIRED:
        return None
    desktop = running.enter_context(session_bus())
    desktop.start_keyring()
    return desktop.environ


def top() -> list[Block]:
    """The blocks of the README before its first heading: a line that shows the demo, its output, and one for tests."""
    return list(blocks(README.read_text().partition("\n## ")[0]))


def test_the_readme_begins_with_a_command_and_soon_shows_its_success() -> None:
    """First command by line 5, first real output by line 20; nothing is needed before, and each line can be pasted."""
    demo, output, tests = top()
    assert (demo.language, demo.line, demo.mark("not run")) == ("sh", 5, None)
    assert output.mark("output")
    assert output.text.strip()
    assert output.line <= 20
    for block in (demo, tests):
        (line,) = block.lines
        assert line.startswith("python3 -m venv .venv && . .venv/bin/activate && pip install -q ")


@pytest.mark.whole
@pytest.mark.timeout(240)
def test_the_lines_at_the_top_do_all_in_a_new_checkout(tmp_path: Path) -> None:
    """Offline, so that what they would fetch is there already: the packages that the tests run with."""
    for module in ("hatchling", "editables"):
        pytest.importorskip(module, reason="pip cannot build without the network")
    checkout = tmp_path / "a directory" / "of its own"
    ignored = shutil.ignore_patterns(*(ROOT / ".gitignore").read_text().replace("/\n", "\n").split(), ".git")
    shutil.copytree(ROOT, checkout, ignore=ignored)
    there = {"PYTHONPATH": sysconfig.get_path("purelib"), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    pip = {"CONFIG_FILE": os.devnull, "NO_INDEX": "1", "NO_DEPS": "1", "NO_BUILD_ISOLATION": "0"}
    pip = {f"PIP_{name}": value for name, value in pip.items()}
    pytests = {"PYTEST_ADDOPTS": "-n 0 tests/test_digest.py", "PYTEST_DEBUG_TEMPROOT": str(tmp_path)}
    demo, output, tests = top()
    for line, expected in ((demo.text, output.text), (tests.text, "...\n7 passed in ...\n")):
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=checkout,
            env={**os.environ, **there, **pip, **pytests},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=10 * PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        assert _alike(expected, done.stdout)
        (made,) = (checkout / ".venv" / "bin").glob("acp-launch")
        made.unlink()  # for the next line to make again


def test_ci_runs_the_tests_as_the_readme_says() -> None:
    making, entering, *commands = top()[2].text.strip().split(" && ")
    assert (making, entering) == ("python3 -m venv .venv", ". .venv/bin/activate")
    steps = re.findall(r"^step \"?[^\"]*?\"? \d+ (.+)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert [step for step in steps if step in commands] == commands
    assert commands[-1] == "pytest" and steps[steps.index("pytest") + 1] == "pytest -m whole"


def test_output_is_compared_with_wildcards_in_a_shell_that_remembers(project: Path) -> None:
    text = """\
```console
$ mkdir deep && cd deep
$ printf 'one\\ntwo\\nthree\\n'; echo four >&2
one
...
four
$ pwd
/.../deep

$ (exit 3)
$ echo $?
3
$ cat <<END
> here
> END
here
$ pip install something-that-does-not-exist
never compared
$ pip install something-that-does-not-exist && echo done
done
```
"""
    assert faults(text, project) == []


def test_other_output_is_reported_with_its_line(project: Path) -> None:
    text = "# Title\n\n```console\n$ echo one\none\n$ echo two\nzwei\n```\n"
    assert faults(text, project) == ["line 6: $ echo two\nis to print:\nzwei\nbut prints:\ntwo\n"]


def test_a_command_after_the_end_of_the_shell_is_reported(project: Path) -> None:
    text = "```console\n$ exit 4\n$ echo two\ntwo\n```\n"
    assert faults(text, project) == [
        "line 3: $ echo two\nis to print:\ntwo\nbut prints:\n(the shell ended before this)"
    ]


def test_the_output_of_a_script_is_the_next_block_if_that_says_so(project: Path) -> None:
    text = "```sh\npython3 -m venv .venv && . .venv/bin/activate && pip install . && echo one\n```\n"
    assert faults(text, project) == []
    shown = "<!-- output: of the line above -->\n```text\n{}\n```\n"
    assert faults(text + shown.format("o..."), project) == []
    assert faults(text + shown.format("two"), project) == ["line 2: the block is to print:\ntwo\nbut prints:\none\n"]


def test_a_script_stops_at_its_first_failure(project: Path) -> None:
    text = "```sh\npip install nothing\necho so far\nfalse\necho never\n```\n"
    assert faults(text, project) == ["line 2: the block ends with 1 and prints:\nso far\n"]


def test_a_block_can_be_a_file_for_those_below_and_acp_launch_is_this_checkout(project: Path) -> None:
    text = """\
<!-- file: .acp-launch/mine.yaml -->
```yaml
# mine
version: 1
agent: {command: sh}
```

1. Then:
   ```console
   $ acp-launch validate mine && acp-launch --version
   .acp-launch/mine.yaml: ok
   acp-launch ...
   ```
"""
    assert faults(text, project) == []


def test_a_profile_with_a_problem_is_reported_at_its_line_of_the_page(project: Path) -> None:
    text = "text\n\n```yaml\nversion: 1\nagent: {comand: sh}\n```\n```yaml\nagent: {comand: sh}\n```\n"
    wrong = faults(text, project)
    assert [fault.split(": ")[0] for fault in wrong] == ["page:5:9"]
    assert faults("```yaml\na: [1\n```\n", project) != []


def test_json_is_read_line_by_line(project: Path) -> None:
    assert faults('```json\n{"a": 1}\n{"b": 2}\n```\n', project) == []
    (wrong,) = faults('```json\n{"a": 1}\n{"b": \n```\n', project)
    assert wrong.startswith("line 3: not JSON: ")


def test_a_marked_block_is_not_run_and_an_unknown_one_is_refused(project: Path) -> None:
    text = "<!-- not run: needs an account -->\n```console\n$ false\nnever\n```\n```perl\n1\n```\n```text\nx\n```\n"
    assert faults(text, project) == ["line 7: a block in 'perl', of which nothing is known"]


def test_a_block_that_needs_a_keyring_is_run_where_there_is_one(project: Path) -> None:
    text = '<!-- needs: a keyring -->\n```console\n$ echo "$BUS" "$PYTHON_KEYRING_BACKEND"\nhere\n```\n'
    assert faults(text, project, None) == []
    assert faults(text, project, {"BUS": "here"}) == []
    assert len(faults(text, project, {"BUS": "there"})) == 1
