//! The configuration, and the files that it names: whether a start would get past them.

use std::path::PathBuf;

use super::{DoctorArgs, Round, secrets};
use crate::config::{Config, DEFAULT_FILE, Settings, Source, Sources, Store};
use crate::exit::Failure;
use crate::host::{WrongFile, wrong_files};

const CHECK: &str = "configuration";

/// Where it is read from.
pub(super) fn place(sources: &Sources) -> String {
    let named = sources.file.as_ref();
    named.map_or_else(
        || DEFAULT_FILE.to_owned(),
        |file| file.display().to_string(),
    )
}

/// Looks at the files. What is wrong with a secret, or with the certificate, is told by the check of that; of the
/// certificate it is given back.
pub(super) fn look(
    sources: &Sources,
    (settings, config): (&Settings, &Config),
    args: &DoctorArgs,
    secrets: &[PathBuf],
    round: &mut Round,
) -> Option<Failure> {
    let place = place(sources);
    let is_there = sources.file.is_some() || std::path::Path::new(DEFAULT_FILE).is_file();
    let is_default = settings
        .iter()
        .all(|setting| matches!(setting.source, Source::Default));
    let is_home = is_there || !is_default || config.data.is_dir();
    if !is_home && config.store == Store::Embedded && !args.node.is_named() {
        let what = format!(
            "this is no home of a node: there is neither {place} nor {}",
            config.data.display()
        );
        let next = "go to the folder of the node, or name its file: chancery doctor --config FILE";
        round.find(CHECK, ".", what, next);
    }
    let mut of_certificate = None;
    let faulty: Vec<_> = secrets
        .iter()
        .filter(|path| secrets::fault(path, secrets::OF_FILE).is_some())
        .map(|path| path.display().to_string())
        .collect();
    for WrongFile { key, path, failure } in wrong_files(config) {
        if faulty.iter().any(|path| failure.what.contains(path)) {
            continue;
        }
        if key == "tls.certificate" {
            of_certificate = Some(failure);
            continue;
        }
        let at = path
            .filter(|_| key.starts_with("vacant"))
            .map(|path| path.display().to_string());
        round.find_failure(CHECK, at.unwrap_or(key), failure);
    }
    let fine = match is_there {
        true => "every key is known, every file can be used".to_owned(),
        false => format!("there is no {place}: defaults and environment count"),
    };
    round.done(CHECK, fine);
    of_certificate
}
