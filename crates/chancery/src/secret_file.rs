//! Files that hold secrets: made once, readable by their owner alone (CH-JRN-9, VX-KEY-8).

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use chancery_core::digest::hex;
use chancery_core::keys::ed25519::{KEY_BYTES, SigningKey, parse_secret};
use zeroize::Zeroizing;

use crate::exit::Failure;

/// Random bytes of the machine's secure generator.
///
/// # Errors
/// There is none.
pub(crate) fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, Failure> {
    let mut bytes = Zeroizing::new([0; N]);
    getrandom::fill(bytes.as_mut_slice()).map_err(|error| {
        Failure::damaged(format!("this machine gives no random bytes: {error}"))
    })?;
    Ok(bytes)
}

/// Makes a directory that its owner alone may enter; one that is there stays as it is.
pub(crate) fn make_private_folder(path: &Path) -> Result<(), Failure> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
        .create(path)
        .map_err(|error| Failure::usage(format!("cannot make {}: {error}", path.display())))
}

/// Writes a new file that its owner alone may read, and makes it durable. A file that is there is not touched.
pub(crate) fn write_private(path: &Path, text: &[u8]) -> Result<(), Failure> {
    write_new(path, text, 0o600)
}

/// Writes a new file, and makes it durable. A file that is there is not touched.
pub(crate) fn write_new(path: &Path, text: &[u8], mode: u32) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    #[cfg(not(unix))]
    let _ = mode;
    let written = options.open(path).and_then(|mut file| {
        file.write_all(text)?;
        file.sync_all()
    });
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(path),
        _ => Failure::usage(format!("cannot write {}: {error}", path.display())),
    })
}

/// A file that is there and must not be overwritten.
pub(crate) fn exists(path: &Path) -> Failure {
    Failure::usage(format!(
        "{} is there already and is not overwritten",
        path.display()
    ))
    .next("choose another place, or move it away")
}

/// Makes a new Ed25519 key and writes its seed as 64 hex characters.
pub(crate) fn new_key(path: &Path) -> Result<SigningKey, Failure> {
    let seed = random::<KEY_BYTES>()?;
    let text = Zeroizing::new(format!(
        "{}\n",
        *Zeroizing::new(hex::encode(seed.as_slice()))
    ));
    write_private(path, text.as_bytes())?;
    Ok(SigningKey::from_seed(&seed))
}

/// Reads a secret key from a file that others cannot read (VX-KEY-8).
pub(crate) fn read_key(path: &Path) -> Result<SigningKey, Failure> {
    let make = "name the file that holds it, or make a key: chancery key new FILE";
    let text = read_secret(path, "a secret key").map_err(|mut failure| {
        failure.next.get_or_insert_with(|| make.to_owned());
        failure
    })?;
    let wrong = |error| Failure::usage(format!("{}: {error}", path.display())).next(make);
    parse_secret(&text).map_err(wrong)
}

/// Reads a file that holds a secret and that others cannot read.
pub(crate) fn read_secret(path: &Path, what: &str) -> Result<Zeroizing<String>, Failure> {
    let cannot =
        |error: io::Error| Failure::usage(format!("cannot read {}: {error}", path.display()));
    #[cfg(unix)]
    {
        let metadata = fs::metadata(path).map_err(cannot)?;
        let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions());
        if mode & 0o077 != 0 {
            return Err(Failure::usage(format!(
                "{} holds {what} and others may read it (mode {:04o})",
                path.display(),
                mode & 0o7777
            ))
            .next(format!("chmod 600 {}", path.display())));
        }
    }
    Ok(Zeroizing::new(fs::read_to_string(path).map_err(cannot)?))
}
