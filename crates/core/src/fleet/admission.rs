//! Who is let in, who waits, and who may wake a service.

use std::net::IpAddr;
use std::time::Duration;

use super::guests::{Guest, TICKET, Ticket};
use super::{Fleet, Policy};
use crate::knock::{Face, Knock, Player, Purpose, Refusal, Seat, Verdict, Waiting};
use crate::ladder::{self, Asked, Client, Exit, Facts, Reason, Rung, Said};
use crate::moment::Moment;
use crate::name::HostName;
use crate::routes::Match;
use crate::service::{ServiceId, State};
use crate::throttle::Source;

impl Fleet {
    /// Decides about a connection. A seat is taken here or not at all: the same call that finds the
    /// service awake keeps it awake.
    pub fn admit(&mut self, knock: &Knock, now: Moment) -> Verdict {
        let returning = self.returning(knock, now);
        let found = match &returning {
            Some(id) => Some((id, Match::Exact)),
            None => self.routes.find(knock.host.as_ref()),
        };
        let Some((id, how)) = found else {
            return Verdict::Refuse(Refusal::UnknownHost);
        };
        let id = id.clone();
        let Some(record) = self.records.get(&id) else {
            return Verdict::Refuse(Refusal::UnknownHost);
        };
        if !self.policy.clients.admit(knock.source) || !record.spec.clients.admit(knock.source) {
            return Verdict::Refuse(Refusal::Denied(record.face()));
        }
        match &knock.purpose {
            Purpose::Status => match record.target() {
                Some(target) => Verdict::Forward(target),
                None => {
                    let wakes = record.spec.wake && (how != Match::Default || record.spec.default_wakes);
                    Verdict::Answer(Face { wakes, ..record.face() })
                }
            },
            Purpose::Login(player, client) => {
                let visitor = Visitor {
                    player,
                    client,
                    account: knock.account.as_ref(),
                    sealed: knock.is_sealed(),
                    source: knock.source,
                    how,
                    returned: returning.is_some(),
                };
                let verdict = self.admit_player(&id, &visitor, now);
                if let Verdict::Relay(..) | Verdict::Wait(..) = verdict {
                    match visitor.account {
                        Some(account) if visitor.sealed => {
                            self.guests.vouch(visitor.guest(), id.clone(), account.clone(), now);
                        }
                        Some(_) | None => self.guests.spend(&visitor.guest()),
                    }
                }
                if let Verdict::Relay(..) = verdict {
                    self.guests.got_in(&visitor.guest(), &id);
                }
                // Only now: the seat that was kept keeps the service awake until there is the new one.
                if returning.is_some()
                    && !matches!(verdict, Verdict::Prove(_))
                    && let Some(ticket) = self.guests.redeem(&visitor.guest())
                {
                    self.give_up(&ticket, now);
                }
                verdict
            }
        }
    }

    /// The ladder again, with what the client has said of itself since it was let in.
    pub fn arrived(&self, seat: &Seat, knock: &Knock, said: &Said, now: Moment) -> Option<Waiting> {
        let Purpose::Login(player, client) = &knock.purpose else { return None };
        let guest = Guest::new(knock.source, player);
        // It has its place already.
        self.waiting(&seat.service, &guest, client, Some(said), None, now)
    }

    /// The player of this seat is about to be told to come back, to `host`: until then its seat is kept.
    /// The caller does not release it.
    pub fn sent_back(&mut self, seat: &Seat, knock: &Knock, host: Option<HostName>, now: Moment) {
        self.guests.leave(seat.serial);
        let Purpose::Login(player, _) = &knock.purpose else { return self.release(seat, now) };
        let ticket = Ticket { service: seat.service.clone(), serial: seat.serial, host, until: now + TICKET };
        if let Some(older) = self.guests.keep(Guest::new(knock.source, player), ticket, now) {
            self.give_up(&older, now);
        }
    }

    /// The player's client could not bear this rung: it gets a lower one for a while.
    pub fn broke(&mut self, knock: &Knock, rung: Rung, now: Moment) {
        if let Purpose::Login(player, _) = &knock.purpose {
            self.guests.broke(Guest::new(knock.source, player), rung, now);
        }
    }

    /// Whether this login needs no cookie to be known as that of a player who was sent back.
    pub fn has_ticket(&self, knock: &Knock, now: Moment) -> bool {
        self.returning(&Knock { pass: None, ..knock.clone() }, now).is_some()
    }

    /// How many wait in limbo.
    pub fn in_limbo(&self) -> usize {
        self.guests.waiting()
    }

    pub fn release(&mut self, seat: &Seat, now: Moment) {
        self.guests.leave(seat.serial);
        let Some(record) = self.records.get_mut(&seat.service) else { return };
        record.leave(seat.serial, now);
        self.forget_if_over(&seat.service);
    }

    /// The service that this player was sent back to, and comes back for.
    fn returning(&self, knock: &Knock, now: Moment) -> Option<ServiceId> {
        let Purpose::Login(player, client) = &knock.purpose else { return None };
        let routed = self.routes.find(knock.host.as_ref()).map(|(id, _)| id);
        let ticket = self.guests.ticket(&Guest::new(knock.source, player), now);
        let as_sent = |ticket: &&Ticket| {
            routed == Some(&ticket.service) || (client.transferred && knock.host == ticket.host)
        };
        let by_ticket = ticket.filter(as_sent).map(|ticket| &ticket.service);
        by_ticket.or(knock.pass.as_ref()).filter(|id| self.records.contains_key(*id)).cloned()
    }

