//! What the model believes of one service: facts from what went in, no decisions.

use std::sync::Arc;

use crate::moment::Moment;

/// What the gate was last told a service does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Known {
    #[default]
    Nothing,
    Down,
    /// On its way up or down.
    Busy,
    Up(Arc<str>),
}

#[derive(Debug, Default)]
pub struct Naive {
    pub known: Known,
    pub stale: bool,
    /// Somebody who may has asked for a start that has not been made yet.
    pub wanted: bool,
    pub scaling: bool,
    /// A start of ours is under way.
    pub starting: bool,
    pub slept_by_hand: bool,
    /// Since when it has been shown on its way up.
    pub trying: Option<Moment>,
    /// Something went wrong that a shown failure may be about.
    pub excuse: bool,
    pub answered: bool,
    pub online: Option<u32>,
    /// Since when every answer was "nobody", with no seat held between.
    pub empty: Option<Moment>,
    pub empty_said: Option<Moment>,
    /// Since when no seat was held while it was ready.
    pub quiet: Option<Moment>,
}

impl Naive {
    pub fn know(&mut self, known: Known) {
        let same_run = matches!((&self.known, &known), (Known::Up(a), Known::Up(b)) if a == b);
        self.known = known;
        if !same_run {
            self.answered = false;
            self.online = None;
            self.empty = None;
            self.quiet = None;
        }
    }
}
