"""Ring 3. Servers and agents that go on while they should end, end while they should go on, or come in crowds."""

import ast
from pathlib import Path

import acp_launch

from .stage import Stage, hosting, wished

STORM = 40  # connections
CROWD = 25  # servers
PACKAGE = Path(acp_launch.__file__).parent


def lost(server: str, how: str) -> str:
    return f'MCP server "{server}" {how} during tools/call, whose outcome is unknown; it is being started again'


def test_a_server_that_closes_its_output_and_lives_is_replaced() -> None:
    with hosting(rude=wished()) as stage:
        agent = stage.agent("rude").introduce()
        assert agent.call("shut", descriptor=1) == lost("rude", "has closed its output")
        assert agent.call("echo", text="back") == "back"


def test_a_server_that_closes_its_input_and_lives_is_replaced_when_something_is_to_be_said_to_it() -> None:
    with hosting(rude=wished()) as stage:
        agent = stage.agent("rude").introduce()
        first = agent.send("shut", descriptor=0)
        stage.complains("rude", "closed 0")
        second = agent.call("echo", text="anybody there?")
        assert second == lost("rude", "no longer reads")
        assert agent.answer(first)["error"]["message"] == second
        assert agent.call("echo", text="back") == "back"


def begun(stage: Stage) -> int:
    """How many processes there have been of `echo`, by any of its names."""
    return sum(change["state"] == "starting" for change in stage.heard("change"))


def most_at_once(stage: Stage) -> int:
    """Of all there have been of `echo`."""
    running, most = 0, 0
    for change in stage.heard("change"):
        running += {"starting": 1, "stopped": -1, "failed": -1, "resting": -1}.get(change["state"], 0)
        most = max(most, running)
    return most


def test_an_agent_that_comes_and_goes_again_and_again_has_few_processes_at_once() -> None:
    with hosting(echo=wished()) as stage:
        for number in range(STORM):
            agent = stage.guest("echo").introduce()
            assert agent.call("echo", text=str(number)) == str(number)
            agent.close()
        assert stage.agent("echo").introduce().call("echo", text="the last") == "the last"
        assert begun(stage) <= 2 * STORM
        assert most_at_once(stage) < 10


def test_the_log_of_a_process_is_over_when_the_agent_has_left_it() -> None:
    with hosting(echo=wished()) as stage:
        agents = [stage.guest("echo").introduce() for _ in range(2)]
        for agent, name in zip(agents, ("echo", "echo#2"), strict=True):
            agent.close()
            assert stage.next("over")["server"] == name
            changes = [event for event in stage.events if event["type"] == "change"]  # the next process may begin now
            assert [change["state"] for change in changes if change["server"] == name][-1] == "stopped"


def test_of_many_servers_those_that_crash_disturb_no_other() -> None:
    good = {f"good{number}": wished() for number in range(CROWD - 5)}
    bad = {f"bad{number}": wished("crash", restarts=20) for number in range(3)}
    worse = {f"worse{number}": wished(restarts=20) for number in range(2)}
    with hosting({**good, **bad, **worse}) as stage:
        deadly = [stage.agent(name).introduce() for name in worse]
        agents = [stage.guest(name).introduce() for name in good]
        for number in range(10):
            for agent in deadly:
                agent.send("die")
            sent = [(agent, agent.send("echo", text=str(number))) for agent in agents]
            for agent, id in sent:
                assert agent.answer(id)["result"]["content"][0]["text"] == str(number)
        for name in worse:
            stage.process_of(name)
        for name in good:
            stage.once(name, "ready")
            assert [change["state"] for change in stage.changes(name)] == ["starting", "ready"]
        for name in bad:
            assert stage.once(name, "failed")["reason"] == "it was started 3 times and never answered"


PACED = [PACKAGE / f"process/{name}.py" for name in ("flow", "lifecycle", "supervisor")]
WALL = {"time.time", "time.time_ns", "time.localtime", "time.gmtime", "time.strftime", "datetime"}


def test_nothing_here_looks_at_a_clock_that_somebody_may_set() -> None:
    for path in [*sorted((PACKAGE / "bridge").glob("*.py")), *PACED]:
        seen = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                seen.add(f"{node.value.id}.{node.attr}")
            elif isinstance(node, ast.Import):
                seen |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                seen |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
        assert not seen & WALL
