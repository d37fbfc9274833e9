//! Lines on their way to a log: one text, as the log's file will hold it.
//!
//! Lines are rendered once, where they stay: whoever writes them writes the text as it is.

use bytes::Bytes;

/// Lines in order, each with its newline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    text: Vec<u8>,
    /// Where each line ends, behind its newline.
    ends: Vec<usize>,
}

impl Lines {
    /// No lines, with room for so many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self {
            text: Vec::with_capacity(bytes),
            ends: Vec::new(),
        }
    }

    /// Adds a line that has no newline yet.
    pub fn push(&mut self, line: &[u8]) {
        self.render(|text| text.extend_from_slice(line));
    }

    /// Adds the line that `render` puts to the text; gives it back without its newline.
    pub(crate) fn render(&mut self, render: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
        let start = self.text.len();
        render(&mut self.text);
        self.text.push(b'\n');
        self.ends.push(self.text.len());
        &self.text[start..self.text.len() - 1]
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All of them with their newlines.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Where a line begins in the text.
    pub fn start_of(&self, line: usize) -> usize {
        match line {
            0 => 0,
            line => self.ends[line - 1],
        }
    }

    /// The lines without their newlines.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + DoubleEndedIterator {
        (0..self.len()).map(|line| &self.text[self.start_of(line)..self.ends[line] - 1])
    }

    /// The last line without its newline.
    pub fn last(&self) -> Option<&[u8]> {
        self.iter().next_back()
    }

    /// The lines without their newlines, as pieces of one allocation.
    pub fn into_bytes(self) -> Vec<Bytes> {
        let text = Bytes::from(self.text);
        let mut start = 0;
        let mut lines = Vec::with_capacity(self.ends.len());
        for end in self.ends {
            lines.push(text.slice(start..end - 1));
            start = end;
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_what_the_log_will_hold() {
        let mut lines = Lines::default();
        assert_eq!((lines.last(), lines.is_empty()), (None, true));
        for line in ["one", "", "three"] {
            lines.push(line.as_bytes());
        }
        assert_eq!(lines.text(), b"one\n\nthree\n");
        assert_eq!(
            (lines.len(), lines.start_of(0), lines.start_of(2)),
            (3, 0, 5)
        );
        assert_eq!(lines.last(), Some(&b"three"[..]));
        let each: Vec<&[u8]> = lines.iter().collect();
        assert_eq!(each, [&b"one"[..], b"", b"three"]);
        assert_eq!(lines.into_bytes(), ["one", "", "three"]);
    }
}
