"""A server on the `mcp` package that uses all it has, of both eras. Run as a program, over stdio."""

from typing import Annotated, Any

import mcp_types as types
from mcp.server import MCPServer
from mcp.server.mcpserver import Audio, Context, Image
from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve, Sample
from pydantic import BaseModel, Field

URI = "test://counter"
server = MCPServer("sdk", title="All of the SDK", version="9.1", instructions="Use everything.", log_level="ERROR")
level = "debug"
subscribed: set[str] = set()


class Weather(BaseModel):
    """A forecast."""

    city: str
    degrees: float = Field(description="Celsius")
    notes: list[str] = []


class Person(BaseModel):
    name: str


async def person() -> Elicit[Person]:
    return Elicit("Who are you?", Person)


async def opinion() -> Sample:
    content = types.TextContent(type="text", text="What do you think?")
    return Sample([types.SamplingMessage(role="user", content=content)], max_tokens=20)


async def directories() -> ListRoots:
    return ListRoots()


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(title="Forecast", annotations=types.ToolAnnotations(read_only_hint=True))
def forecast(city: str) -> Weather:
    """A result with a schema."""
    return Weather(city=city, degrees=1.5, notes=["ä", "\u2028"])


@server.tool()
async def count(context: Context, steps: int) -> str:
    """Count, and tell of it."""
    for step in range(steps):
        await context.report_progress(step + 1, steps, f"step {step + 1}")
    return f"counted to {steps}"


@server.tool()
async def wait(context: Context) -> str:
    """Until it is cancelled."""
    import anyio

    await context.report_progress(0)
    await anyio.sleep_forever()
    raise AssertionError


@server.tool(structured_output=False)
def picture() -> list[Any]:
    """Blocks of every kind."""
    return [Image(data=b"12345", format="png"), Audio(data=b"54321", format="wav"), "words"]


@server.tool()
def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


@server.tool()
def greet(who: Annotated[Person, Resolve(person)]) -> str:
    """Ask the user."""
    return f"Hello {who.name}"


@server.tool()
def think(thought: Annotated[types.CreateMessageResult, Resolve(opinion)]) -> str:
    """Ask the model."""
    return f"It thinks: {getattr(thought.content, 'text', None)}"


@server.tool()
def where(roots: Annotated[types.ListRootsResult, Resolve(directories)]) -> list[str]:
    """Ask for the roots."""
    return [str(root.uri) for root in roots.roots]


@server.tool()
async def ping_back(context: Context) -> str:
    """Ping the client."""
    await context.session.send_ping()
    return "pong"


@server.tool()
async def grow(context: Context, name: str) -> str:
    """Get a new tool, and say so."""
    server.add_tool(lambda: name, name=name, description="New.")
    await context.notify_tools_changed()
    await context.session.send_tool_list_changed()
    return name


@server.tool()
async def touch(context: Context) -> str:
    """Update a resource, and say so to whoever has subscribed."""
    await context.notify_resource_updated(URI)
    if URI in subscribed:
        await context.session.send_resource_updated(URI)
    return ", ".join(sorted(subscribed))


@server.tool()
def state() -> dict[str, Any]:
    """What this process knows."""
    return {"level": level, "subscribed": sorted(subscribed)}


@server.resource(URI, title="Counter", mime_type="text/plain")
def counter() -> str:
    """A number."""
    return "1"


@server.resource("test://blob", mime_type="application/octet-stream")
def blob() -> bytes:
    """Bytes."""
    return bytes(range(256))


@server.resource("test://note/{name}")
def note(name: str) -> str:
    """Any note."""
    return f"a note called {name}"


@server.prompt(title="Review")
def review(code: str, language: str = "python") -> str:
    """Review code."""
    return f"Review this {language}: {code}"


@server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
async def complete(ref: object, argument: types.CompletionArgument, context: object) -> types.Completion:
    languages = ["python", "perl", "rust"]
    return types.Completion(values=[each for each in languages if each.startswith(argument.value)])


async def set_level(context: object, params: types.SetLevelRequestParams) -> types.EmptyResult:
    global level
    level = params.level
    return types.EmptyResult()


async def subscribe(context: object, params: types.SubscribeRequestParams) -> types.EmptyResult:
    subscribed.add(str(params.uri))
    return types.EmptyResult()


async def unsubscribe(context: object, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
    subscribed.discard(str(params.uri))
    return types.EmptyResult()


# Methods of the handshake era, for which MCPServer has no decorators.
low = server._lowlevel_server
low.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)
low.add_request_handler("resources/subscribe", types.SubscribeRequestParams, subscribe)
low.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, unsubscribe)


if __name__ == "__main__":
    server.run()
