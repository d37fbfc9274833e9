"""A vacant in a few lines: signs calls and verifies answers with nothing of Chancery's own."""

import hashlib
import json
import uuid
from datetime import datetime, timezone

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

KEY = "urn:vacant:v1"


def signed_bytes(meta, role, texts, context_id, message_id):
    payload = {
        "contextId": context_id or None,
        "messageId": message_id or None,
        "parts": [{"text": text, "type": "text"} for text in texts],
        "role": role,
    }
    signed = {
        "from": meta["from_vacant_id"],
        "to": meta["to_vacant_id"],
        "seq": int(meta["sequence_no"]),
        "ts": meta["timestamp"],
        "prev": meta["prev_envelope_hash"],
        "idem": meta["idempotency_key"],
        "payload": payload,
    }
    return json.dumps(signed, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


class Caller:
    """Keeps its chain to one target."""

    def __init__(self, target):
        self.key = Ed25519PrivateKey.generate()
        self.id = self.key.public_key().public_bytes_raw().hex()
        self.target, self.number, self.tip, self.heard = target, 0, "0" * 64, 0

    def envelope(self, text, message_id=None, context_id=None):
        """The metadata of the next call."""
        meta = {
            "from_vacant_id": self.id,
            "to_vacant_id": self.target,
            "sequence_no": self.number + 1,
            "timestamp": datetime.now(timezone.utc).isoformat(timespec="microseconds"),
            "prev_envelope_hash": self.tip,
            "idempotency_key": str(uuid.uuid4()),
        }
        signed = signed_bytes(meta, "ROLE_USER", [text], context_id, message_id)
        self.pending = hashlib.blake2b(signed, digest_size=32).hexdigest()
        return {**meta, "caller_signature": self.key.sign(signed).hex()}

    def verify(self, meta, role, texts, context_id, message_id):
        """The answer is the target's, for us, and the next of its chain; raises where it is not."""
        signed = signed_bytes(meta, role, texts, context_id, message_id)
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.target))
        key.verify(bytes.fromhex(meta["caller_signature"]), signed)
        assert meta["from_vacant_id"] == self.target and meta["to_vacant_id"] == self.id
        assert int(meta["sequence_no"]) == self.heard + 1
        self.number, self.tip, self.heard = self.number + 1, self.pending, self.heard + 1
