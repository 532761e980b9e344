"""
The Python API: what `import acp_launch` offers.

The private host, which has the agent, is started before what talks to it is imported, so that both overlap.
"""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from math import inf
from typing import TYPE_CHECKING, Unpack, get_args

from acp_launch.api.lifeline import DOWN_TIMEOUT, PrivateHost
from acp_launch.api.order import Approve, LaunchOptions, OnEvent, OnForm, OnPermission, Order
from acp_launch.errors import UsageError
from acp_launch.waits import AGENT_WAITS

if TYPE_CHECKING:
    from acp_launch.api.agent import Agent, Result

Path = str | os.PathLike[str]


@asynccontextmanager
async def launch(
    profile: Path | None = None,
    *,
    cwd: Path | None = None,
    agent: str | None = None,
    confined: bool = False,
    trust: bool = False,
    locked: bool = False,
    approve: Approve | None = None,
    options: Mapping[str, str] | None = None,
    timeouts: Mapping[str, float] | None = None,
    env: Mapping[str, str] | None = None,
    on_permission: OnPermission | None = None,
    on_form: OnForm | None = None,
    on_event: OnEvent | None = None,
) -> "AsyncIterator[Agent]":
    """Launch the agent of a profile while the block runs, as `acp-launch run` does in the directory `cwd`.

    `agent` is a command line, in place of a profile; `confined` is for such an agent. `trust` runs a project's profile
    once without trusting it, `locked` refuses packages that differ from the lock file, `approve` decides about tool
    calls in place of the profile's rules, and `options` are set in each session. `timeouts` limits waits (`initialize`,
    `session`, `silence`), in seconds; `env` is added to the environment of the launch.

    `on_permission` is asked about a tool call, and returns True, False, the id of an option, or None to answer nothing;
    `on_form` returns the values, True, False or None. `on_event` hears of events outside of a prompt. An
    exception of a callback cancels the turn that runs and comes out of it; without a turn it comes out of the block.

    Raises:
        LaunchError: the agent cannot be launched.
    """
    given = LaunchOptions(
        cwd=cwd,
        agent=agent,
        confined=confined,
        trust=trust,
        locked=locked,
        approve=approve,
        options=options,
        timeouts=timeouts,
        env=env,
        on_permission=on_permission,
        on_form=on_form,
        on_event=on_event,
    )
    process = _start(profile, given)
    from acp_launch.api.agent import running

    async with running(process, given) as launched:
        yield launched


def run(
    profile: Path | None,
    prompt: str,
    *,
    session: str | None = None,
    new: bool = False,
    attach: Sequence[Path] = (),
    timeout: float | None = None,
    **options: Unpack[LaunchOptions],
) -> "Result":
    """Run one prompt and return its result; options as `launch`. It waits in a thread of its own, so a loop may run.

    `on_event` hears of all events, in that thread.

    Raises:
        LaunchError: as `launch`, or how the turn has failed.
    """
    process = _start(profile, options)
    from acp_launch.api.agent import run_prompt
    from acp_launch.api.thread import run_in_thread

    return run_in_thread(
        lambda: run_prompt(process, options, prompt, session=session, new=new, attach=attach, timeout=timeout),
        within=2 * DOWN_TIMEOUT,
    )


def _start(profile: Path | None, options: LaunchOptions) -> PrivateHost:
    if unknown := options.keys() - LaunchOptions.__annotations__:
        raise TypeError(f"there is no option {min(unknown)}")
    agent, approve = options.get("agent"), options.get("approve")
    if approve not in (None, *get_args(Approve)):
        raise UsageError(f'approve: there is no "{approve}"', fix=f"use one of {', '.join(get_args(Approve))}")
    if (profile is None) == (agent is None):
        raise UsageError("either a profile or agent= is needed")
    if options.get("confined") and agent is None:
        raise UsageError("confined= is for agent=", fix="in the profile: runtime: {confined: true}")
    limits = {wait: float(limit) for wait, limit in (options.get("timeouts") or {}).items()}
    for wait, limit in limits.items():
        if wait not in AGENT_WAITS:
            raise UsageError(f'timeouts: there is no wait "{wait}"', fix=f"use {', '.join(AGENT_WAITS)}")
        if not 0 < limit < inf:
            raise UsageError(f"timeouts: {wait} is to be a number of seconds, and is {limit:g}")
    order = Order(
        profile=os.fspath(profile or ""),
        agent=agent,
        is_confined=options.get("confined", False),
        trust=options.get("trust", False),
        locked=options.get("locked", False),
        options=tuple(f"{option}={value}" for option, value in (options.get("options") or {}).items()),
        limits=limits,
        has_forms=options.get("on_form") is not None,
    )
    return PrivateHost(order, os.fspath(options.get("cwd") or "."), options.get("env") or {})
