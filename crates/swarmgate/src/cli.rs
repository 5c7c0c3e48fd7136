//! The commands.

mod control;
mod demo;
mod explain;
mod health;
mod join;
mod nameserver;
mod output;
mod packaging;
mod ping;
mod plan;
mod reach;
mod run;
mod services;
mod terminal;
mod wait;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};

use output::Output;

/// The edge in front of your Minecraft servers: routes players by hostname, wakes servers that sleep, and puts
/// idle ones to sleep.
#[derive(Debug, Parser)]
#[command(name = "swarmgate", version = crate::build::BOTH, propagate_version = true, infer_subcommands = false)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Answer in JSON, also when something goes wrong
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gate
    Run(run::Run),
    /// Try it: a sleeping server on this machine, with nothing to install or to configure
    Demo(demo::Demo),
    /// Check a configuration file: everything that is wrong with it, at once
    Check(run::Check),
    /// Say what would happen to a hostname now, and why
    Explain(explain::Explain),
    /// Ask a server what the server list shows of it
    Ping(ping::Ping),
    /// Join a server as a player would, and say what happens
    Join(join::Join),
    /// List the services of the running gate
    Services(services::List),
    /// Say what is published through Cloudflare, and what would be changed there now
    Plan(plan::Show),
    /// Start a sleeping service
    Wake(services::Wake),
    /// Put a service to sleep
    Sleep(services::Sleep),
    /// Keep a service awake or asleep until further notice
    Pin(services::PinTo),
    /// Ask whether the gate answers: exit code 0 if it does
    Health(health::Health),
    /// Show what a server of this machine has written
    Output(services::Written),
    /// Type a line into the console of a server of this machine
    Console(services::Console),
    /// Print what makes a shell complete the commands
    Completions(packaging::Completions),
    /// Print the manual page, or write all of them
    Man(packaging::ManPages),
    /// The server behind `demo`
    #[command(hide = true)]
    DemoServer(demo::server::Server),
}

/// How commands find the running gate.
#[derive(Debug, Args)]
struct Common {
    /// The gate's configuration, which says where its control socket is
    #[arg(short, long, env = "SWARMGATE_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// The gate's control socket
    #[arg(long, env = "SWARMGATE_CONTROL", value_name = "SOCKET")]
    control: Option<PathBuf>,
}

/// What the command line understands.
pub fn command() -> clap::Command {
    Cli::command()
}

pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return output::misunderstood(&error),
    };
    let output = Output { json: cli.json };
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return output.fail(&anyhow::Error::new(error).context("cannot start")),
    };
    let done = runtime.block_on(async {
        match cli.command {
            Command::Run(command) => command.run().await,
            Command::Demo(command) => command.run(output).await,
            Command::Check(command) => command.run(output),
            Command::Explain(command) => command.run(output).await,
            Command::Ping(command) => command.run(output).await,
            Command::Join(command) => command.run(output).await,
            Command::Services(command) => command.run(output).await,
            Command::Plan(command) => command.run(output).await,
            Command::Wake(command) => command.run(output).await,
            Command::Sleep(command) => command.run(output).await,
            Command::Pin(command) => command.run(output).await,
            Command::Health(command) => command.run(output).await,
            Command::Output(command) => command.run(output).await,
            Command::Console(command) => command.run(output).await,
            Command::Completions(command) => command.run(output),
            Command::Man(command) => command.run(output),
            Command::DemoServer(command) => command.run().await,
        }
    });
    // A blocked look-up of a name must not keep the process.
    runtime.shutdown_background();
    match done {
        Ok(code) => code,
        Err(error) => output.fail(&error),
    }
}
