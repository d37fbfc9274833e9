"""The official MCP client of the 1.x series with a node's own tools, over HTTP with a token or over stdio."""

import asyncio
import os
import sys

import httpx
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from node_tools import use


async def main(target):
    if target[0].startswith("http"):
        headers = {"authorization": "Bearer " + os.environ["NODE_TOKEN"]}
        transport = streamable_http_client(target[0], http_client=httpx.AsyncClient(headers=headers))
    else:
        transport = stdio_client(StdioServerParameters(command=target[0], args=target[1:]))
    async with transport as streams:
        async with ClientSession(streams[0], streams[1]) as session:
            opened = await session.initialize()
            name = f"mcp 1.x, {opened.protocolVersion}"
            await use(session, lambda r: r.structuredContent, lambda r: r.isError, name)


asyncio.run(main(sys.argv[1:]))
