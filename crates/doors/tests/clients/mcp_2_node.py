"""The official MCP client of the 2.x series with a node's own tools, over stdio."""

import asyncio
import sys

from mcp import Client, StdioServerParameters
from node_tools import use


async def main(target):
    server = StdioServerParameters(command=target[0], args=target[1:])
    async with Client(server) as client:
        await use(client, lambda r: r.structured_content, lambda r: r.is_error, "mcp 2.x")


asyncio.run(main(sys.argv[1:]))
