//! Who waits in limbo, who has been sent back from there, and what is remembered of both for a while.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::knock::Player;
use crate::ladder::{Reason, Rung};
use crate::moment::Moment;
use crate::name::HostName;
use crate::service::ServiceId;
use crate::throttle::Source;

/// How long a seat is kept for a player who was sent back. A client is there again within a second or two; one
/// that shows a question about resource packs first takes its time.
pub const TICKET: Duration = Duration::from_secs(30);
/// A player is sent back to one service this often within this time at most, without getting in.
pub const LOOP: (usize, Duration) = (2, Duration::from_secs(60));
/// How long a client that broke is kept off the rung it broke on.
const BROKEN: Duration = Duration::from_secs(600);
/// How long a player need not prove its account once more: as long as a start may well take.
const PROOF: Duration = Duration::from_secs(300);
/// Players remembered, at most.
const CAPACITY: usize = 16_384;

/// How many may wait in the world and the room together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    pub per_source: usize,
    pub total: usize,
}

/// A player as far as one can be told from another before anything is proven.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Guest {
    pub source: Source,
    /// Lower case.
    pub name: String,
}

impl Guest {
    pub fn new(source: IpAddr, player: &Player) -> Self {
        Self { source: source.into(), name: player.name.to_lowercase() }
    }
}

/// A seat that is kept for a player who was told to come back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    pub service: ServiceId,
    pub serial: u64,
    /// Where it was sent: by that it leads back to the service, even where the name leads elsewhere.
    pub host: Option<HostName>,
    pub until: Moment,
}

/// What spares a player a second proof, once.
#[derive(Debug)]
struct Voucher {
    service: ServiceId,
    account: Player,
    until: Moment,
}

#[derive(Debug, Default)]
pub struct Guests {
    /// The seats of those who wait, and whom they are counted for.
    waiting: HashMap<u64, Option<Source>>,
    per_source: HashMap<Source, usize>,
    tickets: HashMap<Guest, Ticket>,
    sent_back: HashMap<(Guest, ServiceId), Vec<Moment>>,
    broke: HashMap<Guest, (Rung, Moment)>,
    vouchers: HashMap<Guest, Voucher>,
}

impl Guests {
    /// Which cap is reached for one more; `None` as source for one that is not counted for itself.
    pub fn full(&self, source: Option<Source>, caps: Caps) -> Option<Reason> {
        if self.waiting.len() >= caps.total {
            return Some(Reason::Full);
        }
        let waiting = source.and_then(|source| self.per_source.get(&source));
        waiting.is_some_and(|waiting| *waiting >= caps.per_source).then_some(Reason::SourceFull)
    }

    pub fn enter(&mut self, serial: u64, source: Option<Source>) {
        self.waiting.insert(serial, source);
        if let Some(source) = source {
            *self.per_source.entry(source).or_default() += 1;
        }
    }

