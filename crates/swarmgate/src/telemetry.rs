//! Log lines: human or JSON, on standard error.

use std::io::IsTerminal;

use swarmgate_core::config::{Log, LogFormat, LogLevel};
use tracing_subscriber::EnvFilter;

/// Sets up logging for the whole process; the second call changes nothing.
pub fn start(log: Log) {
    let level = match log.level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    };
    // Libraries have nothing to tell an owner below a warning.
    let filter = EnvFilter::new(format!("warn,swarmgate={level},swarmgate_core={level}"));
    let lines =
        tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_writer(std::io::stderr);
    let started = match log.format {
        LogFormat::Human => lines.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    drop(started);
}
