//! Hostname → service, from what the services claim.

use std::collections::HashMap;

use crate::api_routes;
use crate::name::{HostName, HostPattern};
use crate::service::{ServiceId, Spec};

/// The route table. Exact names beat wildcards, longer wildcards beat shorter ones, and the default
/// takes what is left.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Routes {
    exact: HashMap<HostName, ServiceId>,
    below: HashMap<HostName, ServiceId>,
    default: Option<ServiceId>,
    conflicts: Vec<Conflict>,
}

/// Two services claim one route. The claim that goes first stands until its service is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The hostname, or [`Routes::DEFAULT`].
    pub claim: String,
    pub holder: ServiceId,
    pub other: ServiceId,
}

impl Conflict {
    /// Why the holder has it and the other has not.
    pub fn rule(&self) -> &'static str {
        if self.other.source == api_routes::ID && self.holder.source != api_routes::ID {
            "labels and the configuration file go before routes of the API"
        } else {
            "the first to claim it keeps it"
        }
    }
}

/// How a name was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    Exact,
    Wildcard,
    Default,
}

impl Match {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Wildcard => "wildcard",
            Self::Default => "default",
        }
    }
}

impl Routes {
    /// The claim to the default route.
    pub const DEFAULT: &str = "the default route";

    /// `services` in the order of their claims: the first to claim a name gets it.
    pub fn new<'a>(services: impl IntoIterator<Item = (&'a ServiceId, &'a Spec)>) -> Self {
        let mut routes = Self::default();
        for (id, spec) in services {
            for pattern in &spec.hosts {
                routes.claim(pattern, id);
            }
            if spec.default {
                match &routes.default {
                    None => routes.default = Some(id.clone()),
                    Some(holder) => routes.conflicts.push(Conflict {
                        claim: Self::DEFAULT.to_owned(),
                        holder: holder.clone(),
                        other: id.clone(),
                    }),
                }
            }
        }
        routes
    }

    pub fn find(&self, host: Option<&HostName>) -> Option<(&ServiceId, Match)> {
        let by_name = host.and_then(|host| {
            let exact = self.exact.get(host).map(|id| (id, Match::Exact));
            exact.or_else(|| host.above().find_map(|suffix| Some((self.below.get(suffix)?, Match::Wildcard))))
        });
        by_name.or_else(|| self.default.as_ref().map(|id| (id, Match::Default)))
    }

    /// The configured names most like `text`, best first, at most three.
    pub fn nearest(&self, text: &str) -> Vec<String> {
        const ALIKE: f64 = 0.75;
        let mut scored: Vec<(f64, String)> = self
            .names()
            .map(|(pattern, _)| pattern)
            .map(|name| (strsim::jaro_winkler(text, name.trim_start_matches("*.")), name))
            .filter(|(score, _)| *score >= ALIKE)
            .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        scored.into_iter().take(3).map(|(_, name)| name).collect()
    }

    /// Every route as people write it, in no order.
    pub fn names(&self) -> impl Iterator<Item = (String, &ServiceId)> {
        let exact = self.exact.iter().map(|(name, id)| (name.to_string(), id));
        let below = self.below.iter().map(|(name, id)| (format!("*.{name}"), id));
        exact.chain(below)
    }

    pub fn default_route(&self) -> Option<&ServiceId> {
        self.default.as_ref()
    }

    /// Who has this very route, whoever has a wider one.
    pub fn holder(&self, pattern: &HostPattern) -> Option<&ServiceId> {
        match pattern {
            HostPattern::Exact(name) => self.exact.get(name),
            HostPattern::Below(name) => self.below.get(name),
        }
    }

    pub fn conflicts(&self) -> &[Conflict] {
        &self.conflicts
    }

    fn claim(&mut self, pattern: &HostPattern, id: &ServiceId) {
        let (table, name) = match pattern {
            HostPattern::Exact(name) => (&mut self.exact, name),
            HostPattern::Below(name) => (&mut self.below, name),
        };
        match table.get(name) {
            None => {
                table.insert(name.clone(), id.clone());
            }
            Some(holder) if holder == id => {}
            Some(holder) => self.conflicts.push(Conflict {
                claim: pattern.to_string(),
                holder: holder.clone(),
                other: id.clone(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::tests::spec;

    fn routes(services: &[(&str, &[&str], bool)]) -> Routes {
        let services: Vec<_> = services
            .iter()
            .map(|(name, hosts, default)| {
                let mut spec = spec(hosts);
                spec.default = *default;
                (ServiceId::new("file", name), spec)
            })
            .collect();
        Routes::new(services.iter().map(|(id, spec)| (id, spec)))
    }

    fn find(routes: &Routes, host: &str) -> Option<(String, Match)> {
        let host = HostName::parse(host).ok();
        routes.find(host.as_ref()).map(|(id, how)| (id.name.to_string(), how))
    }

    #[test]
    fn exact_beats_wildcard_beats_default() {
        let routes = routes(&[
            ("lobby", &["example.com", "lobby.example.com"], false),
            ("wild", &["*.example.com"], false),
            ("deep", &["*.a.example.com"], false),
            ("rest", &[], true),
        ]);
        for (host, expected) in [
            ("LOBBY.example.com.", ("lobby", Match::Exact)),
            ("other.example.com", ("wild", Match::Wildcard)),
            ("x.a.example.com", ("deep", Match::Wildcard)),
            ("x.y.a.example.com", ("deep", Match::Wildcard)),
            ("a.example.com", ("wild", Match::Wildcard)),
            ("example.com", ("lobby", Match::Exact)),
            ("example.org", ("rest", Match::Default)),
            ("", ("rest", Match::Default)),
        ] {
            assert_eq!(find(&routes, host), Some((expected.0.to_owned(), expected.1)), "{host}");
        }
    }

    #[test]
    fn without_a_default_strangers_find_nothing() {
        let routes = routes(&[("lobby", &["lobby.example.com"], false)]);
        assert_eq!(find(&routes, "198.51.100.1"), None);
        assert_eq!(find(&routes, ""), None);
    }

    #[test]
    fn the_first_claim_stands_and_the_other_is_reported() {
        let both = routes(&[
            ("old", &["mc.example.com", "mc.example.com"], true),
            ("new", &["MC.example.com", "new.example.com"], true),
        ]);
        assert_eq!(find(&both, "mc.example.com").unwrap().0, "old");
        let claims: Vec<_> = both.conflicts().iter().map(|c| (c.claim.as_str(), &*c.other.name)).collect();
        assert_eq!(claims, [("mc.example.com", "new"), ("the default route", "new")]);
        let survivor = routes(&[("new", &["MC.example.com"], true)]);
        assert_eq!(find(&survivor, "mc.example.com").unwrap().0, "new");
    }

    #[test]
    fn nearest_names_help_with_a_typo() {
        let routes = routes(&[
            ("a", &["survival.example.com"], false),
            ("b", &["creative.example.com", "*.lobby.example.com"], false),
        ]);
        assert_eq!(routes.nearest("survial.example.com")[0], "survival.example.com");
        assert_eq!(routes.nearest("qqq"), Vec::<String>::new());
    }
}
