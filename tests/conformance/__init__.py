"""The published conformance suite of MCP against our front, our HTTP client and the shim."""
