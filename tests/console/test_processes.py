"""What `ps`, `reap` and a start say of containers that are left."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from acp_launch.console.processes import show_ended, show_families
from acp_launch.process.containers import LaunchContainers
from acp_launch.process.leftovers import ClearedLaunch, LaunchTree, LeftProcess, TreeProcess
from acp_launch.process.records import Known, RecordedLaunch

ID = "0123456789abcdef" * 4
DOWN = LaunchContainers(why="Error: it is down")
COMMAND = "/bin/podman rm -f $(/bin/podman ps -aq --filter label=acp-launch.launch=ab12)"
SAID = f"a container may be left, as /bin/podman fails (Error: it is down); to remove it: acp-launch reap, or {COMMAND}"
LAUNCH = RecordedLaunch(
    path=Path("/nowhere"),
    id="ab12",
    launcher=Known(2, 1.0),
    boot="",
    namespace="",
    verb="run",
    profile="p",
    guards=(),
    children=(),
    seen=(),
    engine="/bin/podman",
)


def left(containers: LaunchContainers) -> LaunchTree:
    return LaunchTree(launch=LAUNCH, state="over", root=None, members=(), containers=containers)


def cleared(containers: LaunchContainers, *processes: LeftProcess) -> ClearedLaunch:
    return ClearedLaunch("p", "run", processes, (), "ab12", "/bin/podman", containers)


def test_ps_names_the_containers_that_are_left(capfd: pytest.CaptureFixture[str]) -> None:
    show_families([left(LaunchContainers(left=(ID,)))], {}, home="/", as_json=False)
    out, err = capfd.readouterr()
    assert [line.split("  ")[0] for line in out.splitlines()[1:]] == ["p (run)", ""]
    assert "left behind; to stop: acp-launch reap" in out
    assert "  container 0123456789ab" in out
    assert err == ""


def test_ps_says_what_may_be_left_while_the_engine_fails(capfd: pytest.CaptureFixture[str]) -> None:
    show_families([left(DOWN)], {}, home="/", as_json=False)
    assert capfd.readouterr().err == f"acp-launch: {SAID}\n"
    show_families([left(DOWN)], {}, home="/", as_json=True)
    (found,) = json.loads(capfd.readouterr().out)["launches"]
    assert (found["state"], found["containers"]) == (
        "left behind",
        {"removed": [], "left": [], "problem": "Error: it is down"},
    )


def test_ps_marks_an_agent_in_a_container(capfd: pytest.CaptureFixture[str]) -> None:
    client = TreeProcess(
        name="agent", command="podman", pid=3, age=1, memory=0, restarts=0, children=(), is_contained=True
    )
    root = TreeProcess(name="", command="python", pid=2, age=1, memory=0, restarts=0, children=(client,))
    tree = LaunchTree(launch=LAUNCH, state="running", root=root, members=(client,))
    show_families([tree], {}, home="/", as_json=False)
    assert capfd.readouterr().out.splitlines()[-1].split("  ")[-1].strip() == "in a container"
    show_families([tree], {}, home="/", as_json=True)
    (found,) = json.loads(capfd.readouterr().out)["launches"]
    assert found["processes"][0]["in_container"] is True
    assert "containers" not in found


def test_reap_says_what_it_has_removed_and_what_it_could_not(capfd: pytest.CaptureFixture[str]) -> None:
    done = cleared(LaunchContainers(removed=(ID,)), LeftProcess("agent", 5))
    show_ended([done, cleared(DOWN)], as_json=False)
    assert capfd.readouterr().out.splitlines() == [
        "stopped 1 process left behind by a run of p: agent (5)",
        "removed the container 0123456789ab, left behind by a run of p",
        f"after a run of p: {SAID}",
    ]
    assert done.is_over and not replace(done, survivors=done.processes).is_over and not cleared(DOWN).is_over
    show_ended([done], as_json=True)
    (found,) = json.loads(capfd.readouterr().out)["ended"]
    assert found["containers"] == {"removed": [ID], "left": [], "problem": None}
