"""A server on the `mcp` package: an oracle for what we say as a client."""

from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Image

server = MCPServer("sdk", version="9.1", instructions="Made with the SDK.")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def count(context: Context, steps: int) -> str:
    """Count, and tell of it."""
    for step in range(steps):
        await context.report_progress(step + 1, steps, f"step {step + 1}")
    return f"counted to {steps}"


@server.tool()
def picture() -> Image:
    """A picture."""
    return Image(data=b"12345", format="png")


@server.tool()
def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


@server.resource("file:///notes")
def notes() -> str:
    """Notes."""
    return "none"


@server.prompt()
def review() -> str:
    """Review."""
    return "Review it."


if __name__ == "__main__":
    server.run()
