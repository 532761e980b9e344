"""Ring 1. What msgspec makes of a profile is what pydantic makes of it, by the same annotations: never more or less."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from acp_launch.document.nodes import Plain, as_written
from acp_launch.document.shape import Shape, build
from acp_launch.document.yaml import parse
from acp_launch.problem import KeyPath
from acp_launch.profile.model import Profile
from acp_launch.settings.model import Choices

from .test_cache import EVERYTHING

SETTINGS = """
max_line: 8MiB
secrets:
  store: command
  timeout: 20s
  keyring: {backend: a.b}
  file: {path: x, key_file: y}
  command: [op, read, "{name}"]
"""
PLAIN = {Profile: EVERYTHING, Choices: SETTINGS}
ADAPTERS = {shape: TypeAdapter[Any](shape) for shape in PLAIN}
SCALARS = st.sampled_from(
    [
        *(None, True, False, 0, 1, 2, -1, 5, 100, 101, 4096, 10**30, 0.0, 0.5, 1.0, 2.0, 1e300),
        *(float("nan"), float("inf"), "", "a", "all", "minimal", "read", "ask", "allow", "agent", "session", "never"),
        *("10s", "0s", "2 m", "1.5h", "10s\n", "64MiB", "4096", "1", "true", "stdio", "http", "sse", "file"),
        *(as_written(1, "0x1"), as_written(5000, "0x1388"), as_written(2.0, "2.00")),
        *("${secret:x}", "${env:HOME}/y", "${", "${nope:x}", "$$", "${project}", "a\nb", "\u0665s"),
    ]
)
KEYS = st.sampled_from(
    ["command", "type", "url", "headers", "env", "args", "tools", "path", "kind", "timeouts", "x", "Agent", "store"]
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=5
)


def plain(shape: type[Shape]) -> dict[str, Plain]:
    document, problems = parse(PLAIN[shape], "x.yaml")
    assert document is not None
    assert not problems
    return deepcopy(document.root)


def paths(value: Plain, path: KeyPath = ()) -> Iterator[KeyPath]:
    yield path
    if isinstance(value, dict | list):
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(entry, (*path, key))


@st.composite
def mutated(draw: st.DrawFn, shape: type[Shape]) -> Plain:
    """A right one, with up to three values replaced, removed or added anywhere."""
    root: Any = plain(shape)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(paths(root))[1:] or [("x",)]))
        owner = root
        for step in path[:-1]:
            owner = owner[step]
        match draw(st.sampled_from(["replace", "replace", "remove", "add"])):
            case "remove":
                owner.pop(path[-1], None) if isinstance(owner, dict) else owner.pop(path[-1])
            case "add" if isinstance(owner, dict):
                owner[draw(KEYS)] = draw(VALUES)
            case _:
                owner[path[-1]] = draw(VALUES)
    return root


def both(shape: type[Shape], value: Plain) -> tuple[Shape | None, Shape | None]:
    """What the builder makes of it, and what pydantic does."""
    try:
        built = build(shape, value)
    except ValueError:
        built = None
    try:
        judged = ADAPTERS[shape].validate_python(value)
    except ValidationError:
        judged = None
    return built, judged


@pytest.mark.whole
@given(mutated(Profile))
@example({"version": 1, "agent": {"command": "x"}, "mcp_servers": {"a": {"command": "x", "type": "http"}}})
@example({"version": 1, "agent": {"command": "x"}, "mcp_servers": {"a": {"url": "http://x"}}})
def test_a_mutated_profile_is_the_same_to_the_builder_and_to_pydantic(value: Plain) -> None:
    built, judged = both(Profile, value)
    if isinstance(value, dict) and value.get("version") is True:
        assert built is None  # to pydantic it is 1; `check.version` refuses it before either is asked
        return
    assert repr(built) == repr(judged)  # the types too: Duration, Template, tuple


@given(mutated(Choices))
def test_mutated_settings_are_the_same_to_the_builder_and_to_pydantic(value: Plain) -> None:
    built, judged = both(Choices, value)
    assert repr(built) == repr(judged)


@pytest.mark.whole
@pytest.mark.parametrize("shape", [Profile, Choices])
def test_every_single_value_replaced_is_the_same_to_both(shape: type[Shape]) -> None:
    """Each value there is, by a third of a list of others: the accepted ones and the refused ones are many."""
    others: list[Plain] = [None, True, 0, 1, 1.5, "x", "10s", "${", [], ["x"], [1], {}, {"x": "y"}, {"command": "x"}]
    verdicts = []
    for number, path in enumerate(list(paths(plain(shape)))[1:]):
        for other in others[number % 3 :: 3]:
            root: Any = plain(shape)
            owner = root
            for step in path[:-1]:
                owner = owner[step]
            owner[path[-1]] = deepcopy(other)
            built, judged = both(shape, root)
            if path != ("version",) or other is not True:
                assert repr(built) == repr(judged), (path, other)
            verdicts.append(built is not None)
    assert 5 < sum(verdicts) < len(verdicts) - 5
