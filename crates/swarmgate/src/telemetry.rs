//! Log lines: human or JSON, on standard error, and what of them people are sent.

mod mirror;
mod tags;

use std::io::IsTerminal;

use swarmgate_core::config::{Log, LogFormat, LogLevel};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

pub use self::mirror::{Mirror, mirror};
use self::tags::Tags;

/// Sets up logging for the whole process; the second call changes nothing.
pub fn start(log: &Log) {
    let level = match log.level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    };
    // Libraries have nothing to tell an owner below a warning.
    let filter = EnvFilter::new(format!("warn,swarmgate={level},swarmgate_core={level}"));
    let lines = tracing_subscriber::fmt::layer().with_target(false).with_writer(std::io::stderr);
    let subscriber = tracing_subscriber::registry().with(filter).with(Mirror);
    let started = match log.format {
        LogFormat::Human => {
            let lines = lines.with_ansi(std::io::stderr().is_terminal());
            subscriber.with(lines.map_event_format(|format| Tags::human(format, log))).try_init()
        }
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true);
            subscriber.with(lines.map_event_format(|format| Tags::json(format, log))).try_init()
        }
    };
    drop(started);
    // It would be a line of another kind, and nobody would be sent it.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        let what = panic.payload_as_str().unwrap_or("without a word");
        tracing::error!(place, "a part of the gate has panicked, which is a fault of the program: {what}");
    }));
}
