"""The protocols, sans-IO: nothing here waits, reads a clock or knows a process.

Lines of bytes come in. Events, typed values and lines to send go out. Open `conversation` first: it is the state of
an ACP connection, and uses the others.

conversation   an ACP conversation from the client's side: what may be sent, what was received
acp            ACP values: capabilities, login methods, updates, offers, names
jsonrpc        JSON-RPC messages, lines, ids, the pairing of requests with answers, reports of failures; also for MCP
splice         JSON as text: positions, edits of a message that keep the rest, invisible characters as escapes
window         the events that a reader may have missed, within bounds
"""
