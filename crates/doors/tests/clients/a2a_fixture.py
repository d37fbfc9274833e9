"""One exchange for each prefix of the A2A test kit and each binding, read with the types of a2a-sdk 1.x."""

import asyncio
import sys
import uuid

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as a2a
from google.protobuf.json_format import Parse
from a2a.utils.errors import (
    ContentTypeNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

DONE = a2a.TASK_STATE_COMPLETED


def request(prefix, immediately=False, **members):
    message = a2a.Message(
        role=a2a.ROLE_USER, parts=[a2a.Part(text="hi")], message_id=f"{prefix}-{uuid.uuid4().hex}", **members
    )
    configuration = a2a.SendMessageConfiguration(return_immediately=immediately)
    return a2a.SendMessageRequest(message=message, configuration=configuration)


async def send(client, asked):
    return [event async for event in client.send_message(asked)]


async def refused(error, work):
    try:
        await work
    except error:
        return
    raise SystemExit(f"{error.__name__} was not raised")


async def plain(client):
    """Blocking sends."""
    kinds = {"text": "text", "file": "raw", "file-url": "url", "data": "data"}
    for kind, content in kinds.items():
        (told,) = await send(client, request(f"tck-artifact-{kind}"))
        assert told.task.status.state == DONE, told
        assert told.task.artifacts[0].parts[0].WhichOneof("content") == content, told
    (told,) = await send(client, request("tck-complete-task"))
    assert told.task.status.state == DONE and told.task.status.message.parts[0].text
    (told,) = await send(client, request("tck-message-response"))
    assert told.message.role == a2a.ROLE_AGENT and told.message.context_id
    (told,) = await send(client, request("tck-reject-task"))
    assert told.task.status.state == a2a.TASK_STATE_REJECTED
    (told,) = await send(client, request("tck-input-required"))
    task = told.task
    assert task.status.state == a2a.TASK_STATE_INPUT_REQUIRED
    (told,) = await send(client, request("tck-complete-task", task_id=task.id))
    assert told.task.id == task.id and told.task.context_id == task.context_id
    assert told.task.status.state == DONE and len(told.task.history) >= 2
    await refused(UnsupportedOperationError, send(client, request("tck-complete-task", task_id=task.id)))
    await refused(TaskNotCancelableError, client.cancel_task(a2a.CancelTaskRequest(id=task.id)))
    await refused(TaskNotFoundError, client.get_task(a2a.GetTaskRequest(id="none")))
    foreign = request("tck-complete-task")
    foreign.message.parts[0].CopyFrom(a2a.Part(raw=b"x", media_type="application/x-unsupported"))
    await refused(ContentTypeNotSupportedError, send(client, foreign))


async def tasks(client):
    """Tasks by their id, lists of them, and who is to be notified."""
    (told,) = await send(client, request("test-resubscribe-message-id", immediately=True))
    task = told.task
    assert task.status.state != DONE
    canceled = await client.cancel_task(a2a.CancelTaskRequest(id=task.id))
    assert canceled.status.state == a2a.TASK_STATE_CANCELED
    got = await client.get_task(a2a.GetTaskRequest(id=task.id, history_length=0))
    assert got.id == task.id and not got.history
    listed = await client.list_tasks(a2a.ListTasksRequest(context_id=task.context_id))
    assert [found.id for found in listed.tasks] == [task.id] and listed.next_page_token == ""
    page = await client.list_tasks(a2a.ListTasksRequest(page_size=1))
    assert len(page.tasks) == 1 and page.next_page_token and not page.tasks[0].artifacts
    config = a2a.TaskPushNotificationConfig(task_id=task.id, id="c-1", url="https://example.com/hook")
    made = await client.create_task_push_notification_config(config)
    assert made.url == config.url
    get = a2a.GetTaskPushNotificationConfigRequest(task_id=task.id, id="c-1")
    assert (await client.get_task_push_notification_config(get)).url == config.url
    every = a2a.ListTaskPushNotificationConfigsRequest(task_id=task.id)
    assert len((await client.list_task_push_notification_configs(every)).configs) == 1
    gone = a2a.DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="c-1")
    await client.delete_task_push_notification_config(gone)
    assert not (await client.list_task_push_notification_configs(every)).configs


async def pushes(client):
    """Whoever is named in the request hears all that happens to its task, with the token it gave."""
    heard, ended = [], asyncio.Event()

    async def hear(reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = next(line.split(":")[1] for line in head.split("\r\n") if line.startswith("content-length"))
        told = Parse(await reader.readexactly(int(length)), a2a.StreamResponse())
        heard.append(told)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()
        assert "x-a2a-notification-token: t-1\r\n" in head and "authorization: bearer c-1\r\n" in head, head
        if told.status_update.status.state == DONE:
            ended.set()

    server = await asyncio.start_server(hear, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    asked = request("tck-artifact-text")
    push = asked.configuration.task_push_notification_config
    push.url, push.token = f"http://127.0.0.1:{port}/hook", "t-1"
    push.authentication.scheme, push.authentication.credentials = "Bearer", "c-1"
    (told,) = await send(client, asked)
    await asyncio.wait_for(ended.wait(), 20)
    kinds = [event.WhichOneof("payload") for event in heard]
    assert kinds == ["artifact_update", "status_update"], kinds
    assert {event.artifact_update.task_id or event.status_update.task_id for event in heard} == {told.task.id}
    server.close()


async def streams(client):
    """Streams: a task, what happens to it, its end."""
    for prefix in ("tck-stream-001", "tck-stream-003", "tck-stream-ordering-001",
                   "tck-stream-artifact-text", "tck-stream-artifact-file", "tck-stream-artifact-chunked"):
        told = await send(client, request(prefix))
        kinds = [event.WhichOneof("payload") for event in told]
        assert kinds[0] == "task" and "artifact_update" in kinds and kinds[-1] == "status_update", kinds
        assert told[-1].status_update.status.state == DONE
    (told,) = await send(client, request("tck-stream-002"))
    assert told.WhichOneof("payload") == "message"
    following = client.send_message(request("test-resubscribe-message-id"))
    first = await anext(following)
    again = [e async for e in client.subscribe(a2a.SubscribeToTaskRequest(id=first.task.id))]
    assert again[0].WhichOneof("payload") == "task"
    assert again[-1].status_update.status.state == DONE
    rest = [event async for event in following]
    assert rest[-1].status_update.status.state == DONE


async def main(base):
    async with httpx.AsyncClient(timeout=30) as http:
        card = await A2ACardResolver(http, base).get_agent_card()
        for binding in ("JSONRPC", "HTTP+JSON"):
            def client(streaming):
                config = ClientConfig(httpx_client=http, streaming=streaming,
                                      supported_protocol_bindings=[binding], use_client_preference=True)
                return ClientFactory(config).create(card)

            await plain(client(False))
            await tasks(client(False))
            await pushes(client(False))
            await streams(client(True))
            print(f"a2a fixture over {binding}: every prefix answered as the kit asks")


asyncio.run(main(sys.argv[1]))
