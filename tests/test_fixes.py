"""Whatever the program advises can be done: each command in its own texts is one that its own parser takes."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_launch.cli.main import MEANT, REMOVED
from acp_launch.interactive.commands import ALIASES, COMMANDS
from acp_launch.registry.index import NAMING, VALUED
from tests.cli.verbs import commands as verbs
from tests.fixes import PLAIN, commands, fault
from tests.test_architecture import MODULES, PACKAGE, nodes, place

ANY = "x"  # for what is only known when it is said
# A verb that is not written out where it is said, and all that it can be.
VERBS = {"session/hold": ("session close x", "session rm x", "run x --session x", "serve x")}
PAGE = PACKAGE / "batch" / "page.py"  # HTML and CSS, where two dashes begin a variable
# To git, to bubblewrap and to container engines, and of no option of ours.
ENGINES = ("plan/elsewhere.py", "plan/place.py", "process/containers.py")
SPEAKERS = ("batch/baseline.py", "batch/worktree.py", "process/git.py", *ENGINES)
SPOKEN_TO = {option for each in SPEAKERS for option in re.findall(r"--[a-z][a-z-]*", (PACKAGE / each).read_text())}
# Options of other programs that we speak of, and the one that every command has.
FOREIGN = {
    *(option for _, option in (*REMOVED, *MEANT)),
    "--help",
    "--check-hash-based-pycs",
    "--acp",
    "--experimental-acp",
    "--package",
    "--upgrade",
    "--list-backends",
    "--title",  # toad
    *("--no-audit", "--no-fund", "--no-update-notifier", "--save-exact", "--loglevel"),  # npm
    *("--prefix", "--quiet", "--no-input", "--disable-pip-version-check"),  # npm, uv and pip
    *("--no-deps", "--generate-hashes", "--hash"),  # uv
    *SPOKEN_TO,
    *(option for options in (*NAMING.values(), *VALUED.values()) for option in options),  # npx and uvx
}
TEXTS = [path for path in MODULES if place(path) != "demo" and path != PAGE]


def strings(path: Path) -> Iterator[str]:
    """Every text of a module that is no docstring, with `ANY` for what is filled in."""
    passed = {id(node) for outer in nodes(path) for node in _not_alone(outer)}
    for node in nodes(path):
        if id(node) not in passed:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.JoinedStr):
                yield "".join(map(_piece, node.values))
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ours":
                yield " ".join(["acp-launch", *filter(None, map(_word, node.args))])


def _not_alone(outer: ast.AST) -> list[ast.AST]:
    """What is no text by itself: a docstring, a piece of a longer text."""
    if isinstance(outer, ast.JoinedStr):
        return [*outer.values]
    body = getattr(outer, "body", None)
    if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
        return [body[0].value]
    return []


def _piece(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    return "1.0" if "__version__" in ast.unparse(node) else ANY


def _word(node: ast.expr) -> str:
    """A word of `ours(…)`; nothing for several at once, which may be none."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    return "" if isinstance(node, ast.Starred) else ANY


@functools.cache
def told(path: Path) -> list[str]:
    text = list(strings(path))
    name = str(path.relative_to(PACKAGE).with_suffix(""))
    if name in VERBS:
        text = [each.replace(f"acp-launch {ANY}", f"acp-launch {verb}") for each in text for verb in VERBS[name]]
    return text


def test_every_command_that_is_advised_is_one() -> None:
    advised = [(path, words) for path in TEXTS for text in told(path) for words in commands(text)]
    wrong = [(str(path.relative_to(PACKAGE)), words, said) for path, words in advised if (said := fault(words))]
    assert wrong == []


def test_the_texts_were_found() -> None:
    """Of a fix, a constant, a text with something filled in, and a command made by `ours`."""
    found = {" ".join(words) for path in TEXTS for text in told(path) for words in commands(text)}
    assert {"secret set NAME", "secret set x", "logs x x", "profile set x x x", "import FILE --into PROFILE"} < found
    assert len(found) >= 50


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        ("acp-launch list shows the profiles", ["list"], ""),
        ("if you want it: acp-launch trust 'my p'; to run it once: --trust", ["trust", "my p"], ""),
        ("type it, or pipe it: acp-launch secret set NAME < FILE", ["secret", "set", "NAME"], ""),
        ("acp-launch permission forget p N", ["permission", "forget", "p", "N"], ""),
        ("acp-launch lst", ["lst"], "there is no verb 'lst'"),
        ("acp-launch secret get x", ["secret", "get", "x"], "there is no verb 'get'"),
        ("acp-launch run p --replay", ["run", "p", "--replay"], "No such option: --replay"),
        ("acp-launch session rm --local", ["session", "rm", "--local"], "Missing argument 'NAME...'"),
        ("acp-launch logs a b c", ["logs", "a", "b", "c"], "unexpected extra argument"),
        ("acp-launch list the profiles", ["list", "the", "profiles"], "unexpected extra argument"),
        ("acp-launch secret", ["secret"], "there is no verb ''"),
    ],
)
def test_a_command_that_is_none_would_be_noticed(text: str, words: list[str], said: str) -> None:
    (found,) = commands(text)
    assert found == words
    assert fault(found).startswith(said) or said in fault(found)
    assert bool(fault(found)) == bool(said)


def test_a_sentence_about_the_program_is_no_command() -> None:
    assert list(commands("acp-launch: a note; only acp-launch does that, and acp-launch knows why")) == []
    assert not set(PLAIN) & {"run", "list", "secret", "logs"}


def test_every_option_that_is_spoken_of_is_one() -> None:
    known = {
        option
        for command in verbs().values()
        for each in command.params
        for option in (*each.opts, *each.secondary_opts)
    }
    spoken = {
        option for path in TEXTS for text in told(path) for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)
    }
    assert spoken - known - FOREIGN == set()


def test_every_command_of_a_session_that_is_spoken_of_is_one() -> None:
    spoken = {
        word
        for path in TEXTS
        if place(path) == "interactive"
        for text in told(path)
        for word in re.findall(r"(?<![\w:]):[a-z]+(?![\w:])", text)
    }
    assert spoken <= {*COMMANDS, *ALIASES, ":x"}  # x stands for what is filled in
    assert {":help", ":switch", ":servers"} <= spoken
