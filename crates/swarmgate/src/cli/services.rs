//! Commands about the services of a running gate.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use swarmgate_core::learned::Pin;
use swarmgate_core::span;

use super::Common;
use super::control::Control;
use super::output::{Output, table};
use super::wait::{self, Aim};
use crate::api::ServiceView;
use crate::percent::encode;

#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    common: Common,
}

impl List {
    pub async fn run(self, output: Output) -> anyhow::Result<ExitCode> {
        let services: Vec<ServiceView> = Control::of(&self.common)?.get("/v1/services").await?;
        output.print(&services, |services| human(services))?;
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(Debug, Args)]
pub struct Wake {
    /// The service's name
    name: String,
    /// Until it runs; exit code 1 if its start fails
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    common: Common,
}

impl Wake {
    pub async fn run(self, output: Output) -> anyhow::Result<ExitCode> {
        let path = format!("/v1/services/{}/wake", encode(&self.name));
        let aim = self.wait.then_some(Aim::Running);
        act(&Control::of(&self.common)?, &path, aim, output).await
    }
}

#[derive(Debug, Args)]
pub struct Sleep {
    /// The service's name
    name: String,
    /// Even if players are in it, or may be
    #[arg(long)]
    force: bool,
    /// Until it has saved and stopped; exit code 1 if it is started again meanwhile
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    common: Common,
}

impl Sleep {
    pub async fn run(self, output: Output) -> anyhow::Result<ExitCode> {
        let path = format!("/v1/services/{}/sleep?force={}", encode(&self.name), self.force);
        let aim = self.wait.then_some(Aim::Asleep);
        act(&Control::of(&self.common)?, &path, aim, output).await
    }
}

#[derive(Debug, Args)]
pub struct PinTo {
    /// The service's name
    name: String,
    /// `none` lets players and the idle time decide again
    #[arg(value_parser = ["awake", "asleep", "none"])]
    to: String,
    #[command(flatten)]
    common: Common,
}

impl PinTo {
    pub async fn run(self, output: Output) -> anyhow::Result<ExitCode> {
        let path = format!("/v1/services/{}/pin/{}", encode(&self.name), self.to);
        act(&Control::of(&self.common)?, &path, None, output).await
    }
}

#[derive(Debug, Args)]
pub struct Written {
    /// The service's name
    name: String,
    /// How many of the last lines
    #[arg(short = 'n', long, default_value_t = 100)]
    lines: usize,
    #[command(flatten)]
    common: Common,
}

impl Written {
    pub async fn run(self, output: Output) -> anyhow::Result<ExitCode> {
        let path = format!("/v1/services/{}/output?lines={}", encode(&self.name), self.lines);
        let text = Control::of(&self.common)?.text(&path).await?;
        let lines: Vec<&str> = text.lines().collect();
        output.print(&lines, |lines| lines.join("\n"))?;
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(Debug, Args)]
pub struct Console {
    /// The service's name
    name: String,
    /// The line to type, such as `say hello`, to its end; options for swarmgate itself go before NAME
    #[arg(required = true, trailing_var_arg = true, value_name = "LINE")]
    words: Vec<String>,
    #[command(flatten)]
    common: Common,
}

impl Console {
    pub async fn run(self, output: Output) -> anyhow::Result<ExitCode> {
        let path = format!("/v1/services/{}/console", encode(&self.name));
        let line = self.words.join(" ");
        Control::of(&self.common)?.post(&path, line.clone()).await?;
        output.print(&json!({ "name": self.name, "sent": line }), |_| {
            "sent; see `swarmgate output` for what the server says".to_owned()
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

async fn act(control: &Control, path: &str, aim: Option<Aim>, output: Output) -> anyhow::Result<ExitCode> {
    let answer = control.post(path, String::new()).await?;
    let mut service: ServiceView = serde_json::from_slice(&answer)?;
    if let Some(aim) = aim {
        service = wait::until(aim, service, control, output).await?;
    }
    output.print(&service, |service| format!("{} is {}", service.name, doing(service)))?;
    Ok(ExitCode::SUCCESS)
}

fn human(services: &[ServiceView]) -> String {
    if services.is_empty() {
        return "the gate has no services".to_owned();
    }
    let heads = ["NAME", "STATE", "SINCE", "PLAYERS", "SLEEPS IN", "HOSTS"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    rows.extend(services.iter().map(|service| {
        vec![
            service.name.clone(),
            doing(service),
            seconds(service.since_seconds),
            players(service),
            service.sleeps_in_seconds.map_or_else(|| "-".to_owned(), seconds),
            hosts(service),
        ]
    }));
    let mut text = table(&rows);
    for service in services {
        for problem in &service.problems {
            text += &format!("\n{}: {problem}", service.name);
        }
    }
    text
}

/// By the game's own count, which is asked for now and then: who has come since is in it all the same.
fn players(service: &ServiceView) -> String {
    let through_the_gate = u32::try_from(service.seats).unwrap_or(u32::MAX);
    match service.players {
        Some(players) => players.max(through_the_gate).to_string(),
        None => "-".to_owned(),
    }
}

pub fn doing(service: &ServiceView) -> String {
    let pinned = match service.pin {
        Pin::None => "",
        Pin::Awake => ", pinned awake",
        Pin::Asleep => ", pinned asleep",
    };
    match &service.reason {
        None if service.state == "stopping" && service.waking => {
            format!("stopping (it starts again once it has stopped){pinned}")
        }
        Some(reason) => format!("{} ({reason}){pinned}", service.state),
        None => format!("{}{pinned}", service.state),
    }
}

fn hosts(service: &ServiceView) -> String {
    let default = service.default.then(|| "(default)".to_owned());
    service.hosts.iter().cloned().chain(default).collect::<Vec<_>>().join(", ")
}

fn seconds(seconds: u64) -> String {
    span::human(Duration::from_secs(seconds))
}
