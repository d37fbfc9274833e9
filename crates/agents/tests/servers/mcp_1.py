"""A server of the official MCP library of the 1.x series, over stdio."""

from answers import answer
from mcp.server.fastmcp import Context, FastMCP

server = FastMCP("answers")


@server.tool(name="infer")
async def infer(system_prompt: str, user_prompt: str, tools: list[str], metadata: dict, ctx: Context) -> str:
    revision = ctx.session.client_params.protocolVersion
    return await answer(revision, system_prompt, user_prompt, tools, metadata)


server.run()
