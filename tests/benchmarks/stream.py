"""A cheap MCP server over HTTP: it says its port, and answers `flood` with as many events as `argv` says."""

import asyncio
import json
import sys

NOTE = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1,"message":"%b"}}'
EVENTS = (b"event: message\ndata: " + NOTE % (b"x" * 60) + b"\n\n") * int(sys.argv[1])
PIECE = 1 << 16
INTRODUCED = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "s", "version": "1"},
}
RESULTS = {"initialize": INTRODUCED, "tools/list": {"tools": []}}


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while head := (await reader.readuntil(b"\r\n\r\n")).lower():
        size = int(head.partition(b"content-length:")[2].split(b"\r")[0] or 0)
        message = json.loads(await reader.readexactly(size) or "{}")
        if "id" not in message:
            status = b"202 Accepted" if message else b"405 Method Not Allowed"
            writer.write(b"HTTP/1.1 %b\r\nContent-Length: 0\r\n\r\n" % status)
            continue
        result = RESULTS.get(message["method"], {"content": []})
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        kind = b"application/json"
        if message.get("params", {}).get("name") == "flood":
            kind, body = b"text/event-stream", EVENTS + b"data: %b\n\n" % body
        fields = (kind, len(body))
        writer.write(b"HTTP/1.1 200 OK\r\nMcp-Session-Id: s\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n" % fields)
        for at in range(0, len(body), PIECE):
            writer.write(body[at : at + PIECE])
            await writer.drain()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
