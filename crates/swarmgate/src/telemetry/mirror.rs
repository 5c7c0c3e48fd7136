//! The log's warnings and errors, for those who are sent them. Never blocks, and never tells of itself.

use std::fmt::{self, Write};
use std::sync::OnceLock;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::notify::{Note, Notifier};

/// Of a longer line, what stands in front is what has happened.
const LONGEST: usize = 1000;
/// What the messengers say of their own troubles must not become messages.
const OWN: &str = "swarmgate::notify";

/// The log is the process's, and so is whom it is sent to.
static NOTIFIER: OnceLock<Notifier> = OnceLock::new();

/// Sends warnings and errors from now on; the second call changes nothing.
pub fn mirror(notifier: Notifier) {
    if notifier.is_on() {
        let _ = NOTIFIER.set(notifier);
    }
}

#[derive(Debug)]
pub struct Mirror;

impl<S: Subscriber> Layer<S> for Mirror {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if let Some((notifier, note)) = NOTIFIER.get().and_then(|notifier| Some((notifier, note(event)?))) {
            notifier.tell(&note);
        }
    }
}

/// The line, if it is to be sent. Libraries may be at work for a messenger, so what they say is left out.
fn note(event: &Event<'_>) -> Option<Note> {
    let (level, target) = (*event.metadata().level(), event.metadata().target());
    if level > Level::WARN || !target.starts_with("swarmgate") || target.starts_with(OWN) {
        return None;
    }
    let mut line = Line { message: String::new(), fields: String::new() };
    event.record(&mut line);
    let mut text = format!("{level} {}{}", line.message, line.fields);
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
