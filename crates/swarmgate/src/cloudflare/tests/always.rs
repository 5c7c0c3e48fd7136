//! Whatever happens: what others made stays, byte for byte, and what is ours becomes what is wanted.
//!
//! Random histories of the publisher with its client and its store, against the Cloudflare of the tests over HTTP: what a
//! Swarm has changes, calls fail in every way, the gate is stopped or killed in the middle of a step, time passes. What
//! must come of it is written down in [`asked`](asked::asked), not computed.

mod asked;
mod life;

use std::num::NonZeroUsize;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use self::asked::{FOREIGN, LOOKS, SERVICES};
use self::life::Life;
use super::{Call, Fault};

/// What can happen.
#[derive(Debug, Clone)]
enum Happens {
    /// A service is made, or has other labels from now on.
    Looks(usize, usize),
    Goes(usize),
    /// One of its labels is mistyped.
    Mistyped(usize),
    /// To no replicas, or to one.
    Scales(usize),
    /// Its task runs on another node.
    Moves(usize),
    /// The Swarm does not answer.
    IsSilent,
    /// Calls of a kind, or all.
    Fail(Option<Call>, u32, Fault),
    Heals,
    /// The gate is ended with its n-th call from now, and begun again.
    Ends(NonZeroUsize, How),
    /// Seconds.
    Waits(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Stopped,
    Killed,
}

#[derive(Debug, Clone)]
struct History {
    /// Which of what others may have made is there.
    foreign: Vec<usize>,
    events: Vec<Happens>,
}

fn happens() -> impl Strategy<Value = Happens> {
    use Call::{
        CreateApp, CreateRecord, DeleteApp, DeleteRecord, ListApps, ListRecords, ListZones, ReadConfig,
        ReplaceApp, ReplaceRecord, WriteConfig,
    };
    let call = prop::sample::select(vec![
        CreateApp,
        CreateRecord,
        DeleteApp,
        DeleteRecord,
        ListApps,
        ListRecords,
        ListZones,
        ReadConfig,
        ReplaceApp,
        ReplaceRecord,
        WriteConfig,
        WriteConfig,
    ]);
    let fault = prop_oneof![
        Just(Fault::Error { status: 500, code: 10013 }),
        Just(Fault::Error { status: 403, code: 10000 }),
        Just(Fault::Html(502)),
        (1_u32..90).prop_map(Fault::Limited),
        Just(Fault::Lost),
        Just(Fault::Cut),
        Just(Fault::Slow),
        Just(Fault::Held),
    ];
    let how = prop::sample::select(vec![How::Stopped, How::Killed]);
    let (services, count) = (0..SERVICES, (1_usize..16).prop_map(|count| count.try_into().unwrap()));
    prop_oneof![
        8 => (services.clone(), 0..LOOKS).prop_map(|(service, look)| Happens::Looks(service, look)),
        5 => services.clone().prop_map(Happens::Goes),
        1 => services.clone().prop_map(Happens::Mistyped),
        1 => services.clone().prop_map(Happens::Scales),
        1 => services.prop_map(Happens::Moves),
        1 => Just(Happens::IsSilent),
        6 => (prop::option::weighted(0.8, call), 1_u32..4, fault).prop_map(|(call, times, fault)| Happens::Fail(call, times, fault)),
        2 => Just(Happens::Heals),
        3 => (count, how).prop_map(|(count, how)| Happens::Ends(count, how)),
        6 => prop_oneof![1_u64..400, 1500_u64..2200].prop_map(Happens::Waits),
    ]
}

fn histories() -> impl Strategy<Value = History> {
    let foreign = prop::sample::subsequence((0..FOREIGN.len()).collect::<Vec<_>>(), 0..=FOREIGN.len());
    let events = prop::collection::vec(happens(), 1..20);
    (foreign, events).prop_map(|(foreign, events)| History { foreign, events })
}

async fn live(history: History) {
    let mut life = Life::begin(&history.foreign).await;
    for event in history.events {
        life.happens(event).await;
        life.check_always();
    }
    life.settle().await;
    life.check_settled().await;
}

#[test]
fn whatever_happens_foreign_things_stay_and_ours_become_what_is_wanted() {
    let cases = if std::env::var_os("SWARMGATE_LONG").is_some() { 1000 } else { 32 };
    let seed = std::env::var("SWARMGATE_SEED")
        .map_or_else(|_| getrandom::u64().unwrap(), |seed| seed.parse().unwrap());
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 60, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let ended = runner.run(&histories(), |history| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(live(history));
        Ok(())
    });
    if let Err(error) = ended {
        panic!("{error}\nSWARMGATE_SEED={seed} repeats it");
    }
}
