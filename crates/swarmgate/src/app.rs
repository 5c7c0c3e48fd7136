//! All wiring: from a checked configuration to a running gate, and down again.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use swarmgate_core::config::notify::Target;
use swarmgate_core::config::{Checked, Config, EngineHost, Kind, OnExit, Use};
use swarmgate_core::span;
use swarmgate_core::state::process::ProcessServices;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::alarm::Alarm;
use crate::api::tokens::{self, Tokens};
use crate::api::{self, Api};
use crate::clock::Clock;
use crate::cloudflare::Publisher;
use crate::engine::{Engine, own};
use crate::fleet::Fleet;
use crate::gateway::door::Door;
use crate::gateway::pass::Passes;
use crate::gateway::proof::Keyring;
use crate::gateway::quiet::Quiet;
use crate::gateway::sessions::Sessions;
use crate::gateway::status::Answers;
use crate::gateway::{self, Gateway, listener};
use crate::metrics::Metrics;
use crate::news;
use crate::notify::{self, Notifier, Pace};
use crate::provider::api::{ApiSource, RouteBook};
use crate::provider::docker::DockerSource;
use crate::provider::file::FileSource;
use crate::provider::process::{Consoles, ProcessSource, this_program};
use crate::provider::swarm::SwarmSource;
use crate::provider::swarm::update::{SwarmEngine, Updater};
use crate::provider::watch as sources;
use crate::provider::{self, Source};
use crate::settings::{self, Origin};
use crate::store::{Store, place};
use crate::telemetry;

/// How the gate is told to end.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    /// No new connections; players may stay for a while.
    pub drain: CancellationToken,
    /// At once.
    pub end: CancellationToken,
}

