//! Reading a file line by line in large pieces.

use std::io;

use bytes::Bytes;

use crate::disk::DiskFile;

const PIECE_BYTES: usize = 4 << 20;
const FIRST_PIECE_BYTES: usize = 64 << 10;

/// Shows every whole line between two offsets to `visit`, with its offset and without its newline, until that
/// returns `false`. Gives the offset behind the last line shown.
pub(crate) fn walk(
    file: &dyn DiskFile,
    from: u64,
    to: u64,
    mut visit: impl FnMut(u64, &[u8]) -> bool,
) -> io::Result<u64> {
    let mut at = from;
    let mut size = PIECE_BYTES;
    let mut buffer = Vec::new();
    while at < to {
        read_piece(file, at, to, size, &mut buffer)?;
        let start = at;
        for newline in memchr::memchr_iter(b'\n', &buffer) {
            let line_start = (at - start) as usize;
            if !visit(at, &buffer[line_start..newline]) {
                return Ok(at);
            }
            at = start + newline as u64 + 1;
        }
        if at == start {
            // No newline in the whole piece: either a longer line, or text without an end.
            if start + buffer.len() as u64 >= to || buffer.is_empty() {
                return Ok(at);
            }
            size *= 2;
        }
    }
    Ok(at)
}

/// Collects whole lines between two offsets: leaves out the first `skip`, takes at most `limit`.
pub(crate) fn collect(
    file: &dyn DiskFile,
    from: u64,
    to: u64,
    mut skip: u64,
    limit: usize,
    lines: &mut Vec<Bytes>,
) -> io::Result<()> {
    let mut at = from;
    let mut size = FIRST_PIECE_BYTES;
    let mut wanted = limit;
    while at < to && wanted > 0 {
        let mut buffer = Vec::new();
        read_piece(file, at, to, size, &mut buffer)?;
        let piece = Bytes::from(buffer);
        let mut line_start = 0;
        for newline in memchr::memchr_iter(b'\n', &piece) {
            if skip > 0 {
                skip -= 1;
            } else if wanted > 0 {
                lines.push(piece.slice(line_start..newline));
                wanted -= 1;
            } else {
                break;
            }
            line_start = newline + 1;
        }
        if line_start == 0 && (at + piece.len() as u64 >= to || piece.is_empty()) {
            return Ok(());
        }
        at += line_start as u64;
        size = if line_start == 0 {
            size * 2
        } else {
            (size * 2).min(PIECE_BYTES).max(size)
        };
    }
    Ok(())
}

fn read_piece(
    file: &dyn DiskFile,
    at: u64,
    to: u64,
    size: usize,
    buffer: &mut Vec<u8>,
) -> io::Result<()> {
    let size = usize::try_from(to - at).map_or(size, |rest| rest.min(size));
    buffer.resize(size, 0);
    let read = file.read_at(at, buffer)?;
    buffer.truncate(read);
    Ok(())
}

/// The first whole line of a file.
pub(crate) fn first_line(file: &dyn DiskFile) -> io::Result<Option<Vec<u8>>> {
    let mut first = None;
    walk_small(file, |line| first = Some(line.to_vec()))?;
    Ok(first)
}

fn walk_small(file: &dyn DiskFile, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let len = file.len()?;
    let mut size = FIRST_PIECE_BYTES;
    let mut buffer = Vec::new();
    loop {
        read_piece(file, 0, len, size, &mut buffer)?;
        if let Some(newline) = memchr::memchr(b'\n', &buffer) {
            take(&buffer[..newline]);
            return Ok(());
        }
        if buffer.len() as u64 >= len {
            return Ok(());
        }
        size *= 2;
    }
}

/// The last line of a file that ends with a newline, and its offset; none when the file does not end so.
pub(crate) fn last_line(file: &dyn DiskFile, len: u64) -> io::Result<Option<(u64, Vec<u8>)>> {
    let mut size = FIRST_PIECE_BYTES as u64;
    loop {
        let start = len.saturating_sub(size);
        let mut buffer = Vec::new();
        read_piece(file, start, len, (len - start) as usize, &mut buffer)?;
        if buffer.pop() != Some(b'\n') {
            return Ok(None);
        }
        match memchr::memrchr(b'\n', &buffer) {
            Some(newline) => {
                return Ok(Some((
                    start + newline as u64 + 1,
                    buffer.split_off(newline + 1),
                )));
            }
            None if start == 0 => return Ok(Some((0, buffer))),
            None => size *= 2,
        }
    }
}
