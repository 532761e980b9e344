"""Towards the MCP servers: we are the client."""
