"""MCP servers over HTTP as children of a test: tempers by argument, and a proxy that breaks connections."""
