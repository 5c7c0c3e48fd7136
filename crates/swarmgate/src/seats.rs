//! Who holds a seat, and how: for those who ask who plays and who waits.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use swarmgate_core::knock::Knock;
use swarmgate_core::ladder::Rung;
use swarmgate_core::moment::Moment;
use swarmgate_core::service::ServiceId;
use tokio::sync::broadcast;

/// A cheap handle.
#[derive(Debug, Clone)]
pub struct Seats {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    taken: Mutex<BTreeMap<u64, Sitting>>,
    news: broadcast::Sender<News>,
}

/// One connection with a seat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sitting {
    pub service: ServiceId,
    pub since: Moment,
    pub how: How,
    /// As the client says.
    pub player: Arc<str>,
    pub client: IpAddr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// In the game, or on the way in.
    Playing,
    Waiting(Rung),
}

/// What has happened to a seat.
#[derive(Debug, Clone)]
pub struct News {
    pub what: What,
    pub seat: u64,
    pub sitting: Sitting,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    Opened,
    /// Its player waits in another way, or has got in.
    Moved,
    Closed,
}

impl Default for Seats {
    fn default() -> Self {
        /// That a slow listener may fall behind by before it loses the oldest.
        const NEWS_KEPT: usize = 256;
        let shared = Shared { taken: Mutex::default(), news: broadcast::Sender::new(NEWS_KEPT) };
        Self { shared: Arc::new(shared) }
    }
}

impl Seats {
    pub fn news(&self) -> broadcast::Receiver<News> {
        self.shared.news.subscribe()
    }

    /// All that are taken, the oldest first.
    pub fn all(&self) -> Vec<(u64, Sitting)> {
        self.lock().iter().map(|(seat, sitting)| (*seat, sitting.clone())).collect()
    }

    /// How many wait for each service.
    pub fn waiting(&self) -> BTreeMap<ServiceId, usize> {
        let mut waiting = BTreeMap::new();
        for sitting in self.lock().values().filter(|sitting| sitting.how != How::Playing) {
            *waiting.entry(sitting.service.clone()).or_default() += 1;
        }
        waiting
    }

    pub fn take(&self, seat: u64, service: &ServiceId, knock: &Knock, how: How, since: Moment) {
        let player = knock.player().map_or("", |player| &player.name).into();
        let sitting = Sitting { service: service.clone(), since, how, player, client: knock.source };
        let mut taken = self.lock();
        taken.insert(seat, sitting.clone());
        // Under the lock, so that nobody hears of an end before the beginning.
        self.tell(What::Opened, seat, sitting);
    }

    pub fn moved(&self, seat: u64, how: How) {
        let mut taken = self.lock();
        if let Some(sitting) = taken.get_mut(&seat).filter(|sitting| sitting.how != how) {
            sitting.how = how;
            let sitting = sitting.clone();
            self.tell(What::Moved, seat, sitting);
        }
    }

    pub fn leave(&self, seat: u64) {
        let mut taken = self.lock();
        if let Some(sitting) = taken.remove(&seat) {
            self.tell(What::Closed, seat, sitting);
        }
    }

    fn tell(&self, what: What, seat: u64, sitting: Sitting) {
        // Nobody listening is fine.
        let _ = self.shared.news.send(News { what, seat, sitting });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Sitting>> {
        self.shared.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use swarmgate_core::knock::Purpose;

    use super::*;

    #[test]
    fn what_happens_to_a_seat_is_told_once_and_in_order() {
        let seats = Seats::default();
        let mut news = seats.news();
        let source = "192.0.2.1".parse().unwrap();
        let knock = Knock { host: None, purpose: Purpose::Status, source, pass: None, account: None };
        let (a, b) = (ServiceId::new("file", "a"), ServiceId::new("file", "b"));
        seats.take(1, &a, &knock, How::Waiting(Rung::Hold), Moment::START);
        seats.take(2, &b, &knock, How::Playing, Moment::START);
        assert_eq!(seats.waiting(), [(a, 1)].into());
        seats.moved(1, How::Waiting(Rung::Hold));
        seats.moved(1, How::Playing);
        assert!(seats.waiting().is_empty());
        seats.leave(1);
        seats.leave(1);
        seats.moved(1, How::Waiting(Rung::Room));
        let left: Vec<u64> = seats.all().into_iter().map(|(seat, _)| seat).collect();
        assert_eq!(left, [2]);
        let told: Vec<_> =
            std::iter::from_fn(|| news.try_recv().ok()).map(|news| (news.what, news.seat)).collect();
        assert_eq!(told, [(What::Opened, 1), (What::Opened, 2), (What::Moved, 1), (What::Closed, 1)]);
    }
}
