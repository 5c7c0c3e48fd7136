//! What the gate remembers of a service from when it ran.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Kept in the store over restarts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Learned {
    /// The game's last status answer, as it was sent.
    pub status: Option<Value>,
    /// The last boots, from the wake to the first status answer, in milliseconds, oldest first.
    pub boots_ms: VecDeque<u64>,
    /// What its owner has said of it.
    pub pin: Pin,
}

/// Whether a service is kept in one state, whoever joins and whatever the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Pin {
    #[default]
    None,
    Awake,
    Asleep,
}

impl Learned {
    const BOOTS_KEPT: usize = 7;
    const LARGEST_STATUS: usize = 64 * 1024;

    pub fn booted_in(&mut self, time: Duration) {
        if self.boots_ms.len() >= Self::BOOTS_KEPT {
            self.boots_ms.pop_front();
        }
        self.boots_ms.push_back(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    }

    /// The usual boot time: the median of those remembered.
    pub fn boot_time(&self) -> Option<Duration> {
        let mut boots: Vec<u64> = self.boots_ms.iter().copied().collect();
        boots.sort_unstable();
        boots.get(boots.len() / 2).copied().map(Duration::from_millis)
    }

    /// Remembers a status answer; true if it differs in more than who is online.
    pub fn saw_status(&mut self, status: Value) -> bool {
        let mut status = status;
        if let Some(players) = status.get_mut("players").and_then(Value::as_object_mut) {
            players.remove("sample");
            players.insert("online".to_owned(), 0.into());
        }
        if self.status.as_ref() == Some(&status) || status.to_string().len() > Self::LARGEST_STATUS {
            return false;
        }
        self.status = Some(status);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_usual_boot_time_is_a_median_of_recent_boots() {
        let mut learned = Learned::default();
        assert_eq!(learned.boot_time(), None);
        for seconds in [500, 30, 31, 29, 300, 30, 32, 28] {
            learned.booted_in(Duration::from_secs(seconds));
        }
        assert_eq!(learned.boots_ms.len(), 7);
        assert_eq!(learned.boot_time(), Some(Duration::from_secs(30)));
    }

    #[test]
    fn who_is_online_is_not_worth_a_write() {
        let mut learned = Learned::default();
        let status =
            |online| json!({"players": {"online": online, "max": 20, "sample": [1]}, "favicon": "x"});
        assert!(learned.saw_status(status(3)));
        assert!(!learned.saw_status(status(5)));
        assert_eq!(learned.status, Some(json!({"players": {"online": 0, "max": 20}, "favicon": "x"})));
        assert!(!learned.saw_status(json!("x".repeat(70_000))), "a giant answer is not kept");
        assert!(learned.saw_status(json!("odd")));
    }
}
