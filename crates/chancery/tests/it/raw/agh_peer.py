"""A peer of AGH Network on NATS that shares no code with the project: the published pages, nats-py and json.

It reads one command a line (JSON) and answers each with one line:

    send     an envelope's members; what is missing of protocol, id, from, ts, to and proof is put in
    bytes    any text, to a subject, filled up with blanks to a size
    ask      a question by request and reply
    wait     for the next envelope heard whose members are these; what it skips is not heard again
"""

import asyncio
import hashlib
import json
import sys
import time
import uuid

import nats

ME = sys.argv[2]
PREFIX = "agh.network.v0"


def token(peer):
    return hashlib.sha256(peer.encode()).hexdigest()[:32]


def room(workspace, channel, one, other):
    low, high = sorted([one, other])
    text = "\0".join(["agh-network/direct-room/v0", workspace, channel, low, high])
    return "direct_" + hashlib.sha256(text.encode()).hexdigest()[:32]


def subject(envelope):
    place = [PREFIX, envelope.get("workspace_id"), envelope["channel"]]
    target = envelope.get("to")
    end = ["broadcast"] if target is None else ["peer", token(target)]
    return ".".join([part for part in place if part] + end)


def whole(members):
    envelope = {
        "protocol": "agh-network/v0",
        "id": str(uuid.uuid4()),
        "from": ME,
        "to": None,
        "ts": int(time.time()),
        "proof": None,
    }
    envelope.update(members)
    if envelope.get("direct_id") == "":
        envelope["direct_id"] = room(
            envelope["workspace_id"], envelope["channel"], envelope["from"], envelope["to"]
        )
    return envelope


def is_in(pattern, value):
    if isinstance(pattern, dict):
        return isinstance(value, dict) and all(is_in(p, value.get(k)) for k, p in pattern.items())
    return pattern == value


async def main():
    client = await nats.connect(
        sys.argv[1],
        max_reconnect_attempts=-1,
        reconnect_time_wait=0.1,
        allow_reconnect=True,
        error_cb=quiet,
    )
    heard = asyncio.Queue()

    async def hear(message):
        try:
            envelope = json.loads(message.data)
        except ValueError:
            return
        if envelope.get("from") != ME:
            await heard.put({"subject": message.subject, "envelope": envelope})

    await client.subscribe(PREFIX + ".>", cb=hear)
    await client.flush()
    tell({"ready": True})
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command = json.loads(line)
        tell(await obey(client, heard, command))


async def obey(client, heard, command):
    match command["do"]:
        case "send":
            envelope = whole(command["envelope"])
            await client.publish(subject(envelope), json.dumps(envelope).encode())
            await client.flush()
            return envelope
        case "bytes":
            text = command["text"].ljust(command.get("size", 0))
            await client.publish(command["subject"], text.encode())
            await client.flush()
            return {}
        case "ask":
            envelope = whole(command["envelope"])
            reply = await client.request(subject(envelope), json.dumps(envelope).encode(), timeout=30)
            return json.loads(reply.data)
        case "wait":
            while True:
                message = await asyncio.wait_for(heard.get(), 60)
                if is_in(command["for"], message["envelope"]):
                    return message


async def quiet(_):
    pass


def tell(value):
    print(json.dumps(value), flush=True)


asyncio.run(main())
