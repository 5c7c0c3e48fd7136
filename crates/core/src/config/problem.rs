//! What is wrong with a configuration, said so that it can be mended without reading the manual.

use std::fmt;
use std::ops::Range;

/// One thing that is wrong, where, and what to do about it. Displayed as `line:column key: what; fix`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key's path (`server.survival.idle`), or the variable or flag that set it. Empty: the file as a whole.
    pub key: String,
    /// Where in the file; nowhere if it is not written there.
    pub at: Option<Position>,
    pub what: String,
    pub fix: String,
}

/// A place in the file, as editors count: both from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Position { line, column }) = self.at {
            write!(f, "{line}:{column} ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.what)?;
        if self.fix.is_empty() { Ok(()) } else { write!(f, "; {}", self.fix) }
    }
}

/// What is wrong with one value, and what to write instead. Where it stands is for the reader to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub what: String,
    pub fix: String,
}

impl Fault {
    pub fn new(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { what: what.into(), fix: fix.into() }
    }
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// Bytes of the file.
    File(Range<usize>),
    /// A variable or a flag, by name.
    Override(String),
}

impl Place {
    pub(super) fn problem(&self, text: &str, key: &str, fault: Fault) -> Problem {
        let Fault { what, fix } = fault;
        match self {
            Self::File(bytes) => {
                Problem { key: key.to_owned(), at: Some(position(text, bytes.start)), what, fix }
            }
            Self::Override(name) => Problem { key: name.clone(), at: None, what, fix },
        }
    }
}

fn position(text: &str, byte: usize) -> Position {
    let before = text.get(..byte).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    Position {
        line: before.matches('\n').count() + 1,
        column: before.get(line_start..).unwrap_or_default().chars().count() + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_as_editors_do() {
        let text = "a = 1\r\nbü = 2\n\nc";
        for (byte, line, column) in [(0, 1, 1), (4, 1, 5), (7, 2, 1), (10, 2, 3), (16, 4, 1), (99, 4, 2)] {
            assert_eq!(position(text, byte), Position { line, column }, "{byte}");
        }
    }

    #[test]
    fn reads_as_one_line() {
        let problem = Place::File(2..3).problem("\n\nx", "log.level", Fault::new("is odd", "write \"info\""));
        assert_eq!(problem.to_string(), "3:1 log.level: is odd; write \"info\"");
        let problem =
            Place::Override("--log-level".into()).problem("", "log.level", Fault::new("is odd", ""));
        assert_eq!(problem.to_string(), "--log-level: is odd");
    }
}
