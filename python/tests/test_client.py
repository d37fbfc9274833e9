"""The client against a live node."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
import unittest
import uuid
from datetime import datetime, timezone

import chancery

BIN = os.environ["TEST_PROGRAM"]
PARENT = "agent://kit.example/parent"
PEER = "agent://kit.example/peer"


def uuid7() -> str:
    """An identifier as value-context wants it."""
    stamp = int(time.time() * 1000).to_bytes(6, "big")
    value = bytearray(stamp + os.urandom(10))
    value[6] = 0x70 | (value[6] & 0x0F)
    value[8] = 0x80 | (value[8] & 0x3F)
    return str(uuid.UUID(bytes=bytes(value)))


class Node(unittest.TestCase):
    folder: tempfile.TemporaryDirectory[str]
    process: subprocess.Popen[str]
    node: chancery.Client

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        setup = [BIN, "conform", "--setup", cls.folder.name]
        subprocess.run(setup, check=True, stdout=subprocess.DEVNULL)
        serve = [BIN, "serve", "--listen", "127.0.0.1:0"]
        cls.process = subprocess.Popen(serve, cwd=cls.folder.name, stdout=subprocess.PIPE, text=True)
        assert cls.process.stdout is not None
        address = json.loads(cls.process.stdout.readline())["http"]
        cls.node = chancery.Client(f"http://{address}")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.process.terminate()
        cls.process.wait()
        assert cls.process.stdout is not None
        cls.process.stdout.close()
        cls.folder.cleanup()

    def test_a_signed_share_is_accepted_once_and_in_the_inbox(self) -> None:
        # VX-HTTP-1, VX-DUP-1
        message_id = uuid7()
        message = {
            "vcp_message": "1.2",
            "type": "context_share",
            "message_id": message_id,
            "sender": PEER,
            "recipient": PARENT,
            "timestamp": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "payload": {"context": "📍💻", "constitution_ref": "creed://creed.space/kit@1.0.0"},
        }
        signed = chancery.sign("value-context", json.dumps(message), bytes([0x73] * 32))
        for status in ["accepted", "duplicate"]:
            answer = self.node.send("value-context", signed)
            self.assertTrue(answer.ok, answer.body)
            self.assertEqual(answer.json()["status"], status)
        entries = self.node.inbox("value-context", PARENT).json()["entries"]
        found = [entry for entry in entries if entry["envelope"]["message_id"] == message_id]
        self.assertEqual(len(found), 1)
        through = found[0]["seq"]
        self.assertTrue(self.node.acknowledge("value-context", PARENT, through=through).ok)
        self.assertEqual(self.node.inbox("value-context", PARENT).json()["entries"], [])
        self.assertEqual(self.node.state("value-context", PARENT).json()["run_state"], "running")
        self.assertIn(message_id.encode(), self.node.log(limit=1000).body)

    def test_what_is_refused_is_an_answer_too(self) -> None:
        # AG-JSON-1
        answer = self.node.send("agh", "[]")
        self.assertEqual((answer.status, answer.json()["reason_code"]), (400, "malformed"))
        self.assertFalse(answer.ok)

    def test_a_hosted_peer_speaks(self) -> None:
        said = {"from": "kit-a", "channel": "kit", "kind": "say", "body": {"text": "hello"}}
        answer = self.node.speak("agh", said)
        self.assertTrue(answer.ok, answer.body)
        self.assertEqual(answer.json()["verdict"], "accept")
        self.assertEqual(len(self.node.inbox("agh", "kit", "kit-b").json()["entries"]), 1)

    def test_nobody_there(self) -> None:
        with self.assertRaises(chancery.NoAnswer):
            chancery.Client("http://127.0.0.1:1").state("agh", "kit")


if __name__ == "__main__":
    unittest.main()
