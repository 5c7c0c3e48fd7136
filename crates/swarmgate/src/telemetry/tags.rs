//! What this gate is called and where it runs, on every line.

use std::fmt;

use serde_json::json;
use swarmgate_core::config::Log;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// A format with something in front.
#[derive(Debug)]
pub struct Tags<F> {
    inner: F,
    front: String,
    /// The line is an object, and this belongs into it.
    json: bool,
}

impl<F> Tags<F> {
    pub fn human(inner: F, log: &Log) -> Self {
        Self { inner, front: front(log), json: false }
    }

    pub fn json(inner: F, log: &Log) -> Self {
        let tags = [("app", &log.name), ("env", &log.environment)];
        let tags = tags
            .into_iter()
            .filter_map(|(key, value)| Some(format!("\"{key}\":{},", json!(value.as_ref()?))));
        Self { inner, front: tags.collect(), json: true }
    }
}

/// In front of a line for people.
pub fn front(log: &Log) -> String {
    let tags: Vec<&str> = [&log.name, &log.environment].into_iter().flatten().map(String::as_str).collect();
    if tags.is_empty() { String::new() } else { format!("[{}] ", tags.join(" ")) }
}

impl<S, N, F> FormatEvent<S, N> for Tags<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if self.front.is_empty() || !self.json {
            writer.write_str(&self.front)?;
            return self.inner.format_event(context, writer, event);
        }
        let mut line = String::new();
        self.inner.format_event(context, Writer::new(&mut line), event)?;
        let rest = line.strip_prefix('{').unwrap_or(&line);
        write!(writer, "{{{}{rest}", self.front)
    }
}
