"""The demo agent's modes and config options (C-49 to C-53)."""

from pathlib import Path
from typing import Any

from tests.demo.client import Client, server_entry

BOOLEANS: dict[str, Any] = {"session": {"configOptions": {"boolean": {}}}}


def opened(agent: Client, cwd: Path, *servers: dict[str, Any]) -> dict[str, Any]:
    agent.initialize()
    return agent.result("session/new", {"cwd": str(cwd), "mcpServers": list(servers)})


def values(options: list[dict[str, Any]]) -> dict[str, Any]:
    return {option["id"]: option["currentValue"] for option in options}


def test_a_client_that_knows_no_booleans_is_told_of_none(agent: Client, tmp_path: Path) -> None:
    answer = opened(agent, tmp_path)
    assert list(values(answer["configOptions"])) == ["mode", "model"]
    params = {"sessionId": answer["sessionId"], "configId": "verbose", "type": "boolean", "value": True}
    error = agent.request("session/set_config_option", params)["error"]
    assert error["message"] == "no config option 'verbose'; there are mode, model"


def test_options_and_modes_come_with_the_session_and_are_set(agent: Client, tmp_path: Path) -> None:
    """What is set is answered with the complete list; a mode is the option of that name."""
    agent.capabilities = BOOLEANS
    answer = opened(agent, tmp_path)
    assert values(answer["configOptions"]) == {"mode": "ask", "model": "script-s", "verbose": False}
    assert [option.get("category") for option in answer["configOptions"]] == ["mode", "model", None]
    assert [group["group"] for group in answer["configOptions"][1]["options"]] == ["small", "large"]
    assert answer["modes"]["currentModeId"] == "ask"
    assert [mode["id"] for mode in answer["modes"]["availableModes"]] == ["ask", "code", "plan"]
    session = answer["sessionId"]
    changes: list[dict[str, Any]] = [
        {"configId": "model", "value": "script-xl"},
        {"configId": "mode", "value": "code"},
        {"configId": "verbose", "type": "boolean", "value": True},
    ]
    expected = values(answer["configOptions"])
    for change in changes:
        expected[change["configId"]] = change["value"]
        answer = agent.result("session/set_config_option", {"sessionId": session, **change})
        assert values(answer["configOptions"]) == expected
    assert [update["currentModeId"] for update in agent.of_kind("current_mode_update")] == ["code"]
    assert agent.result("session/set_mode", {"sessionId": session, "modeId": "plan"}) == {}
    assert values(agent.of_kind("config_option_update")[-1]["configOptions"])["mode"] == "plan"
    agent.prompt(session, "where")
    assert agent.said().endswith("\n\n(mode plan, model script-xl)")


def test_what_cannot_be_set_is_refused_and_changes_nothing(agent: Client, tmp_path: Path) -> None:
    agent.capabilities = BOOLEANS
    session = opened(agent, tmp_path)["sessionId"]
    for option, value, message in (
        ("mode", "yolo", "mode cannot be 'yolo'; it is one of ask, code, plan"),
        ("model", "large", "model cannot be 'large'; it is one of script-s, script-l, script-xl"),
        ("colour", "red", "no config option 'colour'; there are mode, model, verbose"),
    ):
        change = {"sessionId": session, "configId": option, "value": value}
        assert agent.request("session/set_config_option", change)["error"] == {"code": -32602, "message": message}
    kept = agent.result("session/set_config_option", {"sessionId": session, "configId": "verbose", "value": True})
    assert values(kept["configOptions"]) == {"mode": "ask", "model": "script-s", "verbose": True}


def test_the_mode_decides_whether_it_asks(agent: Client, tmp_path: Path) -> None:
    session = opened(agent, tmp_path, server_entry())["sessionId"]
    agent.result("session/set_mode", {"sessionId": session, "modeId": "plan"})
    agent.prompt(session, "note one")
    assert agent.said().startswith("I did not do it: in the mode `plan` I change nothing.")
    assert agent.statuses() == ["pending", "failed"]
    agent.result("session/set_mode", {"sessionId": session, "modeId": "code"})
    agent.prompt(session, "note two")
    assert agent.statuses() == ["pending", "in_progress", "completed"]
    assert agent.asked == []
    assert (tmp_path / "home" / "notes.txt").read_text() == "two\n"
