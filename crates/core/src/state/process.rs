//! Local processes: from what is asked of a server and what is seen of it to its state.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::alert::{Kind, Trouble};
use crate::config::ProcessServer;
use crate::moment::Moment;
use crate::service::{Running, State};

/// The local servers of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProcessServices {
    pub servers: Vec<ProcessServer>,
}

/// What is asked of a server and what is seen of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The last order: one instance, or none.
    pub wanted: bool,
    pub process: Process,
    /// How its runs since the last wake ended, oldest first.
    pub exits: Vec<Exit>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Process {
    /// None.
    Down,
    /// Its keeper has been started and has not said anything yet.
    Spawning,
    Up(Up),
    /// Its keeper cannot be started; a sentence.
    NoKeeper(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Up {
    pub run: Arc<str>,
    pub stopping: Option<Stopping>,
    /// Whether the keeper is the one that started it. Another cannot learn its exit code.
    pub own_keeper: bool,
}

/// How far a stop has come, and for how long it has been there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopping {
    pub step: Step,
    pub age: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The stop command was typed into its console.
    Asked,
    /// Its process group got SIGTERM.
    Terminated,
    /// Its process group got SIGKILL.
    Killed,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    pub age: Duration,
    /// How long it had run.
    pub ran: Duration,
    pub how: How,
    /// It had been told to stop.
    pub asked: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    Code(i32),
    Signal(i32),
    /// It never ran; a sentence with the fix.
    NotStarted(String),
    /// Nobody saw it end: the machine went down, or its keeper was killed.
    Unseen,
}

impl How {
    /// What is to be told of an end, if nobody `asked` for it.
    pub fn trouble(&self, asked: bool) -> Option<Trouble> {
        match self {
            _ if asked => None,
            Self::Code(0) | Self::Unseen => None,
            Self::NotStarted(why) => Some(Trouble::once(Kind::CannotStart, why.clone())),
            Self::Code(_) | Self::Signal(_) => Some(Trouble::once(Kind::Crashed, explain(self))),
        }
    }
}

/// What a server is doing and when it is to be started, if at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlook {
    pub state: State,
    pub start: Option<Moment>,
    pub problems: Vec<String>,
}

/// Judges one server. A new wake clears `exits`, and with them every failure.
pub fn judge(server: &ProcessServer, seen: &Seen, now: Moment) -> Outlook {
    match (&seen.process, seen.wanted) {
        (Process::Up(up), wanted) => up_outlook(server, up, wanted),
        (Process::Spawning, true) => State::Starting { reason: "starting its process".to_owned() }.into(),
        (Process::Spawning, false) => State::Stopping.into(),
        (Process::NoKeeper(why), true) => State::Failed { reason: why.clone() }.into(),
        (Process::Down | Process::NoKeeper(_), false) => asleep(seen.exits.last()),
        (Process::Down, true) => down_outlook(server, &seen.exits, now),
    }
}

impl From<State> for Outlook {
    fn from(state: State) -> Self {
        Self { state, start: None, problems: Vec::new() }
    }
}

fn up_outlook(server: &ProcessServer, up: &Up, wanted: bool) -> Outlook {
    let mut problems = Vec::new();
    if !up.own_keeper {
        problems.push(
            "its keeper was killed and replaced: how this run ends cannot be known, so a crash will look \
             like a sleep"
                .to_owned(),
        );
    }
    problems.extend(up.stopping.and_then(|stopping| slow_stop(server, stopping)));
    let state = if up.stopping.is_some() || !wanted {
        State::Stopping
    } else {
        State::Running(Running { run: up.run.clone(), endpoints: vec![server.endpoint.clone()] })
    };
    Outlook { state, start: None, problems }
}

/// By this much past its grace a step that still waits for the next one waits for ever.
const LATE: Duration = Duration::from_secs(5);

/// Every step beyond the first is said, so that no grace is cut short silently.
fn slow_stop(server: &ProcessServer, Stopping { step, age }: Stopping) -> Option<String> {
    let grace = server.grace.as_secs();
    match step {
        Step::Asked if age > server.grace + LATE => Some(format!(
            "has not stopped {} s after it was asked to, and nothing was found to signal: look for it with \
             `fuser .swarmgate.lock` in its directory and end it",
            age.as_secs()
        )),
        Step::Asked => None,
        Step::Terminated if !server.kill && age > server.grace => Some(format!(
            "has not stopped {} s after SIGTERM and, as `kill` is off, is waited for; kill it by hand if it hangs",
            age.as_secs()
        )),
        Step::Terminated if server.stop_command.is_none() => None,
        Step::Terminated => Some(format!(
            "the stop command did not stop it within its grace of {grace} s, or did not reach it: SIGTERM was sent"
        )),
        Step::Killed => Some(format!("did not stop within its grace of {grace} s: SIGKILL was sent")),
    }
}

