"""The demo programs: a scripted ACP agent and a small MCP server, both real and both without a model.

Nothing else in acp_launch imports this package, and it uses the standard library only. Open `agent` first; a prompt
goes from there through `session` to `replies`.

agent             the agent's methods, its optional login and its main loop
session           open sessions, their options and their turns
store             what the demo programs keep on disk
replies           the table of replies, chosen by the first word of a prompt
tools, files      replies that call MCP tools, or use the client's files, terminals and forms
servers           the session's MCP servers
wire              JSON-RPC over pipes
server, web       the MCP server, over stdio and over HTTP
"""
