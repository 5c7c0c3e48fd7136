//! The server behind the demo: it starts slowly, answers the server list, and sends every player away with good
//! news, because it has no world.

use std::io::BufRead;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::{Map, json};
use swarmgate_minecraft::knock::{self, Knock};
use swarmgate_minecraft::status::{Responder, StatusAnswer, respond};
use swarmgate_minecraft::text::Component;
use swarmgate_minecraft::{address::Address, legacy, login};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use crate::cli::output::line;
use crate::gateway::listener;

const ICON: &str = include_str!("icon.txt");
const MOTD: &str = "<green>The demo's server is awake!</green> <gray>It has no world: join, and read.";
const PLACES: u32 = 20;
/// Not that of a game: it takes every client, and a gate that only asks remembers what it said.
const VERSION: &str = "demo";
/// What a client has to say fits in this, and in this time.
const LONGEST_OPENING: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(5);
/// A bare legacy ping is one byte: nothing more comes.
const SETTLED: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub struct Server {
    #[arg(long)]
    port: u16,
    /// Seconds until it listens
    #[arg(long)]
    boot: f64,
    /// The process of the demo: this server ends with it, however that ends
    #[arg(long)]
    owner: u32,
}

impl Server {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
        let mut console = console();
        tokio::select! {
            served = self.serve() => served?,
            _ = terminate.recv() => {}
            // An input that ends without a word stops nothing: signals still do.
            Some(()) = console.recv() => {}
            () = self.orphaned() => {}
        }
        log("Stopping server");
        log("All dimensions are saved");
        Ok(ExitCode::SUCCESS)
    }

    async fn serve(&self) -> anyhow::Result<()> {
        let started = Instant::now();
        let boot = Duration::try_from_secs_f64(self.boot).context("--boot")?;
        self.boot(boot).await;
        let listener = listener::bind((Ipv4Addr::LOCALHOST, self.port).into())?;
        let took = started.elapsed();
        log(&format!("Done ({:.3}s)! For help, type \"help\"", took.as_secs_f64()));
        loop {
            let (stream, _) = listener.accept().await?;
            let _ = stream.set_nodelay(true);
            let up = started.elapsed().saturating_sub(took);
            // A client that goes in the middle is no news.
            tokio::spawn(async move { timeout(PATIENCE, converse(stream, took, up)).await });
        }
    }

    /// What a server says while it starts, spread over the time that takes.
    async fn boot(&self, time: Duration) {
        let steps = [
            "Starting minecraft server (the demo's: it has no world)",
            "Preparing level \"world\"",
            "Preparing spawn area: 0%",
            "Preparing spawn area: 34%",
            "Preparing spawn area: 71%",
        ];
        let pause = time / u32::try_from(steps.len()).unwrap_or(1);
        for step in steps {
            log(step);
            sleep(pause).await;
        }
    }

    /// Ready when the demo is gone without having stopped its server: nobody else would.
    async fn orphaned(&self) {
        const LOOK_EVERY: Duration = Duration::from_secs(1);
        let owner = format!("/proc/{}", self.owner);
        while std::fs::exists(&owner).unwrap_or(true) {
            sleep(LOOK_EVERY).await;
        }
    }
}

