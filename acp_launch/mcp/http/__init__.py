"""
MCP over HTTP: streamable HTTP of both eras, and HTTP+SSE.

Messages for a server come in, and requests go out; what came back comes in, and messages for the agent go out.
`mcp.remote` makes the requests. Open `connection` first.

- `connection`: which requests a message needs, and when the connection ends. Sans-IO, like the three below.
- `stream`: one request and what comes back on it; server-sent events.
- `site`: the server's address and headers, and how it is named in texts.
- `wire`: what the connection and its driver say to each other; the challenges of a server.
- `failure`: why a request failed, in words.
- `clients`: a client of the HTTP library for a server.
"""
