"""
An agent for the client scenarios of the suite: `python -m tests.conformance.client URL`.

The server at this address is one of a launch of ours; the agent is the SDK's client, and reaches it by a shim over
stdio. `MCP_CONFORMANCE_SCENARIO` says what to do there; with `AGENT=legacy` the agent begins with a handshake whatever
the server's era.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from pydantic import ValidationError

from acp_launch.bridge import shim
from acp_launch.bridge.offer import ShimCommand, entries
from acp_launch.bridge.servers import ServerNeeds, running
from tests.bridge.observing import Complaining
from tests.cli.launcher import ROOT
from tests.realservers.host import plan

Json = dict[str, Any]
MODERN = "2026-07-28"
LEGACY = {"initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"}


@asynccontextmanager
async def through_a_shim(url: str) -> AsyncIterator[StdioServerParameters]:
    """The entry that an agent is given for the server at this address."""
    needs = ServerNeeds(secrets={}, directories=[ROOT], max_line=1 << 26, hurry=asyncio.Event())
    plans = [plan("server", {"url": url, "env": {}, "cwd": str(ROOT)})]
    async with running(plans, needs, Complaining()) as ours:
        way = ShimCommand(Path(sys.executable), Path(shim.__file__), ours.listener.path, ours.listener.token)
        (entry,) = entries(plans, {}, way)
        env = {pair["name"]: pair["value"] for pair in entry["env"]}
        yield StdioServerParameters(command=entry["command"], args=entry["args"], env=env)


def defaults(schema: Mapping[str, Any]) -> Json:
    return {name: each["default"] for name, each in schema.get("properties", {}).items() if "default" in each}


async def agreed(context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
    """The user takes what is proposed, and fills in the rest."""
    schema = dict(getattr(params, "requested_schema", {}))
    blanks: Json = {"string": "text", "boolean": True, "integer": 1, "number": 1.5}
    given = {name: blanks.get(each.get("type", "string")) for name, each in schema.get("properties", {}).items()}
    return types.ElicitResult(action="accept", content={**given, **defaults(schema)})


async def only_list(client: Client) -> None:
    await client.list_tools()


async def list_and_call(client: Client) -> None:
    """Call each tool, with what its schema wants."""
    kinds: Json = {"string": "text", "number": 2, "integer": 2, "boolean": True}
    for tool in (await client.list_tools()).tools:
        wanted = tool.input_schema.get("properties", {})
        arguments = {name: kinds.get(each.get("type"), 2) for name, each in wanted.items()}
        # The published client takes no result without its type from a modern server, though the specification says
        # what it means; here only the call counts.
        with suppress(ValidationError) if tool.name == "test_mrtr_no_result_type" else nullcontext():
            await client.call_tool(tool.name, arguments)


async def use_everything(client: Client) -> None:
    await list_and_call(client)
    for resource in (await client.list_resources()).resources:
        await client.read_resource(str(resource.uri))
    for prompt in (await client.list_prompts()).prompts:
        await client.get_prompt(prompt.name, {each.name: "text" for each in prompt.arguments or []})


async def echo_schema(client: Client) -> None:
    schemas = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
    await client.call_tool("json_schema_echo", {"schema": schemas["json_schema_2020_12_tool"]})


DOINGS: Mapping[str, Callable[[Client], Awaitable[None]]] = {
    "initialize": only_list,
    "request-metadata": only_list,
    "json-schema-ref-no-deref": only_list,
    "http-standard-headers": use_everything,
    "json-schema-2020-12-preservation": echo_schema,
}


async def sampled(context: object, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    content = types.TextContent(type="text", text="yes")
    return types.CreateMessageResult(role="assistant", content=content, model="none")


async def rooted(context: object) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[])


async def main(url: str, scenario: str) -> None:
    version = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2025-11-25" if scenario in LEGACY else MODERN)
    mode = os.environ.get("AGENT") or ("auto" if version == MODERN else "legacy")
    async with through_a_shim(url) as entry:
        able: Json = {
            "elicitation_callback": agreed,
            "sampling_callback": sampled,
            "list_roots_callback": rooted,
        }
        async with Client(entry, mode=mode, **able) as client:
            await DOINGS.get(scenario, list_and_call)(client)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1], os.environ["MCP_CONFORMANCE_SCENARIO"]))
