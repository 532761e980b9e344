"""
The translation between an agent of one era of MCP and a server of the other. Sans-IO.

Lines of either side come in, and lines for either side go out. Open `adapter` first.

- `adapter`: finds out whether the eras differ; one for each process of a server.
- `legacyagent`: an agent with a handshake on a server without one.
- `modernagent`: the other way round; `envelope`, `calls` and `listeners` are its parts.
- `transport`: the adapter for a connection of our own, as `mcp` and `doctor` have.
"""
