//! The configuration file: read, checked, and watched for changes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use swarmgate_core::config::notify::Target;
use swarmgate_core::config::swarmctl::{self, Given};
use swarmgate_core::config::{self, Checked, Config, Fault, Override, Problem};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::errors::chain;

/// Where a configuration comes from: a file, and what the environment and the flags say over it.
#[derive(Debug, Clone)]
pub struct Origin {
    pub file: PathBuf,
    pub overrides: Vec<Override>,
    /// What swarmctl's variables say; their settings are among the overrides.
    pub swarmctl: swarmctl::Read,
}

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("cannot read {path}")]
    Unreadable { path: String, source: std::io::Error },
    #[error("{path} is not usable:{}", list(problems))]
    Bad { path: String, problems: Vec<Problem> },
}

/// What is wrong with a file of addresses, without any of them.
#[derive(Debug, thiserror::Error)]
pub enum TargetsError {
    #[error("notify.urls_file: cannot read {path}")]
    Unreadable { path: String, source: std::io::Error },
    #[error("notify.urls_file: line {line} of {path}: {what}; {fix}")]
    Bad { path: String, line: usize, what: String, fix: String },
}

/// The messengers in a file, one a line.
///
/// # Errors
/// When it cannot be read, or a line is none.
pub fn targets(file: &Path) -> Result<Vec<Target>, TargetsError> {
    let path = file.display().to_string();
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(source) => return Err(TargetsError::Unreadable { path, source }),
    };
    Target::parse_lines(&text).map_err(|(line, Fault { what, fix })| TargetsError::Bad {
        path,
        line,
        what,
        fix,
    })
}

impl LoadError {
    /// A short name for programs.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "config_unreadable",
            Self::Bad { .. } => "config_bad",
        }
    }
}

impl Origin {
    /// The file, under swarmctl's variables, under the gate's own, under the flags.
    pub fn new(file: PathBuf, flags: Vec<Override>) -> Self {
        let mut swarmctl = swarmctl::read(&swarmctl_variables());
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Override::from_variable(name.to_str()?, value.to_str()?));
        let mut own: Vec<Override> = environment.filter(|given| !is_own_variable(given)).collect();
        own.sort_by_key(|given| format!("{given:?}"));
        let mut overrides = std::mem::take(&mut swarmctl.overrides);
        overrides.extend(own);
        overrides.extend(flags);
        Self { file, overrides, swarmctl }
    }

    pub fn load(&self) -> Result<Checked, LoadError> {
        self.check(&self.read()?)
    }

    /// Relative paths of the configuration are meant from where its file is.
    pub fn directory(&self) -> PathBuf {
        let parent = self.file.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        std::path::absolute(parent).unwrap_or_else(|_| parent.to_owned())
    }

    /// The control socket, also where the rest of the file is not usable: a gate that runs goes on with the file as
    /// it was.
    pub fn control(&self) -> Result<PathBuf, LoadError> {
        let text = self.read()?;
        self.check(&text).map(|checked| checked.config.control).or_else(|error| {
            let alone = self.check(&config::only(&["control", "data_dir"], &text)).ok();
            alone.map(|checked| checked.config.control).filter(|socket| socket.exists()).ok_or(error)
        })
    }

    fn read(&self) -> Result<String, LoadError> {
        let path = self.file.display().to_string();
        std::fs::read_to_string(&self.file).map_err(|source| LoadError::Unreadable { path, source })
    }

    fn check(&self, text: &str) -> Result<Checked, LoadError> {
        let path = self.file.display().to_string();
        let theirs = &self.swarmctl;
        let parsed = match config::parse(text, &self.overrides) {
            Ok(checked) if theirs.problems.is_empty() => Ok(checked),
            Ok(_) => Err(theirs.problems.clone()),
            Err(problems) => Err([theirs.problems.as_slice(), &problems].concat()),
        };
        let mut checked = parsed.map_err(|problems| LoadError::Bad { path, problems })?;
        checked.warnings.extend_from_slice(&theirs.warnings);
        checked.config = checked.config.beside(&self.directory());
        Ok(checked)
    }
}

/// Publishes the configuration anew on every change of the file and on SIGHUP. A bad file changes nothing.
pub async fn watch(
    origin: Origin,
    config: watch::Sender<Arc<Config>>,
    stop: CancellationToken,
) -> std::io::Result<()> {
    // Editors replace files and mounts swap links; comparing what is read notices all of that.
    const LOOK_EVERY: Duration = Duration::from_secs(1);
    let mut hangup = signal(SignalKind::hangup())?;
    let mut last = origin.read().ok();
    loop {
        let asked = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            _ = hangup.recv() => true,
            () = tokio::time::sleep(LOOK_EVERY) => false,
        };
        let read = match tokio::task::block_in_place(|| origin.read()) {
            Ok(text) if asked || last.as_ref() != Some(&text) => {
                let checked = origin.check(&text);
                last = Some(text);
                checked
            }
            Ok(_) => continue,
            Err(error) if asked || last.is_some() => {
                last = None;
                Err(error)
            }
            Err(_) => continue,
        };
        match read {
            Ok(checked) => publish(checked, &config, &origin.file),
            Err(error) => tracing::error!(
                error = %chain(&error),
                "the configuration was not reloaded; the one before stays"
            ),
        }
    }
}

fn publish(checked: Checked, config: &watch::Sender<Arc<Config>>, file: &Path) {
    warn(&checked.warnings);
    let new = Arc::new(checked.config);
    let changed = config.send_if_modified(|current| {
        let changed = *current != new;
        if changed {
            if addresses(current) != addresses(&new)
                || current.http != new.http
                || (current.keeps, &current.data_dir) != (new.keeps, &new.data_dir)
                || current.control != new.control
                || current.log != new.log
                || current.notify != new.notify
                || (current.docker.swarm, &current.docker.host) != (new.docker.swarm, &new.docker.host)
            {
                tracing::warn!(
                    "listeners, http, data_dir, control, log, notify and docker's swarm and host change only with a restart"
                );
            }
            *current = new;
        }
        changed
    });
    tracing::info!(file = %file.display(), changed, "configuration read");
}

fn addresses(config: &Config) -> BTreeSet<SocketAddr> {
    config.listeners.iter().map(|listener| listener.address).collect()
}

pub fn warn(warnings: &[Problem]) {
    for warning in warnings {
        tracing::warn!("configuration: {warning}");
    }
}

fn swarmctl_variables() -> BTreeMap<String, Given> {
    let set = std::env::vars_os().filter_map(|(name, value)| {
        let (name, value) = (name.to_str()?, value.to_str()?);
        let may_be = swarmctl::may_be(name) && !value.trim().is_empty();
        may_be.then(|| (name.to_owned(), given(name, value.trim())))
    });
    set.collect()
}

fn given(name: &str, value: &str) -> Given {
    if !swarmctl::is_file(name, value) {
        return Given::Text(value.to_owned());
    }
    let path = std::path::absolute(value).unwrap_or_else(|_| value.into());
    swarmctl::from_file(&path, std::fs::read_to_string(&path))
}

/// Variables that name the gate itself to its commands, not keys of the configuration.
fn is_own_variable(given: &Override) -> bool {
    // The last is for builds, and is there while cargo runs what it has built.
    ["CONFIG", "CONTROL", "COMMIT"].iter().any(|own| given.is(own))
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("\n  {problem}")).collect()
}
