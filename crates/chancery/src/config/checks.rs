//! What must hold between keys, and of the files they name.

use std::path::Path;

use super::settings::Settings;
use super::typed::{Clock, Config, Entropy, Store};
use crate::exit::Failure;

/// Checks keys against each other.
pub(super) fn consistent(config: &Config, settings: &Settings) -> Result<(), Failure> {
    let loopback = config.listen.ip().is_loopback();
    // CH-NET-2
    if !loopback && config.tls.is_none() && !config.tls_terminated_upstream {
        let place = settings.get("listen").place();
        return Err(Failure::usage(format!(
            "{place}: listen = {} is no loopback address, and there is no TLS: tokens and messages would cross the network in the open",
            config.listen
        ))
        .next("set tls.certificate and tls.key, or tls_terminated_upstream = true behind a proxy that speaks TLS"));
    }
    if config.dev && !loopback {
        let place = settings.get("dev").place();
        return Err(Failure::usage(format!(
            "{place}: dev = true lets everybody in without a token, and listen = {} is no loopback address",
            config.listen
        ))
        .next("set dev = false, or listen on 127.0.0.1"));
    }
    // CH-CFG-7, CH-CFG-8
    let only_in_dev = [
        ("clock", config.clock != Clock::System),
        ("entropy", config.entropy != Entropy::System),
    ];
    for (name, unusual) in only_in_dev {
        if unusual && !config.dev {
            let setting = settings.get(name);
            return Err(Failure::usage(format!(
                "{}: {setting} is for tests and needs dev = true",
                setting.place()
            ))
            .next(format!("set {name} = \"system\", or dev = true")));
        }
    }
    Ok(())
}

impl Config {
    /// Checks that every file the configuration names is there (CH-CFG-4).
    ///
    /// # Errors
    /// Which one is not.
    pub fn check_files(&self) -> Result<(), Failure> {
        self.first_missing().map_err(|(_, _, failure)| failure)
    }

    /// The same; gives the key and the file too.
    pub(crate) fn first_missing(&self) -> Result<(), (&'static str, &Path, Failure)> {
        let certificate = self.tls.as_ref().map(|tls| tls.certificate.as_path());
        let key = self.tls.as_ref().map(|tls| tls.key.as_path());
        let nats = self.agh.nats.as_ref();
        let store_password = match &self.store {
            Store::Postgres(database) => database.password_file.as_deref(),
            Store::Embedded | Store::Memory => None,
        };
        let files: [(&'static str, Option<&Path>); 8] = [
            ("store_password_file", store_password),
            ("tls.certificate", certificate),
            ("tls.key", key),
            ("value_context.world", self.value_context.world.as_deref()),
            ("vibe.world", self.vibe.world.as_deref()),
            ("vibe.tokens", self.vibe.tokens.as_deref()),
            (
                "agh.nats_token_file",
                nats.and_then(|nats| nats.token_file.as_deref()),
            ),
            (
                "agh.nats_credentials",
                nats.and_then(|nats| nats.credentials.as_deref()),
            ),
        ];
        for (name, path) in files {
            if let Some(path) = path
                && !path.is_file()
            {
                let what = format!("{name} names {}, which is not there", path.display());
                let next = format!("write that file, or set {name} = \"\"");
                return Err((name, path, Failure::usage(what).next(next)));
            }
        }
        Ok(())
    }
}
