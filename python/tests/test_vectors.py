"""The vectors of the project, through the package."""

from __future__ import annotations

import base64
import json
import os
import unittest
from pathlib import Path
from typing import Any

import chancery

VECTORS = Path(os.environ["TEST_VECTORS"])
# The public key of RFC 8032, test 1.
OTHER = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")


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

    def test_agh(self) -> None:
        # AG-TRU-5, AG-TRU-6, AG-TRU-10
        for case in cases("agh/trust.json"):
            with self.subTest(case["id"]):
                envelope = case["envelope"]
                proof = envelope.get("proof") or {}
                key = base64.urlsafe_b64decode(proof.get("pubkey", "")[:43] + "=")
                if len(key) != 32:
                    continue
                found = chancery.verify("agh", json.dumps(envelope), key)
                self.assertEqual(found, case["expect"] == "verified")
                if "seed_hex" in case:
                    seed = bytes.fromhex(case["seed_hex"])
                    signed = json.loads(chancery.sign("agh", json.dumps({**envelope, "proof": None}), seed))
                    self.assertEqual(signed, envelope)
                    self.assertFalse(chancery.verify("agh", json.dumps(envelope), OTHER))
                    with self.assertRaises(ValueError):
                        chancery.sign("agh", json.dumps({**envelope, "from": "somebody.else"}), seed)

    def test_vibe(self) -> None:
        # VC-SIG-2, VC-SIG-7: the scalar and the signature are those of the specification
        scalar = bytes.fromhex("db7c60e87c8d38a349c21a654c20b84bcb9781ea1b9795ee4d3ee9f5ed099fe5")
        file = json.loads((VECTORS / "vibe/signed.json").read_text())
        transcript = next(it for it in file["transcripts"] if it["id"] == "signed/vector")
        jwk = transcript["world"]["keys"][0]["jwk"]
        key = b"".join(base64.urlsafe_b64decode(jwk[name] + "=") for name in "xy")
        refused = [it["send"] for it in transcript["steps"] if it["expect"].get("code") == "signature_invalid"]
        self.assertGreaterEqual(len(refused), 4)
        for envelope in refused:
            self.assertFalse(chancery.verify("vibe", json.dumps(envelope), key), envelope)
        # what was signed: the second of them without the member that was added
        whole = {name: value for name, value in refused[1].items() if name != "x_new"}
        self.assertTrue(chancery.verify("vibe", json.dumps(whole), key))
        unsigned = {name: value for name, value in whole.items() if name != "signature"}
        self.assertFalse(chancery.verify("vibe", json.dumps(unsigned), key))
        signed = json.loads(chancery.sign("vibe", json.dumps(unsigned), scalar, "k1"))
        self.assertEqual(signed, whole)
        for other in [b'{"alg":"ES256","kid":"k1" }', b'{"alg":"ES256","kid":"k2"}']:
            header = base64.urlsafe_b64encode(other).rstrip(b"=").decode()
            changed = header + ".." + signed["signature"].split("..")[1]
            self.assertFalse(chancery.verify("vibe", json.dumps({**signed, "signature": changed}), key))

    def test_the_name_of_a_key_belongs_to_vibe(self) -> None:
        with self.assertRaises(ValueError):
            chancery.sign("vibe", "{}", bytes(31) + b"\x01")
        with self.assertRaises(ValueError):
            chancery.sign("value-context", "{}", bytes(32), "k1")

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
