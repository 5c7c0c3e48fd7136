//! The server's output: the file it writes, its older generations, and reading them.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use std::time::Duration;

use super::files::OUTPUT;

/// The size at which the file moves on to the next generation.
const LARGEST: u64 = 10 * 1024 * 1024;
/// How many files there are in all.
const GENERATIONS: u32 = 3;

/// How much of the end of the output is looked at for its last lines.
const TAIL: u64 = 1024 * 1024;
/// How often a followed file is looked at.
const FOLLOW_PAUSE: Duration = Duration::from_millis(200);
const FOLLOW_CHUNK: u64 = 64 * 1024;

/// The last `lines` lines of the output of the server with its state in `dir`, out of its last MiB. Bytes
/// that are not UTF-8 are replaced. Empty if it never ran.
pub fn tail(dir: &Path, lines: usize) -> io::Result<Vec<String>> {
    let mut pieces = Vec::new();
    let mut left = TAIL;
    for n in 0..GENERATIONS {
        let piece = last_bytes(&generation(dir, n), left)?;
        left = left.saturating_sub(u64::try_from(piece.len()).unwrap_or(u64::MAX));
        pieces.push(piece);
    }
    pieces.reverse();
    let text = pieces.concat();
    let text = String::from_utf8_lossy(&text);
    let mut last: Vec<_> = text.lines().rev().take(lines).map(str::to_owned).collect();
    last.reverse();
    Ok(last)
}

/// What the server of `dir` writes from now on.
pub fn follow(dir: &Path) -> Follow {
    let path = generation(dir, 0);
    let at = std::fs::metadata(&path).map_or(0, |found| found.len());
    Follow { path, at }
}

/// A reader of an output that grows.
#[derive(Debug)]
pub struct Follow {
    path: PathBuf,
    at: u64,
}

impl Follow {
    /// The next bytes, verbatim; waits for them. Cancel-safe.
    pub async fn next(&mut self) -> io::Result<Vec<u8>> {
        loop {
            let more = self.read()?;
            if !more.is_empty() {
                return Ok(more);
            }
            tokio::time::sleep(FOLLOW_PAUSE).await;
        }
    }

    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut more = Vec::new();
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(more),
            opened => opened?,
        };
        if file.metadata()?.len() < self.at {
            // It has moved on to the next generation.
            self.at = 0;
        }
        file.seek(SeekFrom::Start(self.at))?;
        self.at += u64::try_from(file.take(FOLLOW_CHUNK).read_to_end(&mut more)?).unwrap_or(0);
        Ok(more)
    }
}

/// The file as the server gets it. It writes to the file itself, not through the keeper, so that neither
/// the keeper's death nor its slowness ever blocks the server.
pub fn open(dir: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(dir.join(OUTPUT))
}

/// Generation `n` of the output in `dir`; 0 is the one being written.
pub fn generation(dir: &Path, n: u32) -> PathBuf {
    match n {
        0 => dir.join(OUTPUT),
        n => dir.join(format!("{OUTPUT}.{n}")),
    }
}

/// Moves a full file on, by copying: the server keeps its descriptor. What it writes between the end of
/// the copy and the cut, some microseconds, is lost.
pub fn rotate(dir: &Path) -> io::Result<()> {
    rotate_at(dir, LARGEST)
}

fn last_bytes(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(bytes),
        opened => opened?,
    };
    let start = file.metadata()?.len().saturating_sub(most);
    file.seek(SeekFrom::Start(start))?;
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn rotate_at(dir: &Path, largest: u64) -> io::Result<()> {
    let current = generation(dir, 0);
    match std::fs::metadata(&current) {
        Ok(found) if found.len() >= largest => {}
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(_) | Err(_) => return Ok(()),
    }
    for n in (1..GENERATIONS - 1).rev() {
        match std::fs::rename(generation(dir, n), generation(dir, n + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    let copied = io::copy(
        &mut File::open(&current)?,
        &mut OpenOptions::new().write(true).create_new(true).mode(0o600).open(generation(dir, 1))?,
    );
    // Cut even if the copy failed (the disk is full): the output must not fill what the world needs.
    OpenOptions::new().write(true).open(&current)?.set_len(0)?;
    copied.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_writer_goes_on_and_the_oldest_goes() {
        let dir = tempfile::tempdir().unwrap();
        let mut server = open(dir.path()).unwrap();
        let read = |n| std::fs::read_to_string(generation(dir.path(), n)).ok();
        for line in ["one", "two", "three", "four"] {
            server.write_all(line.as_bytes()).unwrap();
            rotate_at(dir.path(), 3).unwrap();
        }
        server.write_all(b"5").unwrap();
        rotate_at(dir.path(), 3).unwrap();
        let found: Vec<_> = (0..4).map(read).collect();
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(found, [text("5"), text("four"), text("three"), None]);
    }
}
