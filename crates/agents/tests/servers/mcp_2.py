"""A server of the official MCP library of the 2.x series, over HTTP: says its port, then serves."""

import socket

import uvicorn
from answers import answer
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("answers")


@server.tool(name="infer")
async def infer(system_prompt: str, user_prompt: str, tools: list[str], metadata: dict, ctx: Context) -> str:
    revision = ctx.request_context.protocol_version
    return await answer(revision, system_prompt, user_prompt, tools, metadata)


listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen(64)
print(listener.getsockname()[1], flush=True)
config = uvicorn.Config(server.streamable_http_app(), log_level="error")
uvicorn.Server(config).run(sockets=[listener])
