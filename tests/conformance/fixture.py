"""
A server on the `mcp` package with all that the published conformance suite asks of one with a handshake. As a program:

    python -m tests.conformance.fixture PATH

It listens on a port of 127.0.0.1, which is the first line on stdout, and on the Unix socket PATH, where each connection
is the stdin and stdout of a server of its own: tests/servers/connector.py is the program in front of it. It ends with
its stdin.
"""

import asyncio
import json
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.shared.exceptions import MCPError

Context = ServerRequestContext[Any, Any]
Called = types.CallToolResult
Tool = Callable[[Context, types.CallToolRequestParams], Awaitable[Called | str]]
Json = dict[str, Any]

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
NOTHING: Json = {"type": "object", "properties": {}}
PAUSE = 0.05  # seconds between what a slow tool says
tools: dict[str, Tool] = {}
schemas: dict[str, Json] = {}


def tool(**schema: Any) -> Callable[[Tool], Tool]:
    def add(act: Tool) -> Tool:
        name = act.__name__
        tools[name], schemas[name] = act, schema or NOTHING
        return act

    return add


def texts(*parts: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=part) for part in parts])


def contents(*parts: types.ContentBlock) -> types.CallToolResult:
    return types.CallToolResult(content=list(parts))


def embedded(uri: str, kind: str, text: str) -> types.EmbeddedResource:
    inner = types.TextResourceContents(uri=uri, mime_type=kind, text=text)
    return types.EmbeddedResource(type="resource", resource=inner)


IMAGE = types.ImageContent(type="image", data=PNG, mime_type="image/png")

# -- plain tools


@tool()
async def test_simple_text(context: Context, params: types.CallToolRequestParams) -> str:
    return "This is a simple text response for testing."


@tool()
async def test_image_content(context: Context, params: types.CallToolRequestParams) -> Called:
    return contents(IMAGE)


@tool()
async def test_audio_content(context: Context, params: types.CallToolRequestParams) -> Called:
    return contents(types.AudioContent(type="audio", data=WAV, mime_type="audio/wav"))


@tool()
async def test_embedded_resource(context: Context, params: types.CallToolRequestParams) -> Called:
    return contents(embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."))


@tool()
async def test_multiple_content_types(context: Context, params: types.CallToolRequestParams) -> Called:
    resource = embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return contents(types.TextContent(type="text", text="Multiple content types test:"), IMAGE, resource)


@tool()
async def test_error_handling(context: Context, params: types.CallToolRequestParams) -> Called:
    result = texts("This tool intentionally returns an error for testing")
    return result.model_copy(update={"is_error": True})


@tool()
async def test_tool_with_logging(context: Context, params: types.CallToolRequestParams) -> str:
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await log(context, text)
        await asyncio.sleep(PAUSE)
    return "logged"


@tool()
async def test_logging_tool(context: Context, params: types.CallToolRequestParams) -> str:
    await log(context, "only for those who asked")
    return "logged"


@tool()
async def test_tool_with_progress(context: Context, params: types.CallToolRequestParams) -> str:
    for done in (0, 50, 100):
        await context.session.report_progress(done, 100, f"Completed step {done} of 100")
        await asyncio.sleep(PAUSE)
    return str((context.meta or {}).get("progressToken"))


@tool()
async def test_reconnection(context: Context, params: types.CallToolRequestParams) -> str:
    """Ends its stream, if there is one to end, and says the rest to the client that resumes it."""
    await log(context, "Before disconnect")
    if context.close_sse_stream is not None:
        await context.close_sse_stream()
        await asyncio.sleep(4 * PAUSE)
    await log(context, "After reconnect")
    return "Reconnection test completed"


ADDRESS = {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}}}
schemas["json_schema_2020_12_tool"] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": ADDRESS},
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
tools["json_schema_2020_12_tool"] = test_simple_text

# -- tools that ask the client


def form(properties: Json, required: list[str] | None = None) -> Json:
    schema: Json = {"type": "object", "properties": properties}
    return schema if required is None else {**schema, "required": required}


async def answered(context: Context, message: str, schema: Json) -> str:
    result = await context.session.elicit_form(message, schema, context.request_id)
    return f"action={result.action}, content={json.dumps(result.content)}"


@tool(type="object", properties={"prompt": {"type": "string"}}, required=["prompt"])
async def test_sampling(context: Context, params: types.CallToolRequestParams) -> str:
    content = types.TextContent(type="text", text=str((params.arguments or {})["prompt"]))
    said = [types.SamplingMessage(role="user", content=content)]
    result = await context.session.create_message(said, max_tokens=100, related_request_id=context.request_id)
    return f"LLM response: {getattr(result.content, 'text', None)}"


@tool(type="object", properties={"message": {"type": "string"}}, required=["message"])
async def test_elicitation(context: Context, params: types.CallToolRequestParams) -> str:
    text = {"type": "string", "description": "User's response"}
    schema = form({"username": text, "email": text}, ["username", "email"])
    return f"User response: {await answered(context, str((params.arguments or {})['message']), schema)}"


@tool()
async def test_elicitation_sep1034_defaults(context: Context, params: types.CallToolRequestParams) -> str:
    schema = form(
        {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": True},
        }
    )
    return f"Elicitation completed: {await answered(context, 'Who are you?', schema)}"


