//! The few kernel pipes through which large flows are spliced.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

/// How many pipes may exist, and how large each is. Unprivileged users get 64 MiB of pipes in all by default.
const PIPES: usize = 64;
const PIPE_SIZE: usize = 256 * 1024;

/// A bounded set of pipes, lent for as long as they hold bytes.
#[derive(Debug)]
pub(super) struct Pipes {
    make: fn() -> io::Result<Ends>,
    stock: Mutex<Stock>,
}

#[derive(Debug)]
struct Stock {
    idle: Vec<Ends>,
    made: usize,
}

/// The read end and the write end.
type Ends = (OwnedFd, OwnedFd);

impl Pipes {
    /// The pipes of this process.
    pub(super) fn shared() -> &'static Self {
        static SHARED: Pipes = Pipes::new(make);
        &SHARED
    }

    pub(super) const fn new(make: fn() -> io::Result<Ends>) -> Self {
        Self { make, stock: Mutex::new(Stock { idle: Vec::new(), made: 0 }) }
    }

    /// An empty pipe, or `None` while all are in use.
    ///
    /// # Errors
    /// When the system refuses a new pipe, or one of a useful size.
    pub(super) fn borrow(&self) -> io::Result<Option<Pipe<'_>>> {
        let mut stock = self.stock();
        let ends = match stock.idle.pop() {
            Some(ends) => ends,
            None if stock.made == PIPES => return Ok(None),
            None => {
                let ends = (self.make)()?;
                stock.made += 1;
                ends
            }
        };
        Ok(Some(Pipe { ends: Some(ends), held: 0, pipes: self }))
    }

    fn stock(&self) -> MutexGuard<'_, Stock> {
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pipe on loan. Dropped empty it goes back; dropped with bytes in it, it is closed.
#[derive(Debug)]
pub(super) struct Pipe<'a> {
    ends: Option<Ends>,
    held: usize,
    pipes: &'a Pipes,
}

impl Pipe<'_> {
    pub(super) const fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Moves bytes from `source` into the pipe. Zero: `source` has ended.
    pub(super) fn fill(&mut self, source: impl AsFd) -> io::Result<usize> {
        let Some((_, write)) = &self.ends else { return Ok(0) };
        let filled = splice(source, None, write, None, PIPE_SIZE, FLAGS)?;
        self.held += filled;
        Ok(filled)
    }

    /// Moves bytes from the pipe to `target`.
    pub(super) fn drain(&mut self, target: impl AsFd) -> io::Result<usize> {
        let Some((read, _)) = &self.ends else { return Err(io::ErrorKind::WriteZero.into()) };
        let drained = splice(read, None, target, None, self.held, FLAGS)?;
        if drained == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.held -= drained;
        Ok(drained)
    }
}

/// Never `MORE`: it makes the last bytes of a burst wait for an acknowledgement.
const FLAGS: SpliceFlags = SpliceFlags::MOVE.union(SpliceFlags::NONBLOCK);

impl Drop for Pipe<'_> {
    fn drop(&mut self) {
        let mut stock = self.pipes.stock();
        match self.ends.take() {
            Some(ends) if self.held == 0 => stock.idle.push(ends),
            _ => stock.made -= 1,
        }
    }
}

/// Past its share of pipe memory a user is given tiny pipes without an error; asking for the size finds out.
pub(super) fn make() -> io::Result<Ends> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    fcntl_setpipe_size(&write, PIPE_SIZE)?;
    Ok((read, write))
}

#[cfg(test)]
impl Pipes {
    /// How many pipes are idle, and how many there are.
    pub(super) fn counts(&self) -> (usize, usize) {
        let stock = self.stock();
        (stock.idle.len(), stock.made)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use rustix::io::write;

    use super::*;

    #[test]
    fn there_are_never_more_than_the_limit() {
        let pipes = Pipes::new(make);
        let lent: Vec<_> = (0..PIPES).map(|_| pipes.borrow().unwrap().unwrap()).collect();
        assert!(pipes.borrow().unwrap().is_none());
        drop(lent);
        assert_eq!(pipes.counts(), (PIPES, PIPES));
        assert!(pipes.borrow().unwrap().is_some());
    }

    #[test]
    fn a_pipe_with_bytes_in_it_is_never_lent_again() {
        let pipes = Pipes::new(make);
        let (ours, theirs) = UnixStream::pair().unwrap();
        write(&ours, b"of another player").unwrap();
        let mut pipe = pipes.borrow().unwrap().unwrap();
        assert_eq!(pipe.fill(&theirs).unwrap(), 17);
        drop(pipe);
        assert_eq!(pipes.counts(), (0, 0));
    }
}
