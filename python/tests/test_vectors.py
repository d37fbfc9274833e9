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
        for name in ["envelopes_base", "envelopes_selfeval", "tamper_base", "tamper_selfeval"]:
            for case in cases(f"vacant/{name}.json"):
                with self.subTest(case["id"]):
                    fields = case["jsonrpc"]["params"]["message"]["metadata"]["urn:vacant:v1"]
                    key = bytes.fromhex(fields["from_vacant_id"])
                    try:
                        found = chancery.verify("vacant", json.dumps(case["jsonrpc"]), key)
                    except ValueError:
                        found = False
                    self.assertEqual(found, case.get("verifies", True))

    def test_vacant_signs(self) -> None:
        # VA-ENV-5, VA-ENV-6: Ed25519 has one signature for a key and a text
        seeds = {case["label"]: bytes.fromhex(case["seed_hex"]) for case in cases("vacant/keys.json")}
        signed = 0
        for name in ["envelopes_base", "envelopes_selfeval"]:
            for case in cases(f"vacant/{name}.json"):
                # A self-evaluation that is null is on the wire as one that is not there: the base profile.
                if name == "envelopes_selfeval" and case["fields"]["self_eval"] is None:
                    continue
                with self.subTest(case["id"]):
                    request = json.loads(json.dumps(case["jsonrpc"]))
                    request["params"]["message"]["metadata"]["urn:vacant:v1"]["caller_signature"] = ""
                    given = chancery.sign("vacant", json.dumps(request), seeds[case["signer"]])
                    fields = json.loads(given)["params"]["message"]["metadata"]["urn:vacant:v1"]
                    self.assertEqual(fields["caller_signature"], case["signature_hex"])
                    signed += 1
        self.assertGreater(signed, 40)

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

    def test_agh_revision_b(self) -> None:
        # AG-B-3, AG-VAL-1: the package judges both revisions, as a node does that is set up for both
        seen = 0
        for case in cases("agh/rev-b-envelopes.json"):
            if case["mode"] != "dual":
                continue
            with self.subTest(case["id"]):
                fault = chancery.validate("agh", json.dumps(case["envelope"]), now=case["now"])
                self.assertEqual(fault.code if fault else None, case["expect"].get("error"))
                seen += 1
        self.assertEqual(seen, 30)

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

    def test_examples_of_value_context(self) -> None:
        # VX-ENV-4
        for message in json.loads((VECTORS / "value-context/examples.json").read_text())["messages"]:
            with self.subTest(message["message_id"]):
                self.assertIsNone(chancery.validate("value-context", json.dumps(message)))

    def test_parts_of_value_context(self) -> None:
        # VX-CTX-1, VX-CRD-1, VX-ID-1, VX-CP-1: what a part of a message may be, in a message
        def code(**changes: Any) -> str | None:
            message = {**example("context_share"), **changes}
            fault = chancery.validate("value-context", json.dumps(message))
            return fault.code if fault else None

        payload = example("context_share")["payload"]
        for case in cases("value-context/context_strings.json"):
            with self.subTest(case["id"]):
                found = code(payload={**payload, "context": case["context"]})
                # One that is empty or too long is none by the form of the message already.
                refused = ["context_invalid", "schema_invalid"]
                self.assertIn(found, [None] if case["valid"] else refused)
        for case in cases("value-context/creed_uris.json"):
            with self.subTest(case["id"]):
                found = code(payload={**payload, "constitution_ref": case["uri"]})
                self.assertEqual(found, None if case["valid"] else "schema_invalid")
        for case in cases("value-context/uuid7.json"):
            with self.subTest(case["id"]):
                self.assertIsNone(code(message_id=case["uuid"]))
        for case in cases("value-context/constraints.json"):
            for message in case["messages_in_arrival_order"]:
                with self.subTest(case["id"]):
                    self.assertIsNone(code(type="constraint_propagate", **message))

    def test_calls_of_vacants(self) -> None:
        # VA-ENV-6, VA-SRV-4: what a server takes has a form and a signature; what it calls unsigned has none
        seen = 0
        for name in ["serve_base", "serve_selfeval"]:
            for request in [it for case in cases(f"vacant/{name}.json") for it in case["requests"]]:
                if request["expect_status"] not in [200, 401] or not isinstance(request.get("body"), dict):
                    continue
                fields = request["body"]["params"]["message"]["metadata"]["urn:vacant:v1"]
                key = bytes.fromhex(fields["from_vacant_id"])
                found = chancery.verify("vacant", json.dumps(request["body"]), key)
                self.assertEqual(found, request["expect_status"] == 200, fields)
                seen += 1
        for name in ["replay_base", "replay_selfeval"]:
            for step in [it for case in cases(f"vacant/{name}.json") for it in case["steps"]]:
                text = json.dumps(step["jsonrpc"])
                fields = step["jsonrpc"]["params"]["message"]["metadata"]["urn:vacant:v1"]
                self.assertIsNone(chancery.validate("vacant", text))
                self.assertTrue(chancery.verify("vacant", text, bytes.fromhex(fields["from_vacant_id"])))
                seen += 1
        self.assertGreater(seen, 100)

    def test_times_of_vacants(self) -> None:
        # VA-TS-1, VA-TS-2
        request = cases("vacant/parse_base.json")[0]["jsonrpc"]
        self.assertIsNone(chancery.validate("vacant", json.dumps(request)))
        for case in cases("vacant/timestamps.json"):
            with self.subTest(case["id"]):
                request["params"]["message"]["metadata"]["urn:vacant:v1"]["timestamp"] = case["input"]
                fault = chancery.validate("vacant", json.dumps(request))
                self.assertEqual(fault is None, "canonical" in case, fault)

    def test_vacant(self) -> None:
        # VA-WIRE-4, VA-WIRE-5
        for case in cases("vacant/parse_base.json") + cases("vacant/parse_selfeval.json"):
            with self.subTest(case["id"]):
                fault = chancery.validate("vacant", json.dumps(case["jsonrpc"]))
                self.assertEqual("ok" if fault is None else "error", outcome(case["expect"]))

    def test_vibe(self) -> None:
        # VC-ENV-1, VC-ENV-17, VC-ENV-18
        of_form = {
            "malformed_json", "malformed_envelope", "unsupported_protocol", "unsupported_version",
            "invalid_ts", "idempotency_key_too_long", "too_large",
        }
        seen = 0
        files = [json.loads((VECTORS / f"vibe/{name}.json").read_text()) for name in TRANSCRIPTS]
        for transcript in [transcript for file in files for transcript in file["transcripts"]]:
            if transcript["settings"]["signed"]:
                continue
            for step in transcript["steps"]:
                send = step["send"]
                text = send["raw"] if list(send) == ["raw"] else json.dumps(send)
                code = step["expect"].get("code")
                # These are said before anybody looks at the envelope, or of a node that wants no signatures.
                if code in ["unexpected_signature", "unauthenticated", "unsupported_media_type"]:
                    continue
                fault = chancery.validate("vibe", text)
                seen += 1
                with self.subTest(transcript["id"]):
                    self.assertEqual(fault.code if fault else None, code if code in of_form else None)
        self.assertGreater(seen, 150)


