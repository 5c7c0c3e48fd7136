//! The way of a player, step by step: for people as it goes, in JSON at the end.

use std::time::Duration;

use serde_json::{Value, json};
use swarmgate_minecraft::client::Sight;
use swarmgate_minecraft::text::plain_of;
use tokio::time::Instant;

use super::super::output::Output;
use super::super::reach::Address;
use super::super::terminal::plain;

/// Of a boss bar that fills, every tenth is worth a line.
const TENTHS: f32 = 10.0;

#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Nothing has come for a while, not even the login's success.
    Held,
    LoggedIn,
    /// In the configuration phase, with nothing to do but wait.
    Room,
    /// In a gate's world.
    World,
    Saw(Sight),
    Transferred(Address),
    /// In the game.
    In,
}

/// What has happened so far.
#[derive(Debug)]
pub struct Steps {
    pub output: Output,
    began: Instant,
    taken: Vec<Taken>,
    /// The boss bar, as it was last told.
    bar: (String, f32),
}

#[derive(Debug)]
struct Taken {
    after: Duration,
    name: &'static str,
    text: Option<String>,
}

impl Steps {
    pub fn new(output: Output) -> Self {
        Self { output, began: Instant::now(), taken: Vec::new(), bar: (String::new(), 0.0) }
    }

    /// Tells it, unless it is no news.
    pub fn take(&mut self, step: Step) {
        let (name, text) = match step {
            Step::Held => ("held", None),
            Step::LoggedIn => ("logged_in", None),
            Step::Room => ("waiting_room", None),
            Step::World => ("world", None),
            Step::Transferred(address) => ("transferred", Some(address.to_string())),
            Step::In => ("joined", None),
            Step::Saw(Sight::Bar { text, filled }) => match self.bar(text.as_ref(), filled) {
                Some(bar) => ("boss_bar", Some(bar)),
                None => return,
            },
            Step::Saw(Sight::Title(text)) => ("title", Some(plain_of(&text))),
            Step::Saw(Sight::Subtitle(text)) => ("subtitle", Some(plain_of(&text))),
            Step::Saw(Sight::ActionBar(text)) => ("action_bar", Some(plain_of(&text))),
            Step::Saw(Sight::Chat(text)) => ("chat", Some(plain_of(&text))),
            Step::Saw(Sight::Dialog { title, body }) => {
                let lines: Vec<_> = std::iter::once(&title).chain(&body).map(plain_of).collect();
                ("dialog", Some(lines.join(" · ")))
            }
        };
        let taken = Taken { after: self.began.elapsed(), name, text };
        self.output.notice(&taken.human());
        self.taken.push(taken);
    }

    /// In order.
    pub fn to_json(&self) -> Value {
        let steps = self.taken.iter().map(
            |Taken { after, name, text }| json!({ "seconds": after.as_secs_f64(), "step": name, "text": text }),
        );
        steps.collect()
    }

    /// The bar's text and how full it is, if the one is new or the other has passed a tenth.
    fn bar(&mut self, text: Option<&Value>, filled: Option<f32>) -> Option<String> {
        let (before, was) = self.bar.clone();
        let text = text.map_or_else(|| before.clone(), plain_of);
        let filled = filled.unwrap_or(was);
        if text == before && (filled * TENTHS).floor() <= (was * TENTHS).floor() {
            return None;
        }
        let told = format!("{text} ({:.0} %)", 100.0 * filled);
        self.bar = (text, filled);
        Some(told)
    }
}

impl Taken {
    fn human(&self) -> String {
        let what = match (self.name, &self.text) {
            ("held", _) => "waiting …".to_owned(),
            ("logged_in", _) => "logged in".to_owned(),
            ("waiting_room", _) => "in the waiting room".to_owned(),
            ("world", _) => "in a world to wait in".to_owned(),
            ("joined", _) => "in the game".to_owned(),
            ("transferred", Some(address)) => format!("transferred to {}", plain(address)),
            (name, text) => {
                format!("{}: {}", name.replace('_', " "), plain(text.as_deref().unwrap_or_default()))
            }
        };
        format!("{:>7.1}s  {what}", self.after.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_told_when_it_has_news() {
        let mut steps = Steps::new(Output { json: false });
        let saw = |text: Option<&str>, filled| Step::Saw(Sight::Bar { text: text.map(Value::from), filled });
        for step in [
            saw(Some("a while"), Some(0.0)),
            saw(None, Some(0.05)),
            saw(None, Some(0.11)),
            saw(None, Some(0.19)),
            saw(Some("a while"), None),
            saw(Some("soon"), None),
        ] {
            steps.take(step);
        }
        let told: Vec<_> = steps.taken.iter().filter_map(|taken| taken.text.as_deref()).collect();
        assert_eq!(told, ["a while (0 %)", "a while (11 %)", "soon (11 %)"]);
        assert_eq!(steps.to_json()[2]["step"], "boss_bar");
    }

    #[test]
    fn strangers_write_no_lines_of_their_own() {
        let mut steps = Steps::new(Output { json: false });
        steps.take(Step::Saw(Sight::Dialog { title: json!("a\nb"), body: vec![json!("c\x1b[2J")] }));
        let told = steps.taken[0].human();
        assert!(told.ends_with("dialog: a b · c[2J") && !told.contains('\x1b'), "{told:?}");
        assert!(told.contains("0.0s  "), "{told:?}");
    }
}
