"""The vectors of the project, through the package."""

from __future__ import annotations

import json
import os
import unittest
from pathlib import Path
from typing import Any

import chancery

VECTORS = Path(os.environ["TEST_VECTORS"])


def cases(name: str) -> list[dict[str, Any]]:
    file = json.loads((VECTORS / name).read_text())
    found: list[dict[str, Any]] = file.get("vectors") or file["cases"]
    return found


class Canonical(unittest.TestCase):
    def test_value_context(self) -> None:
        # VX-CAN-1, VX-CAN-2, VX-CAN-3, VX-CAN-4, VX-CAN-7
        for case in cases("value-context/canonicalization.json"):
            text = bytes.fromhex(case["input_hex"])
            with self.subTest(case["id"]):
                if "error" in case:
                    with self.assertRaises(ValueError):
                        chancery.canonicalize(text)
                    continue
                self.assertEqual(chancery.canonicalize(text).hex(), case["jcs_hex"])
                self.assertEqual(chancery.canonicalize(text, "python").hex(), case["legacy_hex"])

    def test_vibe(self) -> None:
        # VC-CAN-1, VC-CAN-2, VC-CAN-3, VC-CAN-4, VC-CAN-5
        for case in cases("vibe/canonical.json"):
            with self.subTest(case["input"]):
                if "error" in case:
                    with self.assertRaises(ValueError):
                        chancery.canonicalize(case["input"], "vibe")
                    continue
                found = chancery.canonicalize(case["input"], "vibe")
                self.assertEqual(found.hex(), case["canonical_hex"])

    def test_vacant(self) -> None:
        # VA-CJ-1, VA-CJ-2, VA-CJ-3, VA-CJ-4, VA-CJ-5
        for case in cases("vacant/canonical_json.json"):
            with self.subTest(case["id"]):
                text = json.dumps(case["object"])
                self.assertEqual(chancery.canonicalize(text, "vacant").hex(), case["canonical_hex"])

    def test_no_such_dialect(self) -> None:
        with self.assertRaises(ValueError):
            chancery.canonicalize("{}", "klingon")  # type: ignore[arg-type]


class Signatures(unittest.TestCase):
    def test_value_context(self) -> None:
        # VX-SIG-4, VX-SIG-5, VX-CAN-7
        for case in cases("value-context/signed_messages.json"):
            with self.subTest(case["id"]):
                key = bytes.fromhex(case["public_key_hex"])
                message = {**json.loads(case["message_text"]), "signature": case["signature"]}
                text = case["message_text"].strip()
                if "signature" not in json.loads(text):
                    text = f"{text[:-1]},\"signature\":{json.dumps(case['signature'])}}}"
                self.assertEqual(chancery.verify("value-context", text, key), case["verifies"])
                if case["verifies"] and case["form"] == "jcs":
                    del message["signature"]
                    seed = bytes.fromhex(case["signer_seed_hex"])
                    signed = json.loads(chancery.sign("value-context", json.dumps(message), seed))
                    self.assertEqual(signed["signature"], case["signature"])

    def test_vacant(self) -> None:
        # VA-ENV-5, VA-ENV-6, VA-ID-3
        for name in ["envelopes_base", "tamper_base", "tamper_selfeval"]:
            for case in cases(f"vacant/{name}.json"):
                with self.subTest(case["id"]):
                    fields = case["jsonrpc"]["params"]["message"]["metadata"]["urn:vacant:v1"]
                    key = bytes.fromhex(fields["from_vacant_id"])
                    try:
                        found = chancery.verify("vacant", json.dumps(case["jsonrpc"]), key)
                    except ValueError:
                        found = False
                    self.assertEqual(found, case.get("verifies", True))

    def test_a_wrong_key_is_an_error(self) -> None:
        with self.assertRaises(ValueError):
            chancery.sign("value-context", "{}", b"short")
        with self.assertRaises(ValueError):
            chancery.verify("value-context", "{}", b"short")


class Forms(unittest.TestCase):
    def test_agh(self) -> None:
        # AG-VAL-1, AG-CON-2
        for case in cases("agh/envelopes.json"):
            with self.subTest(case["id"]):
                text = case["raw"] if "raw" in case else json.dumps(case["envelope"])
                fault = chancery.validate("agh", text, now=case["now"])
                verdict = "accept" if fault is None else "reject"
                self.assertEqual(verdict, case["expect"]["verdict"], fault)

    def test_value_context(self) -> None:
        # VX-ENV-4, VX-RCV-1
        of_form = {
            "malformed_json", "schema_invalid", "unsupported_version", "context_invalid",
            "constraint_invalid", "payload_too_large",
        }
        for case in cases("value-context/requests.json"):
            body = bytes.fromhex(case["body_hex"]) if "body_hex" in case else case["body"].encode()
            body = body.ljust(case.get("pad_to_bytes", 0))
            code = case["expect"]["code"]
            with self.subTest(case["id"]):
                fault = chancery.validate("value-context", body)
                self.assertEqual(fault.code if fault else None, code if code in of_form else None)

    def test_vacant(self) -> None:
        # VA-WIRE-4, VA-WIRE-5
        for case in cases("vacant/parse_base.json"):
            with self.subTest(case["id"]):
                fault = chancery.validate("vacant", json.dumps(case["jsonrpc"]))
                self.assertEqual("ok" if fault is None else "error", outcome(case["expect"]))

    def test_vibe(self) -> None:
        # VC-ENV-1, VC-ENV-17, VC-ENV-18
        of_form = {
            "malformed_json", "malformed_envelope", "unsupported_protocol", "unsupported_version",
            "invalid_ts", "idempotency_key_too_long",
        }
        seen = 0
        for transcript in json.loads((VECTORS / "vibe/envelope.json").read_text())["transcripts"]:
            if transcript["settings"]["signed"]:
                continue
            for step in transcript["steps"]:
                send = step["send"]
                text = send["raw"] if list(send) == ["raw"] else json.dumps(send)
                code = step["expect"].get("code")
                if code == "unexpected_signature":
                    continue
                fault = chancery.validate("vibe", text)
                seen += 1
                with self.subTest(transcript["id"]):
                    self.assertEqual(fault.code if fault else None, code if code in of_form else None)
        self.assertGreater(seen, 50)


def outcome(expect: Any) -> str:
    """What a vector of vacant's parser expects, in one word."""
    word = expect if isinstance(expect, str) else expect.get("error", "ok")
    return "ok" if word == "ok" else "error"


if __name__ == "__main__":
    unittest.main()
