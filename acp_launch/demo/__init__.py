"""The demo programs: a scripted ACP agent and a small MCP server, both real and both without a model.

ACP lines come in on the agent's stdin and go out on its stdout; nothing else in acp_launch imports this package, and
it uses the standard library only. Open `agent` first; a prompt goes from there through `session` and `turn` to
`replies`.

agent      the agent's methods and its main loop
login      its optional login
session    open sessions and their journals on disk
turn       one prompt turn; offered capabilities and session options
replies    the table of replies, chosen by the first word of a prompt
talk, asking, files, tools   the replies; `tools` also has a tool call with its permission question
toolbox    the session's MCP servers over stdio
remote     its MCP servers over HTTP and SSE
params     validation of the client's parameters
wire       JSON-RPC over pipes
home       the directory of the demo programs
server     the MCP server
web        the same over HTTP
"""
