"""What an error says of a program that starts the agent elsewhere, and could not."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from acp_launch.engine.surroundings import CANNOT_RUN, explain_place
from acp_launch.errors import AgentError
from acp_launch.plan.model import InContainer, OverSsh, Place
from acp_launch.process.child import Child

CONTAINER = InContainer(engine="podman", image="agents:1", network="default", pull="never", user=())
SSH = OverSsh("build1", Path("/srv"), "python3")


@pytest.mark.parametrize(
    ("there", "cure"),
    [
        (SSH, "make it there, or correct runtime.ssh.directory"),
        (CONTAINER, "install it there, or correct the profile"),
    ],
    ids=["ssh", "container"],
)
def test_a_cure_names_keys_of_the_place_that_the_agent_has(there: InContainer | OverSsh, cure: str) -> None:
    said = f'acp-launch: the directory "/srv" cannot be used: Permission denied, {there.words}'
    error = AgentError("the agent exited with status 126", detail=(said,))
    child = SimpleNamespace(exit=SimpleNamespace(status=CANNOT_RUN), spawned=SimpleNamespace(is_killed=False))
    explain_place(error, Place(program=Path("client"), mounts=(), elsewhere=there), cast(Child, child))
    assert (error.message, error.fix) == (said.removeprefix("acp-launch: "), cure)
