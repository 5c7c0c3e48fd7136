//! Keeps strangers from writing the log: so many lines of a kind per while, fewer of them about one party, so
//! that none hides what another has to say. The rest is only counted.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use swarmgate_core::service::ServiceId;
use swarmgate_core::throttle::Source;

#[derive(Debug, Default)]
pub struct Quiet {
    kinds: Mutex<HashMap<&'static str, Budget>>,
}

/// Whom a line is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Party {
    Source(Source),
    Service(ServiceId),
}

#[derive(Debug)]
struct Budget {
    since: Instant,
    lines: u32,
    /// Only of those who got a line, so there are never more of them than lines.
    by_party: HashMap<Party, u32>,
    suppressed: u64,
}

impl From<IpAddr> for Party {
    fn from(address: IpAddr) -> Self {
        Self::Source(address.into())
    }
}

impl From<&ServiceId> for Party {
    fn from(service: &ServiceId) -> Self {
        Self::Service(service.clone())
    }
}

impl Quiet {
    const LINES: u32 = 20;
    const LINES_OF_ONE: u32 = 5;
    const WHILE: Duration = Duration::from_secs(60);

    /// Whether a line of this kind may be written, with the number of those of the kind left out before it.
    pub fn allow(&self, kind: &'static str) -> Option<u64> {
        self.allow_at(kind, None, Instant::now())
    }

    /// The same for a line about one party.
    pub fn allow_about(&self, kind: &'static str, party: impl Into<Party>) -> Option<u64> {
        self.allow_at(kind, Some(party.into()), Instant::now())
    }

    fn allow_at(&self, kind: &'static str, party: Option<Party>, now: Instant) -> Option<u64> {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Budget { since: now, lines: 0, by_party: HashMap::new(), suppressed: 0 };
        let budget = kinds.entry(kind).or_insert_with(new);
        if now.duration_since(budget.since) >= Self::WHILE {
            *budget = Budget { suppressed: budget.suppressed, ..new() };
        }
        let used = party.as_ref().and_then(|party| budget.by_party.get(party)).copied().unwrap_or(0);
        if budget.lines >= Self::LINES || used >= Self::LINES_OF_ONE {
            budget.suppressed += 1;
            return None;
        }
        budget.lines += 1;
        if let Some(party) = party {
            budget.by_party.insert(party, used + 1);
        }
        Some(std::mem::take(&mut budget.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(text: &str) -> Option<Party> {
        Some(text.parse::<IpAddr>().unwrap().into())
    }

    #[test]
    fn a_flood_is_counted_not_written() {
        let quiet = Quiet::default();
        let start = Instant::now();
        let written = (0..10_000).filter(|_| quiet.allow_at("scan", None, start).is_some()).count();
        assert_eq!(written, 20);
        assert_eq!(quiet.allow_at("other", None, start), Some(0));
        assert_eq!(quiet.allow_at("scan", None, start + Quiet::WHILE), Some(9_980));
        assert_eq!(quiet.allow_at("scan", None, start + Quiet::WHILE), Some(0));
    }

    #[test]
    fn one_source_does_not_hide_another() {
        let quiet = Quiet::default();
        let start = Instant::now();
        let scanner = |n: u16| from(&format!("2001:db8::{n:x}"));
        let written = (0..10_000).filter(|n| quiet.allow_at("scan", scanner(*n), start).is_some()).count();
        assert_eq!(written, 5, "an IPv6 /64 is one source");
        assert_eq!(quiet.allow_at("scan", from("192.0.2.1"), start), Some(9_995));
        let service = ServiceId::new("file", "lobby");
        assert_eq!(quiet.allow_at("scan", Some((&service).into()), start), Some(0));
        assert!(quiet.allow_at("scan", scanner(1), start).is_none());
        assert_eq!(quiet.allow_at("scan", scanner(1), start + Quiet::WHILE), Some(1));
    }

    #[test]
    fn many_sources_cost_no_more_lines_and_little_memory() {
        let quiet = Quiet::default();
        let start = Instant::now();
        let sources = (0..10_000_u32).map(|n| Some(IpAddr::from(n.to_be_bytes()).into()));
        let written = sources.filter(|source| quiet.allow_at("scan", source.clone(), start).is_some());
        assert_eq!(written.count(), 20);
        assert_eq!(quiet.kinds.lock().unwrap()["scan"].by_party.len(), 20);
    }
}
