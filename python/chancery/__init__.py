"""The functions of a Chancery node, and a client of one."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from . import _native
from ._client import Answer, Client, NoAnswer

__all__ = [
    "Answer",
    "Client",
    "Dialect",
    "Fault",
    "Finding",
    "LogReport",
    "NoAnswer",
    "Protocol",
    "canonicalize",
    "sign",
    "validate",
    "verify",
    "verify_log",
]

Dialect = Literal["rfc8785", "python", "vibe", "vacant"]
Protocol = Literal["value-context", "vibe", "vacant", "agh"]


@dataclass(frozen=True)
class Fault:
    """Why a message is none: the code that a node answers, the requirement, and where."""

    code: str
    requirement: str
    path: str | None
    message: str


@dataclass(frozen=True)
class Finding:
    """What is wrong with a log, and on which of its lines; none for what is wrong with all of it."""

    line: int | None
    check: str


@dataclass(frozen=True)
class LogReport:
    """What the verification of a log found."""

    passed: bool
    lines: int
    units: int
    signatures: int
    found: int
    findings: Sequence[Finding]
    head: tuple[int, str]
    not_proven: Sequence[str]


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def canonicalize(text: str | bytes, dialect: Dialect = "rfc8785") -> bytes:
    """The canonical bytes of a JSON text. A text that the dialect's protocol refuses is a ValueError."""
    return _native.canonicalize(_bytes(text), dialect)


def sign(protocol: Protocol, envelope: str | bytes, seed: bytes, key_id: str | None = None) -> bytes:
    """The envelope with its signature under the key of a 32-byte seed.

    value-context, vibe and agh take and give an envelope; vacant takes and gives the JSON-RPC request of a call. vibe signs with
    ES256 (the seed is the scalar) and needs the name of the key; the others sign with Ed25519. The `from` of agh is the handle of
    the key.
    """
    return _native.sign(protocol, _bytes(envelope), seed, key_id)


def verify(protocol: Protocol, envelope: str | bytes, public_key: bytes) -> bool:
    """Whether the signature of an envelope holds under a public key.

    It has 32 bytes, and in vibe 64: x and y of its JWK.
    """
    return _native.verify(protocol, _bytes(envelope), public_key)


def validate(protocol: Protocol, envelope: str | bytes, now: int | None = None) -> Fault | None:
    """What is wrong with an envelope by itself, without a node's state; none when nothing is.

    agh also judges freshness, at `now` in Unix seconds; without it, at the time of this machine.
    """
    found = _native.validate(protocol, _bytes(envelope), int(time.time()) if now is None else now)
    return None if found is None else Fault(*found)


def verify_log(path: str | os.PathLike[str]) -> LogReport:
    """Verifies a log file, or the log of a data directory, as `chancery log verify` does.

    A file in which no line is one is a ValueError, one that cannot be read an OSError.
    """
    found = _native.verify_log([str(file) for file in _log_files(Path(path))])
    findings = [Finding(line, check) for line, check in found.findings]
    return LogReport(
        passed=not findings,
        lines=found.lines,
        units=found.units,
        signatures=found.signatures,
        found=found.found,
        findings=findings,
        head=(found.head_seq, found.head_sha256),
        not_proven=found.not_proven,
    )


def _log_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return [*sorted(path.glob("audit-*.jsonl")), path / "audit.jsonl"]
