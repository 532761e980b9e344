"""Published servers over HTTP through the seat: the same answers as over stdio (docs/mcp.md)."""

from pathlib import Path

import pytest

from tests.realservers import everything
from tests.realservers.everything import answers
from tests.realservers.npm import EVERYTHING
from tests.realservers.over_http import assert_same_lines, listening, remote
from tests.realservers.published import needs_npm, server


@needs_npm
@pytest.mark.parametrize(("transport", "type", "path"), [("streamableHttp", "http", "mcp"), ("sse", "sse", "sse")])
def test_every_method_and_every_tool_of_the_npm_server_is_the_same_over_http(
    transport: str, type: str, path: str, tmp_path: Path
) -> None:
    stdio = server(EVERYTHING, cwd=tmp_path)
    with listening([*stdio.argv, transport], tmp_path, "port") as port:
        over_http = remote(f"http://127.0.0.1:{port}/{path}", tmp_path, type)
        assert_same_lines(stdio, over_http, everything.everything, answers)