/// Runs the gate until `stop`. Everything that can be wrong with the surroundings is an error here, before
/// the first player is let in.
pub async fn run(origin: Origin, checked: Checked, stop: Stop) -> anyhow::Result<()> {
    settings::warn(&checked.warnings);
    let config = Arc::new(checked.config);
    raise_descriptor_limit(config.limits.connections_total);
    let store = if config.keeps { Store::open(&config.data_dir)? } else { Store::in_memory() };
    place::warn(&config);
    let players = bind_all(&config)?;
    let control_socket = api::bind_control(&config.control)?;
    let http = match config.http {
        Some(address) => Some(listener::bind(address).context("http (health, metrics and the API)")?),
        None => None,
    };
    let (new_tokens, tokens) = watch::channel(Arc::new(Tokens::load(&config.api)?));
    tokens::warn(&config.api, &tokens.borrow());

    let tasks = TaskTracker::new();
    let connections = TaskTracker::new();
    let background = CancellationToken::new();
    let close = stop.end.child_token();
    let fleet = Fleet::new(config.policy(), Clock::start(), store.clone(), tasks.clone());
    let door = Door::new(config.limits.clone());
    let metrics = Metrics::default();
    let alarm = alarm(&config, &metrics, &tasks, &background, fleet.clock())?;
    let (publish, configs) = watch::channel(Arc::clone(&config));
    let gateway = Arc::new(Gateway {
        fleet: fleet.clone(),
        door: Arc::clone(&door),
        metrics: metrics.clone(),
        config: configs.clone(),
        quiet: Quiet::default(),
        passes: Passes::new(&store.pass_key()?),
        keyring: Keyring::default(),
        sessions: Sessions::new()?,
        answers: Answers::default(),
        notifier: alarm.notifier().clone(),
        drain: stop.drain.clone(),
        close: close.clone(),
    });

    tasks.spawn({
        let (fleet, background) = (fleet.clone(), background.clone());
        async move { fleet.run(background).await }
    });
    tasks.spawn(alarm.clone().run(fleet.clone(), background.clone()));
    tasks.spawn(notify::routes::run(fleet.clone(), alarm.notifier().clone(), background.clone()));
    tasks.spawn(news::run(fleet.clone(), Consoles::new(&config.data_dir), background.clone()));
    // Cancelled when every source was looked at once.
    let seen = CancellationToken::new();
    let unseen = Arc::new(seen.clone().drop_guard());
    let files = FileSource::new(configs.clone());
    tasks.spawn(sources::run(
        files,
        fleet.clone(),
        alarm.clone(),
        Some(Arc::clone(&unseen)),
        background.clone(),
    ));
    let routes = RouteBook::open(store.clone(), fleet.clone(), configs.clone());
    tasks.spawn(sources::run(
        ApiSource::new(&routes, configs.clone()),
        fleet.clone(),
        alarm.clone(),
        Some(Arc::clone(&unseen)),
        background.clone(),
    ));
    let servers =
        ProcessSource::new(&config.data_dir, this_program(), process_servers(configs.clone(), &tasks));
    let servers = tokio::spawn(sources::run(
        servers,
        fleet.clone(),
        alarm.clone(),
        Some(Arc::clone(&unseen)),
        background.clone(),
    ));
    let swarm_engine = SwarmEngine::default();
    let had_swarm = store.publication().sources().any(|source| source == provider::swarm::ID);
    let updater = Updater::new(Arc::clone(&swarm_engine), fleet.clone(), configs.clone())
        .in_container(own::container());
    tasks.spawn(follow_docker(
        configs.clone(),
        (fleet.clone(), alarm.clone()),
        (swarm_engine, had_swarm),
        metrics.clone(),
        unseen,
        background.clone(),
    ));
    tasks.spawn(follow(configs.clone(), fleet.clone(), Arc::clone(&door), metrics.clone()));
    tasks.spawn({
        let background = background.clone();
        async move {
            if let Err(error) = settings::watch(origin, publish, background).await {
                tracing::error!(%error, "the configuration file is not watched");
            }
        }
    });
    let (publisher, publication) =
        Publisher::new(fleet.clone(), alarm.clone(), configs.clone(), store.clone(), metrics.clone());
    let publisher = tokio::spawn(publisher.run(seen.clone(), background.clone()));
    tasks.spawn({
        let (configs, background) = (configs.clone(), background.clone());
        async move {
            if let Err(error) = tokens::watch(configs, new_tokens, background).await {
                tracing::error!(%error, "the tokens of the API are not read again");
            }
        }
    });
    let api = Api {
        fleet: fleet.clone(),
        door: Arc::clone(&door),
        metrics,
        consoles: Arc::new(Consoles::new(&config.data_dir)),
        publication,
        alarm,
        configs: configs.clone(),
        tokens,
        routes,
        updater,
        listening: Arc::default(),
        draining: stop.drain.clone(),
    };
    tasks.spawn(api::serve_control(control_socket, api.clone(), background.clone()));
    if let Some(http) = http {
        tasks.spawn(api::serve_public(http, api.clone(), background.clone()));
    }
    first_look(&seen, &stop).await;
    for (socket, listener) in players {
        tracing::info!(address = %listener.address, "listening for players");
        tasks.spawn(gateway::run(socket, listener, Arc::clone(&gateway), connections.clone()));
    }
    tell_routes(&config);
    api.listening();

    stop.drain.cancelled().await;
    drain(&connections, &configs.borrow().clone(), &close).await;
    background.cancel();
    finish(servers.await.context("the process source panicked")?, &configs.borrow().clone(), &stop).await;
    publisher.await.context("the publisher panicked")?;
    let _ = std::fs::remove_file(&config.control);
    tasks.close();
    // What is left is a probe or an answer: short, but not worth waiting for without end.
    let _ = tokio::time::timeout(Duration::from_secs(5), tasks.wait()).await;
    tokio::task::spawn_blocking(move || store.flush()).await.context("the store panicked")?;
    tracing::info!("stopped");
    Ok(())
}

/// Whoever is to be told of troubles, and of the log's warnings.
fn alarm(
    config: &Config,
    metrics: &Metrics,
    tasks: &TaskTracker,
    stop: &CancellationToken,
    clock: Clock,
) -> anyhow::Result<Alarm> {
    let mut targets = config.notify.targets.clone();
    if let Some(file) = &config.notify.targets_file {
        targets.extend(settings::targets(file)?);
    }
    let start = |targets: &[Target], pace| Notifier::start(targets, pace, metrics, tasks, stop);
    telemetry::mirror(start(&config.notify.log, Pace::of_log())?, &config.log);
    Ok(Alarm::new(start(&targets, Pace::default())?, config.notify.clone(), clock).measured(metrics))
}