@tool()
async def test_elicitation_sep1330_enums(context: Context, params: types.CallToolRequestParams) -> str:
    plain, titled = ["option1", "option2"], [{"const": "value1", "title": "One"}, {"const": "value2", "title": "Two"}]
    schema = form(
        {
            "untitledSingle": {"type": "string", "enum": plain},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {"type": "string", "enum": plain, "enumNames": ["One", "Two"]},
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled}},
        }
    )
    return f"Elicitation completed: {await answered(context, 'Choose', schema)}"


async def log(context: Context, text: str) -> None:
    await context.session.send_log_message("info", text, related_request_id=context.request_id)


# -- the server


async def list_tools(context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    listed = [types.Tool(name=name, description=f"The tool {name}.", input_schema=schemas[name]) for name in tools]
    return types.ListToolsResult(tools=listed, ttl_ms=0, cache_scope="private")


async def call_tool(context: Context, params: types.CallToolRequestParams) -> Called:
    if params.name not in tools:
        raise MCPError(types.INVALID_PARAMS, f"no tool {params.name}")
    result = await tools[params.name](context, params)
    return texts(result) if isinstance(result, str) else result


RESOURCES = {"test://static-text": "text/plain", "test://static-binary": "image/png"}
WATCHED = "test://watched-resource"


async def list_resources(context: Context, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
    kinds = {**RESOURCES, WATCHED: "text/plain"}
    listed = [types.Resource(uri=uri, name=uri[7:], description=uri, mime_type=kinds[uri]) for uri in kinds]
    return types.ListResourcesResult(resources=listed, ttl_ms=0, cache_scope="private")


async def list_templates(
    context: Context, params: types.PaginatedRequestParams | None
) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(uri_template="test://template/{id}/data", name="template", description="By id.")
    return types.ListResourceTemplatesResult(resource_templates=[template], ttl_ms=0, cache_scope="private")


async def read_resource(context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = str(params.uri)
    content: types.TextResourceContents | types.BlobResourceContents
    if uri == "test://static-binary":
        content = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
    elif uri in ("test://static-text", WATCHED):
        text = "This is the content of the static text resource."
        content = types.TextResourceContents(uri=uri, mime_type="text/plain", text=text)
    elif uri.startswith("test://template/") and uri.endswith("/data"):
        id = uri.split("/")[3]
        text = json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})
        content = types.TextResourceContents(uri=uri, mime_type="application/json", text=text)
    else:
        raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})
    return types.ReadResourceResult(contents=[content], ttl_ms=0, cache_scope="private")


def said(*parts: types.ContentBlock | str) -> types.GetPromptResult:
    blocks = [types.TextContent(type="text", text=part) if isinstance(part, str) else part for part in parts]
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=block) for block in blocks])


PROMPTS = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
}


async def list_prompts(context: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
    listed = [
        types.Prompt(
            name=name,
            description=f"The prompt {name}.",
            arguments=[types.PromptArgument(name=each, description=each, required=True) for each in arguments],
        )
        for name, arguments in PROMPTS.items()
    ]
    return types.ListPromptsResult(prompts=listed, ttl_ms=0, cache_scope="private")


async def get_prompt(context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    given = params.arguments or {}
    match params.name:
        case "test_simple_prompt":
            return said("This is a simple prompt for testing.")
        case "test_prompt_with_arguments":
            return said(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")
        case "test_prompt_with_embedded_resource":
            resource = embedded(given["resourceUri"], "text/plain", "Embedded resource content for testing.")
            return said(resource, "Please process the embedded resource above.")
        case "test_prompt_with_image":
            return said(IMAGE, "Please analyze the image above.")
    raise MCPError(types.INVALID_PARAMS, f"no prompt {params.name}")


async def complete(context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    values = [each for each in ("paris", "park", "party") if each.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=values, total=len(values), has_more=False))


async def nothing(context: Context, params: object) -> types.EmptyResult:
    return types.EmptyResult()


def made() -> "Server[Any]":
    server: Server[Any] = Server(
        "conformance",
        version="1.0.0",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=nothing,
        on_unsubscribe_resource=nothing,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
        get_tool_input_schema=schemas.get,
    )
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, nothing)
    return server


class Events(EventStore):
    """All there ever were, for streams that are resumed."""

    def __init__(self) -> None:
        self._events: list[tuple[str, types.JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: types.JSONRPCMessage | None) -> str:
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        begin = int(last_event_id)
        stream = self._events[begin - 1][0]
        for number, (each, message) in enumerate(self._events[begin:], begin + 1):
            if each == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


async def connected(server: "Server[Any]", line: socket.socket) -> None:
    """Speak as over stdio."""
    with line, line.makefile("r", encoding="utf-8", newline="\n") as reading, line.makefile("w") as writing:
        async with stdio_server(anyio.wrap_file(reading), anyio.wrap_file(writing)) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())


async def listen(server: "Server[Any]", path: str, tasks: asyncio.TaskGroup) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        listener.setblocking(False)
        while True:
            line, _ = await asyncio.get_running_loop().sock_accept(listener)
            line.setblocking(True)  # threads read and write it
            tasks.create_task(connected(server, line))


async def main(path: str) -> None:
    server = made()
    app = server.streamable_http_app(event_store=Events(), retry_interval=100)
    plug = socket.create_server(("127.0.0.1", 0))
    site = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(listen(server, path, tasks))
        tasks.create_task(site.serve(sockets=[plug]))
        print(plug.getsockname()[1], flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        os._exit(0)  # whatever its clients still hold open


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
