"""docker compose for coding agents. Importing the package costs nothing: the Python API (docs/api.md) comes with the
first use of one of its names.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from acp_launch.api.agent import Agent, Result, Session
    from acp_launch.api.calls import launch, run
    from acp_launch.api.profiles import load_profile
    from acp_launch.errors import LaunchError
    from acp_launch.session import events

__version__ = "0.1.0"
__all__ = ["Agent", "LaunchError", "Result", "Session", "events", "launch", "load_profile", "run"]
_PLACES = {
    **dict.fromkeys(("Agent", "Result", "Session"), "api.agent"),
    **dict.fromkeys(("launch", "run"), "api.calls"),
    "load_profile": "api.profiles",
    "LaunchError": "errors",
    "events": "session",
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = __import__(f"{__name__}.{_PLACES[name]}", fromlist=[name])  # with `events` a module of it
    return getattr(module, name)
