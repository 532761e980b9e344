"""MCP over HTTP, of both eras, and HTTP+SSE: sans-IO but for `clients`. Open `connection` first."""
