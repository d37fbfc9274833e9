"""What the README shows is what the package says."""

from __future__ import annotations

import contextlib
import doctest
import json
import os
import subprocess
import tempfile
import unittest
from datetime import datetime, timezone
from pathlib import Path

from test_client import BIN, PARENT, PEER, uuid7

README = Path(__file__).parent.parent / "README.md"


class Readme(unittest.TestCase):
    def test_every_line_of_it(self) -> None:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            subprocess.run([BIN, "conform", "--setup", "."], check=True, stdout=subprocess.DEVNULL)
            serve = [BIN, "serve", "--listen", "127.0.0.1:0", "--data", "chancery-data"]
            with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as node:
                assert node.stdout is not None
                address = json.loads(node.stdout.readline())["http"]
                message = {
                    "vcp_message": "1.2",
                    "type": "context_share",
                    "message_id": uuid7(),
                    "sender": PEER,
                    "recipient": PARENT,
                    "timestamp": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                    "payload": {"context": "📍💻", "constitution_ref": "creed://creed.space/kit@1.0.0"},
                }
                known = {
                    "url": f"http://{address}",
                    "envelope": json.dumps(message),
                    "seed": bytes([0x73] * 32),
                }
                try:
                    told = doctest.testfile(str(README), module_relative=False, globs=known)
                finally:
                    node.terminate()
        self.assertGreaterEqual(told.attempted, 8)
        self.assertEqual(told.failed, 0)


if __name__ == "__main__":
    unittest.main()
