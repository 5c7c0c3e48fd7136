//! Who may come in, and how many at once: the limits that hold before anything is decided.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use swarmgate_core::config::Limits;
use swarmgate_core::moment::Moment;
use swarmgate_core::throttle::{Source, Throttle};

/// Shared by all connections; one short lock each time.
#[derive(Debug)]
pub struct Door {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    limits: Limits,
    open: usize,
    counted: HashMap<(Room, Source), usize>,
    totals: [usize; 2],
    status: Throttle,
    login: Throttle,
}

/// Where connections are counted, in all and per source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Room {
    /// Has not said yet what it wants.
    HalfOpen,
    /// A player waits for a server.
    Held,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// No connection more, whoever it is.
    Connections,
    Total(Room),
    Source(Room),
}

/// A counted connection, until it is dropped.
#[derive(Debug)]
pub struct Open(Arc<Door>);

/// A counted place in a [`Room`], until it is dropped.
#[derive(Debug)]
pub struct Place {
    door: Arc<Door>,
    room: Room,
    /// `None` for a source that is not counted for itself.
    source: Option<Source>,
}

/// What a source may do so often and no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    Status,
    Login,
}

impl Full {
    /// A short name for logs and metric labels.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Connections => "connections_total",
            Self::Total(Room::HalfOpen) => "half_open_total",
            Self::Total(Room::Held) => "held_total",
            Self::Source(Room::HalfOpen) => "half_open_per_source",
            Self::Source(Room::Held) => "held_per_source",
        }
    }
}

impl Door {
    const SOURCES_REMEMBERED: usize = 65_536;

    pub fn new(limits: Limits) -> Arc<Self> {
        let inner = Inner {
            status: Throttle::new(limits.status, Self::SOURCES_REMEMBERED),
            login: Throttle::new(limits.login, Self::SOURCES_REMEMBERED),
            limits,
            open: 0,
            counted: HashMap::new(),
            totals: [0; 2],
        };
        Arc::new(Self { inner: Mutex::new(inner) })
    }

    pub fn set_limits(&self, limits: Limits) {
        let mut inner = self.lock();
        inner.status.set_rate(limits.status);
        inner.login.set_rate(limits.login);
        inner.limits = limits;
    }

    /// Counts a connection for as long as it lives.
    pub fn open(self: &Arc<Self>) -> Result<Open, Full> {
        let mut inner = self.lock();
        if inner.open >= inner.limits.connections_total {
            return Err(Full::Connections);
        }
        inner.open += 1;
        drop(inner);
        Ok(Open(Arc::clone(self)))
    }

    /// `alone` is false for a proxy that speaks for many: it is only counted in the total.
    pub fn enter(self: &Arc<Self>, room: Room, from: IpAddr, alone: bool) -> Result<Place, Full> {
        let source = self.counts(from).filter(|_| alone);
        let mut inner = self.lock();
        let total = match room {
            Room::HalfOpen => inner.limits.half_open_total,
            Room::Held => inner.limits.held_total,
        };
        if *inner.total(room) >= total {
            return Err(Full::Total(room));
        }
        if let Some(source) = source {
            inner.count(room, source)?;
        }
        *inner.total(room) += 1;
        drop(inner);
        Ok(Place { door: Arc::clone(self), room, source })
    }

    /// Counts a place that nobody was charged for as this source's: a proxy has said whom it speaks for.
    pub fn charge(&self, place: &mut Place, from: IpAddr) -> Result<(), Full> {
        let Some(source) = self.counts(from) else { return Ok(()) };
        if place.source.is_none() {
            self.lock().count(place.room, source)?;
            place.source = Some(source);
        }
        Ok(())
    }

    /// Takes one from the source's allowance for `deed`.
    pub fn allow(&self, deed: Deed, from: IpAddr, now: Moment) -> bool {
        if self.is_trusted(from) {
            return true;
        }
        let mut inner = self.lock();
        let throttle = match deed {
            Deed::Status => &mut inner.status,
            Deed::Login => &mut inner.login,
        };
        throttle.take(from.into(), now).is_ok()
    }

    pub fn connections(&self) -> usize {
        self.lock().open
    }

    pub fn in_room(&self, room: Room) -> usize {
        *self.lock().total(room)
    }

    /// Whom connections from there are counted for, if anybody.
    fn counts(&self, from: IpAddr) -> Option<Source> {
        (!self.is_trusted(from)).then(|| Source::from(from))
    }