    pub fn leave(&mut self, serial: u64) {
        let Some(Some(source)) = self.waiting.remove(&serial) else { return };
        if let Some(waiting) = self.per_source.get_mut(&source) {
            *waiting -= 1;
            if *waiting == 0 {
                self.per_source.remove(&source);
            }
        }
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Keeps a seat for a player who is told to come back; gives up the one that was kept before.
    pub fn keep(&mut self, guest: Guest, ticket: Ticket, now: Moment) -> Option<Ticket> {
        let (_, span) = LOOP;
        make_room(&mut self.sent_back, |times| times.last().is_some_and(|last| now.since(*last) < span));
        let times = self.sent_back.entry((guest.clone(), ticket.service.clone())).or_default();
        times.retain(|time| now.since(*time) < span);
        times.push(now);
        self.tickets.insert(guest, ticket)
    }

    /// The player is with the server: what happens from here on is no circle.
    pub fn got_in(&mut self, guest: &Guest, service: &ServiceId) {
        if !self.sent_back.is_empty() {
            self.sent_back.remove(&(guest.clone(), service.clone()));
        }
    }

    /// Whether this player was sent back to the service as often as it may be for now.
    pub fn loops(&self, guest: &Guest, service: &ServiceId, now: Moment) -> bool {
        let (most, span) = LOOP;
        let times = self.sent_back.get(&(guest.clone(), service.clone()));
        times.is_some_and(|times| times.iter().filter(|time| now.since(**time) < span).count() >= most)
    }

    pub fn ticket(&self, guest: &Guest, now: Moment) -> Option<&Ticket> {
        self.tickets.get(guest).filter(|ticket| now < ticket.until)
    }

    pub fn redeem(&mut self, guest: &Guest) -> Option<Ticket> {
        self.tickets.remove(guest)
    }

    /// The tickets that nobody came back with.
    pub fn expire(&mut self, now: Moment) -> Vec<Ticket> {
        self.tickets.extract_if(|_, ticket| now >= ticket.until).map(|(_, ticket)| ticket).collect()
    }

    pub fn next_deadline(&self) -> Option<Moment> {
        self.tickets.values().map(|ticket| ticket.until).min()
    }

    /// The player has proven who it is, on a connection that does not lead into the game.
    pub fn vouch(&mut self, guest: Guest, service: ServiceId, account: Player, now: Moment) {
        make_room(&mut self.vouchers, |voucher| now < voucher.until);
        self.vouchers.insert(guest, Voucher { service, account, until: now + PROOF });
    }

    /// Who this player has proven to be, for this service, a moment ago.
    pub fn vouched(
        &self,
        guest: &Guest,
        player: &Player,
        service: &ServiceId,
        now: Moment,
    ) -> Option<&Player> {
        let voucher = self.vouchers.get(guest).filter(|voucher| now < voucher.until)?;
        let same = player.uuid.is_none() || player.uuid == voucher.account.uuid;
        (same && voucher.service == *service).then_some(&voucher.account)
    }

    /// A voucher is good for one join.
    pub fn spend(&mut self, guest: &Guest) {
        if !self.vouchers.is_empty() {
            self.vouchers.remove(guest);
        }
    }

    pub fn broke(&mut self, guest: Guest, rung: Rung, now: Moment) {
        make_room(&mut self.broke, |(_, until)| now < *until);
        let rung = self.broken(&guest, now).map_or(rung, |before| before.max(rung));
        self.broke.insert(guest, (rung, now + BROKEN));
    }

    pub fn broken(&self, guest: &Guest, now: Moment) -> Option<Rung> {
        self.broke.get(guest).filter(|(_, until)| now < *until).map(|(rung, _)| *rung)
    }
}

/// Strangers choose their names: what is remembered of them is bounded, and forgotten as a whole rather than
/// searched for the oldest.
fn make_room<K: std::hash::Hash + Eq, V>(memory: &mut HashMap<K, V>, holds: impl Fn(&V) -> bool) {
    if memory.len() >= CAPACITY {
        memory.retain(|_, value| holds(value));
    }
    if memory.len() >= CAPACITY {
        memory.clear();
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::after_start(Duration::from_secs(seconds))
    }

    fn source(text: &str) -> Source {
        text.parse::<IpAddr>().unwrap().into()
    }

    fn guest(name: &str) -> Guest {
        Guest { source: source("192.0.2.1"), name: name.to_owned() }
    }

    fn ticket(name: &str, serial: u64, now: Moment) -> Ticket {
        Ticket { service: ServiceId::new("file", name), serial, host: None, until: now + TICKET }
    }

    #[test]
    fn places_are_counted_per_source_and_in_all_and_given_back() {
        let caps = Caps { per_source: 2, total: 4 };
        let (a, b) = (Some(source("192.0.2.1")), Some(source("192.0.2.2")));
        let mut guests = Guests::default();
        for (serial, source, full) in [
            (1, a, None),
            (2, a, None),
            (3, a, Some(Reason::SourceFull)),
            (3, None, None),
            (4, b, None),
            (5, b, Some(Reason::Full)),
            (6, None, Some(Reason::Full)),
        ] {
            assert_eq!(guests.full(source, caps), full, "{serial}");
            if full.is_none() {
                guests.enter(serial, source);
            }
        }
        for serial in [1, 2, 2, 3, 4, 99] {
            guests.leave(serial);
        }
        assert_eq!((guests.waiting(), guests.per_source.len()), (0, 0));
    }

    #[test]
    fn a_ticket_is_for_one_return_and_ends() {
        let mut guests = Guests::default();
        let kept = ticket("mc", 7, at(10));
        assert_eq!(guests.keep(guest("ann"), kept.clone(), at(10)), None);
        assert_eq!(guests.ticket(&guest("bo"), at(11)), None);
        assert_eq!(guests.ticket(&guest("ann"), at(39)), Some(&kept));
        assert_eq!(guests.ticket(&guest("ann"), at(40)), None);
        assert_eq!((guests.next_deadline(), guests.expire(at(39))), (Some(at(40)), vec![]));
        assert_eq!(guests.redeem(&guest("ann")), Some(kept.clone()));
        assert_eq!(guests.redeem(&guest("ann")), None);
        guests.keep(guest("ann"), kept.clone(), at(10));
        let newer = ticket("mc", 8, at(20));
        assert_eq!(guests.keep(guest("ann"), newer.clone(), at(20)), Some(kept), "its seat must be freed");
        assert_eq!(guests.expire(at(50)), [newer]);
        assert_eq!(guests.next_deadline(), None);
    }

    #[test]
    fn a_player_is_sent_back_to_a_service_twice_a_minute() {
        let mut guests = Guests::default();
        let (mc, other) = (ServiceId::new("file", "mc"), ServiceId::new("file", "other"));
        for (now, loops) in [(0, false), (10, true), (20, true)] {
            guests.keep(guest("ann"), ticket("mc", now, at(now)), at(now));
            assert_eq!(guests.loops(&guest("ann"), &mc, at(now)), loops, "{now}");
        }
        assert!(!guests.loops(&guest("ann"), &other, at(20)) && !guests.loops(&guest("bo"), &mc, at(20)));
        assert!(guests.loops(&guest("ann"), &mc, at(69)));
        assert!(!guests.loops(&guest("ann"), &mc, at(70)));
        guests.got_in(&guest("ann"), &mc);
        assert!(!guests.loops(&guest("ann"), &mc, at(20)));
    }

    #[test]
    fn a_proof_is_remembered_for_one_player_one_service_one_join_and_a_while() {
        let (mc, other) = (ServiceId::new("file", "mc"), ServiceId::new("file", "other"));
        let player = |uuid: Option<u128>| Player { name: "Ann".to_owned(), uuid: uuid.map(Uuid::from_u128) };
        let mut guests = Guests::default();
        guests.vouch(guest("ann"), mc.clone(), player(Some(7)), at(0));
        for (name, uuid, service, now, holds) in [
            ("ann", Some(7), &mc, 299, true),
            ("ann", None, &mc, 0, true),
            ("ann", Some(8), &mc, 0, false),
            ("bo", Some(7), &mc, 0, false),
            ("ann", Some(7), &other, 0, false),
            ("ann", Some(7), &mc, 300, false),
        ] {
            let vouched = guests.vouched(&guest(name), &player(uuid), service, at(now));
            assert_eq!(vouched, holds.then_some(&player(Some(7))), "{name} {uuid:?} {service} {now}");
        }
        guests.spend(&guest("ann"));
        assert_eq!(guests.vouched(&guest("ann"), &player(Some(7)), &mc, at(0)), None);
    }

    #[test]
    fn the_lowest_rung_a_client_broke_on_is_remembered_for_a_while() {
        let mut guests = Guests::default();
        guests.broke(guest("ann"), Rung::Room, at(0));
        guests.broke(guest("ann"), Rung::World, at(1));
        assert_eq!(guests.broken(&guest("ann"), at(2)), Some(Rung::Room));
        assert_eq!(guests.broken(&guest("bo"), at(2)), None);
        assert_eq!(guests.broken(&guest("ann"), at(601)), None);
    }

    #[test]
    fn what_strangers_are_remembered_by_is_bounded() {
        let mut guests = Guests::default();
        for n in 0..CAPACITY + 10 {
            guests.broke(guest(&n.to_string()), Rung::World, at(0));
        }
        assert!(guests.broke.len() <= CAPACITY);
    }
}
