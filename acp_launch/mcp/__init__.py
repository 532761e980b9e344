"""
The MCP client: runs MCP operations against a server, for `mcp` and `doctor`.

A server's process and the user's arguments come in; decoded answers come out. Open `client` first.

- `client`: the connection to one server, and its requests.
- `message`: the MCP messages that a client reads, decoded leniently.
- `arguments`: a tool's arguments as the user types them.
"""
