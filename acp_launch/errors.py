"""
Everything acp-launch raises on purpose, with the exit code each one ends in (docs/scripting.md "Exit codes"):

LaunchError                 unexpected                                        1
├── UsageError              the command line is wrong                         2
├── ProfileError            the profile is wrong; carries every Problem       2
├── SettingsError           config.yaml or a variable is wrong; Problems      2
├── MachineError            the profile is right, this machine is not ready   3
├── SecretError             a store cannot keep or give a secret              3
├── RegistryError           an agent of the registry cannot be had            3
├── StateError              the state directory cannot be read or written     3
├── Exhausted               no files, threads or processes left               3
├── SessionError            the named session cannot be opened                3
├── AgentError              the agent did not start, or died                  4
│   ├── AgentRefused          it answered a request with an error
│   ├── ContainerFailed       its container was not made                      3
│   └── Upgraded              acp-launch on disk is not the running one any more
├── ProtocolError           a peer broke the protocol                         5
│   ├── LocalProtocolError    acp-launch did: a bug here
│   └── RemoteProtocolError   the agent or a server did: report it there
│       └── ServerRefused       an MCP server answered a request with an error
├── AuthRequired            the agent wants a login first, a server refuses   6
├── NotLoggedIn             MCP servers want a login first; Problems          6
├── NotTrusted              a project's profile that was not accepted         7
├── ServerError             an MCP server did not start, or died              8
├── WaitExpired             a named wait passed its deadline                124
│   └── RunExpired            the time for the whole run is over
└── Stopped                 Ctrl-C, SIGTERM or SIGHUP           130, 143 or 129

Only `cli.main` turns one into text and an exit code.
"""

from collections.abc import Sequence

from acp_launch.problem import Problem


def first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first exception of a task group's: what its body raised, before anything that followed from it."""
    failure: BaseException = failures
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return failure


class LaunchError(Exception):
    """Raised for a failure that acp-launch foresees.

    `message` is one sentence for the user; `fix` says what to do next; `detail` are further lines, for instance
    the last stderr lines of a child.
    """

    exit_code = 1
    reply: "tuple[int, str, object] | None" = None  # the JSON-RPC error that it tells of: code, message, data
    cause: "tuple[int, str, object] | None" = None  # the agent's error behind it, if it says something of its own
    problems: tuple[Problem, ...] = ()  # of a profile, the settings or this machine

    def __init__(self, message: str, *, fix: str = "", detail: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.detail = tuple(detail)


class UsageError(LaunchError):
    """Raised when the command line is wrong."""

    exit_code = 2


class ProblemsError(LaunchError):
    """Raised with every problem of one stage at once.

    `outcome` ends the line that counts the problems; it says what happened to the work.
    """

    outcome = "nothing was started"

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class ProfileError(ProblemsError):
    """Raised when the profile itself is wrong."""

    exit_code = 2


class SettingsError(ProblemsError):
    """Raised when the user's own settings are wrong."""

    exit_code = 2
    outcome = "nothing was done"


class MachineError(ProblemsError):
    """Raised when the profile is right and this machine lacks something that it needs."""

    exit_code = 3


class SecretError(LaunchError):
    """Raised by the verbs about secrets. References of a profile raise Problems instead."""

    exit_code = 3


class RegistryError(LaunchError):
    """Raised when the registry's index cannot be read, or an agent of it not be installed."""

    exit_code = 3


class StateError(LaunchError):
    """Raised when acp-launch cannot read or write its own files on this machine, or there is no place for them."""

    exit_code = 3


class Exhausted(LaunchError):  # noqa: N818
    """Raised when the system refuses further open files, threads or processes."""

    exit_code = 3


class SessionError(LaunchError):
    """Raised when a named session cannot be opened, held or found."""

    exit_code = 3


class AgentError(LaunchError):
    """Raised when the agent does not start, or dies."""

    exit_code = 4


class ContainerFailed(AgentError):  # noqa: N818
    """Raised when the engine did not make the agent's container."""

    exit_code = 3


class Upgraded(AgentError):  # noqa: N818
    """Raised when something cannot be started because acp-launch was replaced while this process runs."""


class _Refused(LaunchError):  # noqa: N818 - it reads as what happened
    def __init__(self, message: str, *, code: int, fix: str = "", detail: Sequence[str] = ()) -> None:
        super().__init__(message, fix=fix, detail=detail)
        self.code = code


class AgentRefused(_Refused, AgentError):  # noqa: N818
    """Raised when the agent answers a request with a JSON-RPC error (`code`, ACP v1 "Error codes")."""


class ProtocolError(LaunchError):
    """Raised when a peer broke the protocol; the two subclasses say which side."""

    exit_code = 5


class LocalProtocolError(ProtocolError):
    """Raised when acp-launch itself was about to break the protocol: a bug here."""


class RemoteProtocolError(ProtocolError):
    """Raised when the agent, or an MCP server, broke the protocol."""


class ServerRefused(_Refused, RemoteProtocolError):  # noqa: N818
    """Raised when an MCP server answers a request of acp-launch with a JSON-RPC error (`code`)."""


class AuthRequired(LaunchError):  # noqa: N818
    """Raised when the agent answers -32000, since it wants a login first, or a server refuses our credentials."""

    exit_code = 6


class NotLoggedIn(ProblemsError):  # noqa: N818
    """Raised when the user is not logged in to MCP servers of the profile. `servers` are those that a login helps."""

    exit_code = 6

    def __init__(self, problems: Sequence[Problem], servers: Sequence[str] = ()) -> None:
        super().__init__(problems)
        self.servers = tuple(servers)


class NotTrusted(LaunchError):  # noqa: N818
    """Raised when a project's profile would run something and the user has not accepted its present content."""

    exit_code = 7


class ServerError(LaunchError):
    """Raised when an MCP server does not start, or dies."""

    exit_code = 8


class WaitExpired(LaunchError):  # noqa: N818
    """Raised when a named wait passes its deadline."""

    exit_code = 124


class RunExpired(WaitExpired):
    """Raised when a run reaches its time limit (`--timeout`)."""


class Stopped(LaunchError):  # noqa: N818
    """Raised when a signal ended the run. The exit code is 128 plus `signal_number`, as in shells."""

    def __init__(self, message: str, *, signal_number: int, detail: Sequence[str] = ()) -> None:
        super().__init__(message, detail=detail)
        self.exit_code = 128 + signal_number
