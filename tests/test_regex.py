"""Ring 1. A module's regular expression is compiled when it is first used, and every one of them can be."""

import ast
import importlib
import re
from collections.abc import Iterator

import pytest

from acp_launch.regex import regex
from tests.test_architecture import MODULES, PACKAGE, parsed

COMPILING = [path for path in MODULES if "demo" not in path.parts and path.stem != "__main__"]


def test_it_is_used_as_a_compiled_one_is() -> None:
    word = regex(r"(?P<word>[a-z]+)", re.IGNORECASE)
    assert word.findall("One two") == ["One", "two"]
    assert word.sub("x", "One two") == "x x"
    assert [found["word"] for found in word.finditer("One two")] == ["One", "two"]
    assert (word.pattern, word.flags & re.IGNORECASE) == (r"(?P<word>[a-z]+)", re.IGNORECASE)
    assert regex(rb"\s").split(b"a b") == [b"a", b"b"]


def test_it_is_compiled_at_its_first_use_and_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_ = re.compile

    def remember(pattern: str, flags: int = 0) -> re.Pattern[str]:
        compiled.append(pattern)
        return compile_(pattern, flags)

    monkeypatch.setattr(re, "compile", remember)
    word = regex("[a-z]+")
    assert compiled == []
    assert [word.match("a") is not None, word.match("1") is not None] == [True, False]
    assert compiled == ["[a-z]+"]


def at_import_time(node: ast.AST) -> Iterator[ast.AST]:
    """What the interpreter meets when it imports: all but the bodies of functions."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from at_import_time(child)


def calls(name: str, nodes: Iterator[ast.AST]) -> list[ast.Call]:
    return [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == name]


def test_no_module_compiles_one_when_it_is_imported() -> None:
    assert [path for path in COMPILING if calls("re.compile", at_import_time(parsed(path)))] == []


def test_every_one_of_a_module_can_be_compiled() -> None:
    found = 0
    for path in [path for path in COMPILING if "regex(" in path.read_text() and path.stem != "regex"]:
        name = ".".join(("acp_launch", *path.relative_to(PACKAGE).with_suffix("").parts))
        module = importlib.import_module(name)
        written = calls("regex", at_import_time(parsed(path)))
        names = {"regex": regex, "re": re, **vars(module)}
        for call in written:
            arguments = [eval(ast.unparse(each), names) for each in call.args]
            assert re.compile(*arguments).groups >= 0
        found += len(written)
    assert found > len(COMPILING) / 4
