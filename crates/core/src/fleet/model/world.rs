//! The world around the fleet: carries out what it decides, tells it what became of that, and checks
//! every decision against the naive model.

use std::fmt::{Debug, Write};

use proptest::test_runner::TestCaseError;

use super::naive::{Known, Naive};
use super::site::{End, Process, Site};
use super::{Op, SITES, TIMEOUTS, Who};
use crate::fleet::*;
use crate::knock::{Knock, Player, Purpose, Seat, Verdict};
use crate::ladder::Client;
use crate::service::{Players, Spec};

const SECOND: Duration = Duration::from_secs(1);
/// Long enough for anything that is going to happen in a healthy world.
const PATIENCE: u32 = 400;

/// Somebody who holds a seat.
#[derive(Debug)]
struct Guest {
    seat: Seat,
    site: usize,
    /// Has seen the service running, or heard why it is not.
    heard: bool,
}

#[derive(Debug)]
enum Errand {
    Scale { site: usize, up: bool },
    Probe { site: usize, run: Arc<str>, found: Probed },
}

#[derive(Debug)]
pub struct World {
    now: Moment,
    lazy: Fleet,
    eager: Fleet,
    effects: [Vec<Effect>; 2],
    sites: Vec<Site>,
    naive: Vec<Naive>,
    guests: Vec<Guest>,
    errands: Vec<(Moment, Errand)>,
    scales_take: Duration,
    probes_take: Duration,
    lost: bool,
    relist: bool,
    policy: Policy,
    delivered: Option<Snapshot>,
    view: View,
    log: String,
}

pub type Checked = Result<(), TestCaseError>;

macro_rules! check {
    ($world:expr, $condition:expr, $($why:tt)+) => {
        if !$condition {
            return Err(TestCaseError::fail(format!("{}\n{}", format!($($why)+), $world.log)));
        }
    };
}

impl World {
    pub fn new() -> Self {
        let policy = Policy {
            clients: Clients::default(),
            waking_at_once: 2,
            awake_at_once: None,
            wake_rate: Rate { burst: 1, every: Duration::ZERO },
            limbo: Caps { per_source: 64, total: 1000 },
            trusted: Vec::new(),
        };
        Self {
            now: Moment::START,
            lazy: Fleet::new(policy.clone()),
            eager: Fleet::new(policy.clone()),
            effects: [Vec::new(), Vec::new()],
            sites: (0..SITES).map(Site::new).collect(),
            naive: (0..SITES).map(|_| Naive::default()).collect(),
            guests: Vec::new(),
            errands: Vec::new(),
            scales_take: Duration::ZERO,
            probes_take: Duration::ZERO,
            lost: false,
            relist: false,
            policy,
            delivered: None,
            view: View::new(),
            log: String::new(),
        }
    }

    pub fn run(&mut self, history: &[Op]) -> Checked {
        self.step()?;
        for op in history {
            self.note(op);
            self.apply(op)?;
            self.step()?;
        }
        self.heal()
    }

    /// Everything works again: whoever waits must hear something, and when all have left, all must sleep.
    fn heal(&mut self) -> Checked {
        self.note(&"the world is healthy");
        self.lost = false;
        (self.scales_take, self.probes_take) = (Duration::ZERO, Duration::ZERO);
        self.sites.iter_mut().for_each(Site::heal);
        self.until("somebody waits for ever", |world| world.guests.iter().all(|guest| guest.heard))?;
        self.note(&"everybody leaves");
        while !self.guests.is_empty() {
            self.leave(0)?;
        }
        self.sites.iter_mut().for_each(|site| site.outsiders = 0);
        self.until("an empty server never sleeps", |world| !world.sites.iter().any(Site::is_alive))?;
        self.until("a fleet at rest asks for ticks", |world| world.lazy.next_deadline().is_none())
    }

    fn until(&mut self, otherwise: &str, done: impl Fn(&Self) -> bool) -> Checked {
        for _ in 0..PATIENCE {
            self.step()?;
            if done(self) {
                return Ok(());
            }
            self.pass(SECOND)?;
        }
        check!(self, false, "{otherwise}: {:?}", self.lazy.reports(self.now));
        Ok(())
    }