/// Whoever dials already waits in the sockets' queues: a player must not hear that there is no such server
/// because nobody has looked yet.
async fn first_look(seen: &CancellationToken, stop: &Stop) {
    const LONGEST: Duration = Duration::from_secs(5);
    tokio::select! {
        () = seen.cancelled() => {}
        () = stop.drain.cancelled() => {}
        () = tokio::time::sleep(LONGEST) => {
            tracing::warn!("not every source of services has answered yet; letting players in without");
        }
    }
}

fn bind_all(
    config: &Config,
) -> anyhow::Result<Vec<(tokio::net::TcpListener, swarmgate_core::config::Listener)>> {
    let bound = config.listeners.iter().map(|listener| {
        let socket = listener::bind(listener.address)?;
        Ok((socket, listener.clone()))
    });
    bound.collect()
}

/// The part of the configuration that the process source works from.
fn process_servers(
    mut configs: watch::Receiver<Arc<Config>>,
    tasks: &TaskTracker,
) -> watch::Receiver<Arc<ProcessServices>> {
    let (send, receive) = watch::channel(Arc::new(local_servers(&configs.borrow_and_update())));
    tasks.spawn(async move {
        while configs.changed().await.is_ok() {
            let servers = Arc::new(local_servers(&configs.borrow_and_update()));
            send.send_if_modified(|current| {
                let changed = *current != servers;
                *current = servers;
                changed
            });
        }
    });
    receive
}

fn local_servers(config: &Config) -> ProcessServices {
    let servers = config.servers.iter().filter_map(|server| match &server.kind {
        Kind::Process(process) => Some(process.clone()),
        Kind::File { .. } => None,
    });
    ProcessServices { servers: servers.collect() }
}

