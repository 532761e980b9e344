"""How acp-launch itself is installed decides how an extra is added to it (ours)."""

import json
import sys
from importlib import metadata, util
from pathlib import Path

import pytest

from acp_launch.plan.installation import add_extra

REQUIRES = ['distributed>=2024.12.1; extra == "dask"', "typer>=0.15"]


UV = "uv tool install --with {extra}"


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
        ("", None, True, "{python} -m pip install {extra}"),
        ("", None, False, "uv pip install --python {python} {extra}"),
        ("pipx_metadata.json", None, True, "pipx inject acp {extra}"),
        ("uv-receipt.toml", None, False, f"{UV} acp-launch"),
        ("uv-receipt.toml", {"url": "file:///src/acp-launch", "dir_info": {}}, False, f"{UV} file:///src/acp-launch"),
        (
            "uv-receipt.toml",
            {"url": "https://git.example/x", "vcs_info": {"vcs": "git"}},
            False,
            f"{UV} git+https://git.example/x",
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
    assert add_extra("dask") == command.format(python=sys.executable, extra="'distributed>=2024.12.1'")


def test_this_installation_knows_what_its_extras_need() -> None:
    assert "distributed>=" in add_extra("dask")
