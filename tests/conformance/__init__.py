"""The published conformance suite of MCP against our HTTP server, our HTTP client and the shim."""
