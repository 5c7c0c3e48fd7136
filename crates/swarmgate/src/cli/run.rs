//! `run` and `check`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use serde_json::json;
use swarmgate_core::config::{Checked, Config, Kind, Override, Problem};
use tokio::signal::unix::{SignalKind, signal};

use super::output::{Output, complaint};
use crate::api::tokens::Tokens;
use crate::app::{self, Stop};
use crate::errors::chain;
use crate::keeper;
use crate::settings::{self, LoadError, Origin};
use crate::telemetry;

#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    file: Configuration,
    /// error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// human or json
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Where the gate keeps what it learns, and its servers' consoles
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
}

/// The configuration file, by name or by flag: whichever one's fingers know.
#[derive(Debug, Args)]
struct Configuration {
    /// The configuration file [default: swarmgate.toml]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The same
    #[arg(short, long, env = "SWARMGATE_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Configuration {
    fn path(self) -> PathBuf {
        self.file.or(self.config).unwrap_or_else(|| "swarmgate.toml".into())
    }
}

impl Run {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let flags = [
            ("--log-level", "log.level", &self.log_level),
            ("--log-format", "log.format", &self.log_format),
            ("--data-dir", "data_dir", &self.data_dir),
        ];
        let flags = flags.into_iter().filter_map(|(flag, key, value)| {
            value.as_ref().map(|value| Override::from_flag(flag, key, value))
        });
        let origin = Origin::new(self.file.path(), flags.collect());
        let checked = origin.load()?;
        telemetry::start(&checked.config.log);
        for note in &origin.swarmctl.notes {
            tracing::info!("swarmctl's variables: {note}");
        }
        let stop = stop_on_signals()?;
        app::run(origin, checked, stop).await?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The first SIGTERM or SIGINT lets players leave, the second ends at once.
pub fn stop_on_signals() -> anyhow::Result<Stop> {
    let stop = Stop::default();
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let told = stop.clone();
    tokio::spawn(async move {
        for token in [&told.drain, &told.end] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            token.cancel();
        }
        told.drain.cancel();
    });
    Ok(stop)
}

#[derive(Debug, Args)]
pub struct Check {
    #[command(flatten)]
    file: Configuration,
}

impl Check {
    /// Exit code 0 if the gate would start with it, 1 if not, also when the file cannot be read.
    pub fn run(self, output: Output) -> anyhow::Result<ExitCode> {
        let path = self.file.path();
        let file = path.display().to_string();
        let origin = Origin::new(path, Vec::new());
        let (problems, warnings) = match origin.load() {
            Ok(Checked { config, warnings }) => {
                let here = missing_here(&config).chain(messengers_here(&config)).chain(tokens_here(&config));
                (Vec::new(), warnings.into_iter().chain(here).collect())
            }
            Err(LoadError::Bad { problems, .. }) => (problems, Vec::new()),
            Err(error @ LoadError::Unreadable { .. }) => return Err(error.into()),
        };
        let good = problems.is_empty();
        let answer = json!({
            "file": file,
            "ok": good,
            "errors": problems.iter().map(to_json).collect::<Vec<_>>(),
            "warnings": warnings.iter().map(to_json).collect::<Vec<_>>(),
            "notes": origin.swarmctl.notes,
        });
        output.print(&answer, |_| {
            for problem in &problems {
                complaint(&in_its_place(&file, problem));
            }
            for warning in &warnings {
                complaint(&format!("{} (warning)", in_its_place(&file, warning)));
            }
            let mut lines: Vec<String> =
                origin.swarmctl.notes.iter().map(|note| format!("{note}, as in swarmctl")).collect();
            lines.push(match problems.len() {
                0 => format!("{file} is fine"),
                1 => format!("{file} has 1 error"),
                count => format!("{file} has {count} errors"),
            });
            lines.join("\n")
        })?;
        Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// What the servers of this machine need and this machine does not have; it may be another than the gate's.
fn missing_here(config: &Config) -> impl Iterator<Item = Problem> {
    config.servers.iter().filter_map(|server| {
        let Kind::Process(process) = &server.kind else { return None };
        let program = process.command.first()?;
        Some(Problem {
            key: format!("server.{}", server.name),
            at: None,
            what: keeper::obstacle(program, &process.directory)?,
            fix: "as far as this machine goes".to_owned(),
        })
    })
}

/// The file of messengers may be a secret that only the gate's own machine has.
fn messengers_here(config: &Config) -> Option<Problem> {
    let error = settings::targets(config.notify.targets_file.as_ref()?).err()?;
    Some(Problem {
        key: "notify".to_owned(),
        at: None,
        what: chain(&error),
        fix: "the gate does not start with that".to_owned(),
    })
}

/// The same for the file of tokens.
fn tokens_here(config: &Config) -> Option<Problem> {
    let error = Tokens::load(&config.api).err()?;
    Some(Problem {
        key: "api".to_owned(),
        at: None,
        what: chain(&error),
        fix: "the gate does not start with that".to_owned(),
    })
}

/// What comes from the environment is not in the file.
fn in_its_place(file: &str, problem: &Problem) -> String {
    if problem.at.is_some() { format!("{file}:{problem}") } else { problem.to_string() }
}

fn to_json(problem: &Problem) -> serde_json::Value {
    json!({
        "key": problem.key,
        "line": problem.at.map(|at| at.line),
        "column": problem.at.map(|at| at.column),
        "what": problem.what,
        "fix": problem.fix,
    })
}
