//! How far the engine's clock is from the gate's, by the `Date` of its answers.

use jiff::{SignedDuration, Timestamp};

/// The narrowest bounds that all answers so far agree on. A date names a whole second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Skew {
    bounds: Option<(SignedDuration, SignedDuration)>,
}

impl Skew {
    pub fn observe(&mut self, date: Timestamp, sent: Timestamp, received: Timestamp) {
        let least = date.duration_since(received);
        let most = date.duration_since(sent) + SignedDuration::from_secs(1);
        let narrowed = self.bounds.map(|(low, high)| (low.max(least), high.min(most)));
        // One of the clocks was set: start anew.
        self.bounds = Some(narrowed.filter(|(low, high)| low <= high).unwrap_or((least, most)));
    }

    /// The engine's time at `local`. Clocks that may agree are taken to agree.
    pub fn engine_time(self, local: Timestamp) -> Timestamp {
        match self.bounds {
            Some((least, most)) if least.is_positive() || most.is_negative() => {
                local.checked_add((least + most) / 2).unwrap_or(local)
            }
            Some(_) | None => local,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(1_700_000_000_000 + millis).unwrap()
    }

    #[test]
    fn only_what_the_dates_rule_out_is_corrected() {
        let agreeing = [(0, 100, 110), (0, 990, 995), (1_000, 1_005, 1_010)];
        let ahead = [(60_000, 100, 110), (60_000, 700, 705), (61_000, 710, 715)];
        let behind = [(-60_000, 100, 110), (-60_000, 980, 990)];
        let set_back = [(60_000, 100, 110), (0, 200, 210)];
        for (answers, least, most) in
            [(&agreeing[..], 0, 0), (&ahead, 60_280, 60_300), (&behind, -60_110, -59_900), (&set_back, 0, 0)]
        {
            let mut skew = Skew::default();
            for &(date, sent, received) in answers {
                skew.observe(at(date), at(sent), at(received));
            }
            let found = skew.engine_time(at(0)).duration_since(at(0)).as_millis();
            assert!((least..=most).contains(&found), "{answers:?}: {found}");
        }
        assert_eq!(Skew::default().engine_time(at(7)), at(7));
    }
}
