"""A table of a TOML file is added or replaced, and every other byte stays."""

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.interop.formats import Misfit, put_table

CONFIG = """\
model = "gpt-5"  # mine

# about a
[mcp_servers.a]
command = "x"

[mcp_servers.a.env]
K = "v"

# about the rest
[profiles.fast]
text = \"\"\"
[mcp_servers.fake]
\"\"\"
"""


def test_a_table_is_added_at_the_end() -> None:
    made = put_table(CONFIG, ("mcp_servers", "b b"), {"command": 'say "hi"\n', "args": ["\x7f"], "env": {"A.B": "1"}})
    assert made == CONFIG + (
        '\n[mcp_servers."b b"]\ncommand = "say \\"hi\\"\\n"\nargs = ["\\u007f"]\n'
        '\n[mcp_servers."b b".env]\n"A.B" = "1"\n'
    )


def test_a_table_and_those_within_it_are_replaced_and_the_comments_around_them_stay() -> None:
    made = put_table(CONFIG, ("mcp_servers", "a"), {"url": "https://x"})
    old = '[mcp_servers.a]\ncommand = "x"\n\n[mcp_servers.a.env]\nK = "v"\n'
    assert made == CONFIG.replace(old, '[mcp_servers.a]\nurl = "https://x"\n')


@pytest.mark.parametrize(
    "text",
    [
        "mcp_servers = 1\n",
        "mcp_servers.a = 1\n",
        "mcp_servers = {a = {command = 'x'}}\n",
        "mcp_servers = {b = {}} # mine\nz = 1\n",
        "[mcp_servers]\na = {command = 'x'}\n\n# about z\n[z]\n",
        "mcp_servers.a.command = 'x' # mine\nz = 1\n",
        "[mcp_servers.a]\nx = 1\n[y]\n[mcp_servers.a.env]\nk = 'v'\n# about z\n[z]\n",
    ],
)
def test_what_cannot_be_changed_alone_is_left_alone(text: str) -> None:
    with pytest.raises(Misfit):
        put_table(text, ("mcp_servers", "a"), {"command": "y"})


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (
            "[mcp_servers.b]\n[z]\n[mcp_servers.a]\nx = 1\n# about y\n[y]\n",
            '[mcp_servers.b]\n[z]\n[mcp_servers.a]\ncommand = "y"\n# about y\n[y]\n',
        ),
        ("[mcp_servers.a.env]\nK = 'v'\n# about y\n[y]\n", '[mcp_servers.a]\ncommand = "y"\n# about y\n[y]\n'),
        ("[[mcp_servers.a]]\nx = 1\n# about y\n[y]\n", '[mcp_servers.a]\ncommand = "y"\n# about y\n[y]\n'),
    ],
)
def test_a_table_is_replaced_where_it_stands(text: str, written: str) -> None:
    assert put_table(text, ("mcp_servers", "a"), {"command": "y"}) == written


def test_the_line_ends_of_the_text_are_kept() -> None:
    made = put_table("a = 1\r\n", ("mcp_servers", "b"), {"command": "x"})
    assert made == 'a = 1\r\n\r\n[mcp_servers.b]\r\ncommand = "x"\r\n'


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


BEFORE = [
    CONFIG,
    CONFIG.replace("\n", "\r\n"),
    "[mcp_servers.a]\n[z]\n[mcp_servers.b]\n",
]


@given(
    st.sampled_from(BEFORE),
    TEXT | st.sampled_from("ab"),
    st.dictionaries(TEXT, TEXT | st.lists(TEXT, max_size=3) | st.booleans() | st.integers(0, 9), max_size=4),
)
def test_whatever_is_put_is_read_again_beside_everything_else(text: str, name: str, value: dict[str, Any]) -> None:
    made = put_table(text, ("mcp_servers", name), value)
    before = tomllib.loads(text)
    before["mcp_servers"][name] = value
    assert tomllib.loads(made) == before
