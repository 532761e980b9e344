"""
The server of `probe_sdk` over HTTP: an oracle for what we say over the network.

    python -m tests.servers.http_sdk stateful|stateless|json|sse

The first line on stdout is its address. It ends with its stdin.
"""

import asyncio
import socket
import sys

import uvicorn

from tests.servers.probe_sdk import server


async def main(kind: str) -> None:
    if kind == "sse":
        app = server.sse_app()
    else:
        app = server.streamable_http_app(stateless_http=kind == "stateless", json_response=kind == "json")
    with socket.create_server(("127.0.0.1", 0)) as plug:
        print(f"http://127.0.0.1:{plug.getsockname()[1]}/{'sse' if kind == 'sse' else 'mcp'}", flush=True)
        serving = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=0))
        task = asyncio.create_task(serving.serve(sockets=[plug]))
        await asyncio.to_thread(sys.stdin.read)
        serving.should_exit = True
        await task


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
