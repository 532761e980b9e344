"""
Everything acp-launch raises on purpose, with the exit code each one ends in (docs/scripting.md "Exit codes"):

LaunchError                 unexpected                                        1
├── UsageError              the command line is wrong                         2
├── ProfileError            the file is wrong: carries every Problem          2
├── SettingsError           config.yaml or a variable is wrong: Problems      2
├── MachineError            the file is right, this machine cannot: Problems  3
├── SecretError             a store cannot keep or give a secret              3
├── Exhausted               no more files, threads or processes for us        3
├── SessionError            the named session cannot be opened                3
├── AgentError              the agent would not start or stay up              4
│   └── AgentRefused          it answered a request with an error
├── ProtocolError           somebody broke the protocol                       5
│   ├── LocalProtocolError    we did: a bug here
│   └── RemoteProtocolError   they did: report it to them
│       └── ServerRefused       an MCP server answered a request with an error
├── AuthRequired            the agent wants a login first                     6
├── NotTrusted              a project's profile that was not accepted         7
├── WaitExpired             a named wait passed its deadline                124
│   └── RunExpired            there is no time left for the whole run
└── Stopped                 Ctrl-C, SIGTERM or SIGHUP           130, 143 or 129

Only `cli.main` turns one into text and an exit code.
"""

from collections.abc import Sequence

from acp_launch.problem import Problem


def first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one exception a task group's stands for: what its body raised, before anything that followed from it."""
    failure: BaseException = failures
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return failure


class LaunchError(Exception):
    """Raised when something we foresaw goes wrong.

    `message` is one sentence for a person; `fix` what to do next; `detail` further lines, the last stderr
    lines of a child for instance.
    """

    exit_code = 1

    def __init__(self, message: str, *, fix: str = "", detail: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.detail = tuple(detail)


class UsageError(LaunchError):
    """Raised when the command line asks for something that cannot be."""

    exit_code = 2


class ProblemsError(LaunchError):
    """Raised with every problem of one stage at once.

    `outcome` is what became of the work, and ends the line that counts them.
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
    """Raised when the profile is right and this machine cannot do it."""

    exit_code = 3


class SecretError(LaunchError):
    """Raised by the verbs about secrets; for the references of a profile there are Problems."""

    exit_code = 3


class StateError(LaunchError):
    """Raised when something that we keep on this machine cannot be read or written, or there is no place for it."""

    exit_code = 3


class Exhausted(LaunchError):  # noqa: N818
    """Raised when the system lets us have no more open files, threads or processes."""

    exit_code = 3


class SessionError(LaunchError):
    """Raised when a named session cannot be opened, held or found."""

    exit_code = 3


class AgentError(LaunchError):
    """Raised when the agent would not start, or died."""

    exit_code = 4


class AgentRefused(AgentError):  # noqa: N818 - it reads as what happened
    """Raised when the agent answers a request with a JSON-RPC error (`code`, ACP v1 "Error codes")."""

    def __init__(self, message: str, *, code: int, fix: str = "", detail: Sequence[str] = ()) -> None:
        super().__init__(message, fix=fix, detail=detail)
        self.code = code


class ProtocolError(LaunchError):
    """Raised when the protocol was broken; one of the two below says by whom."""

    exit_code = 5


class LocalProtocolError(ProtocolError):
    """Raised when acp-launch itself was about to break the protocol: a bug here."""


class RemoteProtocolError(ProtocolError):
    """Raised when the agent, or an MCP server, broke the protocol."""


class ServerRefused(RemoteProtocolError):  # noqa: N818
    """Raised when an MCP server answers a request of ours with a JSON-RPC error (`code`)."""

    def __init__(self, message: str, *, code: int, fix: str = "", detail: Sequence[str] = ()) -> None:
        super().__init__(message, fix=fix, detail=detail)
        self.code = code


class AuthRequired(LaunchError):  # noqa: N818
    """Raised when the agent answers -32000: it wants a login first."""

    exit_code = 6


class NotTrusted(LaunchError):  # noqa: N818
    """Raised when a profile of a project would run something and was not accepted as it is."""

    exit_code = 7


class ServerError(LaunchError):
    """Raised when an MCP server would not start, or died."""

    exit_code = 8


class WaitExpired(LaunchError):  # noqa: N818
    """Raised when a named wait passes its deadline."""

    exit_code = 124


class RunExpired(WaitExpired):
    """Raised when a run has taken as long as it may (`--timeout`)."""


class Stopped(LaunchError):  # noqa: N818
    """Raised when a signal ended the run; `signal_number` decides the exit code as shells do."""

    def __init__(self, message: str, *, signal_number: int, detail: Sequence[str] = ()) -> None:
        super().__init__(message, detail=detail)
        self.exit_code = 128 + signal_number