fn down_outlook(server: &ProcessServer, exits: &[Exit], now: Moment) -> Outlook {
    let Some(last) = exits.last() else {
        let state = State::Starting { reason: "starting its process".to_owned() };
        return Outlook { state, start: Some(now), problems: Vec::new() };
    };
    match &last.how {
        _ if last.asked => asleep(Some(last)),
        How::NotStarted(why) => State::Failed { reason: why.clone() }.into(),
        How::Code(0) | How::Unseen => asleep(Some(last)),
        How::Code(_) | How::Signal(_) => crashed(server, exits, last, now),
    }
}

/// Down as it should be, with what went wrong on the way there.
fn asleep(last: Option<&Exit>) -> Outlook {
    let problem = last.and_then(|exit| match exit.how {
        How::Signal(9) | How::Code(137) if exit.asked => Some(
            "was killed before it finished saving: the world may lack its last minutes; raise `grace` if it \
             was still saving"
                .to_owned(),
        ),
        How::Unseen => Some(
            "nobody saw its last run end (the machine went down, or its keeper was killed): a join starts it again"
                .to_owned(),
        ),
        How::Code(_) | How::Signal(_) | How::NotStarted(_) => None,
    });
    Outlook { problems: problem.into_iter().collect(), ..State::Asleep.into() }
}

fn crashed(server: &ProcessServer, exits: &[Exit], last: &Exit, now: Moment) -> Outlook {
    let in_a_row = crashes_in_a_row(exits, server.restart_window);
    let how = explain(&last.how);
    // For its owner; the reason is for players too.
    let problems = vec![format!("`swarmgate output {}` shows what it wrote before it crashed", server.name)];
    if in_a_row > server.max_restarts {
        let reason = match in_a_row {
            1 => format!("it crashed: {how}"),
            more => format!("it crashed {more} times in a row, the last time with {how}"),
        };
        return Outlook { problems, ..State::Failed { reason }.into() };
    }
    let until = now + server.restart_delay.saturating_sub(last.age);
    let reason = format!("it crashed with {how}; restart {in_a_row} of {}", server.max_restarts);
    Outlook { state: State::Restarting { until, reason }, start: Some(until), problems }
}

/// Counts back from the last exit, up to and including the last run that was stable.
fn crashes_in_a_row(exits: &[Exit], window: Duration) -> u32 {
    let mut count = 0;
    for exit in exits.iter().rev() {
        count += 1;
        if exit.ran >= window {
            break;
        }
    }
    count
}

/// `exit code 137: killed …`, in words a person can act on.
fn explain(how: &How) -> String {
    match how {
        How::Signal(signal) => format!("signal {signal}{}", signal_meaning(*signal)),
        How::Code(code) => {
            let meaning = match code {
                126 => ": the command could not be executed",
                127 => ": a command was not found",
                code => signal_meaning(code - 128),
            };
            format!("exit code {code}{meaning}")
        }
        How::NotStarted(why) => why.clone(),
        How::Unseen => "an unknown exit code".to_owned(),
    }
}

