"""What a person reads before they allow something: no secret, not even half of one."""

import pytest

from acp_launch.console import question
from tests.secret.canaries import knowing

TOKEN = "ghp_" + "a1B2c3D4e" * 4


@pytest.mark.parametrize("before", [0, 1990, 2100])
def test_what_is_too_long_to_be_shown_is_cut_when_it_is_redacted(
    before: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A value that the cut goes through would be found by nobody any more."""
    monkeypatch.setattr(question, "redactor", knowing(TOKEN))
    call = {"title": f"use {TOKEN}", "kind": "read", "rawInput": {"text": "x" * before + TOKEN + "y" * 5_000}}
    question._show(call, [{"optionId": TOKEN, "name": f"with {TOKEN}"}])
    shown = capsys.readouterr().err
    assert shown.splitlines()[0] == "The agent asks for permission: use ***"
    assert shown.splitlines()[-1] == "  1. with ***"
    assert "ghp_" not in shown
    assert "characters are not shown" in shown
