"""What `doctor` says of Node.js, and where npm may install (ours)."""

import os
from pathlib import Path
from typing import Any

import pytest

from acp_launch.checks.node import NodeMismatch, check, find_mismatch, own_prefix


@pytest.fixture
def bin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("HOME", str(tmp_path))
    return folder


def program(file: Path, body: str) -> None:
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)


def forbid(monkeypatch: pytest.MonkeyPatch, forbidden: Path) -> None:
    """Deny this user a directory, also if that is root."""
    real = os.access

    def access(path: Any, mode: int, **more: Any) -> bool:
        return not (mode & os.W_OK and Path(path) == forbidden) and real(path, mode, **more)

    monkeypatch.setattr(os, "access", access)


def test_without_node_nothing_is_wrong(bin: Path) -> None:
    assert (check().verdict, check().text) == ("ok", "not installed; npx and agents from npm need it")
    assert (find_mismatch("x"), own_prefix()) == (None, None)


def test_an_installed_agent_that_wants_a_newer_node_is_a_warning(bin: Path) -> None:
    program(bin / "node", "echo v20.20.2")
    assert (check().verdict, check().text) == ("ok", f"v20.20.2 ({bin}/node)")
    for agent in ("claude-agent-acp", "gemini", "qwen"):
        program(bin / agent, "")
    found = check()
    assert found.verdict == "warning"
    assert found.text == f"v20.20.2 ({bin}/node) is too old for claude-agent-acp (>=22), qwen (>=22)"
    assert found.fix.startswith("install a newer Node.js")


def test_the_registry_knows_better_than_we_what_a_package_wants(bin: Path) -> None:
    program(bin / "node", "echo v22.1.0")
    program(bin / "npm", 'echo ">=24"')
    assert find_mismatch("@agentclientprotocol/claude-agent-acp") == NodeMismatch(">=24", "v22.1.0")
    program(bin / "npm", "exit 1")
    assert find_mismatch("@agentclientprotocol/claude-agent-acp") is None
    assert find_mismatch("unknown") is None


@pytest.mark.parametrize("forbidden", ["lib/node_modules", "bin"])
def test_where_npms_directories_cannot_be_written_the_home_has_the_prefix(
    bin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forbidden: str
) -> None:
    prefix = tmp_path / "usr"
    for name in ("lib/node_modules", "bin"):
        (prefix / name).mkdir(parents=True)
    program(bin / "node", "echo v22.1.0")
    program(bin / "npm", f"echo {prefix}")
    assert own_prefix() is None
    forbid(monkeypatch, prefix / forbidden)
    assert own_prefix() == tmp_path / ".local"
    assert check().text.endswith(f"; npm install -g needs --prefix {tmp_path}/.local here")
