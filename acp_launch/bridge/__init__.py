"""
The bridge between the agent and the MCP servers of a launch: the agent talks to shims, acp-launch to the servers.

Plans of servers come in; entries for the agent's `mcpServers` and events for an observer come out. Open `servers` first
for the processes, or `exchange` for the protocol.

- `offer`: the `mcpServers` that the agent gets.
- `shim`, `copying`: the program that the agent starts in place of a server, and its copy loop.
- `seat`: the socket that shims connect to.
- `half`, `elsewhere`: the program that starts an agent in a container or on another machine, and what it is told.
- `http`: the same servers over HTTP, for agents that take only that.
- `servers`: the servers of a launch, with a relay for each conversation.
- `relay`: one conversation at work: the agent's link and the exchange.
- `process`: the server's processes in a conversation, one after another, with their link.
- `multiplexer`: the agent's connections to a shared server, in one conversation with it.
- `exchange`: the protocol of one conversation. Sans-IO, like the modules below.
- `conversation`: the state of an exchange, its ports, and its restoration after a restart.
- `elevation`: sessions that outlive the agent's connection, or ours to a server that has such sessions.
- `ledger`: open requests, ids and queued messages, and the health of a silent server.
- `cached`: the answers of a lazy server while it is asleep.
- `toolpolicy`: the tools that the agent may see and call.
"""