    fn apply(&mut self, op: &Op) -> Checked {
        let now = self.now;
        match *op {
            Op::Pass { ms } => return self.pass(Duration::from_millis(ms)),
            Op::Join(site, who) => return self.join(site, who),
            Op::Leave(_) if self.guests.is_empty() => {}
            Op::Leave(n) => return self.leave(n % self.guests.len()),
            Op::WakeByHand(site) => {
                let id = self.sites[site].id.clone();
                let done = self.both(|fleet| fleet.wake(&id, now))?;
                self.naive[site].wanted |= done.is_ok();
                return self.absorb();
            }
            Op::SleepByHand { site, force } => return self.sleep_by_hand(site, force),
            Op::Outsiders(site, n) => {
                let site = &mut self.sites[site];
                site.outsiders = if site.is_alive() { n } else { 0 };
            }
            Op::Crash(site) if self.sites[site].is_alive() => {
                self.sites[site].crash(now);
                self.naive[site].excuse = true;
            }
            Op::Exit(site) if self.sites[site].is_alive() => {
                self.sites[site].down(Process::Down);
                self.naive[site].excuse = true;
            }
            Op::Crash(_) | Op::Exit(_) => {}
            Op::StartOutside(site) => {
                if matches!(self.sites[site].process, Process::Down | Process::GaveUp) {
                    self.sites[site].start(now);
                }
            }
            Op::StopOutside(site) => {
                self.sites[site].stop(now);
                self.naive[site].excuse = true;
            }
            Op::DoomedStarts(site, n) => self.sites[site].doomed = n,
            Op::Boots { site, ms } => self.sites[site].boot = Duration::from_millis(ms),
            Op::Stops { site, ms } => self.sites[site].stop = Duration::from_millis(ms),
            Op::Game(site, game) => self.sites[site].game = game,
            Op::Scales(site, scales) => self.sites[site].scales = scales,
            Op::ScalesTake { ms } => self.scales_take = Duration::from_millis(ms),
            Op::ProbesTake { ms } => self.probes_take = Duration::from_millis(ms),
            Op::Lose => {
                self.lost = true;
                self.naive.iter_mut().for_each(|naive| naive.stale = true);
                self.both(|fleet| fleet.lost("process", "no answer", now))?;
                return self.absorb();
            }
            Op::Find => self.lost = false,
            Op::Obscure(site, on) => self.sites[site].obscure = on,
            Op::Remove { site, with_its_process } => {
                self.sites[site].listed = false;
                if with_its_process {
                    self.sites[site].down(Process::Down);
                    self.naive[site].excuse = true;
                }
            }
            Op::Create(site) => self.sites[site].listed = true,
            Op::Idle(site, s) => self.sites[site].spec.idle = Duration::from_secs(s),
            Op::StartTimeout(site, s) => self.sites[site].spec.start_timeout = Duration::from_secs(s),
            Op::Cooldown(site, s) => self.sites[site].spec.cooldown = Duration::from_secs(s),
            Op::WakeOn(site, on) => self.sites[site].spec.wake = on,
            Op::SleepOn(site, on) => self.sites[site].spec.sleep = on,
            Op::FriendsOnly(site, on) => {
                let friends = on.then(|| "friend".to_owned());
                self.sites[site].spec.wakers.names = friends.into_iter().collect();
            }
            Op::Counts(site, by) => self.sites[site].spec.players = by,
            Op::WakingAtOnce(n) => {
                self.policy.waking_at_once = n;
                let policy = self.policy.clone();
                self.both(|fleet| fleet.set_policy(policy.clone(), now))?;
                return self.absorb();
            }
        }
        Ok(())
    }

    fn join(&mut self, site: usize, who: Who) -> Checked {
        let now = self.now;
        let player =
            |name: &str| Purpose::Login(Player { name: name.to_owned(), uuid: None }, Client::default());
        let (site, host, purpose) = match who {
            Who::Friend => (site, format!("s{site}.example.com"), player("Friend")),
            Who::Stranger => (site, format!("s{site}.example.com"), player("stranger")),
            Who::Scanner => (0, "198.51.100.1".to_owned(), player("friend")),
            Who::Browser => (site, format!("s{site}.example.com"), Purpose::Status),
        };
        let knock = Knock {
            host: HostName::parse(&host).ok(),
            purpose,
            source: [192, 0, 2, 1].into(),
            pass: None,
            account: None,
        };
        let before: Vec<_> = (0..SITES).map(|site| self.word(site)).collect();
        let verdict = self.both(|fleet| fleet.admit(&knock, now))?;
        let heard = match verdict {
            Verdict::Relay(..) => true,
            Verdict::Wait(..) => false,
            Verdict::Answer(_) | Verdict::Forward(_) | Verdict::Refuse(_) | Verdict::Prove(_) => {
                return self.absorb();
            }
        };
        let (Verdict::Relay(seat, _) | Verdict::Wait(seat, _)) = verdict else { return Ok(()) };
        check!(self, !matches!(who, Who::Browser), "a ping took a seat");
        // Whose name nobody claims goes to the default route, and that wakes nothing.
        let (by_name, site) = (self.sites[site].id == seat.service, self.site(&seat.service));
        let before = before[site];
        check!(self, heard == (before == "running"), "{before}, and relayed: {heard}");
        let spec = self.seen_spec(site);
        let naive = &mut self.naive[site];
        naive.wanted |= !heard
            && match who {
                Who::Friend => spec.wake && by_name,
                Who::Stranger => spec.wake && by_name && spec.wakers.names.is_empty(),
                Who::Scanner | Who::Browser => false,
            };
        (naive.empty, naive.quiet) = (None, None);
        if heard {
            self.sites[site].inside.insert(seat.serial);
        }
        self.guests.push(Guest { seat, site, heard });
        self.absorb()
    }

