"""What may be pasted anywhere: no home directory, no name of the user."""

import pytest

from acp_launch.checks.check import Anonymizer

ALICE = Anonymizer(["/home/alice", "/data/homes/alice"], ["alice", "alice"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/alice/.config/acp-launch", "~/.config/acp-launch"),
        ("chmod 700 /home/alice/x, or move /home/alice", "chmod 700 ~/x, or move ~"),
        ("chmod 700 '/home/alice/a b'", "chmod 700 ~/'a b'"),
        ("it said '/home/alice'", "it said '~'"),
        ("/data/homes/alice/x", "~/x"),
        ("/home/alice2/x", "/home/alice2/x"),
        ("/home/alice-old/x", "/home/USER-old/x"),
        ("/srv/alice/x of alice@host", "/srv/USER/x of USER@host"),
        ("malice and alices", "malice and alices"),
        ("uid=1000(alice)", "uid=1000(USER)"),
    ],
)
def test_the_home_is_a_tilde_and_the_user_has_no_name(text: str, expected: str) -> None:
    assert ALICE.text(text) == expected


def test_everything_in_json_is_treated_keys_included() -> None:
    said = {"/home/alice/x": ["alice", 3, None, {"mode": "0700"}], "ok": True}
    assert ALICE.tree(said) == {"~/x": ["USER", 3, None, {"mode": "0700"}], "ok": True}


@pytest.mark.parametrize("name", ["root", "node", "me", ""])
def test_a_name_that_many_have_is_a_word_like_any_other(name: str) -> None:
    text = "/usr/bin/node of root, to me"
    assert Anonymizer([f"/home/{name}" if name else ""], [name]).text(text) == text
