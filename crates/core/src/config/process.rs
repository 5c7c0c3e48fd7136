//! The keys of a server that the gate starts and stops itself.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::problem::Fault;
use super::reader::Section;
use super::value::{self, MINECRAFT_PORT};
use crate::service::{Endpoint, Spec};

/// A command of this machine that is started on a wake and stopped for a sleep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessServer {
    pub name: Arc<str>,
    pub spec: Arc<Spec>,
    /// The program, found in `PATH` or relative to `directory`, and its arguments.
    /// The program, looked up in `PATH` or from `directory`, and its arguments. Never empty.
    pub command: Vec<String>,
    /// Where it runs. No two servers share one.
    pub directory: PathBuf,
    pub env: BTreeMap<String, String>,
    /// Where it listens.
    pub endpoint: Endpoint,
    /// The console line that stops it. None: SIGTERM.
    pub stop_command: Option<String>,
    /// How long each step of a stop may take before the next: the console line, SIGTERM, SIGKILL.
    pub grace: Duration,
    /// Whether SIGKILL is one of them.
    pub kill: bool,
    /// From a crash to the next start.
    pub restart_delay: Duration,
    /// Crashes in a row that are followed by a start.
    pub max_restarts: u32,
    /// A run this long ends a row of crashes.
    pub restart_window: Duration,
}

/// A world takes its time to save.
const SHORT_GRACE: Duration = Duration::from_secs(30);

/// The keys that mean nothing without a command.
pub(super) const KEYS: [&str; 8] =
    ["directory", "env", "stop", "grace", "kill", "restart_delay", "max_restarts", "restart_window"];

/// How a command is stopped and started again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Manners {
    stop: Option<String>,
    grace: Duration,
    kill: bool,
    restart_delay: Duration,
    max_restarts: u32,
    restart_window: Duration,
}

impl Default for Manners {
    fn default() -> Self {
        Self {
            stop: Some("stop".to_owned()),
            grace: Duration::from_secs(90),
            kill: true,
            restart_delay: Duration::from_secs(5),
            max_restarts: 3,
            restart_window: Duration::from_secs(10 * 60),
        }
    }
}

impl Manners {
    pub(super) fn read(section: &mut Section<'_, '_>, base: &Self) -> Self {
        let manners = Self {
            stop: section.text("stop", console_line).unwrap_or_else(|| base.stop.clone()),
            grace: section.text("grace", value::duration).unwrap_or(base.grace),
            kill: section.boolean("kill").unwrap_or(base.kill),
            restart_delay: section.text("restart_delay", value::duration).unwrap_or(base.restart_delay),
            max_restarts: section.number("max_restarts", 0).unwrap_or(base.max_restarts),
            restart_window: section.text("restart_window", value::duration).unwrap_or(base.restart_window),
        };
        if manners.kill && manners.grace < SHORT_GRACE && (section.has("grace") || section.has("kill")) {
            let fix = "write \"90s\" or more, or kill = false";
            section
                .warning("grace", Fault::new("a world that saves slowly would be cut off and damaged", fix));
        }
        manners
    }
}

/// The whole server, if its command and directory are usable.
pub(super) fn read(
    section: &mut Section<'_, '_>,
    name: &Arc<str>,
    spec: &Arc<Spec>,
    base: &Manners,
) -> Option<ProcessServer> {
    let command = command(section);
    let directory = section.path("directory");
    if directory.is_none() && !section.has("directory") {
        let fix = "write directory = \"...\", where the server's files and its world are";
        section.problem("", Fault::new("a server with a command needs a directory", fix));
    }
    let env = section.map("env").unwrap_or_default();
    if env.iter().any(|(name, value)| name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')) {
        let fix = "write names without '=', and no NUL characters";
        section.problem("env", Fault::new("this cannot be a variable of a program", fix));
    }
    let endpoint = match section.text("address", value::endpoint) {
        None if !section.has("address") => Some(Endpoint { host: "127.0.0.1".into(), port: MINECRAFT_PORT }),
        endpoint => endpoint,
    };
    let Manners { stop, grace, kill, restart_delay, max_restarts, restart_window } =
        Manners::read(section, base);
    Some(ProcessServer {
        name: name.clone(),
        spec: spec.clone(),
        command: command?,
        directory: directory?,
        env,
        endpoint: endpoint?,
        stop_command: stop,
        grace,
        kill,
        restart_delay,
        max_restarts,
        restart_window,
    })
}

fn command(section: &mut Section<'_, '_>) -> Option<Vec<String>> {
    let words = section.words("command")?;
    if words.first().is_none_or(String::is_empty) {
        section.problem("command", Fault::new("the command is empty", "write the program and its arguments"));
        return None;
    }
    if let Some(word) =
        words.iter().find(|word| ["&&", "||", "|", ";", "&", ">", "<"].contains(&word.as_str()))
    {
        let fix = "write one program and its arguments, or [\"sh\", \"-c\", \"...\"]";
        let what = format!("there is no shell, so \"{word}\" would be an argument of the program");
        section.warning("command", Fault::new(what, fix));
    }
    Some(words)
}

/// Empty means none: the server is stopped by SIGTERM.
fn console_line(text: &str) -> Result<Option<String>, Fault> {
    if text.chars().any(char::is_control) {
        return Err(Fault::new("a console command is one line", "write one command, such as \"stop\""));
    }
    Ok((!text.is_empty()).then(|| text.to_owned()))
}
