//! Token buckets per source address, bounded in number whatever strangers send.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::moment::Moment;

/// Whom a limit counts as one: an IPv4 address, or an IPv6 /64, which one customer usually holds whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source(IpAddr);

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Self(IpAddr::V4(v4)),
            IpAddr::V6(v6) => {
                let [a, b, c, d, ..] = v6.segments();
                Self(IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0)))
            }
        }
    }
}

impl Default for Source {
    fn default() -> Self {
        Self(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
    }
}

/// `burst` at once, then one more each `every`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub burst: u32,
    pub every: Duration,
}

/// One bucket per source. At most `capacity` sources are remembered; a full table forgets those whose
/// bucket has filled up again, and failing that refuses nobody it does not know.
#[derive(Debug)]
pub struct Throttle {
    rate: Rate,
    capacity: usize,
    /// When each source's bucket will be full again: one number says it all.
    full_at: HashMap<Source, Moment>,
}

impl Throttle {
    pub fn new(rate: Rate, capacity: usize) -> Self {
        Self { rate, capacity, full_at: HashMap::new() }
    }

    pub fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
    }

    /// Whether there is a token to take; how long until there is one if not.
    pub fn look(&self, source: Source, now: Moment) -> Result<(), Duration> {
        self.debt_after(source, now).map(drop)
    }

    /// Takes a token, or says how long until there is one.
    pub fn take(&mut self, source: Source, now: Moment) -> Result<(), Duration> {
        let after = self.debt_after(source, now)?;
        if self.full_at.len() >= self.capacity && !self.full_at.contains_key(&source) {
            self.full_at.retain(|_, full| *full > now);
            if self.full_at.len() >= self.capacity {
                return Ok(());
            }
        }
        self.full_at.insert(source, now + after);
        Ok(())
    }

    /// How long the source's bucket would take to fill up, with one more token taken.
    fn debt_after(&self, source: Source, now: Moment) -> Result<Duration, Duration> {
        let debt = self.full_at.get(&source).map_or(Duration::ZERO, |&full| now.until(full));
        let allowed = self.rate.every.saturating_mul(self.rate.burst);
        let after = debt.saturating_add(self.rate.every);
        if after > allowed { Err(after.saturating_sub(allowed)) } else { Ok(after) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { burst: 3, every: Duration::from_secs(10) };

    fn at(seconds: u64) -> Moment {
        Moment::after_start(Duration::from_secs(seconds))
    }

    fn source(text: &str) -> Source {
        text.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn a_burst_then_a_steady_rate() {
        let mut throttle = Throttle::new(RATE, 10);
        let a = source("192.0.2.1");
        for _ in 0..3 {
            assert_eq!(throttle.take(a, at(100)), Ok(()));
        }
        assert_eq!(throttle.take(a, at(100)), Err(Duration::from_secs(10)));
        assert_eq!(throttle.look(a, at(100)), Err(Duration::from_secs(10)));
        assert_eq!((throttle.look(a, at(110)), throttle.look(a, at(110))), (Ok(()), Ok(())));
        assert_eq!(throttle.take(a, at(104)), Err(Duration::from_secs(6)));
        assert_eq!(throttle.take(source("192.0.2.2"), at(104)), Ok(()), "others have their own bucket");
        assert_eq!(throttle.take(a, at(110)), Ok(()));
        assert!(throttle.take(a, at(110)).is_err());
        for _ in 0..3 {
            assert_eq!(throttle.take(a, at(500)), Ok(()), "full again after a while");
        }
    }

    #[test]
    fn one_ipv6_customer_is_one_source() {
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:2"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_eq!(source("::ffff:192.0.2.1"), source("192.0.2.1"));
    }

    #[test]
    fn memory_is_bounded_and_full_tables_lock_nobody_out() {
        let mut throttle = Throttle::new(RATE, 4);
        for n in 0..100u8 {
            assert_eq!(throttle.take(source(&format!("192.0.2.{n}")), at(1)), Ok(()));
        }
        assert_eq!(throttle.full_at.len(), 4);
        assert_eq!(throttle.take(source("198.51.100.1"), at(60)), Ok(()));
        assert_eq!(throttle.full_at.len(), 1, "sources whose buckets are full again are forgotten");
    }
}
