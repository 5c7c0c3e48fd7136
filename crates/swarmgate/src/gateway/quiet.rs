//! Keeps strangers from writing the log: so many lines of a kind per while, the rest only counted.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
pub struct Quiet {
    kinds: Mutex<HashMap<&'static str, Budget>>,
}

#[derive(Debug)]
struct Budget {
    since: Instant,
    lines: u32,
    suppressed: u64,
}

impl Quiet {
    const LINES: u32 = 10;
    const WHILE: Duration = Duration::from_secs(60);

    /// Whether a line of this kind may be written, with the number of those left out before it.
    pub fn allow(&self, kind: &'static str) -> Option<u64> {
        self.allow_at(kind, Instant::now())
    }

    fn allow_at(&self, kind: &'static str, now: Instant) -> Option<u64> {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let budget = kinds.entry(kind).or_insert(Budget { since: now, lines: 0, suppressed: 0 });
        if now.duration_since(budget.since) >= Self::WHILE {
            budget.since = now;
            budget.lines = 0;
        }
        if budget.lines >= Self::LINES {
            budget.suppressed += 1;
            return None;
        }
        budget.lines += 1;
        Some(std::mem::take(&mut budget.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_not_written() {
        let quiet = Quiet::default();
        let start = Instant::now();
        let written = (0..10_000).filter(|_| quiet.allow_at("scan", start).is_some()).count();
        assert_eq!(written, 10);
        assert_eq!(quiet.allow_at("other", start), Some(0));
        assert_eq!(quiet.allow_at("scan", start + Quiet::WHILE), Some(9_990));
        assert_eq!(quiet.allow_at("scan", start + Quiet::WHILE), Some(0));
    }
}
