"""The official MCP client of the 2.x series, over HTTP or over stdio."""

import asyncio
import sys

from mcp import Client, StdioServerParameters
from vacant_tools import use


async def main(target):
    if target[0].startswith("http"):
        server = target[0]
    else:
        server = StdioServerParameters(command=target[0], args=target[1:])
    async with Client(server) as client:
        await use(client, lambda r: r.structured_content, lambda r: r.is_error, "mcp 2.x")


asyncio.run(main(sys.argv[1:]))
