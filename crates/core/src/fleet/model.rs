//! The fleet against a naive model of it: random histories in a simulated world, checked at every step.
//!
//! Two fleets live through each history. One is ticked all the time, the other only at its own
//! deadlines; they must decide the same.

#[path = "model/naive.rs"]
mod naive;
#[path = "model/site.rs"]
mod site;
#[path = "model/world.rs"]
mod world;

use std::fmt::Debug;

use proptest::prelude::*;
use site::{Game, Scales};
use world::World;

use crate::service::Players;

const SITES: usize = 3;
/// The start timeouts that histories set, in seconds, the shortest first.
const TIMEOUTS: [u64; 2] = [8, 20];

#[allow(clippy::disallowed_methods, reason = "the switch to a long run is for people, not for the fleet")]
fn cases() -> u32 {
    if std::env::var("SWARMGATE_LONG").is_ok() { 10_000 } else { 512 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_fleet_does_what_the_naive_model_allows(history in history()) {
        World::new().run(&history)?;
    }
}

#[derive(Debug, Clone, Copy)]
enum Who {
    /// Always among those who may wake.
    Friend,
    Stranger,
    /// Dials the bare address.
    Scanner,
    /// Only pings.
    Browser,
}

#[derive(Debug, Clone, Copy)]
enum Op {
    Pass {
        ms: u64,
    },
    Join(usize, Who),
    /// The n-th of those who hold a seat goes away.
    Leave(usize),
    Outsiders(usize, u32),
    WakeByHand(usize),
    SleepByHand {
        site: usize,
        force: bool,
    },
    Crash(usize),
    /// Its process ends by itself, cleanly.
    Exit(usize),
    /// Somebody uses the orchestrator directly.
    StartOutside(usize),
    StopOutside(usize),
    DoomedStarts(usize, u32),
    Boots {
        site: usize,
        ms: u64,
    },
    Stops {
        site: usize,
        ms: u64,
    },
    Game(usize, Game),
    Scales(usize, Scales),
    ScalesTake {
        ms: u64,
    },
    ProbesTake {
        ms: u64,
    },
    Lose,
    Find,
    Obscure(usize, bool),
    Remove {
        site: usize,
        with_its_process: bool,
    },
    Create(usize),
    Idle(usize, u64),
    StartTimeout(usize, u64),
    Cooldown(usize, u64),
    WakeOn(usize, bool),
    SleepOn(usize, bool),
    FriendsOnly(usize, bool),
    Counts(usize, Players),
    WakingAtOnce(usize),
}

/// Some settings, and then what happens.
fn history() -> impl Strategy<Value = Vec<Op>> {
    let settings = prop::collection::vec(setting(), 0..4);
    (settings, prop::collection::vec(op(), 1..60)).prop_map(|(settings, ops)| [settings, ops].concat())
}

fn op() -> impl Strategy<Value = Op> {
    let often = prop_oneof![
        6 => prop_oneof![1..12u64, 1..120u64].prop_map(|n| Op::Pass { ms: n * 250 }),
        4 => (site(), one_of(&[Who::Friend, Who::Friend, Who::Stranger, Who::Scanner, Who::Browser]))
            .prop_map(|(site, who)| Op::Join(site, who)),
        3 => (0..8usize).prop_map(Op::Leave),
    ];
    let people = prop_oneof![
        1 => (site(), 0..3u32).prop_map(|(site, n)| Op::Outsiders(site, n)),
        1 => site().prop_map(Op::WakeByHand),
        1 => (site(), any::<bool>()).prop_map(|(site, force)| Op::SleepByHand { site, force }),
        3 => site().prop_map(Op::StartOutside),
        1 => site().prop_map(Op::StopOutside),
    ];
    let game = one_of(&[Game::Honest, Game::Honest, Game::Hides, Game::Mute, Game::Silent]);
    let scales = one_of(&[Scales::Work, Scales::Work, Scales::Refuse, Scales::LoseTheReply]);
    let trouble = prop_oneof![
        2 => site().prop_map(Op::Crash),
        1 => site().prop_map(Op::Exit),
        1 => (site(), 0..4u32).prop_map(|(site, n)| Op::DoomedStarts(site, n)),
        1 => (site(), 0..60u64).prop_map(|(site, n)| Op::Boots { site, ms: n * 250 }),
        1 => (site(), 0..60u64).prop_map(|(site, n)| Op::Stops { site, ms: n * 250 }),
        3 => (site(), game).prop_map(|(site, game)| Op::Game(site, game)),
        1 => (site(), scales).prop_map(|(site, scales)| Op::Scales(site, scales)),
        2 => prop_oneof![0..8u64, 80..200u64].prop_map(|n| Op::ScalesTake { ms: n * 250 }),
        2 => (0..24u64).prop_map(|n| Op::ProbesTake { ms: n * 250 }),
        1 => Just(Op::Lose),
        1 => Just(Op::Find),
        1 => (site(), any::<bool>()).prop_map(|(site, on)| Op::Obscure(site, on)),
        1 => (site(), any::<bool>()).prop_map(|(site, all)| Op::Remove { site, with_its_process: all }),
        1 => site().prop_map(Op::Create),
    ];
    prop_oneof![12 => often, 2 => people, 6 => trouble, 1 => setting()]
}

fn setting() -> impl Strategy<Value = Op> {
    prop_oneof![
        1 => (site(), 0..6u64).prop_map(|(site, n)| Op::Idle(site, n * 4)),
        1 => (site(), one_of(&TIMEOUTS)).prop_map(|(site, s)| Op::StartTimeout(site, s)),
        1 => (site(), 0..10u64).prop_map(|(site, s)| Op::Cooldown(site, s)),
        1 => (site(), any::<bool>()).prop_map(|(site, on)| Op::WakeOn(site, on)),
        2 => (site(), any::<bool>()).prop_map(|(site, on)| Op::SleepOn(site, on)),
        1 => (site(), any::<bool>()).prop_map(|(site, on)| Op::FriendsOnly(site, on)),
        2 => (site(), one_of(&[Players::Game, Players::Connections])).prop_map(|(site, by)| Op::Counts(site, by)),
        1 => (1..3usize).prop_map(Op::WakingAtOnce),
    ]
}

/// Most of it happens to one service, so that one thing meets another.
fn site() -> impl Strategy<Value = usize> {
    one_of(&[0, 1, 1, 1, 1, 2])
}

fn one_of<T: Clone + Debug + 'static>(choices: &'static [T]) -> impl Strategy<Value = T> {
    prop::sample::select(choices)
}

/// What was not asked meanwhile is not late.
#[test]
fn a_start_that_could_not_be_stopped_has_its_time_again() {
    let history = [
        Op::ScalesTake { ms: 20_000 },
        Op::Scales(1, Scales::Refuse),
        Op::ProbesTake { ms: 1_250 },
        Op::StartOutside(1),
        Op::SleepByHand { site: 1, force: false },
        Op::Pass { ms: 18_750 },
        Op::Pass { ms: 1_250 },
    ];
    World::new().run(&history).unwrap();
}
