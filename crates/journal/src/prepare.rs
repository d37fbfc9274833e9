//! The part of verification and replay that needs no order: reading, canonical form, hash and signature of a line.
//!
//! It is the expensive part. A caller runs it on as many threads as it likes and hands the results, in the order of the
//! log, to a [`Verifier`](crate::Verifier) or [`Replayer`](crate::Replayer).

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use chancery_core::admin::{self, Act};
use chancery_core::digest::Sha256Digest;
use chancery_core::keys::Keyring;
use chancery_core::line::{Line, ProtocolName};
use chancery_core::protocol::{SignatureCheck, Suite};

use crate::in_force::InForce;
use crate::line::{LineFault, Reading, read_with};

/// A line, read and checked by itself.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The SHA-256 of its bytes.
    pub hash: Sha256Digest,
    /// What it says, or why it is no line.
    pub reading: Result<Reading, LineFault>,
    /// Whether its signature holds under `keys_version`.
    signature: SignatureCheck,
    /// The version of the keyring that the signature was checked under.
    keys_version: u64,
    /// The input that the line was, when the check of its signature read it already.
    input: ReadInput,
    /// The settings that it was read under, if any.
    settings_version: Option<u64>,
}

/// What lines are read under: the keys in force, and the settings where they are at hand.
pub struct Terms<S: Suite> {
    pub(crate) keys: Keyring,
    /// With their version.
    pub(crate) settings: Option<(u64, Arc<S::Settings>)>,
}

impl<S: Suite> Terms<S> {
    /// Terms without settings.
    pub fn of_keys(keys: &Keyring) -> Self {
        Self {
            keys: keys.clone(),
            settings: None,
        }
    }
}

/// An input of some suite. A copy does not have it: it is read again from the line.
#[derive(Default)]
struct ReadInput(Option<Box<dyn Any + Send>>);

impl Clone for ReadInput {
    fn clone(&self) -> Self {
        Self(None)
    }
}

impl fmt::Debug for ReadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", if self.0.is_some() { "read" } else { "not read" })
    }
}

/// Reads a line (without its newline) and checks its signature under `keys`: see [`prepare_under`].
pub fn prepare<S: Suite>(suite: &S, line: Bytes, keys: &Keyring) -> Prepared {
    read(suite, line, keys, None)
}

/// Reads a line (without its newline) and checks its signature.
///
/// The terms are best those in force at that line. Older ones do no harm: where keys or settings changed in between, the
/// signature is checked and the input read again when the line is taken.
pub fn prepare_under<S: Suite>(suite: &S, line: Bytes, terms: &Terms<S>) -> Prepared {
    let settings = terms.settings.as_ref();
    let settings = settings.map(|(version, settings)| (*version, &**settings));
    read(suite, line, &terms.keys, settings)
}

/// The settings come with their version. A keyring is not copied for each line: it has a place for every owner.
fn read<S: Suite>(
    suite: &S,
    line: Bytes,
    keys: &Keyring,
    settings: Option<(u64, &S::Settings)>,
) -> Prepared {
    let hash = Sha256Digest::of(&line);
    let read = read_with(&line, |line, envelope| {
        let settings = settings.map(|(_, settings)| settings);
        suite.check_and_reread(line, envelope, keys, settings)
    });
    let (reading, (signature, input)) = match read {
        Ok((reading, checked)) => (Ok(reading), checked),
        Err(fault) => (Err(fault), (SignatureCheck::NotSigned, None)),
    };
    Prepared {
        hash,
        reading,
        signature,
        keys_version: keys.version(),
        settings_version: settings.map(|(version, _)| version),
        input: ReadInput(input.map(|input| Box::new(input) as Box<dyn Any + Send>)),
    }
}

impl Prepared {
    /// The input that the line was, if it was read already, by this suite and under no other settings.
    pub(crate) fn take_input<S: Suite>(&mut self, in_force: &InForce<S>) -> Option<S::Input> {
        if let Some(version) = self.settings_version
            && !in_force.has_settings(version)
        {
            return None;
        }
        let input = self.input.0.take()?.downcast().ok()?;
        Some(*input)
    }

    /// What the signature is worth under the keyring in force.
    pub(crate) fn signature_under<S: Suite>(
        &mut self,
        suite: &S,
        keys: &Keyring,
    ) -> SignatureCheck {
        match &self.reading {
            Ok(reading) if self.keys_version != keys.version() => {
                suite.check_signature(&reading.line, keys)
            }
            _ => std::mem::replace(&mut self.signature, SignatureCheck::NotSigned),
        }
    }
}

/// Whether the keys in force may be others after this line: a good place to end a chunk.
pub fn changes_keys(line: &Line) -> bool {
    line.protocol == ProtocolName::Node && matches!(admin::reread(line), Ok(Act::Key(_)))
}
