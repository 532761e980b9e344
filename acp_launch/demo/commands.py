"""The reply `shell`: a command in a terminal of the client (ACP v1 "terminals")."""

from acp_launch.demo.tooluse import ToolCall
from acp_launch.demo.turn import Turn
from acp_launch.demo.wire import Message, RpcError

LIMIT = 100_000  # bytes of output to keep
TITLE = 200  # characters
NONE = (
    "Your client offers no terminals (clientCapabilities.terminal), so I cannot run anything."
    " In a profile, `client: {terminal: true}` offers them."
)


def shell(turn: Turn, rest: str) -> None:
    if not rest:
        turn.say("Say which command: `shell ls -l`.")
        return
    if not turn.session.offered.terminal:
        turn.say(NONE)
        return
    with ToolCall(turn, rest[:TITLE], "execute", {"command": rest, "cwd": turn.session.cwd}) as call:
        refusal = call.refusal(("demo", "shell"))
        turn.say(refusal or _run(turn, rest, call))


def _run(turn: Turn, command: str, call: ToolCall) -> str:
    """Run the command and return the result in words."""
    asked = {"command": "sh", "args": ["-c", command], "cwd": turn.session.cwd, "outputByteLimit": LIMIT}
    try:
        terminal = {"terminalId": str(turn.ask("terminal/create", asked).get("terminalId"))}
    except RpcError as error:
        call.end("failed", str(error))
        return f"The client did not run it: {error}"
    shown: Message = {"type": "terminal", **terminal}
    call.begin(content=[shown])
    try:
        ended = turn.ask("terminal/wait_for_exit", terminal)
        said = turn.ask("terminal/output", terminal)
    except RpcError as error:
        call.end("failed", str(error), keep=[shown])
        return f"The terminal failed: {error}"
    finally:  # a cancelled turn ends its command too
        turn.dismiss("terminal/release", terminal)
    outcome = _outcome(ended)
    call.end("completed" if ended.get("exitCode") == 0 else "failed", outcome, keep=[shown])
    return f"It ended with {outcome} and said {_size(said)}."


def _outcome(ended: Message) -> str:
    signal = ended.get("signal")
    return f"signal {signal}" if signal else f"exit status {ended.get('exitCode')}"


def _size(said: Message) -> str:
    output = said.get("output")
    lines = len(output.splitlines()) if isinstance(output, str) else 0
    rest = ", without its beginning" if said.get("truncated") is True else ""
    return f"{lines} line{'' if lines == 1 else 's'}{rest}"
