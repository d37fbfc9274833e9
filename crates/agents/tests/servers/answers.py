"""What the tools of both servers answer, by the last line of what they are asked."""

import asyncio
import json
import os


async def answer(revision, system_prompt, user_prompt, tools, metadata):
    inbound = json.loads(user_prompt.split("## inbound\n")[1].split("\n\n")[0])
    asked = inbound.get("text") or inbound["action"]["payload"].get("inquiry", "")
    if asked == "hang":
        await asyncio.sleep(3600)
    if asked == "die":
        os._exit(1)
    if asked == "flood":
        return "x" * 2_000_000
    if asked == "fail":
        raise ValueError("no such luck")
    if "action" in inbound and not asked:
        return json.dumps({"decision": "no_reply", "reason": "there is no question"})
    if "action" in inbound:
        action = {"kind": "commerce.respond_inquiry", "payload": {"answer": f"{revision}: {asked}"}}
        decision = {"decision": "emit_envelope", "to": inbound["from"], "in_reply_to": inbound["msg_id"]}
        return json.dumps({**decision, "idempotency_key": None, "action": action})
    return f"{revision}: {asked} ({metadata['agent']}, {len(tools)} tools, {os.getpid()})"
