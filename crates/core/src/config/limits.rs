//! What strangers may cost.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;

use super::problem::Fault;
use super::reader::Section;
use super::value;
use crate::fleet::Caps;
use crate::throttle::Rate;

/// The most that any of them may use, whatever arrives. A source is an IPv4 address or an IPv6 /64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// From accept to a whole login or status request.
    pub opening_deadline: Duration,
    pub half_open_per_source: usize,
    pub half_open_total: usize,
    pub connections_total: usize,
    /// Per source, as are the next two.
    pub status: Rate,
    pub login: Rate,
    /// Joins that start a sleeping server.
    pub wake: Rate,
    /// Exempt from everything counted per source.
    pub trusted_sources: Vec<IpNet>,
    /// Starts under way at one time; the others queue.
    pub waking_at_once: usize,
    /// Servers awake at one time, if there is a limit.
    pub awake_at_once: Option<usize>,
    /// Joins that wait for a server, per source.
    pub held_per_source: usize,
    pub held_total: usize,
    /// Players who wait in the world or the room.
    pub limbo: Caps,
}

impl Default for Limits {
    /// Twenty players behind one address who refresh their lists and join together must not notice.
    fn default() -> Self {
        Self {
            opening_deadline: Duration::from_secs(5),
            half_open_per_source: 64,
            half_open_total: 2000,
            connections_total: 8_000,
            status: Rate { burst: 200, every: Duration::from_millis(20) },
            login: Rate { burst: 40, every: Duration::from_millis(200) },
            wake: Rate { burst: 3, every: Duration::from_secs(10) },
            trusted_sources: Vec::new(),
            waking_at_once: 2,
            awake_at_once: None,
            held_per_source: 64,
            held_total: 1000,
            limbo: Caps { per_source: 64, total: 1000 },
        }
    }
}

impl Limits {
    /// Whether no limit per source applies there.
    pub fn trusts(&self, source: IpAddr) -> bool {
        let source = source.to_canonical();
        self.trusted_sources.iter().any(|network| network.contains(&source))
    }

    pub(super) fn read(mut section: Section<'_, '_>) -> Self {
        let base = Self::default();
        let limits = Self {
            opening_deadline: section
                .text("opening_deadline", value::duration)
                .unwrap_or(base.opening_deadline),
            half_open_per_source: section
                .number("half_open_per_source", 1)
                .unwrap_or(base.half_open_per_source),
            half_open_total: section.number("half_open_total", 1).unwrap_or(base.half_open_total),
            connections_total: section.number("connections_total", 1).unwrap_or(base.connections_total),
            status: section.rate("status_rate", "status_burst", base.status),
            login: section.rate("login_rate", "login_burst", base.login),
            wake: section.rate("wake_rate", "wake_burst", base.wake),
            trusted_sources: section.list("trusted_sources", value::network).unwrap_or_default(),
            waking_at_once: section.number("waking_at_once", 1).unwrap_or(base.waking_at_once),
            awake_at_once: section.number("awake_at_once", 0).filter(|most| *most > 0),
            held_per_source: section.number("held_per_source", 1).unwrap_or(base.held_per_source),
            held_total: section.number("held_total", 1).unwrap_or(base.held_total),
            limbo: Caps {
                per_source: section.number("limbo_per_source", 1).unwrap_or(base.limbo.per_source),
                total: section.number("limbo_total", 1).unwrap_or(base.limbo.total),
            },
        };
        limits.check(&section);
        section.finish();
        limits
    }

    fn check(&self, section: &Section<'_, '_>) {
        if self.opening_deadline < Duration::from_millis(500) {
            let fault = Fault::new("is too short for players far away", "write \"500ms\" or more");
            section.problem("opening_deadline", fault);
        }
        for (one, per_source, all, total) in [
            ("half_open_per_source", self.half_open_per_source, "half_open_total", self.half_open_total),
            ("held_per_source", self.held_per_source, "held_total", self.held_total),
            ("limbo_per_source", self.limbo.per_source, "limbo_total", self.limbo.total),
        ] {
            if per_source > total {
                let what = format!("{per_source} is more than {all}, which is {total}, so it limits nothing");
                section.warning(one, Fault::new(what, format!("lower it, or raise {all}")));
            }
        }
    }
}
