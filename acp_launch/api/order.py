"""What a program orders, and what of it its private host is told: one line of JSON."""

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict

if TYPE_CHECKING:
    from acp_launch.session.events import AnyEvent, FormQuestion, PermissionQuestion

Approve = Literal["all", "reads", "none"]
OnPermission = Callable[["PermissionQuestion"], Awaitable[str | bool | None]]
OnForm = Callable[["FormQuestion"], Awaitable[Mapping[str, Any] | bool | None]]
OnEvent = Callable[["AnyEvent"], object]


class LaunchOptions(TypedDict, total=False):
    """The options of a launch, as `acp_launch.launch` takes them."""

    cwd: str | os.PathLike[str] | None
    agent: str | None
    confined: bool
    trust: bool
    locked: bool
    approve: Approve | None
    options: Mapping[str, str] | None
    timeouts: Mapping[str, float] | None
    env: Mapping[str, str] | None
    on_permission: OnPermission | None
    on_form: OnForm | None
    on_event: OnEvent | None


class Order(NamedTuple):
    """What is to be launched, in the words of the command line. `has_forms` is whether the program takes forms.

    `limits` are of named waits, in seconds.
    """

    profile: str
    agent: str | None
    is_confined: bool
    trust: bool
    locked: bool
    options: tuple[str, ...]
    limits: Mapping[str, float]
    has_forms: bool
