"""`verify_log` says what `chancery log verify` says, of whole logs and of damaged ones."""

from __future__ import annotations

import json
import os
import random
import subprocess
import tempfile
import unittest
from pathlib import Path

import chancery

BIN = os.environ["TEST_PROGRAM"]
DAMAGED = int(os.environ.get("TEST_DAMAGED_LOGS", "1000"))


def files_of(log: Path) -> list[Path]:
    """The files of a log, in the order of their lines."""
    return [*sorted(log.glob("audit-*.jsonl")), log / "audit.jsonl"] if log.is_dir() else [log]


def line_of(place: str, log: Path) -> int | None:
    """The line that a place names, counted over all files; none for a place that is no line."""
    name, _, line = place.rpartition(":")
    if not line.isdigit():
        return None
    before = 0
    for file in files_of(log):
        if str(file) == name:
            return before + int(line)
        text = file.read_bytes()
        before += text.count(b"\n") + (text[-1:] not in [b"", b"\n"])
    raise AssertionError(f"{place} is in no file of {log}")


def asked(log: Path) -> tuple[int, str]:
    """What the program says: its exit code, and what it found, with the lines."""
    ran = subprocess.run(
        [BIN, "log", "verify", str(log), "--json"], capture_output=True, text=True, check=False
    )
    if ran.returncode == 3:
        return 3, ""
    told = json.loads(ran.stdout)
    findings = [(line_of(finding["at"], log), finding["check"]) for finding in told["findings"]]
    head = (told["head"]["seq"], told["head"]["sha256"])
    return ran.returncode, repr((told["lines"], told["units"], told["signatures"], told["found"], findings, head))


def answered(file: Path) -> tuple[int, str]:
    """What the package says of the same file, in the same words."""
    try:
        report = chancery.verify_log(file)
    except ValueError:
        return 3, ""
    findings = [(finding.line, finding.check) for finding in report.findings]
    code = 0 if report.passed else 1
    return code, repr(
        (report.lines, report.units, report.signatures, report.found, findings, report.head)
    )


def damage(log: bytes, choice: random.Random) -> bytes:
    """One of the ways in which a log gets damaged."""
    lines = log.splitlines(keepends=True)
    at = choice.randrange(len(lines))
    byte = choice.randrange(len(log))
    match choice.randrange(8):
        case 0:
            return log[:byte] + bytes([log[byte] ^ (1 << choice.randrange(8))]) + log[byte + 1 :]
        case 1:
            return log[:byte]
        case 2:
            return b"".join(lines[:at] + lines[at + 1 :])
        case 3:
            return b"".join(lines[: at + 1] + lines[at:])
        case 4:
            other = choice.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
            return b"".join(lines)
        case 5:
            return log[:byte] + bytes([choice.randrange(256)]) + log[byte:]
        case 6:
            digits = [place for place, value in enumerate(log) if 48 <= value < 57]
            place = choice.choice(digits)
            return log[:place] + bytes([log[place] + 1]) + log[place + 1 :]
        case _:
            return b"".join([*lines[:at], bytes(choice.randrange(256) for _ in range(40)), b"\n", *lines[at:]])


def in_segments(log: bytes, folder: Path, choice: random.Random) -> None:
    """Writes a log as a node does whose files are full now and then: units are in one file."""
    lines = log.splitlines(keepends=True)
    ends = [at + 1 for at, line in enumerate(lines) if "more" not in json.loads(line)["meta"]]
    cuts = [0, *sorted(choice.sample(ends[:-1], 3))]
    for first, last in zip(cuts, [*cuts[1:], len(lines)]):
        name = f"audit-{first + 1:020}.jsonl" if last < len(lines) else "audit.jsonl"
        (folder / name).write_bytes(b"".join(lines[first:last]))


class Logs(unittest.TestCase):
    folder: tempfile.TemporaryDirectory[str]
    log: bytes

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        kept = Path(cls.folder.name) / "demo"
        subprocess.run([BIN, "demo", "--keep", str(kept)], check=True, stdout=subprocess.DEVNULL)
        cls.log = (kept / "chancery-data" / "audit.jsonl").read_bytes()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()

    def test_a_whole_log_passes(self) -> None:
        # CH-JRN-7
        report = chancery.verify_log(Path(self.folder.name) / "demo" / "chancery-data")
        self.assertTrue(report.passed, report.findings)
        self.assertGreater(report.signatures, 0)
        self.assertEqual(len(report.not_proven), 6)

    def test_it_agrees_with_the_program_on_damaged_logs(self) -> None:
        # CH-JRN-7
        seed = int(os.environ.get("TEST_SEED", random.SystemRandom().randrange(1 << 32)))
        print(f"seed {seed}: {DAMAGED} damaged logs")
        choice = random.Random(seed)
        file = Path(self.folder.name) / "damaged.jsonl"
        refused = 0
        for number in range(DAMAGED):
            file.write_bytes(damage(self.log, choice))
            expected = asked(file)
            self.assertEqual(answered(file), expected, f"seed {seed}, log {number}")
            refused += expected[0] != 0
        # A cut at the end of a unit is no damage that a log can show.
        self.assertGreater(refused, DAMAGED * 9 // 10)

    def test_it_agrees_with_the_program_on_a_log_in_segments(self) -> None:
        # CH-JRN-2, CH-JRN-7
        seed = int(os.environ.get("TEST_SEED", random.SystemRandom().randrange(1 << 32)))
        print(f"seed {seed}: logs in segments")
        choice = random.Random(seed)
        refused = 0
        for number in range(max(DAMAGED // 20, 10)):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                in_segments(self.log, folder, choice)
                files = files_of(folder)
                self.assertEqual(len(files), 4)
                whole = chancery.verify_log(folder)
                self.assertTrue(whole.passed, whole.findings)
                self.assertEqual(answered(folder), asked(folder))
                file = choice.choice(files)
                file.write_bytes(damage(file.read_bytes(), choice))
                expected = asked(folder)
                self.assertEqual(answered(folder), expected, f"seed {seed}, log {number}")
                refused += expected[0] != 0
        self.assertGreater(refused, 0)

    def test_what_is_no_log(self) -> None:
        file = Path(self.folder.name) / "none.jsonl"
        file.write_text("not a log\n")
        with self.assertRaises(ValueError):
            chancery.verify_log(file)
        with self.assertRaises(OSError):
            chancery.verify_log(Path(self.folder.name) / "nowhere.jsonl")


if __name__ == "__main__":
    unittest.main()
