"""The demo agent and the demo MCP server, as processes."""
