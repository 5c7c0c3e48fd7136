//! How many requests may still be sent.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// A token has 1200 requests in five minutes, the dashboard's with it; one more, and all are refused for five
/// minutes (developers.cloudflare.com/fundamentals/api/reference/limits). Some are left for people and other programs.
const MOST: usize = 1000;
const WINDOW: Duration = Duration::from_secs(5 * 60);

#[derive(Debug, Default)]
pub(super) struct Budget {
    /// When each request of the window was sent.
    sent: VecDeque<Instant>,
    closed_until: Option<Instant>,
}

impl Budget {
    /// # Errors
    /// How long to wait before the next request.
    pub fn take(&mut self, now: Instant) -> Result<(), Duration> {
        if let Some(until) = self.closed_until.filter(|until| *until > now) {
            return Err(until - now);
        }
        self.closed_until = None;
        while self.sent.front().is_some_and(|first| *first + WINDOW <= now) {
            self.sent.pop_front();
        }
        match self.sent.front() {
            Some(first) if self.sent.len() >= MOST => Err(*first + WINDOW - now),
            Some(_) | None => {
                self.sent.push_back(now);
                Ok(())
            }
        }
    }

    /// The API said to stay away.
    pub fn close(&mut self, until: Instant) {
        self.closed_until = self.closed_until.max(Some(until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_over_every_five_minutes() {
        let (mut budget, start) = (Budget::default(), Instant::now());
        for second in 0..1000 {
            assert_eq!(budget.take(start + Duration::from_millis(second * 100)), Ok(()));
        }
        let later = start + Duration::from_secs(100);
        assert_eq!(budget.take(later), Err(Duration::from_secs(200)));
        assert_eq!(budget.take(start + WINDOW), Ok(()));
        assert_eq!(budget.take(start + WINDOW), Err(Duration::from_millis(100)));
    }

    #[test]
    fn a_closed_door_stays_closed_for_the_longest_time_told() {
        let (mut budget, start) = (Budget::default(), Instant::now());
        budget.close(start + Duration::from_secs(20));
        budget.close(start + Duration::from_secs(5));
        assert_eq!(budget.take(start), Err(Duration::from_secs(20)));
        assert_eq!(budget.take(start + Duration::from_secs(20)), Ok(()));
    }
}
