//! One direction of a session.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use super::pipes::{Pipe, Pipes};

/// Turns of one direction before the other one, and the other tasks, get theirs.
const TURNS: usize = 16;

/// A flow is large after `LARGE_READS` reads in a row of at least `LARGE` bytes, and stays so, also while its
/// sender pauses, until `SMALL_SPLICES` splices in a row of less than `SMALL` bytes.
const LARGE: usize = 16 * 1024;
const LARGE_READS: u8 = 2;
const SMALL: usize = 4 * 1024;
const SMALL_SPLICES: u8 = 4;

thread_local! {
    /// Read into by every copying flow of a worker thread; nothing stays in it from one turn to the next.
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; 64 * 1024].into());
}

#[derive(Debug)]
pub(super) struct Flow<'a> {
    held: Held<'a>,
    moved: u64,
    total: &'a AtomicU64,
    pipes: &'a Pipes,
    pace: Pace,
    stage: Stage,
}

/// What has been read and not yet written, because the target takes no more for now.
#[derive(Debug)]
enum Held<'a> {
    Nothing,
    Bytes(Vec<u8>),
    Pipe(Pipe<'a>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    Copying {
        large: u8,
    },
    Splicing {
        small: u8,
    },
    /// The system refused a pipe or a splice to this flow.
    OnlyCopying,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Open,
    /// The source has ended; what is held is still to be written, then the end itself.
    Closing,
    Closed,
}

/// Which socket failed. The flow is closed by it.
#[derive(Debug)]
pub(super) enum Broken {
    Source(io::Error),
    Target(io::Error),
}

impl<'a> Flow<'a> {
    pub(super) const fn new(total: &'a AtomicU64, pipes: &'a Pipes) -> Self {
        let (pace, stage) = (Pace::Copying { large: 0 }, Stage::Open);
        Self { held: Held::Nothing, moved: 0, total, pipes, pace, stage }
    }

    /// Bytes written to the target.
    pub(super) const fn moved(&self) -> u64 {
        self.moved
    }

    pub(super) fn is_closed(&self) -> bool {
        self.stage == Stage::Closed
    }

    /// Moves what can be moved now; the task is woken when there is more. The `last` of the two directions leaves
    /// it to the closing of the sockets to pass its end on: it says the same, and spares a call and a wake-up.
    pub(super) fn advance(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut TcpStream,
        target: &mut TcpStream,
        last: bool,
    ) -> Result<Stage, Broken> {
        let before = self.moved;
        let result = self.turns(cx, source, target, last);
        if self.moved > before {
            self.total.fetch_add(self.moved - before, Ordering::Relaxed);
        }
        if result.is_err() {
            self.held = Held::Nothing;
            self.stage = Stage::Closed;
        }
        result.map(|()| self.stage)
    }

    fn turns(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut TcpStream,
        target: &mut TcpStream,
        last: bool,
    ) -> Result<(), Broken> {
        for _ in 0..TURNS {
            match self.turn(cx, source, target, last) {
                Poll::Ready(result) => result?,
                Poll::Pending => return Ok(()),
            }
        }
        cx.waker().wake_by_ref();
        Ok(())
    }

    /// One step: writes what is held, or else reads. Pending also once the flow is closed.
    fn turn(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut TcpStream,
        target: &mut TcpStream,
        last: bool,
    ) -> Poll<Result<(), Broken>> {
        match (&self.held, self.stage) {
            (Held::Bytes(_) | Held::Pipe(_), _) => self.write_held(cx, target),
            (Held::Nothing, Stage::Open) => self.read(cx, source, target),
            (Held::Nothing, Stage::Closing) if last => {
                self.stage = Stage::Closed;
                Poll::Ready(Ok(()))
            }
            (Held::Nothing, Stage::Closing) => {
                ready!(Pin::new(target).poll_shutdown(cx)).map_err(Broken::Target)?;
                self.stage = Stage::Closed;
                Poll::Ready(Ok(()))
            }
            (Held::Nothing, Stage::Closed) => Poll::Pending,
        }
    }

    fn write_held(&mut self, cx: &mut Context<'_>, target: &mut TcpStream) -> Poll<Result<(), Broken>> {
        let (written, empty) = match &mut self.held {
            Held::Nothing => (0, true),
            Held::Bytes(bytes) => {
                let written = ready!(Pin::new(target).poll_write(cx, bytes)).map_err(Broken::Target)?;
                bytes.drain(..written);
                (written, bytes.is_empty())
            }
            Held::Pipe(pipe) => {
                ready!(target.poll_write_ready(cx)).map_err(Broken::Target)?;
                let written = match target.try_io(Interest::WRITABLE, || pipe.drain(&*target)) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                    result => result.map_err(Broken::Target)?,
                };
                (written, pipe.is_empty())
            }
        };
        self.moved += widen(written);
        if empty {
            self.held = Held::Nothing;
        }
        Poll::Ready(Ok(()))
    }

    fn read(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut TcpStream,
        target: &mut TcpStream,
    ) -> Poll<Result<(), Broken>> {
        if let Pace::Splicing { .. } = self.pace {
            ready!(source.poll_read_ready(cx)).map_err(Broken::Source)?;
            match self.pipes.borrow() {
                Ok(Some(pipe)) => return Poll::Ready(self.splice(pipe, source)),
                Ok(None) => {}
                Err(error) => self.only_copy(&error),
            }
        }
        self.copy(cx, source, target)
    }

    fn splice(&mut self, mut pipe: Pipe<'a>, source: &TcpStream) -> Result<(), Broken> {
        match source.try_io(Interest::READABLE, || pipe.fill(source)) {
            Ok(0) => self.stage = Stage::Closing,
            Ok(length) => {
                self.pace = self.pace.after(length);
                self.held = Held::Pipe(pipe);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if is_refusal(&error) => self.only_copy(&error),
            Err(error) => return Err(Broken::Source(error)),
        }
        Ok(())
    }

    /// Reads into the shared buffer and writes at once; only what the target does not take is kept.
    fn copy(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut TcpStream,
        target: &mut TcpStream,
    ) -> Poll<Result<(), Broken>> {
        BUFFER.with_borrow_mut(|buffer| {
            let mut buffer = ReadBuf::new(buffer);
            ready!(Pin::new(source).poll_read(cx, &mut buffer)).map_err(Broken::Source)?;
            let bytes = buffer.filled();
            if bytes.is_empty() {
                self.stage = Stage::Closing;
                return Poll::Ready(Ok(()));
            }
            self.pace = self.pace.after(bytes.len());
            let written = match Pin::new(target).poll_write(cx, bytes) {
                Poll::Ready(result) => result.map_err(Broken::Target)?,
                Poll::Pending => 0,
            };
            self.moved += widen(written);
            if let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
                self.held = Held::Bytes(rest.to_vec());
            }
            Poll::Ready(Ok(()))
        })
    }

    fn only_copy(&mut self, error: &io::Error) {
        tracing::debug!(%error, "the system refuses to splice; this connection is copied");
        self.pace = Pace::OnlyCopying;
    }
}

