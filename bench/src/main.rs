//! Swarmgate beside other proxies, on one machine, in one run. See README.md.

mod gates;
mod load;
mod peers;
mod process;
mod report;
mod wire;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::{Parser, ValueEnum};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpSocket;
use tokio::time::timeout;

use peers::{Peer, Place};
use process::Process;

/// What was measured of one peer in one round, by name.
type Metrics = BTreeMap<&'static str, f64>;

#[derive(Debug, Parser)]
#[command(name = "bench/run")]
struct Args {
    scenario: Scenario,
    /// What to race against, separated by commas; `direct` is no proxy at all. By default the peers of the gates.
    /// `NAME@root` runs it as root whatever `--uid` says.
    #[arg(long, value_delimiter = ',')]
    peers: Option<Vec<Peer>>,
    /// What is judged: `swarmgate`, or `relay-only` for its relay without the rest.
    #[arg(long, default_value = "swarmgate")]
    subject: Peer,
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=50))]
    rounds: u32,
    /// Connections, for game, bulk and idle.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=9500))]
    conns: Option<u32>,
    /// Seconds measured per peer and round.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=60))]
    secs: u64,
    /// game: messages per second and direction of each connection.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rate: u32,
    /// game: bytes of a message to the player, a range.
    #[arg(long, default_value = "100-400", value_parser = range)]
    down: (usize, usize),
    /// game: bytes of a message to the server.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(10..=1400))]
    up: u16,
    /// idle: bytes that each connection moves before memory is measured again.
    #[arg(long, default_value_t = 0)]
    burst: usize,
    /// connrate and status: connections at a time.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1000))]
    inflight: u32,
    /// Runs the proxies as this user.
    #[arg(long)]
    uid: Option<u32>,
    /// The CPU of the proxies.
    #[arg(long, default_value_t = 1)]
    pin: u32,
    /// The CPU of the load and the backend.
    #[arg(long, default_value_t = 0)]
    lgpin: u32,
    /// Prints one JSON document instead of the tables.
    #[arg(long)]
    json: bool,
    #[arg(long, hide = true)]
    built: PathBuf,
    #[arg(long, hide = true)]
    go: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// Many small messages both ways: CPU per message, latency.
    Game,
    /// As much as goes to the player: CPU per GB.
    Bulk,
    /// Connections that say nothing: memory and descriptors.
    Idle,
    /// Short connections to a routed hostname: CPU per connection.
    Connrate,
    /// Server list pings that the proxy answers itself: CPU per ping.
    Status,
}

impl Args {
    fn conns(&self) -> u32 {
        self.conns.unwrap_or(match self.scenario {
            Scenario::Game => 1000,
            Scenario::Bulk => 64,
            Scenario::Idle => 3000,
            Scenario::Connrate | Scenario::Status => self.inflight,
        })
    }
}

fn range(text: &str) -> Result<(usize, usize)> {
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let (least, most) = (least.parse()?, most.parse()?);
    ensure!((10..=1400).contains(&least) && (least..=1400).contains(&most), "10-1400 at the widest");
    Ok((least, most))
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}

/// Whether every gate holds that could be judged.
fn run(args: &Args) -> Result<bool> {
    pin_and_raise_limits(args)?;
    let place = Place::new(args)?;
    let wanted = args.peers.clone().unwrap_or_else(|| peers::of_the_gates(args.scenario));

    let (mut field, mut left_out) = (Vec::new(), Vec::new());
    for peer in std::iter::once(args.subject).chain(wanted) {
        match peer.missing(args.scenario, &place) {
            None => field.push(peer),
            Some(why) if peer == args.subject => bail!("{peer}: {why}"),
            Some(why) => left_out.push((peer, why)),
        }
    }
    let load_before = report::load_average();
    let mut rounds = Vec::new();
    for round in 0..args.rounds {
        let mut order = field.clone();
        if round % 2 == 1 {
            order.reverse();
        }
        let mut results = BTreeMap::new();
        for peer in order {
            let metrics = measure(peer, args, &place).with_context(|| {
                let said = std::fs::read_to_string(place.log()).unwrap_or_default();
                format!("{said}{peer}, round {}", round + 1)
            })?;
            if !args.json {
                eprintln!("round {} {peer}: {}", round + 1, report::line(&metrics));
            }
            results.insert(peer, metrics);
        }
        rounds.push(results);
    }
    let report = report::Report::new(args, field, left_out, rounds, load_before);
    if args.json {
        println!("{:#}", report.json());
    } else {
        print!("{report}");
    }
    Ok(!report.failed())
}

/// One peer, started afresh, under one load.
fn measure(peer: Peer, args: &Args, place: &Place) -> Result<Metrics> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let limit = Duration::from_secs(args.secs + 90);
    runtime.block_on(async {
        let backend = TcpSocket::new_v4()?;
        backend.set_reuseaddr(true)?;
        backend.bind(place.backend())?;
        let backend = backend.listen(4096)?;

        let process = match peer.command(args, place)? {
            Some(command) => Some(Process::start(command, place.listen()).await?),
            None => None,
        };
        let dial = if process.is_some() { place.listen() } else { place.backend() };
        let load = load::Load { args, dial, backend, process: process.as_ref() };
        let metrics = timeout(limit, load.run()).await.context("took too long")??;
        if let Some(process) = process {
            process.stop().await?;
        }
        Ok(metrics)
    })
}

/// The runtime of every measurement is made by this thread, so pinning it pins all of them.
fn pin_and_raise_limits(args: &Args) -> Result<()> {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(usize::try_from(args.lgpin)?);
    rustix::thread::sched_setaffinity(None, &cpus).context("--lgpin: no such CPU")?;

    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    let needed = 2 * u64::from(args.conns()) + 200;
    ensure!(
        maximum.is_none_or(|most| most >= needed),
        "{needed} file descriptors are needed: see ulimit -Hn"
    );
    Ok(())
}

const fn local(port: u16) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}
