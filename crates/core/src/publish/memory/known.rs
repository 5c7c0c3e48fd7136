//! What is known of one hostname.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::moment::Moment;
use crate::name::HostPattern;
use crate::publish::wanted::Wanted;

/// Of a hostname that the gate published.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Known {
    /// Who had it first of those who have it, as it is displayed: `swarm/shop_web`.
    pub service: Option<String>,
    /// All who have it; the empty name is one that is not remembered.
    pub services: BTreeMap<String, Asking>,
    pub delete_dns: Option<bool>,
    /// Nobody came to it without saying who they are when that was last seen.
    pub protected: bool,
    /// Its rules by their paths; empty for every path.
    pub rules: BTreeMap<String, Texts>,
    /// Its record bore the gate's mark when that was last seen, or bears another gate's since.
    pub record: bool,
    /// The policies of its application when that last bore the gate's mark; another gate may have it since.
    pub policies: Option<Vec<String>>,
    /// When something of it was last begun to be removed, in this run.
    #[serde(skip)]
    pub removed: Option<Moment>,
    /// That counts already among the removals of these minutes.
    #[serde(skip)]
    pub is_counted: bool,
    pub strife: Strife,
}

/// Whether a service asks for a hostname that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Asking {
    /// How long it has not, continuously, as far as is known; `None`: it does.
    pub absent: Option<Duration>,
    /// When this was last looked at it did not, for sure.
    #[serde(skip)]
    pub is_gone: bool,
}

/// What a rule of ours says.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Texts {
    /// When it was last seen.
    pub seen: Option<String>,
    /// As it was to be written, whether or not that came to pass. Empty: it was to go.
    pub meant: Option<String>,
    /// What somebody else made of it, which is told already. Empty: it is not there.
    #[serde(skip)]
    pub lost: Option<String>,
}

/// Changes that somebody else made to what the gate had left as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Strife {
    losses: u32,
    /// In this run. Those of earlier ones count as if they had been at its beginning.
    #[serde(skip)]
    last: Option<Moment>,
    /// It is left as it is for now.
    #[serde(skip)]
    pub is_on: bool,
}

/// So many changes within [`TRUCE`] of each other are no accident.
const MOST_LOSSES: u32 = 3;
const TRUCE: Duration = Duration::from_secs(3600);

impl Known {
    /// How long nobody has asked for it.
    pub fn absent(&self) -> Option<Duration> {
        let absences: Option<Vec<Duration>> = self.services.values().map(|asking| asking.absent).collect();
        absences?.into_iter().min()
    }

    /// Whether it was looked in this run, and everybody who had it does not ask for it now.
    pub fn is_gone(&self) -> bool {
        self.services.values().all(|asking| asking.is_gone)
    }

    pub fn is_asked_for(&mut self, host: &str, wanted: &Wanted) {
        let asked = HostPattern::parse(host).ok().and_then(|host| wanted.hosts.get(&host));
        if let Some(asked) = asked {
            self.service = Some(asked.service.to_string());
            self.delete_dns = Some(asked.delete_dns);
            self.services.extend(asked.services.iter().map(|service| (service.clone(), Asking::default())));
        }
    }
}

impl Strife {
    /// Somebody else has changed it.
    pub fn lost(&mut self, now: Moment) {
        let again = self.last.is_some_and(|last| now.since(last) < TRUCE);
        // Where it was no accident before, one more is enough.
        self.losses = if again || self.losses >= MOST_LOSSES { self.losses.saturating_add(1) } else { 1 };
        self.last = Some(now);
        self.is_on = self.losses >= MOST_LOSSES;
    }

    /// The gate may try again, now and then.
    pub fn look(&mut self, now: Moment) {
        if self.losses > 0 {
            let last = *self.last.get_or_insert(now);
            self.is_on = self.losses >= MOST_LOSSES && now.since(last) < TRUCE;
        }
    }
}