def example(kind: str) -> dict[str, Any]:
    """The first example of a type of value-context."""
    messages = json.loads((VECTORS / "value-context/examples.json").read_text())["messages"]
    return next(dict(message) for message in messages if message["type"] == kind)


# Whole stories of vibe. The package judges the form of what is said in them; the rest needs a node.
TRANSCRIPTS = [
    "addresses", "auto", "certificates", "clock", "disputes", "envelope", "fulfillment", "gate", "guard-steps",
    "idempotency", "money-rule", "negotiation", "pipeline", "sessions", "settlement", "size", "tokens",
]
# What no function of the package can judge: it needs a node's state, or a type that the package does not have. The
# program's own tests run all of them.
NEEDS_A_NODE = {
    "agh": [
        "capability-digests", "dedupe", "lifecycle", "presence", "rev-b-direct-ids", "rev-b-subjects", "rev-b-work",
        "route-tokens", "routing", "whois-catalog", "whois-match",
    ],
    "vacant": [
        "card_blobs", "cards", "dispatch", "state_machine", "ucb",
    ],
    "value-context": [
        "context_transitions", "dedupe", "escalation_obligations", "reconnect", "resume", "retry", "scope",
        "state_mapping", "world",
    ],
    "vibe": [
        "guard", "ids", "money", "partition",
    ],
}


class Complete(unittest.TestCase):
    def test_every_file_is_run_or_needs_a_node(self) -> None:
        files = {f"{file.parent.name}/{file.stem}" for file in VECTORS.glob("*/*.json")}
        needs = {f"{folder}/{name}" for folder, names in NEEDS_A_NODE.items() for name in names}
        text = Path(__file__).read_text()
        named = {file for file in files if f'"{file}.json"' in text}
        named |= {f"vacant/{name}" for name in ["envelopes_base", "envelopes_selfeval"]}
        named |= {f"vacant/{name}" for name in ["tamper_base", "tamper_selfeval"]}
        named |= {f"vacant/{name}" for name in ["serve_base", "serve_selfeval", "replay_base", "replay_selfeval"]}
        named |= {f"vibe/{name}" for name in TRANSCRIPTS}
        self.assertEqual(files - named - needs, set(), "neither run nor in the list")
        self.assertEqual(needs - files, set(), "in the list and not there")
        self.assertEqual(needs & named, set(), "in the list and run")


def outcome(expect: Any) -> str:
    """What a vector of vacant's parser expects, in one word."""
    word = expect if isinstance(expect, str) else expect.get("error", "ok")
    return "ok" if word == "ok" else "error"


if __name__ == "__main__":
    unittest.main()
