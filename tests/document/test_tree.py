"""YAML text becomes values that know their lines; nothing a text may hold raises (ours, docs/profiles.md)."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.document.nodes import MAX_SIZE, decode
from acp_launch.document.yaml import Document, parse


def document(text: str) -> Document:
    made, problems = parse(text, "f.yaml")
    assert made is not None and not problems, problems
    return made


def spot(text: str, *path: str | int, key: bool = False, offset: int = 0) -> tuple[int, int]:
    place = document(text).where(path, key=key, offset=offset)
    return place.line, place.column


def complaints(text: str) -> list[str]:
    return [str(problem) for problem in parse(text, "f.yaml")[1]]


TEXT = "a: 1\nb:\n  c: [x, 'y z', \"q\"]\n  d: |\n    one\n    two\ne: &e {f: g}\nh: *e\n"


@pytest.mark.parametrize(
    ("path", "key", "place"),
    [
        (("a",), False, (1, 4)),
        (("a",), True, (1, 1)),
        (("b", "c", 1), False, (3, 10)),
        (("b", "d"), False, (4, 6)),
        (("e", "f"), True, (7, 8)),
        (("h", "f"), False, (7, 11)),
        ((), False, (1, 1)),
        # A path that is not there is at the parent that should hold it.
        (("b", "x"), False, (2, 1)),
        (("b", "c", 9, "y"), False, (3, 3)),
        (("z",), False, (1, 1)),
    ],
)
def test_every_value_and_key_knows_its_place(path: tuple[str | int, ...], key: bool, place: tuple[int, int]) -> None:
    assert spot(TEXT, *path, key=key) == place


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: xx${y}", (1, 6)),
        ("a: 'xx${y}'", (1, 7)),
        ('a: "xx${y}"', (1, 7)),
        ("a: &n xx${y}", (1, 9)),
        ('a: "\\x78x${y}"', (1, 4)),  # an escape: only the start of the text is known
        ("a: |\n  xx${y}\n", (1, 4)),
    ],
)
def test_an_offset_into_a_text_is_a_column(text: str, place: tuple[int, int]) -> None:
    assert spot(text, "a", offset=2) == place


def test_scalars_follow_yaml_1_2() -> None:
    text = "a: [yes, no, on, off, 2026-01-31, 1_000, 012, 0o17, 0x1f, 1e3, .inf, ~, true, 1:30, '1', =]"
    expected = ["yes", "no", "on", "off", "2026-01-31", "1_000", 12, 15, 31, 1000.0, float("inf"), None, True]
    assert document(f"\ufeff%YAML 1.1\n---\n{text}").root == {"a": [*expected, "1:30", "1", "="]}
    assert spot("\ufeffa: 1", "a", key=True) == (1, 1)


def bombs() -> Iterator[tuple[str, str, str]]:
    """Texts that would grow without bounds; the place and the fault that they are refused with."""
    lines = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 12)]
    many = "more than 10,000 keys and values, aliases expanded"
    yield "\n".join(lines), f"4:45: {many}", "use fewer aliases"
    keys = ", ".join(f"k{n}: 1" for n in range(400))
    yield f"a: &a {{{keys}}}\nb: [{', '.join(['{<<: *a}'] * 400)}]\n", f"2:120: {many}", "use fewer aliases"
    deep = ["a0: &a0 x"] + [f"a{n}: &a{n} {'[' * 20}*a{n - 1}{']' * 20}" for n in range(1, 6)]
    yield "\n".join(deep), "5:29: nested deeper than 64 levels", "use fewer levels"


@pytest.mark.parametrize(("text", "fault", "fix"), [*bombs()], ids=["aliases", "merges", "depth"])
def test_a_bomb_is_refused(text: str, fault: str, fix: str) -> None:
    assert complaints(text) == [f"f.yaml:{fault}\n    fix: {fix}"]


def test_anchors_and_merges_work_and_what_is_written_wins() -> None:
    text = "x: &x {p: 1, q: 2}\ny: &y {r: 3, p: 9}\nz: {q: 5, <<: [*x, *y]}"
    made = document(text)
    assert made.root["z"] == {"q": 5, "p": 1, "r": 3}
    assert spot(text, "z", "p", key=True) == (1, 8)


def test_what_is_wrong_is_said_with_its_place() -> None:
    for text, fault, fix in [
        ("", "1:1: this file is empty", "begin with: version: 1"),
        ("# only\n", "1:1: this file is empty", "begin with: version: 1"),
        ("---\n", "1:1: this file is empty", "begin with: version: 1"),
        ("- a", "1:1: a profile is a mapping of keys to values, found a list", "begin with: version: 1"),
        ("1: x", "1:1: keys must be text, found the number 1", 'quote it: "1"'),
        ("? [a]\n: x\n", "1:3: keys must be text, found a list", "write a name before the colon"),
        ("a: !env X", '1:4: unknown tag "!env"', 'remove it, or quote text that begins with "!"'),
        ("a: 1\n---\nb: 2\n", "2:1: a profile is one YAML document; a second one begins here", 'remove the "---"'),
        ("a:\n\tb: 1", "2:1: not valid YAML: a tab is not allowed here", "indent with spaces"),
        ("a: 1\nb: 'x\nc: 2\n", "2:4: not valid YAML: this quoted text is not closed", "add the closing quote"),
        ("a: [1\nb: 2", '1:4: not valid YAML: this "[" list is not closed, or a comma is missing', 'close it with "]"'),
        (
            "a: {b: ${python}, c: d}",
            '1:8: not valid YAML: a value with "${" must be quoted within {...} and [...]',
            'quote the whole value, as in "${python}"',
        ),
        (
            "é: 1\r\na: [x, y${env:X:-d}/z\n",
            '2:9: not valid YAML: a value with "${" must be quoted within {...} and [...]',
            'quote the whole value, as in "${env:X:-d}"',
        ),
        (
            "a: [${b\n}]",
            '1:5: not valid YAML: a value with "${" must be quoted within {...} and [...]',
            'quote the whole value, as in "${...}"',
        ),
        (
            "a: ['${b}', 1\n",
            '1:4: not valid YAML: this "[" list is not closed, or a comma is missing',
            'close it with "]"',
        ),
        (
            "a: b: c",
            '1:5: not valid YAML: a second ": " on this line, or wrong indentation',
            "quote the text, or line the key up with its neighbours",
        ),
        ("a: *b", '1:4: no anchor "&b" before this alias', 'quote text that begins with "*"'),
        ("a: &a [*a]", '1:8: "*a" contains itself', "remove this alias"),
        ("a: &a {<<: *a}", '1:12: "*a" contains itself', "remove this alias"),
        ("a: {<<: 1}", '1:9: "<<" merges mappings, but this is not a mapping', "write an alias of a mapping"),
        ("a: x\0y", "1:5: the character U+0000 is not allowed in YAML", "remove it; this may not be a text file"),
        ('a: "\\0"', "1:4: no program can receive the character U+0000", "remove the escape"),
        ('a: "\\ud800"', "1:4: no program can receive the character U+D800", "remove the escape"),
        ("[" * 10_000, "1:64: nested deeper than 64 levels", "use fewer levels"),
    ]:
        assert complaints(text) == [f"f.yaml:{fault}\n    fix: {fix}"]
    assert complaints("a: 1\nb: 2\na: 3\na: 4\n") == [
        f'f.yaml:{line}:1: the key "a" appears twice; the first is on line 1\n    fix: keep one of them'
        for line in (3, 4)
    ]


def test_yaml_holds_the_characters_it_allows_and_no_other() -> None:
    """YAML 1.2, "c-printable"."""
    assert not [
        ord(each) for each in "\t ~\x85\xa0\ud7ff\ue000\ufffd\U00010000\U0010ffff" if complaints(f"a: 'x{each}y'")
    ]
    for each in "\x00\x08\x0b\x0c\x0e\x1f\x7f\x84\x86\x9f\ud800\udfff\ufffe\uffff":
        fault = f"the character U+{ord(each):04X} is not allowed in YAML"
        (problem,) = complaints(f"a: 'x{each}y'")
        assert problem == f"f.yaml:1:6: {fault}\n    fix: remove it; this may not be a text file"


@pytest.mark.parametrize("escape", ["\\0", "\\ud83d", "\\udfff", "\\U0000d800"])
def test_a_text_that_no_program_can_receive_reaches_no_further_check(escape: str) -> None:
    """So what looks for more problems need not mind: it can be written, encoded and looked up as any text."""
    document, problems = parse(f'a: ["x{escape}y"]\n"k{escape}": b\nc: c\n', "f.yaml")
    assert document is not None
    assert document.root == {"a": ["x\ufffdy"], "k\ufffd": "b", "c": "c"}
    assert [(problem.line, problem.column) for problem in problems] == [(1, 5), (2, 1)]


def test_problems_before_a_syntax_error_are_reported_too() -> None:
    assert [problem.split("\n")[0] for problem in complaints("a: 1\na: 2\nb: [")] == [
        'f.yaml:2:1: the key "a" appears twice; the first is on line 1',
        "f.yaml:3:5: not valid YAML: a value is missing here",
    ]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "many",
    [
        "args: [" + "a, " * 60_000 + "]",
        "env:\n" + "".join(f"  &a{number} K{number}: v\n" for number in range(11_000)),
        "env:\n" + "".join(f"  K{number}: &a{number} v\n" for number in range(11_000)),
        "args:\n" + "- - a\n" * 20_000,
    ],
    ids=["arguments", "anchored keys", "anchored values", "lists"],
)
def test_more_values_than_any_profile_needs_are_refused(many: str) -> None:
    """Each of them takes its time to read, and a clone may hold any number of such files."""
    (problem,) = complaints(many)
    assert problem.endswith("more than 10,000 keys and values, aliases expanded\n    fix: check that this is a profile")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a: 1\nb: \xff", "f.yaml:2:4: the byte 0xff is not UTF-8 text\n    fix: save the file as UTF-8"),
        (b"\xff\xfea\0", "f.yaml:1:1: this file is UTF-16, not UTF-8\n    fix: save it as UTF-8"),
        (b"x" * (MAX_SIZE + 1), "f.yaml: this file is larger than 256 KiB\n    fix: check that this is a profile"),
    ],
)
def test_bytes_that_are_no_text_say_why(content: bytes, expected: str) -> None:
    text, problems = decode(content, "f.yaml")
    assert text is None
    assert [str(problem) for problem in problems] == [expected]


@given(st.text() | st.text(alphabet="ab:- \n\t[]{}&*!|>'\"#%@`,?<~=\\0xUu1.é\u2028\x85", max_size=60))
def test_any_text_gives_a_document_or_problems_and_never_raises(text: str) -> None:
    made, problems = parse(text, "f.yaml")
    assert made is not None or problems
    assert all(problem.file == "f.yaml" and problem.message for problem in problems)
    if made is not None:
        for key in made.root:
            place = made.where((key,), key=True)
            assert 1 <= place.line <= text.count("\n") + text.count("\r") + 1 and place.column >= 1


@given(st.binary())
def test_any_bytes_decode_or_say_why(content: bytes) -> None:
    text, problems = decode(content, "f.yaml")
    assert (text is None) == bool(problems)
