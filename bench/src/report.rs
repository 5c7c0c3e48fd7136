//! From rounds to medians, ratios and verdicts.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;

use serde_json::{Value, json};

use crate::gates::{self, Gate, Limit};
use crate::peers::{Kind, Peer};
use crate::{Args, Metrics, Scenario};

pub struct Report {
    scenario: Scenario,
    setting: String,
    subject: Peer,
    field: Vec<Peer>,
    left_out: Vec<(Peer, &'static str)>,
    rounds: Vec<BTreeMap<Peer, Metrics>>,
    load: (f64, f64),
    gates: Vec<Judged>,
}

struct Judged {
    name: &'static str,
    what: String,
    value: Option<f64>,
    verdict: Verdict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Pass,
    /// Above the limit, within the noise of the measurement.
    Warn,
    Fail,
    NotJudged,
}

/// Up to here above a limit is only a warning.
const TOLERANCE: f64 = 1.05;
/// Where latency means something.
const QUIET: f64 = 2.0;

impl Report {
    pub fn new(
        args: &Args,
        field: Vec<Peer>,
        left_out: Vec<(Peer, &'static str)>,
        mut rounds: Vec<BTreeMap<Peer, Metrics>>,
        load_before: f64,
    ) -> Self {
        rounds.iter_mut().for_each(add_latency);
        let setting = format!(
            "{} connections, {} rounds of {} s, proxies on CPU {} as {}, load and backend on CPU {}",
            args.conns(),
            args.rounds,
            args.secs,
            args.pin,
            args.uid.map_or("root".to_owned(), |uid| format!("uid {uid}")),
            args.lgpin
        );
        let load = (load_before, load_average());
        let (scenario, subject) = (args.scenario, args.subject);
        let mut report =
            Self { scenario, setting, subject, field, left_out, rounds, load, gates: Vec::new() };
        report.gates = gates::of(args).iter().map(|gate| report.judge(gate, args.conns())).collect();
        report
    }

    pub fn failed(&self) -> bool {
        self.gates.iter().any(|gate| gate.verdict == Verdict::Fail)
    }

    fn judge(&self, gate: &Gate, conns: u32) -> Judged {
        let value = match gate.against {
            None => self.median(self.subject, gate.metric),
            Some(peer) => self.ratio(gate.metric, peer),
        };
        let quiet = self.load.0.max(self.load.1) < QUIET;
        let (limit, most, least) = match gate.limit {
            Limit::AtMost(most) | Limit::AtMostWhenQuiet(most) => (format!("<= {most}"), most, f64::MIN),
            Limit::Exactly(value) => (format!("= {value}"), value, value),
            Limit::Connections => (format!("= {conns}"), f64::from(conns), f64::from(conns)),
        };
        let judged = quiet || !matches!(gate.limit, Limit::AtMostWhenQuiet(_));
        let exact = matches!(gate.limit, Limit::Exactly(_) | Limit::Connections);
        let verdict = match value {
            Some(value) if judged && value.is_finite() => {
                if (least..=most).contains(&value) {
                    Verdict::Pass
                } else if !exact && value <= most * TOLERANCE {
                    Verdict::Warn
                } else {
                    Verdict::Fail
                }
            }
            _ => Verdict::NotJudged,
        };
        let against = gate.against.map_or(String::new(), |peer| format!(" / {peer}"));
        Judged { name: gate.name, what: format!("{}{against} {limit}", gate.metric), value, verdict }
    }

    fn median(&self, peer: Peer, metric: &str) -> Option<f64> {
        median(self.rounds.iter().filter_map(|round| round.get(&peer)?.get(metric).copied()).collect())
    }

    /// The median over the rounds of the subject's value divided by the peer's.
    fn ratio(&self, metric: &str, peer: Peer) -> Option<f64> {
        let of_round = |round: &BTreeMap<Peer, Metrics>| {
            let value = |peer: Peer| round.get(&peer)?.get(metric).copied();
            Some(value(self.subject)? / value(peer)?)
        };
        median(self.rounds.iter().filter_map(of_round).collect())
    }

    fn metrics(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for name in self.rounds.iter().flat_map(|round| round.values()).flat_map(|metrics| metrics.keys()) {
            if !names.contains(name) {
                names.push(*name);
            }
        }
        names
    }

    pub fn json(&self) -> Value {
        let per_peer = |value: &dyn Fn(Peer) -> Value| -> Value {
            self.field.iter().map(|&peer| (peer.to_string(), value(peer))).collect()
        };
        let per_metric = |value: &dyn Fn(&str) -> Option<f64>| -> Value {
            self.metrics()
                .into_iter()
                .filter_map(|name| Some((name.to_owned(), json!(value(name)?))))
                .collect()
        };
        let gates: Vec<_> = self.gates.iter().map(|gate| {
            json!({ "gate": gate.name, "what": gate.what, "value": gate.value, "verdict": gate.verdict.to_string() })
        }).collect();
        let left_out: Value =
            self.left_out.iter().map(|(peer, why)| (peer.to_string(), json!(why))).collect();
        json!({
            "scenario": format!("{:?}", self.scenario).to_lowercase(),
            "setting": self.setting,
            "subject": self.subject.to_string(),
            "load_average": { "before": self.load.0, "after": self.load.1 },
            "medians": per_peer(&|peer| per_metric(&|name| self.median(peer, name))),
            "ratios": per_peer(&|peer| per_metric(&|name| self.ratio(name, peer))),
            "rounds": self.rounds.iter().map(|round| {
                per_peer(&|peer| per_metric(&|name| round.get(&peer)?.get(name).copied()))
            }).collect::<Vec<_>>(),
            "gates": gates,
            "left_out": left_out,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scenario = format!("{:?}", self.scenario).to_lowercase();
        writeln!(
            f,
            "\n{scenario}: {}; load average {:.1}, then {:.1}",
            self.setting, self.load.0, self.load.1
        )?;
        writeln!(f, "medians; in brackets the median of the rounds' ratios, {} / peer\n", self.subject)?;
        let metrics = self.metrics();
        write!(f, "{:18}", "")?;
        for name in &metrics {
            write!(f, "{name:>20}")?;
        }
        writeln!(f)?;
        for &peer in &self.field {
            write!(f, "{peer:18}")?;
            for name in &metrics {
                let cell = match (self.median(peer, name), self.ratio(name, peer)) {
                    (None, _) => "-".to_owned(),
                    (Some(value), Some(ratio)) if peer != self.subject && ratio.is_finite() => {
                        format!("{} [{ratio:.2}]", short(value))
                    }
                    (Some(value), _) => short(value),
                };
                write!(f, "{cell:>20}")?;
            }
            writeln!(f)?;
        }
        writeln!(f)?;
        for gate in &self.gates {
            let value = gate.value.map_or("-".to_owned(), short);
            writeln!(f, "{:4} {:<10} {:>8}   {}", gate.name, gate.verdict.to_string(), value, gate.what)?;
        }
        for (peer, why) in &self.left_out {
            writeln!(f, "left out: {peer}: {why}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pass => "pass",
            Self::Warn => "warn",
            Self::Fail => "fail",
            Self::NotJudged => "not judged",
        })
    }
}

/// What a proxy adds to the delay of a message, where the round has measured it without a proxy too.
fn add_latency(round: &mut BTreeMap<Peer, Metrics>) {
    let direct = Peer { kind: Kind::Direct, root: false };
    let Some(&base) = round.get(&direct).and_then(|metrics| metrics.get("p50_us")) else { return };
    for (peer, metrics) in round {
        if let Some(&p50) = metrics.get("p50_us").filter(|_| *peer != direct) {
            metrics.insert("added_p50_us", p50 - base);
        }
    }
}

pub fn line(metrics: &Metrics) -> String {
    metrics.iter().map(|(name, value)| format!("{name} {}", short(*value))).collect::<Vec<_>>().join(", ")
}

/// Of the last minute.
pub fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(f64::NAN)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

fn short(value: f64) -> String {
    let decimals = if value.abs() >= 100.0 {
        0
    } else if value.abs() >= 10.0 {
        1
    } else {
        3
    };
    format!("{value:.decimals$}")
}