    fn admit_player(&mut self, id: &ServiceId, visitor: &Visitor<'_>, now: Moment) -> Verdict {
        let Some(record) = self.records.get_mut(id) else {
            return Verdict::Refuse(Refusal::UnknownHost);
        };
        let face = record.face();
        match &record.shown {
            State::Running(_) => match record.target() {
                Some(_) if visitor.sealed => self.wait(id, visitor, now),
                Some(target) => Verdict::Relay(self.seat(id, visitor), target),
                None => Verdict::Refuse(Refusal::Unreachable(face)),
            },
            State::Starting { .. } | State::Restarting { .. } => {
                record.follow_start(now);
                self.wait(id, visitor, now)
            }
            State::Failed { .. } => match record.retry_in(now) {
                Some(retry_in) => Verdict::Refuse(Refusal::Failed { face, retry_in }),
                None => self.wake_for(id, visitor, now),
            },
            State::Asleep | State::Stopping | State::Unknown { .. } => self.wake_for(id, visitor, now),
        }
    }

    /// The one place where a stranger's join starts a machine.
    fn wake_for(&mut self, id: &ServiceId, visitor: &Visitor<'_>, now: Moment) -> Verdict {
        let full = self.is_full();
        let guest = visitor.guest();
        let vouched = self.guests.vouched(&guest, visitor.player, id, now).cloned();
        let Some(record) = self.records.get_mut(id) else {
            return Verdict::Refuse(Refusal::UnknownHost);
        };
        if record.wake.is_some() {
            return self.wait(id, visitor, now);
        }
        let face = record.face();
        let spec = &record.spec;
        if record.is_pinned_asleep() {
            return Verdict::Refuse(Refusal::PinnedAsleep(face));
        }
        if !record.scalable || !spec.wake || (visitor.how == Match::Default && !spec.default_wakes) {
            return Verdict::Refuse(Refusal::WakeOff(face));
        }
        let account = visitor.account.or(vouched.as_ref());
        let to_prove = spec.wakers.verified && account.is_none();
        let may = match account {
            None if to_prove => spec.wakers.might_admit(visitor.player, visitor.source),
            None => spec.wakers.admit(visitor.player, visitor.source),
            Some(account) => spec.wakers.admit(account, visitor.source),
        };
        if !may {
            return Verdict::Refuse(Refusal::MayNotWake(face));
        }
        if full && !record.counts_as_awake() {
            return Verdict::Refuse(Refusal::TooManyAwake(face));
        }
        // Whoever has proven an account was counted when it was asked to.
        let exempt = visitor.returned || account.is_some() || self.policy.trusts(visitor.source);
        if !exempt && let Err(retry_in) = self.throttle.take(Source::from(visitor.source), now) {
            return Verdict::Refuse(Refusal::WakeRate { face, retry_in });
        }
        if to_prove {
            return Verdict::Prove(face);
        }
        record.begin_wake("a player joined", now);
        let verdict = self.wait(id, visitor, now);
        self.settle(now);
        verdict
    }

    fn wait(&mut self, id: &ServiceId, visitor: &Visitor<'_>, now: Moment) -> Verdict {
        let counted = (!self.policy.trusts(visitor.source)).then(|| Source::from(visitor.source));
        let full = self.guests.full(counted, self.policy.limbo);
        let Some(waiting) = self.waiting(id, &visitor.guest(), visitor.client, None, full, now) else {
            return Verdict::Refuse(Refusal::UnknownHost);
        };
        let seat = self.seat(id, visitor);
        if waiting.landing.rung < Rung::Hold {
            self.guests.enter(seat.serial, counted);
        }
        Verdict::Wait(seat, waiting)
    }

    fn waiting(
        &self,
        id: &ServiceId,
        guest: &Guest,
        client: &Client,
        said: Option<&Said>,
        full: Option<Reason>,
        now: Moment,
    ) -> Option<Waiting> {
        let spec = &self.records.get(id)?.spec;
        let asked = Asked {
            wait: spec.wait,
            modded_room: spec.modded_room,
            public_address: spec.public_address.is_some(),
            holds: !spec.hold.is_zero(),
        };
        let landing = ladder::descend(&Facts {
            client,
            said,
            asked,
            full,
            broke: self.guests.broken(guest, now),
            loops: self.guests.loops(guest, id, now),
        });
        let holds =
            landing.rung == Rung::Hold || (landing.rung < Rung::Hold && client.exit() == Exit::Rejoin);
        let hold = if holds { spec.hold } else { Duration::ZERO };
        Some(Waiting { landing, exit: client.exit(), hold })
    }

    fn seat(&mut self, id: &ServiceId, visitor: &Visitor<'_>) -> Seat {
        self.seats_taken += 1;
        if let Some(record) = self.records.get_mut(id) {
            record.sit(self.seats_taken);
        }
        Seat { service: id.clone(), serial: self.seats_taken, returned: visitor.returned }
    }

    /// The seat of a ticket that is redeemed, replaced or over.
    pub(super) fn give_up(&mut self, ticket: &Ticket, now: Moment) {
        if let Some(record) = self.records.get_mut(&ticket.service) {
            record.leave(ticket.serial, now);
            self.forget_if_over(&ticket.service);
        }
    }
}

/// Who wants in, and by which route.
struct Visitor<'a> {
    player: &'a Player,
    client: &'a Client,
    /// Who the player is, where that is proven.
    account: Option<&'a Player>,
    /// It cannot be relayed on this connection.
    sealed: bool,
    source: IpAddr,
    how: Match,
    returned: bool,
}

impl Visitor<'_> {
    fn guest(&self) -> Guest {
        Guest::new(self.source, self.player)
    }
}

impl Policy {
    pub(super) fn trusts(&self, source: IpAddr) -> bool {
        let source = source.to_canonical();
        self.trusted.iter().any(|net| net.contains(&source))
    }
}
