//! What Swarmgate promises, as limits on what a run has measured.

use crate::peers::{Kind, Peer};
use crate::{Args, Scenario};

pub struct Gate {
    pub name: &'static str,
    pub metric: &'static str,
    /// The limit is on the ratio to this peer in the same round; without one, on the value itself.
    pub against: Option<Peer>,
    pub limit: Limit,
}

#[derive(Clone, Copy)]
pub enum Limit {
    AtMost(f64),
    /// Judged only while nothing else runs on the machine.
    AtMostWhenQuiet(f64),
    Exactly(f64),
    /// Every connection asked for.
    Connections,
}

/// Those that the run can judge.
pub fn of(args: &Args) -> Vec<Gate> {
    use Limit::{AtMost, AtMostWhenQuiet, Connections, Exactly};

    let (conns, unprivileged) = (args.conns(), args.uid.is_some_and(|uid| uid != 0));
    let (nosplice, splice) = (Some(Kind::HaproxyNosplice), Some(Kind::HaproxySplice));
    let (host, lua) = (Some(Kind::HaproxyHost), Some(Kind::HaproxyLua));
    let go = Some(Kind::GoIocopy);
    let mut gates: Vec<(&str, &str, Option<Kind>, Limit)> = Vec::new();
    match args.scenario {
        Scenario::Game if conns >= 1000 => gates.extend([
            ("G1", "us_per_message", nosplice, AtMost(1.0)),
            ("G1", "us_per_message", go, AtMost(0.8)),
        ]),
        Scenario::Game => gates.extend([
            ("G7", "added_p50_us", nosplice, AtMostWhenQuiet(0.8)),
            ("G7", "added_p50_us", go, AtMostWhenQuiet(0.6)),
        ]),
        Scenario::Bulk if unprivileged => {
            gates.extend([("G3", "cpu_s_per_gb", go, AtMost(0.4)), ("G3", "connected", None, Connections)])
        }
        Scenario::Bulk => gates.extend([
            ("G2", "cpu_s_per_gb", splice, AtMost(1.1)),
            ("G2", "cpu_s_per_gb", nosplice, AtMost(0.4)),
        ]),
        Scenario::Idle => {
            gates.extend([
                ("G4", "user_kib", None, AtMost(2.0)),
                ("G4", "user_kib", nosplice, AtMost(0.6)),
                ("G4", "total_kib", None, AtMost(7.5)),
                ("G4", "total_kib", nosplice, AtMost(0.9)),
                ("G8", "descriptors", None, Exactly(2.0)),
            ]);
            if unprivileged {
                gates.push(("G4", "total_kib", go, AtMost(0.3)));
            }
            if args.burst > 0 {
                gates.push(("G4", "burst_growth", None, AtMost(0.05)));
                gates.push(("G8", "burst_descriptors", None, AtMost(128.0)));
            }
        }
        Scenario::Connrate => {
            gates.extend([("G5", "us_each", host, AtMost(1.05)), ("G5", "us_each", go, AtMost(0.75))])
        }
        Scenario::Status => {
            gates.extend([("G6", "us_each", lua, AtMost(0.85)), ("G6", "us_each", go, AtMost(0.85))])
        }
    }
    let mut gates: Vec<_> = gates
        .into_iter()
        .map(|(name, metric, kind, limit)| {
            let against = kind.map(|kind| Peer { kind, root: false });
            Gate { name, metric, against, limit }
        })
        .collect();
    if args.scenario == Scenario::Bulk && unprivileged {
        let against = Some(Peer { root: true, ..args.subject });
        gates.push(Gate { name: "G3", metric: "cpu_s_per_gb", against, limit: AtMost(1.25) });
    }
    gates
}