/// Runs the sources that ask a Docker engine, as soon as there is one if nobody named it. That there is none, or
/// that it cannot be used, is no reason for the gate not to serve the rest. `had_swarm`: an earlier run published
/// services of one.
async fn follow_docker(
    configs: watch::Receiver<Arc<Config>>,
    (fleet, alarm): (Fleet, Alarm),
    (swarm_engine, had_swarm): (SwarmEngine, bool),
    metrics: Metrics,
    unseen: Arc<DropGuard>,
    stop: CancellationToken,
) {
    const LOOK_EVERY: Duration = Duration::from_secs(5);
    let docker = configs.borrow().docker.clone();
    let uses = [docker.swarm, docker.containers];
    if uses == [Use::Off; 2] {
        return;
    }
    let variable = std::env::var("DOCKER_HOST").ok().filter(|host| !host.is_empty());
    let named = docker.host.map(Ok).or_else(|| variable.as_deref().map(EngineHost::parse)).transpose();
    let named = match named {
        Ok(named) => named,
        Err(fault) => {
            return tracing::error!(
                "DOCKER_HOST: {}; {}; no service of Docker is known",
                fault.what,
                fault.fix
            );
        }
    };
    let optional = named.is_none() && !uses.contains(&Use::On);
    let host = named.unwrap_or_default();
    let mut unseen = Some(unseen);
    if let (true, EngineHost::Unix(socket)) = (optional, &host) {
        while !socket.exists() {
            drop(unseen.take());
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }
    tracing::info!(engine = %host, "looking for labelled services of Docker");
    let engine = Engine::new(host).measured(metrics);
    if docker.swarm != Use::Off {
        let _ = swarm_engine.set(engine.clone());
    }
    let new_swarm = || {
        let container = own::container();
        SwarmSource::new(engine.clone(), container, configs.clone(), alarm.clone()).with_earlier(had_swarm)
    };
    let new_containers =
        || DockerSource::new(engine.clone(), own::container(), configs.clone(), alarm.clone());
    let swarm = (docker.swarm != Use::Off).then(new_swarm);
    let containers = (docker.containers != Use::Off).then(new_containers);
    tokio::join!(
        run_if_used(swarm, &fleet, &alarm, unseen.clone(), &stop),
        run_if_used(containers, &fleet, &alarm, unseen, &stop),
    );
}

async fn run_if_used<S: Source>(
    source: Option<S>,
    fleet: &Fleet,
    alarm: &Alarm,
    unseen: Option<Arc<DropGuard>>,
    stop: &CancellationToken,
) {
    if let Some(source) = source {
        sources::run(source, fleet.clone(), alarm.clone(), unseen, stop.clone()).await;
    }
}

/// Hands every new configuration to those who decide by it, and every event to the metrics.
async fn follow(mut configs: watch::Receiver<Arc<Config>>, fleet: Fleet, door: Arc<Door>, metrics: Metrics) {
    use swarmgate_core::event::Event;
    use tokio::sync::broadcast::error::RecvError;

    let mut events = fleet.events();
    loop {
        tokio::select! {
            changed = configs.changed() => {
                if changed.is_err() {
                    return;
                }
                let config = configs.borrow_and_update().clone();
                door.set_limits(config.limits.clone());
                fleet.with(|core, now| core.set_policy(config.policy(), now));
            }
            event = events.recv() => match event {
                Ok(Event::Changed { service, to, .. }) => metrics.changed(&service, to),
                Ok(Event::Woken { waited, booted, .. }) => metrics.woken(waited, booted),
                Ok(
                    Event::Problem { .. }
                    | Event::RouteConflict(_)
                    | Event::StoppedWithPlayers { .. }
                    | Event::Publication { .. }
                    | Event::Publishing { .. }
                    | Event::Tampered { .. },
                )
                | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            },
        }
    }
}

/// Lets players stay until they leave, the limit is reached, or the gate is told a second time.
async fn drain(connections: &TaskTracker, config: &Config, close: &CancellationToken) {
    connections.close();
    let players = connections.len();
    if players > 0 {
        tracing::info!(
            connections = players,
            limit = span::human(config.drain),
            "no new connections; waiting for those there are"
        );
    }
    tokio::select! {
        () = connections.wait() => {}
        () = tokio::time::sleep(config.drain) => tracing::warn!(connections = connections.len(), "the limit is over; closing those that are left"),
        () = close.cancelled() => {}
    }
    close.cancel();
    let _ = tokio::time::timeout(Duration::from_secs(2), connections.wait()).await;
}

/// What becomes of the gate's own servers is the owner's choice.
async fn finish(mut servers: ProcessSource, config: &Config, stop: &Stop) {
    const LIMIT: Duration = Duration::from_secs(600);
    match config.on_exit {
        OnExit::Keep => {}
        OnExit::Stop => {
            tracing::info!("stopping the servers (on_exit = \"stop\"); each is given its grace");
            let left = tokio::select! {
                left = servers.stop_all(LIMIT) => left,
                () = stop.end.cancelled() => Vec::new(),
            };
            for server in left {
                tracing::warn!(server = %server.display(), "still stopping; it is not killed");
            }
        }
    }
}

fn tell_routes(config: &Config) {
    for server in &config.servers {
        let hosts: Vec<String> = server.spec.hosts.iter().map(ToString::to_string).collect();
        let to = match &server.kind {
            Kind::File { endpoints } => {
                endpoints.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            }
            Kind::Process(process) => process.command.join(" "),
        };
        tracing::info!(server = %server.name, hosts = hosts.join(", "), default = server.spec.default, to, "route");
    }
}

/// Each player costs two descriptors. The soft limit is often far below what the hard one allows.
fn raise_descriptor_limit(connections: usize) {
    const BESIDES_PLAYERS: u64 = 512;
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if limit.current != limit.maximum && setrlimit(Resource::Nofile, raised).is_err() {
        tracing::warn!("the limit of open files could not be raised");
    }
    let Some(now) = getrlimit(Resource::Nofile).current else { return };
    let players = now.saturating_sub(BESIDES_PLAYERS) / 2;
    let wanted = u64::try_from(connections).unwrap_or(u64::MAX);
    if players < wanted {
        tracing::warn!(
            open_files = now,
            players,
            "the limit of open files admits fewer connections than limits.connections_total ({wanted}); raise it (LimitNOFILE= in systemd, ulimits in compose)"
        );
    }
}