    fn leave(&mut self, n: usize) -> Checked {
        let now = self.now;
        let Guest { seat, site, .. } = self.guests.remove(n);
        self.sites[site].inside.remove(&seat.serial);
        if self.guests.iter().all(|guest| guest.site != site) && self.naive[site].answered {
            self.naive[site].quiet = Some(now);
        }
        self.both(|fleet| fleet.release(&seat, now))?;
        self.absorb()
    }

    fn sleep_by_hand(&mut self, site: usize, force: bool) -> Checked {
        let (id, now) = (self.sites[site].id.clone(), self.now);
        if self.both(|fleet| fleet.sleep(&id, force, now))?.is_ok() {
            let naive = &mut self.naive[site];
            let counted = naive.answered && self.sites[site].spec.players == Players::Game;
            let occupied =
                self.guests.iter().any(|guest| guest.site == site) || (counted && naive.online != Some(0));
            (naive.slept_by_hand, naive.wanted) = (true, false);
            check!(self, !self.naive[site].stale, "a stop by hand although the source is lost");
            check!(self, force || !occupied, "a stop by hand of an occupied server");
            self.guests.iter_mut().filter(|guest| guest.site == site).for_each(|guest| guest.heard = true);
        }
        self.absorb()
    }

    fn pass(&mut self, span: Duration) -> Checked {
        let end = self.now + span;
        while self.now < end {
            let whole = Duration::from_secs(self.now.since_start().as_secs() + 1);
            let sites = self.sites.iter().filter_map(|site| site.due(self.now));
            let errands = self.errands.iter().map(|(at, _)| *at);
            let next = sites.chain(errands).chain(self.lazy.next_deadline()).min().unwrap_or(end);
            self.now = next.min(end).min(Moment::after_start(whole)).max(self.now);
            self.step()?;
        }
        Ok(())
    }

    /// Lets everything happen that is due now, the way the shell would.
    fn step(&mut self) -> Checked {
        let now = self.now;
        for (site, naive) in self.sites.iter_mut().zip(&mut self.naive) {
            naive.excuse |= site.live(now);
        }
        self.serve_guests()?;
        while let Some(n) = self.errands.iter().position(|(at, _)| *at <= now) {
            let (_, errand) = self.errands.remove(n);
            self.carry_out(errand)?;
        }
        self.look()?;
        if self.lazy.next_deadline().is_some_and(|at| at <= now) {
            self.lazy.tick(now);
        }
        self.eager.tick(now);
        self.absorb()?;
        self.check_view()?;
        let next = self.lazy.next_deadline();
        check!(self, next.is_none_or(|at| at > now), "it asks to be ticked again at once, for ever");
        self.effects[1].extend(self.eager.take_effects());
        let [lazy, eager] = std::mem::take(&mut self.effects);
        check!(self, lazy == eager, "ticked at its deadlines: {lazy:?}\nticked always: {eager:?}");
        let (lazy, eager) = (self.lazy.reports(now), self.eager.reports(now));
        check!(self, lazy == eager, "ticked at its deadlines: {lazy:?}\nticked always: {eager:?}");
        for report in lazy {
            let held = self.guests.iter().filter(|guest| guest.seat.service == report.face.service).count();
            check!(self, report.seats == held, "{} seats are {held}", report.seats);
        }
        Ok(())
    }

