"""What both official MCP clients do with a vacant's tools."""

from vacant_sign import KEY, Caller


def body(caller, text):
    message = {
        "role": "ROLE_USER", "parts": [{"type": "text", "text": text}],
        "contextId": None, "messageId": None, "metadata": {KEY: caller.envelope(text)},
    }
    return {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": message}}


async def use(client, structured, is_error, name):
    """Lists the tools, calls both; `structured` and `is_error` read a result of this client."""
    tools = [tool.name for tool in (await client.list_tools()).tools]
    assert tools == ["vacant_call", "vacant_describe"], tools
    told = structured(await client.call_tool("vacant_describe", {}))
    caller = Caller(told["vacant_id"])
    for text in ("one", "two"):
        result = await client.call_tool("vacant_call", {"envelope": body(caller, text)})
        assert not is_error(result), result
        answer = structured(result)["message"]
        texts = [part["text"] for part in answer["parts"]]
        assert texts == ["echo: " + text], texts
        caller.verify(
            answer["metadata"][KEY], answer["role"], texts, answer["contextId"], answer["messageId"]
        )
    unsigned = body(caller, "unsigned")
    unsigned["params"]["message"]["metadata"] = {}
    refused = await client.call_tool("vacant_call", {"envelope": unsigned})
    assert is_error(refused) and structured(refused)["code"] == "ENVELOPE_FORMAT", refused
    print(f"{name}: verified number {caller.heard}, unsigned refused")