fn signal_meaning(signal: i32) -> &'static str {
    match signal {
        2 => ": interrupted from outside",
        6 => ": it aborted",
        9 => ": killed from outside, often because memory ran out",
        11 => ": a fault in native code",
        15 => ": told to end from outside",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Endpoint;
    use crate::service::tests::spec;
    use proptest::prelude::*;

    const NOW: Moment = Moment::after_start(Duration::from_secs(1000));

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn server() -> ProcessServer {
        ProcessServer {
            name: "survival".into(),
            spec: Arc::new(spec(&[])),
            command: vec!["java".to_owned()],
            directory: "/srv/survival".into(),
            env: Default::default(),
            endpoint: Endpoint { host: "127.0.0.1".into(), port: 25566 },
            stop_command: Some("stop".to_owned()),
            grace: secs(90),
            kill: true,
            restart_delay: secs(5),
            max_restarts: 3,
            restart_window: secs(600),
        }
    }

    fn exit(how: How) -> Exit {
        Exit { age: secs(2), ran: secs(60), how, asked: false }
    }

    fn asked(how: How) -> Exit {
        Exit { asked: true, ..exit(how) }
    }

    fn judged(wanted: bool, process: Process, exits: Vec<Exit>) -> Outlook {
        judge(&server(), &Seen { wanted, process, exits }, NOW)
    }

    fn up(stopping: Option<Stopping>) -> Process {
        Process::Up(Up { run: "7".into(), stopping, own_keeper: true })
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "the other reasons are no matter here")]
    /// The state in a word, when it starts, and what its reason or problem says.
    fn summary(outlook: &Outlook) -> (&'static str, Option<u64>, String) {
        let reason = match &outlook.state {
            State::Restarting { reason, .. } | State::Failed { reason } => reason.as_str(),
            _ => "",
        };
        let start = outlook.start.map(|start| NOW.until(start).as_secs());
        (outlook.state.word(), start, format!("{reason}{}", outlook.problems.join("; ")))
    }

    #[test]
    fn what_a_server_that_is_down_does_next() {
        let not_started = How::NotStarted("no such directory".to_owned());
        let crash = || exit(How::Code(1));
        for (wanted, exits, state, start, says) in [
            (false, vec![], "asleep", None, ""),
            (true, vec![], "starting", Some(0), ""),
            // Typed /stop into its console.
            (true, vec![exit(How::Code(0))], "asleep", None, ""),
            // Told to stop: asleep whatever the code.
            (false, vec![asked(How::Code(143))], "asleep", None, ""),
            (true, vec![asked(How::Code(1))], "asleep", None, ""),
            (false, vec![asked(How::Signal(9))], "asleep", None, "killed before it finished saving"),
            (false, vec![asked(How::Code(137))], "asleep", None, "killed before it finished saving"),
            (true, vec![asked(How::Signal(9))], "asleep", None, "killed before it finished saving"),
            // Killed, but not while stopping: a crash.
            (true, vec![exit(How::Signal(9))], "restarting", Some(3), "memory ran out; restart 1 of 3"),
            (true, vec![exit(How::Code(137))], "restarting", Some(3), "exit code 137: killed"),
            (true, vec![crash()], "restarting", Some(3), "restart 1 of 3`swarmgate output survival` shows"),
            (true, vec![exit(How::Code(127))], "restarting", Some(3), "not found"),
            (true, vec![crash(), crash()], "restarting", Some(3), "restart 2 of 3"),
            (true, vec![crash(), crash(), crash()], "restarting", Some(3), "restart 3 of 3"),
            (true, vec![crash(), crash(), crash(), crash()], "failed", None, "4 times in a row"),
            // A sleep that comes during the restart delay.
            (false, vec![crash()], "asleep", None, ""),
            (true, vec![exit(not_started.clone())], "failed", None, "no such directory"),
            (false, vec![exit(not_started.clone())], "asleep", None, ""),
            (true, vec![exit(How::Unseen)], "asleep", None, "nobody saw"),
        ] {
            let shown = format!("{wanted} {exits:?}");
            let (word, starts, text) = summary(&judged(wanted, Process::Down, exits));
            assert_eq!((word, starts), (state, start), "{shown}");
            assert!(text.contains(says) && (says.is_empty() == text.is_empty()), "{shown}: {text}");
        }
    }

    #[test]
    fn a_stable_run_forgives_the_crashes_before_it() {
        let stable = Exit { ran: secs(600), ..exit(How::Code(1)) };
        let crash = exit(How::Code(1));
        let exits = vec![crash.clone(), crash.clone(), crash.clone(), stable, crash];
        let (word, _, text) = summary(&judged(true, Process::Down, exits));
        assert_eq!(word, "restarting");
        assert!(text.contains("restart 2 of 3"), "{text}");
    }

    #[test]
    fn a_restart_that_is_overdue_is_due_now() {
        let late = Exit { age: secs(3600), ..exit(How::Code(1)) };
        assert_eq!(judged(true, Process::Down, vec![late]).start, Some(NOW));
    }

    #[test]
    fn what_a_server_that_is_up_shows() {
        let stopping = |step, age| up(Some(Stopping { step, age: secs(age) }));
        for (wanted, process, state, says) in [
            (true, up(None), "running", ""),
            // The order is out, the keeper has not read it yet.
            (false, up(None), "stopping", ""),
            (false, stopping(Step::Asked, 89), "stopping", ""),
            (false, stopping(Step::Asked, 96), "stopping", "look for it with"),
            (false, stopping(Step::Terminated, 1), "stopping", "SIGTERM was sent"),
            (false, stopping(Step::Killed, 0), "stopping", "SIGKILL was sent"),
            // A wake that comes while it stops does not undo the stop, nor start a second one.
            (true, stopping(Step::Asked, 1), "stopping", ""),
            (true, Process::Spawning, "starting", ""),
            (false, Process::Spawning, "stopping", ""),
            (true, Process::NoKeeper("no keeper".to_owned()), "failed", "no keeper"),
            (false, Process::NoKeeper("no keeper".to_owned()), "asleep", ""),
        ] {
            let shown = format!("{wanted} {process:?}");
            let (word, start, text) = summary(&judged(wanted, process, vec![exit(How::Code(1))]));
            assert_eq!((word, start), (state, None), "{shown}");
            assert!(text.contains(says) && (says.is_empty() == text.is_empty()), "{shown}: {text}");
        }
    }

    #[test]
    fn a_stop_that_may_not_kill_says_that_it_waits() {
        let server = ProcessServer { kill: false, ..server() };
        let process = up(Some(Stopping { step: Step::Terminated, age: secs(100) }));
        let outlook = judge(&server, &Seen { wanted: false, process, exits: Vec::new() }, NOW);
        assert_eq!(summary(&outlook).0, "stopping");
        assert!(outlook.problems[0].contains("100 s after SIGTERM"), "{:?}", outlook.problems);
    }

    #[test]
    fn without_a_stop_command_sigterm_is_no_surprise() {
        let server = ProcessServer { stop_command: None, ..server() };
        let process = up(Some(Stopping { step: Step::Terminated, age: secs(10) }));
        let seen = Seen { wanted: false, process, exits: Vec::new() };
        assert_eq!(judge(&server, &seen, NOW).problems, Vec::<String>::new());
    }

    fn any_how() -> impl Strategy<Value = How> {
        prop_oneof![
            any::<i32>().prop_map(How::Code),
            any::<i32>().prop_map(How::Signal),
            Just(How::NotStarted("why".to_owned())),
            Just(How::Unseen),
        ]
    }

    fn any_exit() -> impl Strategy<Value = Exit> {
        (0..10_000u64, 0..10_000u64, any_how(), any::<bool>()).prop_map(|(age, ran, how, asked)| Exit {
            age: secs(age),
            ran: secs(ran),
            how,
            asked,
        })
    }

    fn any_process() -> impl Strategy<Value = Process> {
        let step = prop_oneof![Just(Step::Asked), Just(Step::Terminated), Just(Step::Killed)];
        let stopping = proptest::option::of((step, 0..10_000u64));
        prop_oneof![
            Just(Process::Down),
            Just(Process::Spawning),
            Just(Process::NoKeeper("why".to_owned())),
            (stopping, any::<bool>()).prop_map(|(stopping, own_keeper)| Process::Up(Up {
                run: "7".into(),
                stopping: stopping.map(|(step, age)| Stopping { step, age: secs(age) }),
                own_keeper,
            })),
        ]
    }

    proptest! {
        #[test]
        fn starts_only_what_is_down_and_wanted(
            wanted in any::<bool>(),
            process in any_process(),
            exits in proptest::collection::vec(any_exit(), 0..8),
        ) {
            let down = process == Process::Down;
            let outlook = judged(wanted, process, exits.clone());
            if let Some(start) = outlook.start {
                prop_assert!(down && wanted);
                prop_assert!(NOW.until(start) <= secs(5));
                prop_assert!(!exits.last().is_some_and(|last| last.asked));
            }
            // A wake starts a server that is down, whatever happened before.
            prop_assert_eq!(judged(true, Process::Down, Vec::new()).start, Some(NOW));
        }

        #[test]
        fn a_crash_loop_ends(crashes in 1..20usize) {
            let exits = vec![exit(How::Code(1)); crashes];
            let gave_up = judged(true, Process::Down, exits).start.is_none();
            prop_assert_eq!(gave_up, crashes > 3);
        }
    }
}
