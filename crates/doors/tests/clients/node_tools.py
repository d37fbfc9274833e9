"""What both official MCP clients do with a node's own tools: send, read, explain, verify."""

import json

SENDER = "agent://home.local/living-room"
OTHER = "agent://home.local/kitchen"


def share(sender):
    payload = {"context": "📍🏡", "constitution_ref": "creed://creed.space/family.safe.guide@1.2.0"}
    return {"sender": sender, "recipient": OTHER, "type": "context_share", "payload": payload}


async def use(client, structured, is_error, name):
    """The token reads the log and speaks as SENDER; `structured` and `is_error` read a result of this client."""
    tools = [tool.name for tool in (await client.list_tools()).tools]
    logs = ["log_tail", "log_explain", "log_verify"]
    assert tools == [*logs, "send_value_context", "send_vacant", "send_agh"], tools
    key = {"idempotency_key": name}
    sent = await client.call_tool("send_value_context", {**share(SENDER), **key})
    assert not is_error(sent), sent
    message_id = structured(sent)["answer"]["message_id"]
    again = structured(await client.call_tool("send_value_context", {**share(SENDER), **key}))
    assert again["answer"]["message_id"] == message_id, again
    refused = await client.call_tool("send_value_context", share(OTHER))
    assert is_error(refused) and structured(refused)["status"] == 403, refused
    told = structured(await client.call_tool("log_tail", {"limit": 1, "protocol": "value-context"}))
    line = json.loads(told["lines"][0])
    assert line["envelope"]["message_id"] == message_id, line
    told = structured(await client.call_tool("log_explain", {"id": message_id}))
    assert told["accepted"][0]["seq"] == line["meta"]["seq"], told
    assert is_error(await client.call_tool("log_explain", {"id": "nothing"}))
    told = structured(await client.call_tool("log_verify", {}))
    assert told["passed"] and told["findings"] == [], told
    print(f"{name}: sent {message_id}, {told['lines']} lines verified")
