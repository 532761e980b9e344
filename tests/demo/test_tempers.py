"""The programs of tests/agents do what their docstrings say; others build on that."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.demo.client import ROOT
from tests.oracle import check_transcript
from tests.patience import PATIENCE

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("initialize", {"protocolVersion": 1}),
    ("session/new", {"cwd": "/", "mcpServers": []}),
    ("session/prompt", {"sessionId": "session-1", "prompt": [{"type": "text", "text": "hi"}]}),
]
ALLOW = {"outcome": {"outcome": "selected", "optionId": "allow_once-1"}}
CANCEL = {"outcome": {"outcome": "cancelled"}}


def script(name: str, *args: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(ROOT / "tests" / "agents" / f"{name}.py"), *args]


def lines(*messages: dict[str, Any]) -> bytes:
    return b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages)


def calls(*extra: dict[str, Any]) -> bytes:
    return lines(*({"id": n, "method": m, "params": p} for n, (m, p) in enumerate(CALLS, 1)), *extra)


def run(name: str, *args: str, said: bytes | None = None, **env: Path) -> "subprocess.CompletedProcess[bytes]":
    """Everything it answers to a conversation written in advance."""
    given = calls() if said is None else said
    return subprocess.run(
        script(name, *args),
        input=given,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        env={**os.environ, **{name: str(path) for name, path in env.items()}},
    )


def messages(output: bytes) -> list[Any]:
    return [json.loads(line) for line in output.splitlines()]


def said(output: bytes) -> str:
    params = [message.get("params") or {} for message in messages(output) if message.get("method") == "session/update"]
    contents = [each.get("update", {}).get("content") for each in params]
    return "".join(content.get("text", "") for content in contents if isinstance(content, dict))


def ids(output: bytes) -> list[Any]:
    return [message["id"] for message in messages(output) if "result" in message]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("polite", "You said: hi"),
        ("minimal", "You said: hi"),
        ("malformed", "You said: hi"),
        ("early", "I could not wait.You said: hi"),
        ("late", "in the turn (0 late updates so far)after the turn"),
        ("big_paste", "2 characters"),
        ("refuser", "I would rather not."),
        ("replayer", "live 1"),
        ("forgetful", "You said: hi"),
        ("pager", "You said: hi"),
        ("wrapper", "You said: hi"),
    ],
)
def test_agents_that_finish_a_turn(name: str, text: str, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    done = run_to_files(name, tmp_path, pids)
    for pid in pids.read_text().split()[:1] if pids.exists() else []:
        os.kill(int(pid), signal.SIGKILL)  # the daemon that wrapper leaves behind
    assert ids(done) == [1, 2, 3]
    assert said(done) == text


def run_to_files(name: str, tmp_path: Path, pids: Path) -> bytes:
    """Into a file: the daemon `wrapper` leaves behind keeps its output open."""
    output = tmp_path / "out"
    with output.open("wb") as file:
        environment = {**os.environ, "ACP_TEST_PIDS": str(pids)}
        subprocess.run(
            script(name), input=calls(), stdout=file, stderr=file, timeout=PATIENCE, check=True, env=environment
        )
    return output.read_bytes()


def test_flood_and_giant_send_as_much_as_they_are_told() -> None:
    assert len(messages(run("flood", "500", "20").stdout)) == 500 + 4
    assert max(map(len, run("giant", "2").stdout.splitlines())) > 2 << 20


def test_silent_and_mute_agents_answer_nothing_more() -> None:
    assert ids(run("silent_turn").stdout) == [1, 2]
    assert said(run("silent_turn", "works").stdout) == "thinking about it"
    assert run("mute").stdout == b""


def test_deaf_outlives_the_end_of_its_input_and_term() -> None:
    with subprocess.Popen(script("deaf"), stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"deaf: ready\n"
        assert process.stdin is not None
        process.stdin.close()
        process.terminate()
        assert psutil.Process(process.pid).is_running()
        process.kill()
        assert process.wait(PATIENCE) == -signal.SIGKILL


def test_chatty_hides_good_answers_in_garbage() -> None:
    done = run("chatty", "200000")
    assert len(done.stderr) >= 200_000
    good = [line for line in done.stdout.splitlines() if line.startswith(b"\xef\xbb\xbf")]
    assert ids(b"\n".join(line.removeprefix(b"\xef\xbb\xbf") for line in good)) == [1, 2, 3]


def test_crasher_dies_when_and_how_it_is_told() -> None:
    for moment in ["start", "initialize", "new", "prompt", "mid-turn", "permission", "after-turn"]:
        for how, status in [("5", 5), ("SIGKILL", -9)]:
            with subprocess.Popen(
                script("crasher", moment, how), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            ) as process:
                assert process.stdin is not None
                assert process.stderr is not None
                if moment != "start":
                    process.stdin.write(calls())
                    process.stdin.flush()
                assert process.stderr.read().splitlines()[-1] == b"crasher: last words"
                assert process.wait(PATIENCE) == status


@pytest.mark.parametrize(
    ("args", "answer", "text"),
    [
        (["reject_once,allow_once"], ALLOW, "outcomes: allow_once-1"),
        (["allow_always,allow_once,reject_once", "late"], CANCEL, "outcomes: cancelled, cancelled"),
        (["none", "refuse-stop"], CANCEL, "outcomes: cancelled"),
    ],
)
def test_asker_tells_its_outcomes(args: list[str], answer: dict[str, Any], text: str) -> None:
    cancel = {"method": "session/cancel", "params": {"sessionId": "session-1"}}
    extra: list[dict[str, Any]] = [{"id": 0, "result": answer}, cancel, {"id": 1, "result": answer}]
    assert said(run("asker", *args, said=calls(*extra)).stdout) == text


def test_unknowns_tells_what_its_odd_requests_were_answered() -> None:
    error = {"error": {"code": -32601, "message": "no"}}
    extra: list[dict[str, Any]] = [{"id": identity, **error} for identity in ("abc", 0, None, -1)]
    assert said(run("unknowns", said=calls(*extra)).stdout) == "codes: -32601, -32601, -32601, -32601"


def test_gemini_like_replays_mostly_after_the_response() -> None:
    load = {"id": 9, "method": "session/load", "params": {"sessionId": "s", "cwd": "/", "mcpServers": []}}
    output = messages(run("gemini_like", "4", said=lines(load)).stdout)
    assert ["id" in message for message in output] == [False, True, False, False, False]


def test_uuid_ids_asks_with_a_string_for_an_id() -> None:
    extra = {"id": "2f1c1a52-6f0f-4d6f-9f3e-0a8f5d4f1b11", "result": CANCEL}
    assert said(run("uuid_ids", said=calls(extra)).stdout) == "outcome: cancelled"


def test_pager_loops_when_told_and_ends_otherwise() -> None:
    def page(cursor: str | None) -> dict[str, Any]:
        return {"id": 1, "method": "session/list", "params": {"cursor": cursor} if cursor else {}}

    output = messages(run("pager", "2", said=lines(page(None), page("=opaque/0+="), page("other"))).stdout)
    assert [message.get("result", {}).get("nextCursor") for message in output] == ["=opaque/0+=", None, None]
    assert output[2]["error"]["code"] == -32602
    loop = messages(run("pager", "loop", said=lines(page(None), page("=same/again+="))).stdout)
    assert {message["result"]["nextCursor"] for message in loop} == {"=same/again+="}


def test_auth_refuses_at_the_moment_it_is_told() -> None:
    assert messages(run("auth").stdout)[1]["error"]["code"] == -32000
    assert len(messages(run("auth").stdout)[0]["result"]["authMethods"]) == 3
    output = messages(run("auth", "prompt", "none").stdout)
    assert output[0]["result"]["authMethods"] == []
    assert "result" in output[1]
    assert output[2]["error"]["code"] == -32000


def test_liar_answers_what_it_is_told() -> None:
    assert messages(run("liar", "version", "2").stdout)[0]["result"] == {"protocolVersion": 2}
    assert len(messages(run("liar", "twice").stdout)) == 3 * 2 + 1
    assert messages(run("liar", "no-session").stdout)[1]["result"] == {}


def test_cancel_deaf_ends_on_a_signal_and_cancellable_on_a_cancel() -> None:
    cancel = {"method": "session/cancel", "params": {"sessionId": "session-1"}}
    assert messages(run("cancellable", said=calls(cancel)).stdout)[-1]["result"] == {"stopReason": "cancelled"}
    with subprocess.Popen(script("cancel_deaf"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(calls(cancel))
        process.stdin.flush()
        assert b"working" in [process.stdout.readline() for _ in range(3)][-1]
        process.send_signal(signal.SIGUSR1)
        assert b"end_turn" in process.communicate(timeout=PATIENCE)[0]


def test_slow_start_waits_for_its_fifo(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with subprocess.Popen(script("slow_start", str(fifo)), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(calls())
        process.stdin.close()
        process.stdin = None
        fifo.write_bytes(b"go")  # blocks until the agent has opened it
        assert ids(process.communicate(timeout=PATIENCE)[0]) == [1, 2, 3]


def test_programs_that_are_no_agents() -> None:
    assert run("helper_cli", said=b"").returncode == 2
    assert run("helper_cli", said=b"").stderr.startswith(b"usage:")
    assert run("tty_waiter", said=b"x\n").stdout == b"> I do not understand that.\n> "


def test_the_transcript_of_a_conversation_can_be_judged(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    run("asker", said=calls({"id": 0, "result": ALLOW}), ACP_TEST_TRANSCRIPT=good)
    assert check_transcript(good) == []
    run("asker", said=calls({"id": 0, "result": {"outcome": "allow"}}), ACP_TEST_TRANSCRIPT=bad)
    assert "RequestPermissionResponse" in check_transcript(bad)[0]
