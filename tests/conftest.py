"""No test touches the real home, configuration, state or secrets: this makes it impossible by accident."""

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.tiers import pytest_collection_modifyitems, pytest_configure, pytest_ignore_collect

__all__ = ["pytest_collection_modifyitems", "pytest_configure", "pytest_ignore_collect"]  # hooks
PATIENCE = "ACP_LAUNCH_TEST_PATIENCE"
pytest_plugins = ["tests.unsteady"] if os.environ.get("ACP_LAUNCH_TEST_RERUN") else []

# How long an example takes says how busy the machine is. A test that needs more examples says so.
settings.register_profile("any machine", deadline=None, max_examples=50)
settings.load_profile("any machine")

# Every limit of ours (acp_launch.waits) and of the tests (tests.patience) is so many times as long: how late something
# comes says how busy the machine is, too. Set before anything of acp_launch is imported.
os.environ.setdefault(PATIENCE, "5")

# Thousands of children are started here: where no bytecode is written each would compile all it imports, which takes
# longer than what it does.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


# A shell without job control has what it starts in the background ignore SIGINT, nohup SIGHUP, and children inherit it:
# what we start would then rightly ignore both, as no test expects.
for number, usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, usual)


def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as there are processors: of the time of tests a third is spent in waiting for others."""
    processors = os.cpu_count() or 1
    return processors + (processors + 1) // 2


@pytest.fixture(autouse=True)
def an_environment_left_as_it_was() -> Iterator[None]:
    """A test that changes os.environ without monkeypatch fails."""
    before = dict(os.environ)
    yield
    after = dict(os.environ)
    before.pop("PYTEST_CURRENT_TEST", None)
    after.pop("PYTEST_CURRENT_TEST", None)
    assert after == before, "this test changed os.environ; use monkeypatch"


@pytest.fixture(autouse=True)
def nobody_else_writes_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of acp-launch is one command; here it is many tests."""
    monkeypatch.setattr("acp_launch.console.stderr._is_marking", False)
    monkeypatch.setattr("acp_launch.waits.reading._say", lambda step, seconds: None)
    monkeypatch.setattr("acp_launch.secret.redact.redactor.tables", None)


@pytest.fixture(autouse=True)
def a_home_of_its_own(
    an_environment_left_as_it_was: None, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Every test has its own home; no other test sees what it leaves there."""
    home = Path(tempfile.mkdtemp(prefix="home", dir=tmp_path_factory.getbasetemp()))
    for name in [name for name in os.environ if name.startswith(("ACP_", "XDG_"))]:
        if name != PATIENCE:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    for kind in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"ACP_LAUNCH_{kind}_DIR", str(home / kind.lower()))
    monkeypatch.setenv("ACP_DEMO_HOME", str(home / "demo"))
    monkeypatch.setenv("NO_COLOR", "1")
    # No test asks the real keyring: nobody's bus, and a backend that has none.
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    return home
