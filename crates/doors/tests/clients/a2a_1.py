"""The official A2A client of the 1.x series: card, signed send, stream, a typed error for an unsigned message."""

import asyncio
import sys
import uuid

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as a2a
from a2a.utils.errors import ExtensionSupportRequiredError
from google.protobuf.json_format import MessageToDict
from vacant_sign import KEY, Caller


def message(text, envelope=None):
    made = a2a.Message(role=a2a.ROLE_USER, parts=[a2a.Part(text=text)], message_id=str(uuid.uuid4()))
    if envelope:
        made.metadata.update({KEY: envelope(text, made.message_id)})
    return a2a.SendMessageRequest(message=made)


async def main(base):
    async with httpx.AsyncClient(timeout=30) as http:
        card = await A2ACardResolver(http, base).get_agent_card()
        extensions = {extension.uri: extension for extension in card.capabilities.extensions}
        assert extensions[KEY].required
        caller = Caller(extensions[KEY + ":capability"].params["vacant_id"])
        for binding in ("JSONRPC", "HTTP+JSON"):
            for streaming in (False, True):
                config = ClientConfig(
                    httpx_client=http, streaming=streaming,
                    supported_protocol_bindings=[binding], use_client_preference=True,
                )
                client = ClientFactory(config).create(card)
                told = [event async for event in client.send_message(message("hi", caller.envelope))]
                assert len(told) == 1, told
                answer = told[0].message
                meta = MessageToDict(answer.metadata)[KEY]
                texts = [part.text for part in answer.parts]
                assert texts == ["echo: hi"], texts
                caller.verify(meta, "ROLE_AGENT", texts, answer.context_id, answer.message_id)
                try:
                    [event async for event in client.send_message(message("unsigned"))]
                    raise SystemExit("an unsigned message was taken")
                except ExtensionSupportRequiredError:
                    pass
                print(f"a2a-sdk 1.x {binding} streaming={streaming}: verified number {caller.heard}")


asyncio.run(main(sys.argv[1]))
