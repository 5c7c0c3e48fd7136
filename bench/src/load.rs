//! The players and the game behind the proxy, both in this process.

mod bulk;
mod game;
mod idle;
mod rate;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::process::Process;
use crate::{Args, Metrics, Scenario, wire};

pub struct Load<'a> {
    pub args: &'a Args,
    /// Where players connect: the proxy, or the backend itself.
    pub dial: SocketAddr,
    pub backend: TcpListener,
    pub process: Option<&'a Process>,
}

impl Load<'_> {
    pub async fn run(self) -> Result<Metrics> {
        match self.args.scenario {
            Scenario::Game => game::run(self).await,
            Scenario::Bulk => bulk::run(self).await,
            Scenario::Idle => idle::run(self).await,
            Scenario::Connrate | Scenario::Status => rate::run(self).await,
        }
    }

    fn cpu(&self) -> Result<Option<f64>> {
        self.process.map(Process::cpu).transpose()
    }

    /// Connects `count` players, 64 at a time. Those whose opening has not reached the backend after a while are
    /// lost. Both lists are of the same connections, in no order.
    async fn connect(&self, count: u32) -> Result<(Vec<TcpStream>, Vec<TcpStream>)> {
        let (dial, at_once) = (self.dial, Arc::new(Semaphore::new(64)));
        let mut players = JoinSet::new();
        for index in 0..count {
            let at_once = at_once.clone();
            players.spawn(async move {
                let _turn = at_once.acquire_owned().await?;
                let mut player = timeout(Duration::from_secs(5), TcpStream::connect(dial)).await??;
                player.set_nodelay(true)?;
                player.write_all(&wire::login(&wire::host(index))).await?;
                anyhow::Ok(player)
            });
        }
        let deadline = Instant::now() + Duration::from_secs(15);
        let mut servers = Vec::new();
        let mut opening = vec![0; wire::login(&wire::host(0)).len()];
        while servers.len() < count as usize {
            let Ok(accepted) = timeout_at(deadline, self.backend.accept()).await else { break };
            let (mut server, _) = accepted?;
            server.set_nodelay(true)?;
            // A proxy that looks whether its backend is there ends without an opening.
            match timeout_at(deadline, server.read_exact(&mut opening)).await {
                Ok(Ok(_)) => servers.push(server),
                Ok(Err(_)) => {}
                Err(_) => break,
            }
        }
        players.spawn(async { std::future::pending().await });
        let mut connected = Vec::new();
        while players.len() > 1 {
            let Ok(Some(player)) = timeout_at(deadline, players.join_next()).await else { break };
            connected.extend(player?.ok());
        }
        ensure!(!servers.is_empty(), "no player got through");
        Ok((connected, servers))
    }

    /// Lets the load settle, then gives the proxy's CPU time over the measured seconds, and those seconds.
    /// `begin` and `end` are called at their edges.
    async fn window(&self, begin: impl FnOnce(), end: impl FnOnce()) -> Result<(Option<f64>, f64)> {
        sleep(Duration::from_millis(500)).await;
        begin();
        let (cpu, began) = (self.cpu()?, Instant::now());
        sleep(Duration::from_secs(self.args.secs)).await;
        end();
        let used = self.cpu()?.zip(cpu).map(|(after, before)| after - before);
        Ok((used, began.elapsed().as_secs_f64()))
    }
}

/// The given part of sorted values.
fn percentile(sorted: &[u32], part: f64) -> f64 {
    let index = (sorted.len() as f64 * part) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).map_or(f64::NAN, |&value| f64::from(value))
}
