"""The user's knobs."""

from pathlib import Path

import pytest

from acp_launch.errors import UsageError
from acp_launch.settings import load as settings


def test_directories_can_be_chosen_and_are_made_absolute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACP_LAUNCH_STATE_DIR", "here")
    assert settings.load().state == Path.cwd() / "here"


def test_without_a_choice_they_are_the_platforms(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for kind in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.delenv(f"ACP_LAUNCH_{kind}_DIR")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "c"))
    found = settings.load()
    assert found.config.name == found.state.name == found.cache.name == "acp-launch"


@pytest.mark.parametrize("text", ["", "4096", "100000000"])
def test_the_cap_on_a_line_is_64_mib_or_what_is_asked(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("ACP_LAUNCH_MAX_LINE", text)
    assert settings.load().max_line == (int(text) if text else 64 * 1024 * 1024)


@pytest.mark.parametrize("text", ["0", "4095", "-1", "64M", "1e9", "٣٤٥٦٧"])
def test_a_cap_that_is_no_number_of_bytes_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("ACP_LAUNCH_MAX_LINE", text)
    with pytest.raises(UsageError) as caught:
        settings.load()
    assert caught.value.message == f"ACP_LAUNCH_MAX_LINE is {text!r}"
    assert caught.value.fix == "a number of bytes, 4096 or more"
