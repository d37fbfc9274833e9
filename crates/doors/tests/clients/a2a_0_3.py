"""The official A2A client of the 0.3 series: card, signed send, stream, a typed error for an unsigned message."""

import asyncio
import sys
import uuid

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientHTTPError, A2AClientJSONRPCError
from a2a.types import Message, Part, Role, TextPart
from vacant_sign import KEY, Caller


def message(text, envelope=None):
    made = Message(
        role=Role.user, parts=[Part(root=TextPart(text=text))], message_id=str(uuid.uuid4())
    )
    if envelope:
        made.metadata = {KEY: envelope(text, made.message_id)}
    return made


async def main(base):
    async with httpx.AsyncClient(timeout=30) as http:
        card = await A2ACardResolver(http, base).get_agent_card()
        extensions = {extension.uri: extension for extension in card.capabilities.extensions}
        caller = Caller(extensions[KEY + ":capability"].params["vacant_id"])
        for streaming in (False, True):
            client = ClientFactory(ClientConfig(httpx_client=http, streaming=streaming)).create(card)
            told = [event async for event in client.send_message(message("hi", caller.envelope))]
            assert len(told) == 1, told
            answer = told[0]
            texts = [part.root.text for part in answer.parts]
            assert texts == ["echo: hi"] and answer.role == Role.agent, answer
            caller.verify(
                answer.metadata[KEY], "ROLE_AGENT", texts, answer.context_id, answer.message_id
            )
            try:
                [event async for event in client.send_message(message("unsigned"))]
                raise SystemExit("an unsigned message was taken")
            except A2AClientJSONRPCError as refused:
                assert refused.error.code == -32008, refused
            except A2AClientHTTPError:
                # This client looks for an event stream before it looks for an error (VA-A2A-8 asks for a plain body).
                assert streaming
            print(f"a2a-sdk 0.3.x streaming={streaming}: verified number {caller.heard}")


asyncio.run(main(sys.argv[1]))
