"""Ring 3. Where the API meets other parts (tests/seams.py)."""

import asyncio
import json

import pytest

import acp_launch
from acp_launch.errors import ProfileError
from acp_launch.served.connect import read_shared
from acp_launch.served.registry import find_server_host
from tests.cli.launcher import DEMO, DEMO_SERVER, Launcher
from tests.looped import bounded
from tests.patience import until


@bounded
async def test_two_launches_share_a_server_of_the_user(launch: Launcher) -> None:
    launch.write({"agent": DEMO, "mcp_servers": {"notes": {**DEMO_SERVER, "share": "user", "idle": "100ms"}}})
    options = {"cwd": launch.project, "trust": True}
    async with (
        acp_launch.launch("p", **options) as one,  # type: ignore[arg-type]
        acp_launch.launch("p", **options) as other,  # type: ignore[arg-type]
        one.session() as first,
        other.session() as second,
    ):
        for session in (first, second):
            [event async for event in session.prompt("add 2 3")]
        note = find_server_host(launch.state)
        assert note is not None
        (standing,) = await asyncio.to_thread(read_shared, note)
        assert [use.label for use in standing.uses] == ["api p", "api p"]
    await asyncio.to_thread(until, lambda: find_server_host(launch.state) is None)


@bounded
async def test_a_private_host_is_shown_and_no_run_uses_it(launch: Launcher) -> None:
    launch.profile("polite")
    async with acp_launch.launch("p", cwd=launch.project, trust=True):
        shown = json.loads((await asyncio.to_thread(launch, "ps", "--json")).out)
        assert [(each["verb"], each["profile"]) for each in shown["launches"]] == [("api", "p")]
        done = await asyncio.to_thread(launch, "run", "p", "hi")
        assert (done.code, done.methods[0]) == (0, "initialize")
        down = await asyncio.to_thread(launch.forked, "down", "p")
        assert (down.code, "p is not up" in down.err) == (3, True)


def test_locked_refuses_what_the_command_line_refuses(launch: Launcher) -> None:
    launch.profile(
        "polite", mcp_servers={"x": {"command": "npx", "args": ["-y", "@s/server@1.2.4"], "required": False}}
    )
    with pytest.raises(ProfileError) as refused:
        acp_launch.run("p", "hi", cwd=launch.project, trust=True, locked=True)
    told = launch("run", "p", "hi", "--locked", "-o", "json").events[-1]["problems"]
    assert [each.as_json() for each in refused.value.problems] == told
