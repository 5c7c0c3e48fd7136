//! What is told.

use jiff::Timestamp;
use serde_json::{Value, json};
use swarmgate_core::alert::{Alert, Stage};

/// One thing to tell.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// For people.
    Message {
        tone: Tone,
        /// One line. Empty for a line of the log.
        title: String,
        text: String,
        /// What a server said last.
        lines: Vec<String>,
        at: Timestamp,
        /// What programs are told beside that.
        details: Value,
    },
    /// For programs that know mc-router: its payload.
    Player(Value),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tone {
    Good,
    Bad,
}

impl Note {
    /// An alert, with the last lines of what it is about.
    pub fn of_alert(alert: &Alert, lines: Vec<String>, at: Timestamp) -> Self {
        let (stage, kind, times) = match alert.stage {
            Stage::First(kind) => ("first", Some(kind.word()), None),
            Stage::Again { kind, times } => ("again", Some(kind.word()), Some(times)),
            Stage::Over => ("over", None, None),
        };
        Self::Message {
            tone: if alert.stage == Stage::Over { Tone::Good } else { Tone::Bad },
            title: alert.title.clone(),
            text: alert.text.clone(),
            lines,
            at,
            details: json!({"subject": alert.subject.id(), "stage": stage, "kind": kind, "times": times}),
        }
    }

    /// Good news.
    pub fn good(title: String, text: String, details: Value) -> Self {
        let at = Timestamp::now();
        Self::Message { tone: Tone::Good, title, text, lines: Vec::new(), at, details }
    }

    /// A line of the gate's own log.
    pub fn of_log(text: String, level: &'static str) -> Self {
        Self::Message {
            tone: Tone::Bad,
            title: String::new(),
            text,
            lines: Vec::new(),
            at: Timestamp::now(),
            details: json!({"level": level}),
        }
    }
}
