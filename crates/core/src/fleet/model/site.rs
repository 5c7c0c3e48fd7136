//! Simulated servers: each a process with a game in it, and the orchestrator that runs them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::fleet::Probed;
use crate::moment::Moment;
use crate::service::tests::spec;
use crate::service::{Endpoint, Running, Service, ServiceId, Spec, State};

/// From the start of a process to its port taking connections.
const OPENS: Duration = Duration::from_secs(1);
/// From a crash to the next start.
const RESTART_DELAY: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Game {
    /// Says how many players it has.
    Honest,
    /// Counts nobody who came through the gate.
    Hides,
    /// Answers without a count.
    Mute,
    Silent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scales {
    Work,
    Refuse,
    /// They work, and the gate hears that they did not.
    LoseTheReply,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Process {
    Down,
    Alive { run: Arc<str>, opens: Moment, ready: Moment, end: Option<End> },
    Restarting { until: Moment },
    GaveUp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    ToldToStop(Moment),
    Crash(Moment),
}

/// One service's side of the world.
#[derive(Debug)]
pub struct Site {
    pub id: ServiceId,
    pub spec: Spec,
    pub listed: bool,
    /// Its orchestrator lists it but cannot say what it does.
    pub obscure: bool,
    pub process: Process,
    pub boot: Duration,
    pub stop: Duration,
    pub scales: Scales,
    pub game: Game,
    /// Players who came by another way than the gate.
    pub outsiders: u32,
    /// The seats of those who came through the gate into this run.
    pub inside: BTreeSet<u64>,
    /// This many of the next starts crash.
    pub doomed: u32,
    crashes: u32,
    runs: u32,
}

impl Site {
    pub fn new(number: usize) -> Self {
        let name = format!("s{number}");
        let mut spec = spec(&[&format!("{name}.example.com")]);
        spec.default = number == 0;
        spec.idle = Duration::from_secs(12);
        spec.start_timeout = Duration::from_secs(20);
        spec.cooldown = Duration::from_secs(5);
        Self {
            id: ServiceId::new("process", &name),
            spec,
            listed: true,
            obscure: false,
            process: Process::Down,
            boot: Duration::from_secs(4),
            stop: Duration::from_secs(3),
            scales: Scales::Work,
            game: Game::Honest,
            outsiders: 0,
            inside: BTreeSet::new(),
            doomed: 0,
            crashes: 0,
            runs: 0,
        }
    }

    pub fn seen(&self, now: Moment) -> Option<Service> {
        self.listed.then(|| Service {
            id: self.id.clone(),
            spec: Arc::new(self.spec.clone()),
            state: self.state(now),
            scalable: true,
            problems: Vec::new(),
        })
    }

    fn state(&self, now: Moment) -> State {
        if self.obscure {
            return State::Unknown { reason: "503".to_owned() };
        }
        match &self.process {
            Process::Down => State::Asleep,
            Process::GaveUp => State::Failed { reason: "crashed too often".to_owned() },
            Process::Restarting { until } => {
                State::Restarting { until: *until, reason: "exit code 1".to_owned() }
            }
            Process::Alive { end: Some(End::ToldToStop(_)), .. } => State::Stopping,
            Process::Alive { opens, .. } if now < *opens => State::Starting { reason: "loading".to_owned() },
            Process::Alive { run, .. } => State::Running(Running {
                run: Arc::clone(run),
                endpoints: vec![Endpoint { host: "127.0.0.1".into(), port: 25_570 }],
            }),
        }
    }

    /// When it next changes by itself.
    pub fn due(&self, now: Moment) -> Option<Moment> {
        match &self.process {
            Process::Down | Process::GaveUp => None,
            Process::Restarting { until } => Some(*until),
            Process::Alive { opens, end, .. } => {
                let ends = end.map(|(End::ToldToStop(at) | End::Crash(at))| at);
                [Some(*opens).filter(|opens| *opens > now), ends].into_iter().flatten().min()
            }
        }
    }

    /// Does what is due. True if it went down though nobody told it to.
    pub fn live(&mut self, now: Moment) -> bool {
        match self.process {
            Process::Alive { end: Some(End::ToldToStop(at)), .. } if at <= now => {
                self.down(Process::Down);
                false
            }
            Process::Alive { end: Some(End::Crash(at)), .. } if at <= now => {
                self.crash(now);
                true
            }
            Process::Alive { ready, end: None, .. } if ready <= now => {
                self.crashes = 0;
                false
            }
            Process::Restarting { until } if until <= now => {
                self.start(now);
                false
            }
            Process::Down | Process::Alive { .. } | Process::Restarting { .. } | Process::GaveUp => false,
        }
    }

    pub fn start(&mut self, now: Moment) {
        self.runs += 1;
        let ready = now + OPENS + self.boot;
        let doomed = self.doomed > 0;
        self.doomed = self.doomed.saturating_sub(1);
        self.process = Process::Alive {
            run: format!("{} run {}", self.id.name, self.runs).into(),
            opens: now + OPENS,
            ready,
            end: doomed.then_some(End::Crash(ready)),
        };
    }

    pub fn stop(&mut self, now: Moment) {
        let ends = now + self.stop;
        match &mut self.process {
            Process::Alive { end: Some(End::ToldToStop(_)), .. } | Process::Down => {}
            Process::Alive { end, .. } => *end = Some(End::ToldToStop(ends)),
            Process::Restarting { .. } | Process::GaveUp => self.down(Process::Down),
        }
    }

    /// Restarts twice, then gives up.
    pub fn crash(&mut self, now: Moment) {
        self.crashes += 1;
        if self.crashes > 2 {
            self.crashes = 0;
            self.down(Process::GaveUp);
        } else {
            self.down(Process::Restarting { until: now + RESTART_DELAY });
        }
    }

    pub fn down(&mut self, process: Process) {
        self.process = process;
        self.outsiders = 0;
    }

    pub fn scale(&mut self, up: bool, now: Moment) -> Result<(), String> {
        if !self.listed || self.scales == Scales::Refuse {
            return Err("refused".to_owned());
        }
        match (up, &self.process) {
            (false, _) => self.stop(now),
            (true, Process::Down | Process::GaveUp) => self.start(now),
            (true, Process::Alive { end: Some(End::ToldToStop(_)), .. }) => {
                return Err("the old process is still stopping".to_owned());
            }
            (true, Process::Alive { .. } | Process::Restarting { .. }) => {}
        }
        match self.scales {
            Scales::LoseTheReply => Err("no reply".to_owned()),
            Scales::Work | Scales::Refuse => Ok(()),
        }
    }

    /// What a probe that dialled `asked` finds now.
    pub fn probe(&self, asked: &str, now: Moment) -> Probed {
        let silent = |reason: &str| Probed::Silent { reason: reason.to_owned() };
        let Process::Alive { run, ready, .. } = &self.process else { return silent("refused") };
        if **run != *asked || now < *ready {
            return silent("refused");
        }
        let inside = u32::try_from(self.inside.len()).unwrap();
        let online = match self.game {
            Game::Silent => return silent("timed out"),
            Game::Honest => Some(self.outsiders + inside),
            Game::Hides => Some(self.outsiders),
            Game::Mute => None,
        };
        let status = serde_json::json!({"players": {"online": online, "max": 20}, "version": **run});
        Probed::Answered { online, status }
    }

    pub fn is_alive(&self) -> bool {
        matches!(self.process, Process::Alive { .. })
    }

    pub fn heal(&mut self) {
        self.listed = true;
        self.obscure = false;
        self.doomed = 0;
        self.scales = Scales::Work;
        self.game = Game::Honest;
        self.boot = Duration::from_secs(4);
        self.stop = Duration::from_secs(3);
        self.spec.wake = true;
        self.spec.sleep = true;
        self.spec.start_timeout = Duration::from_secs(20);
    }
}
