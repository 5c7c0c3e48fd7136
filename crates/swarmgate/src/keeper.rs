//! The keeper: one small process per running server, which starts it, stops it and records how it ended.
//!
//! It is a process of its own so that the gate may crash, be killed or be upgraded while people play. It
//! talks to the gate through files only (`files`), and its server needs it for nothing: the server writes
//! its output to a file, reads its console from a FIFO that never ends, and holds its locks itself. So even a
//! killed keeper costs no more than the exit code: the next keeper adopts the server.

pub mod console;
pub mod files;
pub mod output;
pub mod watch;

mod child;

pub use child::{obstacle, remains};

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use swarmgate_core::state::process::{How, Step};
use tokio::process::Child;
use tokio::signal::unix::{Signal as Terminated, SignalKind, signal};

use files::{Exit, KEEPER_LOCK, Record, Run, Stopping, Wish, unix_ms};
use watch::Watch;

/// What a keeper is for: to start a server, or to take over one that runs.
pub const START: &str = "start";
pub const ADOPT: &str = "adopt";

/// How many ends of runs are remembered.
const EXITS_KEPT: usize = 20;
/// How often a quiet server is looked at: its output may have to be rotated.
const QUIET: Duration = Duration::from_secs(5);
/// How often when its end is near, or can only be seen by looking.
const CLOSE: Duration = Duration::from_millis(200);
/// How often, and with what pause, the end of a run is written again where the disk is full.
const LAST_TRIES: u32 = 60;
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// Runs a keeper until its server has ended. Its arguments: [`START`] or [`ADOPT`], and the directory of the
/// server's state.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<_> = arguments.collect();
    let (start, dir) = match arguments.as_slice() {
        [purpose, dir] if purpose == START => (true, PathBuf::from(dir)),
        [purpose, dir] if purpose == ADOPT => (false, PathBuf::from(dir)),
        _ => return fail("a keeper is started by the gate: keeper start|adopt DIRECTORY"),
    };
    // Out of the gate's session: a Ctrl-C or a closed terminal is for the gate alone. It fails only for a
    // leader of a group, which has left already.
    let _ = rustix::process::setsid();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.and_then(|runtime| runtime.block_on(keep(start, dir))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

fn fail(why: &str) -> ExitCode {
    say(why);
    ExitCode::FAILURE
}

/// To its log file.
fn say(what: &str) {
    let _ = writeln!(io::stderr(), "{what}");
}

/// Ends what a predecessor left, or starts what is wanted. Never both: the gate looks in between.
async fn keep(start: bool, dir: PathBuf) -> io::Result<()> {
    // Kept until the end of the process.
    let Some(_only) = child::lock(&dir.join(KEEPER_LOCK)).await? else { return Ok(()) };
    let mut terminated = signal(SignalKind::terminate())?;
    let wish = Wish::read(&dir)?;
    let record = Record { keeper: std::process::id(), ..Record::read(&dir)? };
    let mut keeper = Keeper::new(dir, record);
    match &keeper.record.run {
        Some(run) if keeper.has_ended(run) => keeper.ended(How::Unseen).await,
        Some(_) => keeper.supervise(wish, &mut terminated).await,
        None if !start || !wish.up => keeper.save(),
        None => match keeper.start(&wish).await {
            Ok(()) => keeper.supervise(wish, &mut terminated).await,
            Err(why) => keeper.not_started(wish.number, why),
        },
    }
}

struct Keeper {
    dir: PathBuf,
    record: Record,
    /// Whether the record is still to be written.
    unsaved: bool,
    /// The server, unless it is adopted.
    child: Option<Child>,
    /// How the child itself ended; others of its group may live on.
    exited: Option<How>,
    /// When the present step of the stop began. An adopted stop gets its whole grace again.
    step_began: Instant,
    /// The last trouble that was said.
    complaint: String,
}

impl Keeper {
    fn new(dir: PathBuf, record: Record) -> Self {
        Self {
            dir,
            record,
            unsaved: true,
            child: None,
            exited: None,
            step_began: Instant::now(),
            complaint: String::new(),
        }
    }

    /// The error is a sentence for the server's owner.
    async fn start(&mut self, wish: &Wish) -> Result<(), String> {
        let prepared = child::prepare(&self.dir, &wish.server).await?;
        let (keeper, started_ms) = (std::process::id(), unix_ms());
        let mut run = Run {
            id: format!("{started_ms}-{keeper}"),
            wish: wish.number,
            keeper,
            pid: 0,
            start_ticks: 0,
            boot: child::boot(),
            started_ms,
            asked: false,
            stopping: None,
        };
        // Written first: a server that nobody knows of could never be stopped.
        self.record.run = Some(run.clone());
        self.save().map_err(|error| format!("its state cannot be written: {error}"))?;
        self.child = Some(prepared.start(&mut run)?);
        self.record.run = Some(run);
        self.save_later();
        Ok(())
    }

    async fn supervise(&mut self, mut wish: Wish, terminated: &mut Terminated) -> io::Result<()> {
        let watch = Watch::new();
        watch.add(&self.dir);
        loop {
            let Some(run) = &self.record.run else { return Ok(()) };
            if self.has_ended(run) {
                return self.ended(self.exited.clone().unwrap_or(How::Unseen)).await;
            }
            // A wish that cannot be read changes nothing.
            wish = Wish::read(&self.dir).unwrap_or(wish);
            self.follow(&wish);
            self.save_later();
            if let Err(error) = output::rotate(&self.dir) {
                self.complain(format!("the output cannot be rotated: {error}"));
            }
            let close =
                self.child.is_none() || self.record.run.as_ref().is_some_and(|run| run.stopping.is_some());
            tokio::select! {
                biased;
                // Told to end, as when the machine shuts down: not before its server.
                _ = terminated.recv() => self.ask_to_stop(),
                how = exit(&mut self.child), if self.exited.is_none() => self.exited = Some(how),
                () = watch.changed() => {}
                () = tokio::time::sleep(if close || self.exited.is_some() { CLOSE } else { QUIET }) => {}
            }
        }
    }

    /// Whether nothing of the run is left: neither the process, nor its group, nor whoever has its lock.
    fn has_ended(&self, run: &Run) -> bool {
        let gone = match (&self.child, &self.exited) {
            (Some(_), None) => false,
            (Some(_), Some(_)) => !child::group_lives(run.pid),
            (None, _) => true,
        };
        gone && !child::remains(&self.dir, run)
    }

    fn ask_to_stop(&mut self) {
        if let Some(run) = &mut self.record.run {
            run.asked = true;
            self.unsaved = true;
        }
    }

    /// Does what the wish asks for next.
    fn follow(&mut self, wish: &Wish) {
        let Some(run) = &mut self.record.run else { return };
        if !wish.up && !run.asked {
            run.asked = true;
            self.unsaved = true;
        }
        // Woken again before the stop was seen: it never stopped, and belongs to the new wake.
        if wish.up && !run.asked && run.wish != wish.number {
            run.wish = wish.number;
            self.unsaved = true;
        }
        let killed = wish.kill_run.as_ref() == Some(&run.id);
        let grace_is_over = self.step_began.elapsed() >= Duration::from_millis(wish.server.grace_ms);
        let next = match run.stopping.map(|stopping| stopping.step) {
            None | Some(Step::Asked | Step::Terminated) if killed => Some(Step::Killed),
            // What the server's own end leaves behind is told to end too.
            None if self.exited.is_some() => Some(Step::Terminated),
            None if run.asked => Some(Step::Asked),
            Some(Step::Asked) if grace_is_over => Some(Step::Terminated),
            Some(Step::Terminated) if grace_is_over && wish.server.kill => Some(Step::Killed),
            None | Some(Step::Asked | Step::Terminated | Step::Killed) => None,
        };
        if let Some(step) = next {
            self.take(step, wish);
        }
    }

    fn take(&mut self, step: Step, wish: &Wish) {
        let step = match step {
            Step::Asked if self.typed(wish.server.stop_command.as_deref()) => Step::Asked,
            Step::Asked | Step::Terminated if self.signalled(Signal::TERM) => Step::Terminated,
            Step::Killed if self.signalled(Signal::KILL) => Step::Killed,
            // Nothing can be done but wait, which the gate says.
            Step::Asked | Step::Terminated | Step::Killed => Step::Asked,
        };
        self.step_began = Instant::now();
        if let Some(run) = &mut self.record.run {
            run.asked |= wish.kill_run.as_ref() == Some(&run.id);
            run.stopping = Some(Stopping { step, since_ms: unix_ms() });
            say(&format!("{} run {}: {step:?}", unix_ms(), run.id));
        }
        self.unsaved = true;
    }

    fn typed(&self, stop_command: Option<&str>) -> bool {
        let Some(line) = stop_command else { return false };
        match console::send(&self.dir, line) {
            Ok(()) => true,
            Err(error) => {
                say(&format!("the stop command did not reach the server: {error}"));
                false
            }
        }
    }

    /// Whether there was anything to signal that is surely the server's: the process id of an adopted server
    /// that has ended may be anybody's, and then it is who holds its lock.
    fn signalled(&self, signal: Signal) -> bool {
        match &self.record.run {
            Some(run) if self.child.is_some() || child::lives(run) => {
                child::signal(run, signal);
                true
            }
            Some(_) => child::signal_holders(&self.dir, signal),
            None => false,
        }
    }

    async fn ended(&mut self, how: How) -> io::Result<()> {
        let Some(run) = self.record.run.take() else { return Ok(()) };
        self.push(Exit::of(&run, how));
        for _ in 0..LAST_TRIES {
            match self.save() {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error),
                Err(error) => say(&format!("the end of the run cannot be written: {error}")),
            }
            tokio::time::sleep(LAST_PAUSE).await;
        }
        self.save()
    }

    fn not_started(&mut self, wish: u64, why: String) -> io::Result<()> {
        self.record.run = None;
        let now = unix_ms();
        self.push(Exit { wish, started_ms: now, ended_ms: now, asked: false, how: How::NotStarted(why) });
        self.save()
    }

    fn push(&mut self, exit: Exit) {
        self.record.exits.push(exit);
        let surplus = self.record.exits.len().saturating_sub(EXITS_KEPT);
        self.record.exits.drain(..surplus);
    }

    fn save(&self) -> io::Result<()> {
        self.record.write(&self.dir)
    }

    /// Writes what is new; what cannot be written now is tried again at the next look.
    fn save_later(&mut self) {
        if self.unsaved {
            match self.save() {
                Ok(()) => self.unsaved = false,
                Err(error) => self.complain(format!("the state cannot be written: {error}")),
            }
        }
    }

    /// Once, however often it happens.
    fn complain(&mut self, what: String) {
        if self.complaint != what {
            say(&what);
            self.complaint = what;
        }
    }
}

async fn exit(child: &mut Option<Child>) -> How {
    match child {
        Some(child) => child.wait().await.map_or(How::Unseen, how),
        None => std::future::pending().await,
    }
}

fn how(status: ExitStatus) -> How {
    match (status.code(), status.signal()) {
        (Some(code), _) => How::Code(code),
        (None, Some(signal)) => How::Signal(signal),
        (None, None) => How::Unseen,
    }
}
