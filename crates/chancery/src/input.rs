//! What a command reads: a file, or standard input for `-`.

use std::io::Read as _;
use std::path::Path;

use crate::exit::Failure;

/// Reads all of it.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().read_to_end(&mut text)
    } else {
        std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut text))
    };
    match read {
        Ok(_) => Ok(text),
        Err(error) => Err(
            Failure::usage(format!("cannot read {}: {error}", path.display()))
                .next("name a file, or - for standard input"),
        ),
    }
}

/// Its name for people.
pub(crate) fn name(path: &Path) -> String {
    if path == Path::new("-") {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    }
}
