"""What a sandbox or a container takes from a launch: told as it is, and no fault."""

import errno
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from acp_launch.checks import machine
from acp_launch.process import cgroup


def test_shims_lend_their_pipes_where_descriptors_can_be_passed() -> None:
    before = os.listdir("/proc/self/fd") if sys.platform == "linux" else []  # noqa: PTH208
    check = machine.shims()
    assert (check.verdict, check.text, check.facts) == ("ok", "pass their pipes to acp-launch", {"lends": True})
    assert not before or len(os.listdir("/proc/self/fd")) == len(before)  # noqa: PTH208


def test_shims_copy_where_a_sandbox_forbids_it_or_swallows_what_is_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: Any) -> int:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(socket, "send_fds", forbidden)
    check = machine.shims()
    why = "file descriptors cannot be passed here (operation not permitted)"
    assert (check.verdict, check.fix) == ("ok", "")
    assert (check.text, check.facts) == (f"copy every byte, which is slower: {why}", {"lends": False})
    monkeypatch.setattr(socket, "send_fds", lambda sock, buffers, fds: sock.sendmsg(buffers))
    assert machine.shims().text.endswith("(it did not arrive)")


def test_a_control_group_is_had_or_not_and_none_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    check = machine.control_group()
    assert (check.verdict, check.fix) == ("ok", "")
    assert check.text.startswith("one for each launch" if check.facts["own"] else "none (")
    group = cgroup.of_launch(f"doctor-{os.getpid()}")
    assert group is None or not group.path.exists()
    (tmp_path / "cgroup.py").write_text("of_launch = lambda name: None")  # a machine that has none
    monkeypatch.setattr(cgroup, "__file__", str(tmp_path / "cgroup.py"))
    none = machine.control_group()
    assert (none.verdict, none.fix, none.facts) == ("ok", "", {"own": False})
    assert none.text.startswith("none (cgroup v2")
