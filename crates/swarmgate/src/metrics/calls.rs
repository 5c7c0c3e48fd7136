//! How long calls took, by what was called and how that ended.

use std::time::Duration;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use super::Words;

#[derive(Debug, Clone)]
pub(super) struct Calls(Seconds);

type Seconds = Family<Words<2>, Histogram, fn() -> Histogram>;

impl Default for Calls {
    fn default() -> Self {
        Self(Family::new_with_constructor(|| {
            Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0])
        }))
    }
}

impl Calls {
    pub(super) fn made(&self, endpoint: &'static str, outcome: &'static str, took: Duration) {
        let labels = [("endpoint", endpoint), ("outcome", outcome)];
        self.0.get_or_create(&labels).observe(took.as_secs_f64());
    }

    pub(super) fn seconds(&self) -> Seconds {
        self.0.clone()
    }
}
