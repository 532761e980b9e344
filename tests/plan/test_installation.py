"""How acp-launch itself is installed decides how an extra is added to it (ours)."""

import json
import sys
from importlib import metadata, util
from pathlib import Path

import pytest

from acp_launch.plan.installation import add_extra

REQUIRES = ['distributed>=2024.12.1; extra == "dask"', "typer>=0.15"]


class Installed:
    """A distribution that was installed from `origin` (PEP 610)."""

    name, requires = "acp-launch", REQUIRES

    def __init__(self, origin: object) -> None:
        self.origin = origin

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return json.dumps(self.origin) if self.origin else None


@pytest.mark.parametrize(
    ("marker", "origin", "has_pip", "command"),
    [
        ("", None, True, "{python} -m pip install 'distributed>=2024.12.1'"),
        ("", None, False, "uv pip install --python {python} 'distributed>=2024.12.1'"),
        ("pipx_metadata.json", None, True, "pipx inject acp 'distributed>=2024.12.1'"),
        ("uv-receipt.toml", None, False, "uv tool install --with 'distributed>=2024.12.1' acp-launch"),
        (
            "uv-receipt.toml",
            {"url": "file:///src/acp-launch", "dir_info": {}},
            False,
            "uv tool install --with 'distributed>=2024.12.1' file:///src/acp-launch",
        ),
        (
            "uv-receipt.toml",
            {"url": "https://git.example/x", "vcs_info": {"vcs": "git"}},
            False,
            "uv tool install --with 'distributed>=2024.12.1' git+https://git.example/x",
        ),
    ],
)
def test_an_extra_is_added_by_the_tool_that_installed_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, marker: str, origin: object, has_pip: bool, command: str
) -> None:
    prefix = tmp_path / "acp"
    prefix.mkdir()
    if marker:
        (prefix / marker).touch()
    monkeypatch.setattr(sys, "prefix", str(prefix))
    monkeypatch.setattr(metadata, "distribution", lambda name: Installed(origin))
    monkeypatch.setattr(util, "find_spec", lambda name: object() if has_pip else None)
    assert add_extra("dask") == command.format(python=sys.executable)


def test_this_installation_knows_what_its_extras_need() -> None:
    assert "distributed>=" in add_extra("dask")