    fn is_trusted(&self, from: IpAddr) -> bool {
        let from = from.to_canonical();
        self.lock().limits.trusted_sources.iter().any(|net| net.contains(&from))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn count(&mut self, room: Room, source: Source) -> Result<(), Full> {
        let most = match room {
            Room::HalfOpen => self.limits.half_open_per_source,
            Room::Held => self.limits.held_per_source,
        };
        let count = self.counted.entry((room, source)).or_default();
        if *count >= most {
            return Err(Full::Source(room));
        }
        *count += 1;
        Ok(())
    }

    const fn total(&mut self, room: Room) -> &mut usize {
        let [half_open, held] = &mut self.totals;
        match room {
            Room::HalfOpen => half_open,
            Room::Held => held,
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.lock().open -= 1;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inner = self.door.lock();
        *inner.total(self.room) -= 1;
        let Some(source) = self.source else { return };
        if let Some(count) = inner.counted.get_mut(&(self.room, source)) {
            *count -= 1;
            if *count == 0 {
                inner.counted.remove(&(self.room, source));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door(change: impl FnOnce(&mut Limits)) -> Arc<Door> {
        let mut limits = Limits::default();
        change(&mut limits);
        Door::new(limits)
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn each_source_and_all_together_have_their_cap() {
        let door = door(|limits| {
            limits.half_open_per_source = 2;
            limits.half_open_total = 3;
        });
        let enter = |from: &str| door.enter(Room::HalfOpen, ip(from), true);
        let first = enter("192.0.2.1").unwrap();
        let _second = enter("192.0.2.1").unwrap();
        assert_eq!(enter("192.0.2.1").unwrap_err(), Full::Source(Room::HalfOpen));
        let _third = enter("192.0.2.2").unwrap();
        assert_eq!(enter("192.0.2.3").unwrap_err(), Full::Total(Room::HalfOpen));
        drop(first);
        let _again = enter("192.0.2.1").unwrap();
        assert_eq!(door.in_room(Room::HalfOpen), 3);
        assert_eq!(door.in_room(Room::Held), 0);
    }

    #[test]
    fn leaving_leaves_nothing_behind() {
        let door = door(|_| {});
        let places: Vec<_> =
            (0..9).map(|n| door.enter(Room::Held, ip(&format!("192.0.2.{n}")), true)).collect();
        drop(places);
        assert_eq!((door.in_room(Room::Held), door.lock().counted.len()), (0, 0));
    }

    #[test]
    fn a_proxy_and_a_trusted_source_are_not_counted_alone() {
        let door = door(|limits| {
            limits.half_open_per_source = 1;
            limits.trusted_sources = vec!["10.0.0.0/8".parse().unwrap()];
            limits.login.burst = 1;
        });
        let from = |address: &str, alone| door.enter(Room::HalfOpen, ip(address), alone);
        let _kept: Vec<_> = (0..3)
            .flat_map(|_| [from("192.0.2.1", false).unwrap(), from("::ffff:10.1.1.1", true).unwrap()])
            .collect();
        for _ in 0..3 {
            assert!(door.allow(Deed::Login, ip("10.1.1.1"), Moment::START));
        }
    }

    #[test]
    fn whom_a_proxy_speaks_for_is_counted_once_it_has_said_so() {
        let door = door(|limits| limits.half_open_per_source = 1);
        let proxied = || door.enter(Room::HalfOpen, ip("10.0.0.1"), false).unwrap();
        let (mut first, mut second) = (proxied(), proxied());
        door.charge(&mut first, ip("192.0.2.1")).unwrap();
        door.charge(&mut first, ip("192.0.2.1")).unwrap();
        assert_eq!(door.charge(&mut second, ip("192.0.2.1")), Err(Full::Source(Room::HalfOpen)));
        door.charge(&mut second, ip("192.0.2.2")).unwrap();
        assert_eq!(door.in_room(Room::HalfOpen), 2);
        drop((first, second));
        assert_eq!((door.in_room(Room::HalfOpen), door.lock().counted.len()), (0, 0));
    }

    #[test]
    fn status_and_login_have_allowances_of_their_own() {
        let door = door(|limits| {
            limits.status.burst = 1;
            limits.login.burst = 1;
        });
        let allow = |deed| door.allow(deed, ip("192.0.2.1"), Moment::START);
        assert!(allow(Deed::Status));
        assert!(!allow(Deed::Status));
        assert!(allow(Deed::Login));
        assert!(!allow(Deed::Login));
    }

    #[test]
    fn connections_are_counted_while_they_live() {
        let door = door(|limits| limits.connections_total = 1);
        let one = door.open().unwrap();
        assert_eq!(door.open().unwrap_err(), Full::Connections);
        drop(one);
        door.open().unwrap();
    }
}
