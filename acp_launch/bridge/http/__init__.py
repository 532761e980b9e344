"""
The servers of a launch at addresses on 127.0.0.1, for agents that take MCP servers only over HTTP.

Requests of the agent come in; each becomes lines of a conversation with a relay. Open `server` first.

- `server`: the connections, with h11.
- `gate`: which requests are admitted.
- `session`: the streams of one session. Sans-IO.
"""
