"""Edits that keep the rest: one value changes, every other byte stays (acp_launch/profile/edit.py)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from acp_launch.document.yaml import parse
from acp_launch.problem import KeyPath, dotted
from acp_launch.profile.edit import CannotEdit, NoKey, parse_key, put, remove

PROFILE = """\
# yaml-language-server: $schema=./schema.json
version: 1   # the only one
description: 'Reviews'

agent:
  # what we start
  command: claude-agent-acp  # on PATH
  args: [-v,  --fast]   # both
  env:
    A: "1"
    # about B
    B: two

mcp_servers:

  github:
    command: npx
    args:
    - -y
    - "@x/github"   # the package
    env: {TOKEN: "${secret:github}"}

  docs: {type: http, url: https://docs.example.com/mcp}
# the end
"""
TEXTS = ["npx", "a b", "${secret:x}", "it: is", "1", "true", "null", "", "-", "-y", "#c", "a #b", "'q'", 'd"q', "@x/y"]
TEXTS += ["\\", "a\nb", "\u2028", "yes", "1_0", "<<", "*a", "&a", "!t", "{a", "[", "a,b", "x]", "é", "a:", "%d", "- a"]
KEYS = ["agent", "command", "env", "A", "my.server", "x y", "<<", "1", "true", "a:b", "é", "-", "mcp_servers", "'", '"']

scalars = st.one_of(st.sampled_from(TEXTS), st.text(max_size=8), st.integers(), st.booleans(), st.none())
scalars = st.one_of(scalars, st.floats(allow_nan=False))
readable = scalars.filter(lambda value: not isinstance(value, str) or _is_readable(value))
keys = st.one_of(st.sampled_from(KEYS), st.text(min_size=1, max_size=5).filter(lambda text: _is_readable(text)))
values = st.recursive(readable, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3))


def _is_readable(text: str) -> bool:
    return not any(mark == "\0" or "\ud800" <= mark <= "\udfff" for mark in text)


def data(text: str) -> Any:
    document, _ = parse(text, "p.yaml")
    assert document is not None
    return document.root


@dataclass
class Written:
    """A profile as a user may have written it; each line with the path of the entry that it
    is part of, and whether it is its own or a comment."""

    draw: Callable[[st.SearchStrategy[Any]], Any]
    rows: list[tuple[KeyPath, bool, str]] = field(default_factory=list)
    paths: list[KeyPath] = field(default_factory=list)

    def mapping(self, path: KeyPath, column: int, entries: dict[str, Any]) -> None:
        for key, value in entries.items():
            self.between(path, column)
            self.entry((*path, key), column, f'{" " * column}"{escaped(key)}":', value)

    def between(self, path: KeyPath, column: int) -> None:
        for _ in range(self.draw(st.integers(0, 2))):
            comment = f"{' ' * self.draw(st.sampled_from([column, 0, column + 1]))}# a: note, {len(self.rows)}"
            is_kept = self.rows and "|+" in "".join(row for *_, row in self.rows[-2:-1])  # a blank line is part of it
            self.rows.append((path, False, comment if is_kept else self.draw(st.sampled_from(["", comment]))))

    def entry(self, path: KeyPath, column: int, head: str, value: Any) -> None:
        self.paths.append(path)
        tail = self.draw(st.sampled_from(["", "  # tail"]))
        if isinstance(value, dict) and value and self.draw(st.booleans()):
            self.rows.append((path, True, head + tail))
            self.mapping(path, column + self.draw(st.sampled_from([2, 4])), value)
        elif isinstance(value, list) and value and self.draw(st.booleans()):
            self.rows.append((path, True, head + tail))
            deeper = column + self.draw(st.sampled_from([0, 2])) if path and isinstance(path[-1], str) else column + 2
            for index, item in enumerate(value):
                self.between(path, deeper)
                self.entry((*path, index), deeper, f"{' ' * deeper}-", item)
        elif isinstance(value, str) and self.draw(st.booleans()) and value.isascii() and value.isalnum():
            self.rows.append((path, True, f"{head} |{self.draw(st.sampled_from(['', '-', '+']))}{tail}"))
            self.rows.append((path, True, f"{' ' * (column + 3)}{value}"))
        elif value is None and self.draw(st.booleans()):
            self.rows.append((path, True, head + tail))
        else:
            self.rows.append((path, True, f"{head} {self.flow(path, value)}{tail}"))

    def flow(self, path: KeyPath, value: Any) -> str:
        """Double quotes need no rules, and so no code of ours."""
        if isinstance(value, dict):
            self.paths.extend((*path, key) for key in value)
            return "{" + ", ".join(f'"{escaped(k)}": {self.flow((*path, k), v)}' for k, v in value.items()) + "}"
        if isinstance(value, list):
            self.paths.extend((*path, index) for index in range(len(value)))
            return "[" + ", ".join(self.flow((*path, index), item) for index, item in enumerate(value)) + "]"
        if isinstance(value, str):
            return f'"{escaped(value)}"'
        return (
            {None: "null", True: "true", False: "false"}.get(value, repr(value))
            if value in (None, True)
            else plain(value)
        )


def plain(value: Any) -> str:
    if value is False:
        return "false"
    return repr(value).replace("inf", ".inf")


def escaped(text: str) -> str:
    return "".join(mark if mark.isascii() and mark.isalnum() else f"\\U{ord(mark):08x}" for mark in text)


@st.composite
def written(draw: st.DrawFn) -> tuple[Written, str, str]:
    page = Written(draw)
    page.mapping((), 0, draw(st.dictionaries(keys, values, min_size=1, max_size=4)))
    page.between((), 0)
    ending = draw(st.sampled_from(["\n", "\r\n"]))
    text = ending.join(row for *_, row in page.rows) + draw(st.sampled_from(["", ending]))
    return page, ending if ending in text else "\n", text


def model_put(root: Any, path: KeyPath, value: Any) -> Any:
    """The same on plain data, in the way of a textbook."""
    if not path:
        return value
    step, *rest = path
    if isinstance(step, int):
        items = list(root or [])
        below = items[step] if step < len(items) else None
        return [*items[:step], model_put(below, tuple(rest), value), *items[step + 1 :]]
    return {**(root or {}), step: model_put((root or {}).get(step), tuple(rest), value)}


def model_remove(root: Any, path: KeyPath) -> Any:
    step, *rest = path
    if rest:
        return model_put(root, (step,), model_remove(root[step], tuple(rest)))
    if isinstance(step, int):
        return [*root[:step], *root[step + 1 :]]
    return {key: value for key, value in root.items() if key != step}


def assert_kept(page: Written, path: KeyPath, text: str, ending: str) -> None:
    """Every line outside of `path` is there, in its order; but for those that begin what is around it."""
    left = iter(text.split(ending))
    for owner, is_entry, row in page.rows:
        is_around = is_entry and owner == path[: len(owner)]
        if owner[: len(path)] != path and not is_around:
            assert any(line == row for line in left), f"{row!r} is gone from {text!r}"


def same(one: Any, other: Any) -> bool:
    return repr(sort(one)) == repr(sort(other))


def sort(value: Any) -> Any:
    if isinstance(value, dict):
        return [(key, sort(value[key])) for key in sorted(value)]
    return [sort(item) for item in value] if isinstance(value, list) else value


def unless_kept(edit: Callable[..., str], text: str, *arguments: Any) -> str:
    """
    Blank lines after a text with a "+" become part of it when what was between goes, and so does a line break that the
    last text of a file did not have: that is refused.
    """
    try:
        return edit(text, *arguments)
    except CannotEdit:
        assert "|+" in text or (" |" in text and text[-1] not in "\r\n")
        reject()


@pytest.mark.whole
@given(written(), st.data())
def test_what_is_set_is_set_and_all_other_lines_stay(made: tuple[Written, str, str], choose: st.DataObject) -> None:
    page, ending, text = made
    before = data(text)
    path = choose.draw(st.sampled_from(page.paths))
    value = choose.draw(values)
    after = unless_kept(put, text, path, value)
    assert same(data(after), model_put(before, path, value))
    assert_kept(page, path, after, ending)
    assert after.endswith(ending) or not text.endswith(ending)


@pytest.mark.whole
@given(written(), st.data())
def test_what_is_removed_is_gone_and_all_other_lines_stay(
    made: tuple[Written, str, str], choose: st.DataObject
) -> None:
    page, ending, text = made
    before = data(text)
    path = choose.draw(st.sampled_from(page.paths))
    if len(path) == 1 and len(before) == 1:
        with pytest.raises(CannotEdit, match="the profile would be empty"):
            remove(text, path)
        return
    after = unless_kept(remove, text, path)
    assert same(data(after), model_remove(before, path))
    assert_kept(page, path, after, ending)


@pytest.mark.whole
@given(written(), st.data())
def test_what_is_added_is_added_and_no_line_changes_but_a_flow_one(
    made: tuple[Written, str, str], choose: st.DataObject
) -> None:
    page, ending, text = made
    before = data(text)
    owners = [(), *(path for path in page.paths if isinstance(found(before, path), dict | list | None))]
    owner = choose.draw(st.sampled_from(owners))
    where = found(before, owner)
    name = choose.draw(keys)
    step = len(where) if isinstance(where, list) else name
    further = choose.draw(st.lists(keys, max_size=2)) if isinstance(where, list) or name not in (where or {}) else []
    path = (*owner, step, *further)
    value = choose.draw(values)
    after = unless_kept(put, text, path, value)
    assert same(data(after), model_put(before, path, value))
    assert_kept(page, path, after, ending)


def found(root: Any, path: KeyPath) -> Any:
    for step in path:
        root = root[step]
    return root


SET = [
    (("version",), 1, {}),
    (("description",), "it: is #1", {"description: 'Reviews'": "description: 'it: is #1'"}),
    (("agent", "command"), "codex", {"command: claude-agent-acp  # on": "command: codex  # on"}),
    (("agent", "args"), ["-q"], {"args: [-v,  --fast]": "args: [-q]"}),
    (("agent", "args", 0), "--no", {"[-v,": "[--no,"}),
    (("agent", "args", 2), "a, b", {"--fast]": '--fast, "a, b"]'}),
    (("agent", "env", "A"), "2", {'A: "1"': 'A: "2"'}),
    (("agent", "env", "C"), "c", {"    B: two\n": "    B: two\n    C: c\n"}),
    (("agent", "timeouts", "initialize"), "5s", {"    B: two\n": "    B: two\n  timeouts: {initialize: 5s}\n"}),
    (("mcp_servers", "github", "args", 1), "@y/z", {'- "@x/github"': '- "@y/z"'}),
    (("mcp_servers", "github", "args", 2), "z", {"the package\n": "the package\n    - z\n"}),
    (("mcp_servers", "github", "env", "B"), "b", {'github}"}': 'github}", B: b}'}),
    (("mcp_servers", "docs", "headers", "X"), "z", {"com/mcp}": "com/mcp, headers: {X: z}}"}),
    (("session", "name"), "fix", {"    B: two\n\n": "    B: two\n\nsession:\n  name: fix\n\n"}),
    (("extends",), "base", {"'Reviews'\n": "'Reviews'\nextends: base\n"}),
]


def test_a_value_is_set_where_a_person_would_write_it() -> None:
    for path, value, changed in SET:
        wanted = PROFILE
        for old, new in changed.items():
            assert wanted.count(old) == 1
            wanted = wanted.replace(old, new)
        assert put(PROFILE, path, value) == wanted


def test_a_server_is_added_below_the_others_with_its_comments() -> None:
    entry = {"command": "npx", "args": ["-y", "x"], "env": {"K": "${env:K}"}, "restart": {"backoff": {"max": "5s"}}}
    made = put(PROFILE, ("mcp_servers", "new"), entry, comments=["not imported: icon", "two\nlines: 1"])
    added = """\
  # not imported: icon
  # two lines: 1
  new:
    command: npx
    args: [-y, x]
    env: {K: "${env:K}"}
    restart:
      backoff: {max: 5s}
"""
    assert made == PROFILE.replace("# the end\n", f"{added}# the end\n")


REMOVED = [
    (("description",), "description: 'Reviews'\n", ""),
    (("agent", "args"), "  args: [-v,  --fast]   # both\n", ""),
    (("agent", "args", 0), "[-v,  --fast]", "[--fast]"),
    (("agent", "args", 1), "[-v,  --fast]", "[-v]"),
    (("agent", "env"), '  env:\n    A: "1"\n    # about B\n    B: two\n', ""),
    (("agent", "env", "A"), '    A: "1"\n', ""),
    (("mcp_servers", "docs"), "  docs: {type: http, url: https://docs.example.com/mcp}\n", ""),
    (("mcp_servers", "docs", "type"), "{type: http, url", "{url"),
    (("mcp_servers", "github", "args", 0), "    - -y\n", ""),
    (("mcp_servers", "github", "env", "TOKEN"), '{TOKEN: "${secret:github}"}', "{}"),
]


@pytest.mark.parametrize(("path", "old", "new"), REMOVED)
def test_a_key_is_removed_with_its_own_lines_alone(path: KeyPath, old: str, new: str) -> None:
    assert PROFILE.count(old) == 1
    assert remove(PROFILE, path) == PROFILE.replace(old, new)


def test_the_last_entry_leaves_an_empty_mapping_and_every_comment() -> None:
    text = "agent: {command: x}\nmcp_servers:  # ours\n\n  # the only one\n  a:\n    command: x\n# end\n"
    assert remove(text, ("mcp_servers", "a")) == (
        "agent: {command: x}\nmcp_servers: {}  # ours\n\n  # the only one\n# end\n"
    )


def test_an_empty_section_is_filled_below_its_key() -> None:
    for empty in ("mcp_servers: {}", "mcp_servers:", "mcp_servers: null"):
        text = f"agent: {{command: x}}\n{empty}  # none yet\n\n# end\n"
        assert put(text, ("mcp_servers", "a", "command"), "x") == (
            "agent: {command: x}\nmcp_servers:  # none yet\n  a:\n    command: x\n\n# end\n"
        )


@pytest.mark.parametrize("ending", ["\r\n", "\r", "\n"])
def test_line_ends_and_the_byte_order_mark_stay(ending: str) -> None:
    text = "\ufeff" + PROFILE.replace("\n", ending)
    assert put(text, ("agent", "timeouts", "session"), "9s") == text.replace(
        f"    B: two{ending}", f"    B: two{ending}  timeouts: {{session: 9s}}{ending}"
    )


def test_a_file_that_ends_without_a_line_break_goes_on_so() -> None:
    assert put("version: 1\nagent:\n  command: x", ("agent", "args"), ["a"]) == (
        "version: 1\nagent:\n  command: x\n  args: [a]"
    )


def test_an_indentation_of_four_is_kept_up() -> None:
    text = "version: 1\nagent:\n    command: x\n"
    assert put(text, ("mcp_servers", "a", "command"), "z") == f"{text}\nmcp_servers:\n    a:\n        command: z\n"


REFUSED = [
    ("a: &x {k: 1}\nb: *x\n", ("a", "k"), "cannot change this value alone: an alias, a merge or an unusual notation"),
    ("a: &x {k: 1}\nb: *x\n", ("b", "k"), "b is an alias: *x"),
    ("a: &x {k: {l: 1}}\nb:\n  <<: *x\n", ("b", "k", "m"), "cannot change this value alone: an alias, a merge or an"),
    ("a: text\n", ("a", "k"), "a is a single value, with nothing below it"),
    ("a: [1]\n", ("a", 4), "a is a list of 1"),
    ("a: {}\n", ("a", 0, "b"), "a is a mapping, whose entries have names"),
    ("a: {b: c}\n", ("a", 0), "a is a mapping, whose entries have names"),
    ("a:\n", ("a", 1), "this list has no items yet"),
    ("a: b\n", (), "a profile is changed key by key"),
    ("a: [1\n", ("a",), 'not valid YAML: this "[" list is not closed, or a comma is missing'),
    ("- a\n", ("a",), "a profile is a mapping of keys to values, found a list"),
    ("", ("a",), "this file is empty"),
]


@pytest.mark.parametrize(("text", "path", "message"), REFUSED)
def test_what_cannot_be_changed_alone_is_refused(text: str, path: KeyPath, message: str) -> None:
    with pytest.raises(CannotEdit) as refused:
        put(text, path, 2)
    assert refused.value.message.startswith(message)
    assert refused.value.fix


def test_what_is_not_there_cannot_be_removed() -> None:
    for path in (("nothing",), ("agent", "nothing"), ("agent", "args", 7), ("a", "b", "c")):
        with pytest.raises(CannotEdit, match="this is not set in the file"):
            remove(PROFILE, path)


def test_what_is_merged_in_can_be_overridden_beside_the_merge() -> None:
    text = "a: &x {k: 1}\nb:\n  <<: *x\n  l: 2\n"
    assert put(text, ("b", "k"), 3) == text + "  k: 3\n"
    with pytest.raises(CannotEdit, match="this is not set in the file"):
        remove(text, ("b", "k"))


@pytest.mark.whole
def test_an_edit_of_a_large_file_takes_no_time_to_speak_of() -> None:
    """A thousand servers: were it quadratic, the time-out of this test would end it."""
    servers = "".join(f"  s{number}:\n    command: x\n    args:\n    - a\n    - b\n" for number in range(1000))
    text = f"version: 1\nagent: {{command: x}}\nmcp_servers:\n{servers}"
    assert put(text, ("mcp_servers", "s999", "args", 1), "c") == text[:-2] + "c\n"


@pytest.mark.parametrize("key", ["a", "a.b", "a[0]", 'a."b.c"', 'a."x\\"y".b[1][2]', 'a."x y"', "é.b-c_d"])
def test_a_key_is_read_as_problems_print_it(key: str) -> None:
    assert parse_key(key) == parse_key(dotted(parse_key(key)))
    assert dotted(parse_key(key)).replace('"é"', "é") == key


@pytest.mark.parametrize(
    "key", ["", ".", "a.", ".a", "a..b", "[0]", "a[x]", "a[-1]", 'a."b', "a b.", "a" * 2000, "a." * 20]
)
def test_what_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(NoKey):
        parse_key(key)
