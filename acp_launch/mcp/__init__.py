"""
MCP towards the servers: the client for `mcp` and `doctor`, the connections to remote servers, and the eras of MCP.

A server's process and the user's arguments come in; decoded answers come out. Open `client` first. A remote server
comes in as an address, and becomes what a process is: lines over descriptors, and an end. Open `remote` first.

- `client`: the connection to one server, and its requests.
- `message`: the messages of MCP in both of its eras.
- `arguments`: a tool's arguments as the user types them.
- `remote`: a remote server behind the interface of a process; makes the HTTP requests.
- `http`: which requests the messages for a remote server need, and what their answers mean.
- `adapter`: an agent with a handshake on a server without one.
- `transport`: the adapter for a connection of our own, as `mcp` and `doctor` have.
"""
