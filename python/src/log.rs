//! Logs: every line checked by itself and in its place, one after the other.

use std::fs::File;
use std::io::{BufRead as _, BufReader};

use bytes::Bytes;
use chancery_core::line::{Line, ProtocolName};
use chancery_journal::{LineCheck, Verifier, prepare};
use chancery_node::suite::Chancery;
use chancery_vacant::rules::ChainCheck;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::{Python, pyclass, pyfunction};
use pyo3::{PyErr, PyResult};

/// What verification found.
#[pyclass(frozen, get_all)]
pub(crate) struct LogFound {
    lines: u64,
    units: u64,
    signatures: u64,
    found: u64,
    findings: Vec<(Option<u64>, String)>,
    head_seq: u64,
    head_sha256: String,
    not_proven: Vec<&'static str>,
}

/// The chains between pairs of vacants (VA-REP-3).
#[derive(Default)]
struct VacantChains(ChainCheck);

impl LineCheck for VacantChains {
    fn line(&mut self, line: &Line) -> Option<String> {
        self.0.line(line)
    }
}

/// Verifies the lines of files, in this order. The interpreter is free meanwhile.
#[pyfunction]
pub(crate) fn verify_log(py: Python<'_>, paths: Vec<String>) -> PyResult<LogFound> {
    py.detach(|| verified(&paths))
}

fn verified(paths: &[String]) -> PyResult<LogFound> {
    let mut verifier =
        Verifier::new(Chancery::default()).with_check(Box::new(VacantChains::default()));
    let (mut beyond, mut number) = (Vec::new(), 0);
    for path in paths {
        let cannot = |error: std::io::Error| PyErr::new::<PyOSError, _>(format!("{path}: {error}"));
        let mut file = BufReader::new(File::open(path).map_err(cannot)?);
        let mut line = Vec::new();
        while file.read_until(b'\n', &mut line).map_err(cannot)? > 0 {
            number += 1;
            if line.pop_if(|byte| *byte == b'\n').is_none() {
                let what = "the last line has no newline: it was not written whole";
                beyond.push((Some(number), what.to_owned()));
            }
            let bytes = Bytes::from(std::mem::take(&mut line));
            let prepared = prepare(verifier.suite(), bytes, verifier.keyring());
            let unserved = prepared.reading.as_ref().ok();
            let unserved = unserved.filter(|read| read.line.protocol == ProtocolName::Test);
            if let Some(reading) = unserved {
                let protocol = reading.line.protocol.as_str();
                let what = format!("this build cannot check lines of {protocol}");
                beyond.insert(0, (Some(number), what));
            }
            verifier.take(prepared);
        }
    }
    let report = verifier.finish(None);
    if report.is_no_log() {
        return Err(PyValueError::new_err("no line of it is a line of a log"));
    }
    let of_lines = report.findings.iter();
    let of_lines = of_lines.map(|finding| (Some(finding.line), finding.check.to_string()));
    Ok(LogFound {
        lines: report.lines,
        units: report.units,
        signatures: report.signatures,
        found: report.found + beyond.len() as u64,
        findings: of_lines.chain(beyond).collect(),
        head_seq: report.head.seq,
        head_sha256: report.head.hash.hex(),
        not_proven: report.not_proven.to_vec(),
    })
}
