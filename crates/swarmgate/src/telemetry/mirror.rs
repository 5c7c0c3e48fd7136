//! The log's warnings and errors, for those who are sent them. Never blocks, and never tells of itself.

use std::fmt::{self, Write};
use std::sync::OnceLock;

use swarmgate_core::config::Log;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::tags::front;
use crate::notify::{Note, Notifier};

/// Of a longer line, what stands in front is what has happened.
const LONGEST: usize = 1000;
/// What the messengers say of their own troubles must not become messages.
const OWN: &str = "swarmgate::notify";

/// The log is the process's, and so is whom it is sent to.
static MIRROR: OnceLock<(Notifier, String)> = OnceLock::new();

/// Sends warnings and errors from now on; the second call changes nothing.
pub fn mirror(notifier: Notifier, log: &Log) {
    if notifier.is_on() {
        let _ = MIRROR.set((notifier, front(log)));
    }
}

/// What is logged goes through it.
#[derive(Debug)]
pub struct Mirror;

impl<S: Subscriber> Layer<S> for Mirror {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if let Some((notifier, front)) = MIRROR.get()
            && let Some(note) = note(event, front)
        {
            notifier.tell(&note);
        }
    }
}

/// The line, if it is to be sent. Libraries may be at work for a messenger, so what they say is left out.
fn note(event: &Event<'_>, front: &str) -> Option<Note> {
    let (level, target) = (*event.metadata().level(), event.metadata().target());
    if level > Level::WARN || !target.starts_with("swarmgate") || target.starts_with(OWN) {
        return None;
    }
    let mut line = Line { message: String::new(), fields: String::new() };
    event.record(&mut line);
    let mut text = format!("{front}{level} {}{}", line.message, line.fields);
    if let Some((end, _)) = text.char_indices().nth(LONGEST) {
        text.truncate(end);
        text.push('…');
    }
    Some(Note::of_log(text, level.as_str()))
}

struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a text does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// What would be sent.
    #[derive(Default, Clone)]
    struct Sent(Arc<Mutex<Vec<Note>>>);

    impl<S: Subscriber> Layer<S> for Sent {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            self.0.lock().unwrap().extend(note(event, "[edge] "));
        }
    }

    fn sent(say: impl FnOnce()) -> Vec<String> {
        let sent = Sent::default();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(sent.clone()), say);
        let notes = sent.0.lock().unwrap();
        let texts = notes.iter().map(|note| match note {
            Note::Message { text, .. } => text.clone(),
            Note::Player(_) => panic!("of a player"),
        });
        texts.collect()
    }

    #[test]
    fn warnings_of_the_gate_are_sent_and_those_of_its_messengers_and_libraries_are_not() {
        let told = sent(|| {
            tracing::info!("all is well");
            tracing::warn!(service = "mc", players = 3, "it stops");
            tracing::error!(error = %"a\nb", "broken");
            tracing::warn!(target: "swarmgate::notify::worker", "a messenger does not take a message");
            tracing::error!(target: "reqwest::connect", "nobody there");
            tracing::warn!(target: "rustls", "no");
        });
        assert_eq!(told, ["[edge] WARN it stops service=mc players=3", "[edge] ERROR broken error=a\nb"]);
        assert!(std::any::type_name::<Notifier>().starts_with(OWN));
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let told = sent(|| tracing::warn!("{}", "ä".repeat(5000)));
        assert_eq!(told[0].chars().count(), LONGEST + 1);
        assert!(told[0].ends_with("ä…"));
    }
}