async fn converse(mut stream: TcpStream, took: Duration, up: Duration) -> anyhow::Result<()> {
    let mut received = Vec::new();
    let mut settled = false;
    let knock = loop {
        if let Some(knock) = knock::parse(&received, LONGEST_OPENING, settled)? {
            break knock;
        }
        match timeout(SETTLED, stream.read_buf(&mut received)).await {
            Ok(read) => anyhow::ensure!(read? > 0, "the client left"),
            Err(_) => settled = true,
        }
    };
    match knock {
        Knock::Status { handshake, consumed } => {
            let mut responder = Responder::new(respond(&status(handshake.protocol)?).into());
            let mut reply = responder.feed(received.get(consumed..).unwrap_or_default())?;
            loop {
                stream.write_all(&reply.bytes).await?;
                if reply.done {
                    break;
                }
                received.clear();
                anyhow::ensure!(stream.read_buf(&mut received).await? > 0, "the client left");
                reply = responder.feed(&received)?;
            }
        }
        Knock::Login { handshake, start, .. } => {
            log(&format!("{} joined, and is told that it works", start.name));
            let host = Address::cut(&handshake.address).host;
            stream.write_all(&login::disconnect(&good_news(&start.name, host, took, up).to_json())).await?;
        }
        Knock::LegacyPing(ping) => {
            let motd = Component::parse(MOTD)?.to_legacy();
            let answer =
                legacy::Answer { protocol: 127, version: VERSION.to_owned(), motd, online: 0, max: PLACES };
            stream.write_all(&answer.encode(ping.form)).await?;
        }
        Knock::LegacyLogin(login) => {
            let host = login.host.unwrap_or_default();
            let news = good_news(&login.name, &host, took, up);
            stream.write_all(&legacy::kick(&news.to_legacy())).await?;
        }
    }
    stream.shutdown().await?;
    // Until the client has read it and closes.
    while stream.read(&mut [0; 256]).await? > 0 {}
    Ok(())
}

fn status(protocol: i32) -> anyhow::Result<String> {
    let answer = StatusAnswer {
        version_name: VERSION.to_owned(),
        protocol,
        online: 0,
        max: PLACES,
        sample: Vec::new(),
        description: Component::parse(MOTD)?.without_rgb().to_json(),
        favicon: Some(ICON.trim_end().to_owned()),
        other: Map::new(),
    };
    Ok(answer.to_json())
}

fn good_news(name: &str, host: &str, took: Duration, up: Duration) -> Component {
    let since = match up.as_secs() {
        0..=2 => String::new(),
        seconds => format!(", {seconds} s ago"),
    };
    let line = |text: String, colour: &str| json!({ "text": text, "color": colour });
    let parts = json!({
        "text": "",
        "extra": [
            line(format!("It works, {name}!\n\n"), "green"),
            line(format!("You were routed here by the name \"{host}\", and this server was started for you: "), "white"),
            line(format!("it took {:.1} s{since}.\n\n", took.as_secs_f64()), "white"),
            line("There is no world in the demo. To put your own server in its place, see the README.".to_owned(), "gray"),
        ],
    });
    Component::from_json(&parts).unwrap_or_else(|_| Component::literal("It works!"))
}

/// Becomes ready with `stop` on standard input.
fn console() -> mpsc::UnboundedReceiver<()> {
    let (stop, stopped) = mpsc::unbounded_channel();
    // A thread of its own may wait for an input that never comes.
    std::thread::spawn(move || {
        let mut lines = std::io::stdin().lock().lines().map_while(Result::ok);
        if lines.any(|line| line.trim() == "stop") {
            let _ = stop.send(());
        }
    });
    stopped
}

fn log(text: &str) {
    line(&format!("[Server thread/INFO]: {text}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use swarmgate_minecraft::status::StatusSummary;

    #[test]
    fn the_server_list_shows_it_to_every_version() {
        for protocol in [-1, 47, 765, 777, 900] {
            let answer: serde_json::Value = serde_json::from_str(&status(protocol).unwrap()).unwrap();
            let summary = StatusSummary::of(&answer);
            assert_eq!((summary.protocol, summary.online), (Some(protocol), Some(0)));
            assert_eq!(answer.pointer("/version/name").and_then(serde_json::Value::as_str), Some("demo"));
            assert!(summary.favicon.is_some() && summary.description.contains("awake"));
        }
    }

    #[test]
    fn the_news_says_when_the_start_was() {
        let text =
            |up| good_news("Ann", "localhost", Duration::from_secs(8), Duration::from_secs(up)).to_plain();
        assert!(text(0).contains("It works, Ann!") && text(0).contains("it took 8.0 s.\n"), "{}", text(0));
        assert!(text(40).contains("it took 8.0 s, 40 s ago."), "{}", text(40));
    }
}
