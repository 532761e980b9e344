"""Published servers over HTTP through the seat: the same answers as over stdio (docs/mcp.md)."""

from pathlib import Path

import pytest

from tests.realservers import everything, sdk
from tests.realservers.everything import answers
from tests.realservers.npm import EVERYTHING
from tests.realservers.over_http import assert_same_lines, listening, remote
from tests.realservers.published import needs_npm, server
from tests.realservers.recorder import Recorder


@needs_npm
@pytest.mark.parametrize(("transport", "type", "path"), [("streamableHttp", "http", "mcp"), ("sse", "sse", "sse")])
def test_every_method_and_every_tool_of_the_npm_server_is_the_same_over_http(
    transport: str, type: str, path: str, tmp_path: Path
) -> None:
    stdio = server(EVERYTHING, cwd=tmp_path)
    with listening([*stdio.argv, transport], tmp_path, "port") as port:
        over_http = remote(f"http://127.0.0.1:{port}/{path}", tmp_path, type)
        assert_same_lines(stdio, over_http, everything.everything, answers)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("way", "type", "path"), [("stateful", "http", "mcp"), ("sse", "sse", "sse")])
def test_every_method_and_every_tool_of_the_python_sdk_is_the_same_over_http(
    way: str, type: str, path: str, tmp_path: Path
) -> None:
    stdio = sdk.server(tmp_path)
    with listening([*stdio.argv, way], tmp_path, "running on") as port:
        over_http = remote(f"http://127.0.0.1:{port}/{path}", tmp_path, type)
        assert_same_lines(stdio, over_http, lambda recorder: sdk.everything(recorder, "2025-11-25"), sdk.answers)


@pytest.mark.exhaustive
@pytest.mark.parametrize("way", ["json", "stateless"])
def test_a_server_that_answers_without_streams_or_sessions_says_the_same(way: str, tmp_path: Path) -> None:
    """It can say nothing of its own there, and ask nothing."""

    def script(recorder: Recorder) -> None:
        recorder.initialize()
        sdk.listing(recorder)
        for tool, arguments in sdk.CALLS[:6]:
            recorder.call(tool, arguments)

    stdio = sdk.server(tmp_path)
    with listening([*stdio.argv, way], tmp_path, "running on") as port:
        assert_same_lines(stdio, remote(f"http://127.0.0.1:{port}/mcp", tmp_path), script)