impl Pace {
    /// The pace after a read of `length` bytes.
    const fn after(self, length: usize) -> Self {
        match self {
            Self::Copying { .. } if length < LARGE => Self::Copying { large: 0 },
            Self::Copying { large } if large + 1 < LARGE_READS => Self::Copying { large: large + 1 },
            Self::Copying { .. } => Self::Splicing { small: 0 },
            Self::Splicing { .. } if length >= SMALL => Self::Splicing { small: 0 },
            Self::Splicing { small } if small + 1 < SMALL_SPLICES => Self::Splicing { small: small + 1 },
            Self::Splicing { .. } => Self::Copying { large: 0 },
            Self::OnlyCopying => Self::OnlyCopying,
        }
    }
}

/// Not the connection but the system call is at fault; nothing has been moved by it.
fn is_refusal(error: &io::Error) -> bool {
    [Errno::INVAL, Errno::PERM, Errno::NOSYS, Errno::NOMEM]
        .iter()
        .any(|refusal| Some(refusal.raw_os_error()) == error.raw_os_error())
}

fn widen(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::{
        pipes,
        tests::{fill, pair},
    };
    use super::*;

    #[test]
    fn large_flows_are_spliced_until_they_are_small_again() {
        const K: usize = 1024;
        let (copying, splicing) = (Pace::Copying { large: 0 }, Pace::Splicing { small: 0 });
        let cases: [(Pace, &[usize], Pace); 8] = [
            (copying, &[300, 300, 300], copying),
            (copying, &[16 * K, 300, 16 * K, 300], copying),
            (copying, &[16 * K], Pace::Copying { large: 1 }),
            (copying, &[16 * K, 64 * K], splicing),
            (splicing, &[100, 100, 100], Pace::Splicing { small: 3 }),
            (splicing, &[100, 100, 100, 4 * K, 100], Pace::Splicing { small: 1 }),
            (splicing, &[100, 100, 100, 100], copying),
            (Pace::OnlyCopying, &[64 * K, 64 * K, 64 * K], Pace::OnlyCopying),
        ];
        for (from, reads, wanted) in cases {
            assert_eq!(reads.iter().fold(from, |pace, &read| pace.after(read)), wanted, "{from:?} {reads:?}");
        }
    }

    /// The sender is stopped by the sockets' own buffers; the flow adds one buffer or one pipe, and frees it.
    #[tokio::test]
    async fn a_reader_that_stops_costs_one_buffer() {
        static PIPES: Pipes = Pipes::new(pipes::make);
        static REFUSING: Pipes = Pipes::new(|| Err(Errno::MFILE.into()));
        for (pipes, splices) in [(&PIPES, true), (&REFUSING, false)] {
            let (mut sender, mut source) = pair().await;
            let (mut target, mut reader) = pair().await;
            let total = AtomicU64::new(0);
            let mut flow = Flow::new(&total, pipes);
            let mut moving = async |flow: &mut Flow<'_>| {
                poll_fn(|cx| match flow.advance(cx, &mut source, &mut target, false) {
                    Ok(Stage::Closed) => Poll::Ready(()),
                    result => result.map_or_else(|error| panic!("{error:?}"), |_| Poll::Pending),
                })
                .await;
            };

            let sent = tokio::select! {
                () = moving(&mut flow) => panic!("nothing has ended"),
                sent = fill(&mut sender) => sent,
            };
            assert!(sent < 32 * 1024 * 1024, "{sent} bytes");
            match &flow.held {
                Held::Bytes(bytes) => assert!(!splices && bytes.len() <= 64 * 1024),
                Held::Pipe(pipe) => assert!(splices && !pipe.is_empty()),
                Held::Nothing => panic!("the target took everything"),
            }

            sender.shutdown().await.unwrap();
            let mut received = Vec::new();
            let (_, read) = tokio::join!(moving(&mut flow), reader.read_to_end(&mut received));
            assert_eq!(read.unwrap(), sent);
            assert!(received.iter().all(|&byte| byte == 7));
            assert!(matches!(flow.held, Held::Nothing));
        }
    }
}
