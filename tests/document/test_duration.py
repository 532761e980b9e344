"""Durations (docs/profiles.md)."""

import pytest

from acp_launch.document.scalars import Duration


@pytest.mark.parametrize(
    ("text", "seconds"), [("200ms", 0.2), ("10s", 10), ("2m", 120), ("1h", 3600), ("1.5s", 1.5), ("0.5m", 30)]
)
def test_a_duration_is_seconds(text: str, seconds: float) -> None:
    assert Duration.parse(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "s", "0s", "-1s", "1d", "1 s", "1e3s", "10s\n", "9999999s", "٣s"])
def test_anything_else_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration such as 10s, found"):
        Duration.parse(text)


@pytest.mark.parametrize("text", ["200ms", "10s", "2m", "1h", "1500ms", "90s", "599999.999ms", "0.001ms"])
def test_a_duration_is_shown_as_it_is_written(text: str) -> None:
    assert str(Duration.parse(text)) == text
