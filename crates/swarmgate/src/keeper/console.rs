//! The server's console: lines typed into it.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::files::CONSOLE;

/// A write of at most this many bytes (`PIPE_BUF`, pipe(7)) is not mixed with another's.
const LONGEST_LINE: usize = 4096;

#[derive(Debug, thiserror::Error)]
pub enum ConsoleError {
    #[error("the server is not running")]
    NotRunning,
    #[error("the server does not read its console: {LONGEST_LINE} bytes and more are waiting there")]
    NotReading,
    #[error("a console line is one line of text without control characters, at most {} bytes", LONGEST_LINE - 1)]
    BadLine,
    #[error("the console cannot be written to")]
    Io(#[source] io::Error),
}

impl ConsoleError {
    /// For metric labels.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::NotRunning => "not_running",
            Self::NotReading => "not_reading",
            Self::BadLine => "bad_line",
            Self::Io(_) => "io",
        }
    }
}

/// Types `line` into the console of the server with its state in `dir`. Never blocks.
pub fn send(dir: &Path, line: &str) -> Result<(), ConsoleError> {
    if line.is_empty() || line.len() >= LONGEST_LINE || line.chars().any(char::is_control) {
        return Err(ConsoleError::BadLine);
    }
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let open = OpenOptions::new().write(true).custom_flags(nonblocking).open(dir.join(CONSOLE));
    let mut console = open.map_err(|error| match Errno::from_io_error(&error) {
        // Never made, or nobody reads it.
        Some(Errno::NOENT | Errno::NXIO) => ConsoleError::NotRunning,
        Some(_) | None => ConsoleError::Io(error),
    })?;
    console.write_all(format!("{line}\n").as_bytes()).map_err(|error| {
        if error.kind() == ErrorKind::WouldBlock { ConsoleError::NotReading } else { ConsoleError::Io(error) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_is_one_command() {
        let dir = tempfile::tempdir().unwrap();
        for bad in ["", "say a\nstop", "say a\rstop", "say \u{1b}[31m", &"a".repeat(LONGEST_LINE)] {
            assert!(matches!(send(dir.path(), bad), Err(ConsoleError::BadLine)), "{bad:?}");
        }
        assert!(matches!(send(dir.path(), "say § ü"), Err(ConsoleError::NotRunning)));
    }
}
