//! What services ask to be published, source by source.

use std::collections::BTreeMap;

use swarmgate_core::publish::Published;
use swarmgate_core::service::SourceId;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Asked(BTreeMap<SourceId, Answer>);

/// What a source said last.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Answer {
    published: Vec<Published>,
    /// It says so now. If it does not answer, what it said stands, and nothing of it is known to be gone.
    stands: bool,
}

impl Asked {
    /// Whether that is news.
    pub fn saw(&mut self, source: SourceId, published: &[Published]) -> bool {
        let answer = Answer { published: published.to_vec(), stands: true };
        let changed = self.0.get(source) != Some(&answer);
        if changed {
            self.0.insert(source, answer);
        }
        changed
    }

    /// Whether that is news.
    pub fn lost(&mut self, source: SourceId) -> bool {
        let new = !self.0.contains_key(source);
        let answer = self.0.entry(source).or_default();
        std::mem::take(&mut answer.stands) || new
    }

    /// With `sources` that are switched off: nothing is in them, for sure.
    pub fn without(mut self, sources: impl IntoIterator<Item = SourceId>) -> Self {
        for source in sources {
            self.0.entry(source).or_insert(Answer { published: Vec::new(), stands: true });
        }
        self
    }

    pub fn all(&self) -> Vec<Published> {
        self.0.values().flat_map(|answer| answer.published.iter().cloned()).collect()
    }

    /// Whether `source` answers, so that what it does not say is known not to be; `None`: whether all do.
    pub fn answers(&self, source: Option<&str>) -> bool {
        match source {
            Some(source) => self.0.get(source).is_some_and(|answer| answer.stands),
            None => self.0.values().all(|answer| answer.stands),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_silent_source_said_stands() {
        let mut asked = Asked::default();
        assert!(asked.lost("swarm") && !asked.lost("swarm"));
        assert!(!asked.answers(Some("swarm")) && !asked.answers(None));
        assert!(asked.saw("swarm", &[]) && !asked.saw("swarm", &[]));
        assert!(asked.answers(Some("swarm")) && asked.answers(None) && !asked.answers(Some("docker")));
        assert!(asked.lost("swarm") && !asked.answers(Some("swarm")));
        assert!(asked.saw("file", &[]) && asked.answers(Some("file")) && !asked.answers(None));
        assert!(asked.clone().without(["docker"]).answers(Some("docker")));
        assert!(!asked.without(["swarm"]).answers(Some("swarm")), "it was not off when it was lost");
    }
}
