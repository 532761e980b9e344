"""
MCP over HTTP: streamable HTTP of both eras, and HTTP+SSE.

Lines for a server come in, and requests go out; what came back comes in, and lines for the agent go out. `mcp.remote`
makes the requests. Open `machine` first.

- `machine`: which requests a message needs, and when the connection ends. Sans-IO, like the modules below.
- `streams`: the requests under way, and what comes back on each.
- `wire`: what the machine and its driver say to each other.
- `headers`: headers that repeat a request's body.
- `challenge`: what a server says when it wants a login, or more scopes.
- `eventstream`: server-sent events.
- `failure`: why a request failed, in words.
- `clients`: what all remote servers share of the HTTP library.
"""
