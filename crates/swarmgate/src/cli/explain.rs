//! `explain`.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use swarmgate_core::config::{Config, Kind};
use swarmgate_core::explain::{Explanation, Visitor, explain};
use swarmgate_core::fleet::Fleet;
use swarmgate_core::moment::Moment;
use swarmgate_core::service::{Running, Service, ServiceId, Snapshot, State};
use swarmgate_core::state::{docker, swarm};
use swarmgate_minecraft::address::Address;
use uuid::Uuid;

use super::Common;
use super::control::Control;
use super::output::Output;
use crate::percent::encode;
use crate::provider::{file, process};
use crate::settings::Origin;

#[derive(Debug, Args)]
pub struct Explain {
    /// The hostname, as players type it
    #[arg(required_unless_present = "from", value_name = "HOST")]
    host: Option<String>,
    /// Explain a saved answer of the Docker Engine instead: a JSON file with `service`, `tasks`, `now`, or what `docker
    /// inspect` printed of a container
    #[arg(long, value_name = "FILE", conflicts_with = "host")]
    from: Option<PathBuf>,
    /// What this player would meet, not just anybody
    #[arg(long = "as", value_name = "NAME", conflicts_with = "from")]
    name: Option<String>,
    /// The same by UUID
    #[arg(long, value_name = "UUID", conflicts_with = "from")]
    uuid: Option<Uuid>,
    /// The same by address
    #[arg(long, value_name = "IP", conflicts_with = "from")]
    source: Option<IpAddr>,
    /// Use the configuration file alone, without asking a running gate
    #[arg(long, requires = "config")]
    offline: bool,
    #[command(flatten)]
    common: Common,
}

impl Explain {
    pub async fn run(self, output: Output) -> anyhow::Result<ExitCode> {
        if let Some(file) = &self.from {
            return saved(file, output);
        }
        let host = without_port(self.host.as_deref().unwrap_or_default()).to_owned();
        let explanation = if self.offline {
            self.alone(&host)?
        } else {
            let control = Control::of(&self.common)?;
            control.get(&self.query(&host)).await?
        };
        output.print(&explanation, human)?;
        Ok(ExitCode::SUCCESS)
    }

    fn query(&self, host: &str) -> String {
        let more = [
            self.name.as_deref().map(|name| format!("&name={}", encode(name))),
            self.uuid.map(|uuid| format!("&uuid={uuid}")),
            self.source.map(|source| format!("&source={source}")),
        ];
        format!("/v1/explain?host={}{}", encode(host), more.into_iter().flatten().collect::<String>())
    }

    fn alone(&self, host: &str) -> anyhow::Result<Explanation> {
        let file = self.common.config.clone().unwrap_or_default();
        let config = Origin::new(file, Vec::new()).load()?.config;
        let mut fleet = Fleet::new(config.policy());
        for source in [file::ID, process::ID] {
            fleet.observe(source, as_written(&config, source), Moment::START);
        }
        let visitor = Visitor { name: self.name.clone(), uuid: self.uuid, source: self.source };
        Ok(explain(&fleet, Address::cut(host).host, &visitor, Moment::START))
    }
}

/// `play.example.com:25570` is `play.example.com`, as it is to the game.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() && (name.ends_with(']') || !name.contains(':')) => {
            name
        }
        Some(_) | None => host,
    }
}

fn saved(file: &Path, output: Output) -> anyhow::Result<ExitCode> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    if let Some(container) = docker::saved::explain(&text) {
        output.print(&container.to_json(), |_| container.to_string())?;
    } else {
        let service = swarm::saved::explain(&text)
            .with_context(|| format!("{} cannot be explained", file.display()))?;
        output.print(&service.to_json(), |_| service.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The services of one source as far as the file tells: a process may be up or not.
fn as_written(config: &Config, source: &'static str) -> Snapshot {
    let services = config.servers.iter().filter_map(|server| {
        let (of, state, scalable) = match &server.kind {
            Kind::File { endpoints } => {
                let running = Running { run: "file".into(), endpoints: endpoints.clone() };
                (file::ID, State::Running(running), false)
            }
            Kind::Process(_) => (process::ID, State::Asleep, true),
        };
        (of == source).then(|| Service {
            id: ServiceId::new(of, &server.name),
            spec: Arc::clone(&server.spec),
            state,
            scalable,
            problems: if scalable {
                vec!["whether it is up is not known without the running gate".to_owned()]
            } else {
                Vec::new()
            },
        })
    });
    Snapshot::of(services.collect())
}

fn human(explanation: &Explanation) -> String {
    let mut lines = vec![match &explanation.normal {
        Some(normal) if *normal != explanation.host => format!("{}, that is {normal}", explanation.host),
        Some(_) | None => explanation.host.clone(),
    }];
    if let Some(service) = &explanation.service {
        let how = match explanation.matched.as_deref() {
            Some("wildcard") => " (by a wildcard)",
            Some("default") => " (the default: nobody claims this name)",
            Some(_) | None => "",
        };
        lines.push(format!("  service  {service}{how}"));
    }
    if let Some(state) = &explanation.state {
        let reason = explanation.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        lines.push(format!("  state    {state}{reason}"));
    }
    lines.push(format!("  a ping   {}", explanation.ping));
    lines.push(format!("  a join   {}", explanation.join));
    lines.extend(explanation.only_if.iter().map(|what| format!("  only if  {what}")));
    lines.extend(explanation.sleep.iter().map(|sleep| format!("  sleeps   {sleep}")));
    lines.extend(explanation.problems.iter().map(|problem| format!("  problem  {problem}")));
    if !explanation.nearest.is_empty() {
        lines.push(format!("  did you mean {}?", explanation.nearest.join(", ")));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::without_port;

    #[test]
    fn a_port_is_no_part_of_the_name() {
        for (typed, name) in [
            ("play.example.com:25570", "play.example.com"),
            ("play.example.com", "play.example.com"),
            ("192.0.2.1:25565", "192.0.2.1"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]:25565", "[2001:db8::1]"),
            ("play.example.com:", "play.example.com:"),
        ] {
            assert_eq!(without_port(typed), name);
        }
    }
}