    /// Who waited goes in, or away; whoever was in a game that ended goes away.
    fn serve_guests(&mut self) -> Checked {
        for n in (0..self.guests.len()).rev() {
            let (site, serial) = (self.guests[n].site, self.guests[n].seat.serial);
            let word = self.word(site);
            if self.sites[site].inside.contains(&serial) {
                if !self.sites[site].is_alive() {
                    self.leave(n)?;
                }
            } else if word == "running" && self.sites[site].is_alive() {
                self.sites[site].inside.insert(serial);
            } else if word == "failed" || word == "running" {
                self.leave(n)?;
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, errand: Errand) -> Checked {
        let now = self.now;
        match errand {
            Errand::Scale { site, up } => {
                let id = self.sites[site].id.clone();
                let outcome = self.sites[site].scale(up, now);
                self.note(&format!("scaled {id} {up}: {outcome:?}"));
                let naive = &mut self.naive[site];
                naive.scaling = false;
                match (up, &outcome) {
                    (true, Ok(())) => {}
                    (true, Err(_)) => (naive.starting, naive.excuse) = (false, true),
                    (false, Ok(())) if naive.known != Known::Nothing => naive.know(Known::Busy),
                    (false, Ok(()) | Err(_)) => {}
                }
                self.relist = true;
                self.both(|fleet| fleet.scaled(&id, up, outcome.clone(), now))?;
            }
            Errand::Probe { site, run, found } => {
                let id = self.sites[site].id.clone();
                let seated = self.guests.iter().any(|guest| guest.site == site);
                let naive = &mut self.naive[site];
                if naive.known == Known::Up(Arc::clone(&run)) {
                    let nobody = matches!(found, Probed::Answered { online: Some(0), .. }) && !seated;
                    naive.empty = if nobody { naive.empty.or(Some(now)) } else { None };
                    naive.empty_said = nobody.then_some(now).or(naive.empty_said);
                    match &found {
                        Probed::Answered { online, .. } => {
                            if !naive.answered && !seated {
                                naive.quiet = Some(now);
                            }
                            naive.answered = true;
                            naive.online = *online;
                        }
                        Probed::Silent { .. } => naive.online = None,
                        Probed::Accepted => {}
                    }
                }
                self.both(|fleet| fleet.probed(&id, &run, found.clone(), now))?;
            }
        }
        self.absorb()
    }

    /// The source lists, if there is anything new.
    fn look(&mut self) -> Checked {
        let now = self.now;
        let services = self.sites.iter().filter_map(|site| site.seen(now)).collect();
        let snapshot = Snapshot::of(services);
        let news = self.delivered.as_ref() != Some(&snapshot) || self.naive.iter().any(|naive| naive.stale);
        if self.lost || !(news || self.relist) {
            return Ok(());
        }
        self.relist = false;
        for (site, naive) in self.sites.iter().zip(&mut self.naive) {
            naive.stale = false;
            let known = match snapshot.services.iter().find(|service| service.id == site.id) {
                None => {
                    (naive.wanted, naive.slept_by_hand) = (false, false);
                    Known::Nothing
                }
                Some(service) => match &service.state {
                    State::Unknown { .. } => {
                        naive.stale = true;
                        continue;
                    }
                    State::Asleep | State::Failed { .. } => Known::Down,
                    State::Running(running) => Known::Up(Arc::clone(&running.run)),
                    State::Starting { .. } | State::Restarting { .. } | State::Stopping => Known::Busy,
                },
            };
            naive.know(known);
        }
        self.delivered = Some(snapshot.clone());
        self.both(|fleet| fleet.observe("process", snapshot.clone(), now))?;
        self.absorb()
    }

    /// Calls both fleets and expects the same answer of both.
    fn both<R: PartialEq + Debug>(&mut self, call: impl Fn(&mut Fleet) -> R) -> Result<R, TestCaseError> {
        let (lazy, eager) = (call(&mut self.lazy), call(&mut self.eager));
        self.effects[1].extend(self.eager.take_effects());
        if lazy == eager {
            return Ok(lazy);
        }
        Err(TestCaseError::fail(format!("lazy: {lazy:?}\neager: {eager:?}\n{}", self.log)))
    }

    /// Takes what the fleet decided: checks it, and does it later.
    fn absorb(&mut self) -> Checked {
        let effects = self.lazy.take_effects();
        for effect in &effects {
            match effect {
                Effect::Scale { service, up } => {
                    self.note(effect);
                    let site = self.site(service);
                    self.check_scale(site, *up)?;
                    self.errands.push((self.now + self.scales_take, Errand::Scale { site, up: *up }));
                }
                Effect::Probe(probe) => {
                    let site = self.site(&probe.service);
                    let found = self.sites[site].probe(&probe.run, self.now);
                    let errand = Errand::Probe { site, run: Arc::clone(&probe.run), found };
                    self.errands.push((self.now + self.probes_take, errand));
                }
                Effect::Tell(_) => self.note(effect),
                Effect::Remember { .. } => {}
            }
        }
        self.effects[0].extend(effects);
        (0..SITES).try_for_each(|site| self.check_face(site))?;
        let starting = self.naive.iter().filter(|naive| naive.starting).count();
        let woken = self.effects[0].iter().any(|effect| matches!(effect, Effect::Scale { up: true, .. }));
        let most = self.policy.waking_at_once;
        check!(self, !woken || starting <= most, "{starting} starts at once, at most {most} are allowed");
        Ok(())
    }

    fn check_scale(&mut self, site: usize, up: bool) -> Checked {
        let now = self.now;
        let (spec, seated) = (self.seen_spec(site), self.guests.iter().any(|guest| guest.site == site));
        let naive = &mut self.naive[site];
        let twice = std::mem::replace(&mut naive.scaling, true);
        let wanted = std::mem::take(&mut naive.wanted);
        let by_hand = std::mem::take(&mut naive.slept_by_hand);
        naive.starting = up;
        if !up {
            naive.wanted = wanted;
        }
        let naive = &self.naive[site];
        let stopping =
            matches!(self.sites[site].process, Process::Alive { end: Some(End::ToldToStop(_)), .. });
        check!(self, !twice, "two scales in flight");
        check!(self, !naive.stale, "a scale although nobody knows what it does");
        check!(self, !up || wanted, "a start nobody asked for");
        check!(self, !up || naive.known == Known::Down, "started while it is {:?}", naive.known);
        check!(self, !up || by_hand || !stopping || self.lost, "started over a process that still stops");
        if up || by_hand {
            return Ok(());
        }
        check!(self, !seated, "stopped under a seat");
        check!(self, spec.sleep, "stopped though it may not sleep");
        check!(self, matches!(naive.known, Known::Up(_)), "stopped while it is {:?}", naive.known);
        let since = match spec.players {
            Players::Connections => naive.quiet,
            Players::Game if naive.empty_said == Some(now) => naive.empty,
            Players::Game => None,
        };
        let idle = since.map(|since| now.since(since));
        check!(self, idle.is_some_and(|idle| idle >= spec.idle), "stopped after {idle:?} of {:?}", spec.idle);
        Ok(())
    }

    /// The view that was published last is still true.
    fn check_view(&mut self) -> Checked {
        if let Some(view) = self.lazy.take_view() {
            self.view = view;
        }
        self.eager.take_view();
        let reports = self.lazy.reports(self.now);
        let published: Vec<_> =
            self.view.values().map(|f| (&f.service, &f.state, &f.spec, &f.learned)).collect();
        let faces = reports.iter().map(|report| &report.face);
        let real: Vec<_> = faces.map(|f| (&f.service, &f.state, &f.spec, &f.learned)).collect();
        check!(self, published == real, "published: {published:?}\nreal: {real:?}");
        Ok(())
    }

    fn check_face(&mut self, site: usize) -> Checked {
        let (now, word) = (self.now, self.word(site));
        let naive = &mut self.naive[site];
        let still_true = matches!((&naive.known, &self.sites[site].process),
            (Known::Up(seen), Process::Alive { run, .. }) if seen == run);
        let rising = word == "starting" || word == "restarting";
        let trying = naive.trying;
        naive.trying = if rising { trying.or(Some(now)) } else { None };
        naive.starting &= rising;
        if word == "running" || word == "failed" {
            naive.wanted = false;
        }
        if word == "running" && still_true {
            naive.excuse = false;
        }
        if word == "failed" {
            let late = trying.is_some_and(|since| now.since(since) >= Duration::from_secs(TIMEOUTS[0]));
            naive.excuse |= late;
            check!(self, self.naive[site].excuse, "s{site} is said to have failed, and has not");
        }
        if ["running", "failed", "gone"].contains(&word) {
            self.guests.iter_mut().filter(|guest| guest.site == site).for_each(|guest| guest.heard = true);
        }
        Ok(())
    }

    fn word(&self, site: usize) -> &'static str {
        if self.naive[site].known == Known::Nothing && !self.naive[site].stale {
            return "gone";
        }
        self.lazy.face(&self.sites[site].id).map_or("gone", |face| face.state.word())
    }

    /// What the gate was told of it last.
    fn seen_spec(&self, site: usize) -> Arc<Spec> {
        let listed = self.delivered.iter().flat_map(|snapshot| &snapshot.services);
        let seen = listed.into_iter().find(|service| service.id == self.sites[site].id);
        seen.map_or_else(|| Arc::new(self.sites[site].spec.clone()), |service| Arc::clone(&service.spec))
    }

    fn site(&self, service: &ServiceId) -> usize {
        self.sites.iter().position(|site| site.id == *service).unwrap()
    }

    fn note(&mut self, what: &dyn Debug) {
        let _ = writeln!(self.log, "{:>8.2} {what:?}", self.now.since_start().as_secs_f64());
    }
}
