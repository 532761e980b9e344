"""What `doctor` says of the secret store."""

from pathlib import Path
from typing import cast

import pytest

from acp_launch.checks.profile import store
from acp_launch.secret.value import Store, StoreFault
from acp_launch.settings.model import SecretSettings, Settings

SETTINGS = Settings(config=Path("/c"), state=Path("/s"), cache=Path("/h"), secrets=SecretSettings(store="file"))


class Failing:
    label = "sealed file (/s)"

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def names(self) -> None:
        raise StoreFault("unavailable", self._reason)


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("the sealed file (/s) did not answer", "the sealed file (/s) did not answer"),
        ("no space is left", "sealed file (/s): no space is left"),
    ],
)
def test_a_store_that_does_not_work_is_named_once(reason: str, told: str) -> None:
    found = store(SETTINGS, lambda settings: cast("Store", Failing(reason)), lambda what, waited, limit: None)
    assert (found.check.verdict, found.check.text) == ("warning", told)
