from collections.abc import Sequence

class LogFound:
    lines: int
    units: int
    signatures: int
    found: int
    findings: list[tuple[int | None, str]]
    head_seq: int
    head_sha256: str
    not_proven: list[str]

def canonicalize(text: bytes, dialect: str) -> bytes: ...
def sign(protocol: str, envelope: bytes, seed: bytes, key_id: str | None) -> bytes: ...
def verify(protocol: str, envelope: bytes, public_key: bytes) -> bool: ...
def validate(protocol: str, envelope: bytes, now: int) -> tuple[str, str, str | None, str] | None: ...
def verify_log(paths: Sequence[str]) -> LogFound: ...
