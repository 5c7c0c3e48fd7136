//! `demo`: a gate before a sleeping server, on this machine alone, with nothing to install or to configure.

pub mod server;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::json;
use swarmgate_core::config::{Checked, swarmctl};

use super::output::Output;
use super::reach::seconds;
use super::run::stop_on_signals;
use crate::app;
use crate::gateway::listener;
use crate::settings::Origin;
use crate::telemetry;

const GAME_PORT: u16 = 25565;

#[derive(Debug, Args)]
pub struct Demo {
    /// The port for players; another one where it is taken
    #[arg(long, value_name = "PORT", default_value_t = GAME_PORT)]
    port: u16,
    /// End by itself after so long
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<Duration>,
    /// How long the server takes to start
    #[arg(long, value_name = "SECONDS", default_value = "8", hide = true)]
    boot: f64,
}

impl Demo {
    pub async fn run(self, output: Output) -> anyhow::Result<ExitCode> {
        // Gone with everything in it when this function ends.
        let directory = tempfile::Builder::new()
            .prefix("swarmgate-demo-")
            .tempdir()
            .context("cannot make a directory for the demo")?;
        let players = listen(self.port)?;
        let port = players.first().map_or(self.port, SocketAddr::port);
        let origin = self.write_config(directory.path(), &players)?;
        // What is written above is meant so, however short a minute is.
        let checked = Checked { warnings: Vec::new(), ..origin.load()? };
        telemetry::start(&checked.config.log);
        let stop = stop_on_signals()?;
        if let Some(seconds) = self.seconds {
            let drain = stop.drain.clone();
            tokio::spawn(async move {
                tokio::time::sleep(seconds).await;
                drain.cancel();
            });
        }
        if port != self.port {
            output.notice(&format!(
                "Port {} is in use, perhaps by a server of yours. The demo takes {port}.\n",
                self.port
            ));
        }
        let control = checked.config.control.as_path();
        output.print(&json!({ "address": address(port), "control": control }), |_| {
            welcome(port, control, self.boot)
        })?;
        app::run(origin, checked, stop).await?;
        Ok(ExitCode::SUCCESS)
    }

    fn write_config(&self, directory: &Path, players: &[SocketAddr]) -> anyhow::Result<Origin> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let program = program.to_str().context("the path of this program is not Unicode")?;
        let server = free_port(&[Ipv4Addr::LOCALHOST.into()])?;
        let listen: Vec<String> = players.iter().map(ToString::to_string).collect();
        let port = server.to_string();
        let (boot, owner) = (self.boot.to_string(), std::process::id().to_string());
        let command = [program, "demo-server", "--port", &port, "--boot", &boot, "--owner", &owner];
        // A JSON text or list of texts is one in TOML, too.
        let config = format!(
            r#"listen = {}
http = "off"
on_exit = "stop"
drain = "2s"

[docker]
swarm = "off"
containers = "off"

[limits]
connections_total = 500
half_open_total = 100
held_total = 100

[server.demo]
hosts = ["localhost"]
default = true
default_wakes = true
command = {}
directory = "."
address = "127.0.0.1:{port}"
idle = "1m"
restart_delay = "1s"
"#,
            serde_json::to_string(&listen)?,
            serde_json::to_string(&command)?,
        );
        let file = directory.join("swarmgate.toml");
        std::fs::write(&file, config).context("cannot write the demo's configuration")?;
        // The environment is for gates that are configured.
        Ok(Origin { file, overrides: Vec::new(), swarmctl: swarmctl::Read::default() })
    }
}

/// Where players connect: the port that is wanted, or a free one if somebody has it.
fn listen(wanted: u16) -> anyhow::Result<Vec<SocketAddr>> {
    let mut hosts = vec![std::net::IpAddr::from(Ipv4Addr::LOCALHOST)];
    if listener::bind((Ipv6Addr::LOCALHOST, 0).into()).is_ok() {
        hosts.push(Ipv6Addr::LOCALHOST.into());
    }
    let is_free = hosts.iter().all(|host| listener::bind((*host, wanted).into()).is_ok());
    let port = if is_free && wanted != 0 { wanted } else { free_port(&hosts)? };
    Ok(hosts.into_iter().map(|host| (host, port).into()).collect())
}

/// A port that is free at all of these addresses.
fn free_port(hosts: &[std::net::IpAddr]) -> anyhow::Result<u16> {
    const TRIES: usize = 20;
    for _ in 0..TRIES {
        let first = listener::bind((hosts.first().copied().unwrap_or(Ipv4Addr::LOCALHOST.into()), 0).into())?;
        let port = first.local_addr()?.port();
        if hosts.iter().skip(1).all(|host| listener::bind((*host, port).into()).is_ok()) {
            return Ok(port);
        }
    }
    anyhow::bail!("no free port was found")
}

/// What to type into the game.
fn address(port: u16) -> String {
    if port == GAME_PORT { "localhost".to_owned() } else { format!("localhost:{port}") }
}

/// What to do now. The commands are written so that they can be copied as they are.
fn welcome(port: u16, control: &Path, boot: f64) -> String {
    let program = std::env::args().next().unwrap_or_else(|| "swarmgate".to_owned());
    let address = address(port);
    format!(
        "\
Swarmgate stands before a Minecraft server that is asleep: it does not run until somebody joins.

With the game, any version since 1.7:
  Multiplayer → Direct Connection → {address}
  (Or add it to the list first: there you see it sleep.)

Without it, in a second terminal:
  {program} ping {address}
  {program} join {address} --name Ann
  {program} services --control {control}

A ping wakes nothing. A join starts the server, which takes about {boot} seconds, and you wait meanwhile.
After a minute without players it goes to sleep again. Ctrl-C ends the demo and leaves nothing behind.
",
        control = control.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use swarmgate_core::config::Use;

    #[tokio::test]
    async fn a_port_that_is_taken_is_left_alone() {
        let taken = listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = taken.local_addr().unwrap().port();
        let addresses = listen(port).unwrap();
        assert!(addresses.iter().all(|address| address.port() != port && address.ip().is_loopback()));
        drop(taken);
        assert!(listen(port).unwrap().iter().all(|address| address.port() == port));
    }

    #[test]
    fn the_configuration_is_one_whatever_the_paths() {
        let directory = tempfile::tempdir().unwrap();
        let demo = Demo { port: 1, seconds: None, boot: 8.0 };
        let players = ["127.0.0.1:25577".parse().unwrap(), "[::1]:25577".parse().unwrap()];
        let checked = tokio::runtime::Runtime::new()
            .unwrap()
            .block_on(async { demo.write_config(directory.path(), &players) })
            .unwrap()
            .load()
            .unwrap();
        assert_eq!(checked.config.listeners.len(), 2);
        assert_eq!(checked.config.servers.len(), 1);
        // A Swarm that this machine may be in is none of the demo's business.
        assert_eq!(checked.config.docker.swarm, Use::Off);
        assert_eq!(checked.config.docker.containers, Use::Off);
    }

    #[test]
    fn what_to_type_names_the_port_only_where_it_must() {
        let text = |port| welcome(port, Path::new("/run/control.sock"), 8.0);
        assert!(text(25565).contains("Direct Connection → localhost\n"));
        assert!(text(25577).contains("Direct Connection → localhost:25577\n"));
        assert!(text(25565).contains("services --control /run/control.sock\n"));
        assert!(text(25565).contains("about 8 seconds"));
    }
}
