"""docker compose for coding agents. Importing the package costs nothing: the Python API (docs/api.md) comes with the
first use of one of its names.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from acp_launch.app.agent import Agent, Result, Session
    from acp_launch.app.api import launch, load_profile, run
    from acp_launch.errors import LaunchError
    from acp_launch.session import events

__version__ = "0.1.0"
__all__ = ["Agent", "LaunchError", "Result", "Session", "events", "launch", "load_profile", "run"]
_PLACES = {
    **dict.fromkeys(("Agent", "Result", "Session"), "app.agent"),
    **dict.fromkeys(("launch", "load_profile", "run"), "app.api"),
    "LaunchError": "errors",
    "events": "session",
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = __import__(f"{__name__}.{_PLACES[name]}", fromlist=[name])  # with `events` a module of it
    return getattr(module, name)
