"""A plan that is ready to be launched. Light: it is made before the agent starts."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from acp_launch.plan.model import LaunchPlan
from acp_launch.secret.value import Secret

if TYPE_CHECKING:
    from acp_launch.mcp.http.wire import Credentials

NOTHING: Mapping[str, Any] = {}


class PreparedPlan(NamedTuple):
    """A plan with its secrets, and with the changing credentials of remote servers, by their names. `asking` is what
    `find_terminal` returned while the terminal, on which ssh may ask, was ours; None asks it anew."""

    plan: LaunchPlan
    secrets: Mapping[str, Secret] = NOTHING
    credentials: "Mapping[str, Credentials]" = NOTHING
    asking: Mapping[str, str] | None = None
