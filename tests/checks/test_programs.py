"""Who put a program there, and what it runs on."""

import json
from pathlib import Path

import pytest

from acp_launch.checks.programs import Runtime, command, runtime


def program(file: Path, text: str = "#!/usr/bin/env node\n") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)
    return file


def test_a_package_says_which_node_it_needs_and_the_one_on_its_path_is_asked(tmp_path: Path) -> None:
    script = program(tmp_path / "lib/agent/dist/cli.js")
    (tmp_path / "lib/agent/package.json").write_text(json.dumps({"engines": {"node": ">=20"}}))
    node = program(tmp_path / "bin/node", "#!/bin/sh\n")
    (tmp_path / "bin/agent").symlink_to(script)
    asked: list[Path] = []

    def run(found: Path) -> str:
        asked.append(found)
        return "v18.19.1\n"

    found = runtime(tmp_path / "bin/agent", path=str(tmp_path / "bin"), cwd=tmp_path, run=run)
    assert (found, asked) == (Runtime(node, "18.19.1", ">=20"), [node])
    check = command("agent", tmp_path / "bin/agent", found)
    assert (check.verdict, check.code) == ("warning", 0)
    assert check.text == f"{tmp_path}/bin/agent (Node.js 18.19.1), but its package needs >=20"
    assert check.fix == "install a newer Node.js, or put it first on PATH"


def test_a_shim_that_has_no_version_to_run_is_a_warning(tmp_path: Path) -> None:
    check = command("agent", tmp_path / "npx", Runtime(tmp_path / "node", "", ""))
    assert (check.verdict, check.text) == (
        "warning",
        f"{tmp_path}/npx (Node.js): {tmp_path}/node does not report its version",
    )


def test_other_programs_are_asked_nothing(tmp_path: Path) -> None:
    def run(found: Path) -> str:
        raise AssertionError(found)

    for text in ("#!/bin/sh\n# node\n", "\x7fELF node"):
        file = program(tmp_path / "tool", text)
        assert runtime(file, path=str(tmp_path), cwd=tmp_path, run=run) is None


@pytest.mark.parametrize("text", ["[1]", "{", "[" * 100_000, '{"engines": {"node": 20}}', '{"engines": []}'])
def test_a_package_that_says_nothing_sensible_asks_for_nothing(tmp_path: Path, text: str) -> None:
    program(tmp_path / "node", "#!/bin/sh\n")
    script = program(tmp_path / "cli.js")
    (tmp_path / "package.json").write_text(text)
    found = runtime(script, path=str(tmp_path), cwd=tmp_path, run=lambda node: "v22.0.0")
    assert found == Runtime(tmp_path / "node", "22.0.0", "")
