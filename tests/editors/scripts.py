"""What an editor does in every conversation that is held twice."""

from pathlib import Path

from tests.editors.editor import initialize, new, prompt
from tests.realservers.recorder import Json, Recorder


def every_method(editor: Recorder, cwd: Path, *, knows_cancelled_requests: bool = True) -> None:
    """Every request and notification of an editor, and a turn in which the agent uses all of its own."""
    initialize(editor)
    editor.ask("1", "authenticate", {"methodId": "browser", "_meta": {"x": "ü"}})
    editor.answer("1")
    session = new(editor, cwd, additionalDirectories=["/tmp"])
    calls: list[tuple[int | str, str, Json]] = [
        (2**53 - 1, "session/list", {"cwd": str(cwd), "cursor": "opaque"}),
        (-1, "session/set_mode", {"sessionId": session, "modeId": "code"}),
        ("", "session/set_config_option", {"sessionId": session, "configId": "model", "value": "a"}),
        ('ü " \\ ', "_vendor/ask", {"any": [1e300, -0.0, 9007199254740993]}),
        (7, "_vendor/unknown", {"any": []}),
    ]
    for id, method, params in calls:
        editor.ask(id, method, params)
        editor.answer(id)
    editor.notify("_vendor/tell", {"list": []})
    editor.write(
        b' { "params" : {"a" : 1.50E+2,"b":"\\u00fc\\/", "list":[ ]}\t,"method":"_vendor/tell","jsonrpc":"2.0"}'
    )
    editor.request("session/prompt", prompt(session, "everything", _meta={"traceparent": "00-1-1-01"}))
    cancelled(editor, session, "session/cancel", {"sessionId": session})
    if knows_cancelled_requests:
        cancelled(editor, session, "$/cancel_request", {"requestId": "wait for $/cancel_request"})
        withdrawn(editor, session)
    for method, params in (
        ("session/close", {"sessionId": session}),
        ("session/load", {"sessionId": session, "cwd": str(cwd), "mcpServers": []}),
        ("session/close", {"sessionId": session}),
        ("session/resume", {"sessionId": session, "cwd": str(cwd)}),
        ("session/prompt", prompt(session, "again")),
        ("session/delete", {"sessionId": session}),
        ("logout", {}),
    ):
        editor.request(method, params)


def cancelled(editor: Recorder, session: str, method: str, params: Json) -> None:
    """A turn that the editor ends in this way."""
    editor.ask(f"wait for {method}", "session/prompt", prompt(session, "wait"))
    while "waiting" not in str(editor.expect("session/update")):
        pass
    editor.notify(method, params)
    editor.answer(f"wait for {method}")


def withdrawn(editor: Recorder, session: str) -> None:
    """A question that the agent takes back before it is answered."""
    editor.withhold("session/request_permission")
    turn = editor.start("session/prompt", prompt(session, "withdraw"))
    editor.expect("$/cancel_request")
    editor.release()
    editor.answer(turn)
