"""
Three tiers; every test is in one of them.

    pytest                  the first: what is to hold at every change, in two minutes
    pytest -m whole         all the others
    pytest -m exhaustive    much like the others, and left out by `.ci/run` too

What is in `QUICK`, pure or in memory, is in the first tier unless it is marked `whole`. All else, a new directory too,
is `whole`, as most of it starts programs; but a test that is marked `promise(NAME)` is in the first tier, as an example
of a sentence of `PROMISES`. `sample(N, M)` leaves the first N parameters of a test in the first tier, and makes those
after the first M exhaustive.

A user who names files or directories below `tests` runs all of their tests but the exhaustive ones.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FIRST_TIER = "not whole and not exhaustive"  # as `addopts` in pyproject.toml has it
NAMED_TESTS = "not exhaustive"
QUICK = {  # directories, and files
    *("bridge", "checks", "console", "demo", "document", "host", "interactive", "interop", "engine", "mcp", "oauth"),
    *("plan", "profile", "protocol", "registry", "remote", "secret", "serve", "session", "settings", "transport"),
    *(f"batch/test_{name}.py" for name in ("check", "model", "outcome", "progress", "report", "schedule", "store")),
    *(f"cli/test_{name}.py" for name in ("credentials", "headers_command", "quick")),
    *(f"process/test_{name}.py" for name in ("exit", "lifecycle", "logfile", "logread", "records", "tail")),
    *(f"redteam/test_hostile_{name}.py" for name in ("environments", "files", "reports", "repositories")),
    *(f"process/test_supervisor{name}.py" for name in ("", "_ends")),
}
PROMISES = {
    "answer": "a prompt is answered, on a terminal, in a pipe and as JSON, and nothing else is on stdout",
    "attach": "terminals come and go while a host works",
    "batch": "a batch carries out each item once, also after a kill, and says how each ended",
    "confined": "a confined agent sees its place and nothing else",
    "diagnosis": "doctor, logs and trace say what happens, and hold no secret",
    "events": "a script gets every update, byte for byte",
    "failure": "who fails is named, with its last words and an exit code that means something",
    "first steps": "help, completion, an overview and the first profile cost a user nothing to find",
    "import": "servers of other tools are taken over, and no token is left behind",
    "install": "an agent that is missing is installed on a yes, and a locked one is the one that starts",
    "interrupt": "Ctrl-C cancels the turn and keeps the session; twice, it ends everything",
    "kill": "whatever is killed, nothing is left behind",
    "limit": "every wait has a name and a deadline",
    "login": "agents and remote servers are logged in to once, and no agent sees a token",
    "mcp": "a profile's servers can be listed and called without an agent",
    "permission": "rules and answers decide what an agent may do, and without a user it may not",
    "profile": "every problem comes with its line, before anything starts",
    "reload": "a host takes servers that have changed, and the rest stays",
    "remote": "a remote server reaches an agent that takes only stdio servers",
    "replay": "a trace is played again, and a difference is named",
    "restart": "a server that crashes comes back while the session goes on",
    "secret": "a secret reaches its server and nothing else",
    "serve": "an editor has the profile as its agent, and the session goes on when the agent dies",
    "session": "a named session is opened once, and resumed from then on",
    "share": "launches of a user share a server, and each gets its own answers",
    "terminal": "an agent cannot drive the terminal, and it is given back as it was",
    "trust": "what a repository brings is inert until its content is accepted",
    "up": "a launch outlives its terminal, and takes prompts from the next",
}


def pytest_configure(config: pytest.Config) -> None:
    if config.option.markexpr == FIRST_TIER and names_tests(config.args, config.invocation_params.dir):
        config.option.markexpr = NAMED_TESTS


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file that has no test of the tier: each worker would."""
    return True if lacks(collection_path, config.option.markexpr) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before `-m` selects: mark what is not in the first tier without saying so itself."""
    seen: Counter[str] = Counter()
    for item in items:
        test = item.nodeid.partition("[")[0]
        seen[test] += 1
        if name := tier(item.path, item.get_closest_marker, seen[test]):
            if name == "exhaustive" and item.get_closest_marker("whole"):
                raise pytest.UsageError(f"{item.nodeid} is both whole and exhaustive: leave out `whole`")
            item.add_marker(name)


def names_tests(arguments: Iterable[str], directory: Path) -> bool:
    """Whether the user has named tests, not just all of them."""
    paths = [Path(os.path.abspath(directory / argument.partition("::")[0])) for argument in arguments]  # noqa: PTH100
    return all(HERE in path.parents for path in paths)


def tier(path: Path, mark: Callable[[str], pytest.Mark | None], number: int) -> str:
    """The tier of the parameters with this number, from 1, of a test in this file; empty for the first."""
    sample = mark("sample")
    limits = sample.args if sample is not None else ()
    if mark("exhaustive") or number > (limits[1] if len(limits) > 1 else number):
        return "exhaustive"
    if mark("whole") or number > (limits[0] if limits else number):
        return "whole"
    return "" if mark("promise") or is_quick(path) else "whole"


def lacks(path: Path, expression: str) -> bool:
    """Whether a file has no test of the tier that this expression selects, as its text tells."""
    marks = {FIRST_TIER: ("promise",), "whole": ("whole", "sample")}.get(expression)
    if not marks or not path.is_file() or is_quick(path) == (expression == FIRST_TIER):
        return False
    return not any(f"mark.{mark}" in path.read_text() for mark in marks)


@cache
def is_quick(path: Path) -> bool:
    """Whether the tests of a file are in the first tier without a mark."""
    if not path.is_relative_to(HERE) or path.parent == HERE:
        return True
    return any(path.is_relative_to(HERE / name) for name in QUICK)
