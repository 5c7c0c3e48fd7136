use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Load;
use crate::process::Process;
use crate::{Metrics, wire};

pub async fn run(load: Load<'_>) -> Result<Metrics> {
    let process = load.process.context("no process")?;
    // What a process allocates once, for its first connections, is not counted per connection.
    let _first = move_bytes(load.connect(32).await?, wire::REPLY.len()).await?;
    let base = Usage::of(process).await?;

    let streams = move_bytes(load.connect(load.args.conns()).await?, wire::REPLY.len()).await?;
    let connections = streams.1.len() as f64;
    let idle = Usage::of(process).await?;

    let mut metrics = Metrics::from([
        ("connected", connections),
        ("user_kib", (idle.user - base.user) / connections),
        ("descriptors", (idle.descriptors - base.descriptors) / connections),
        ("base_kib", base.user),
    ]);
    if let Some((idle, base)) = idle.kernel.zip(base.kernel) {
        metrics.insert("kernel_kib", (idle - base) / connections);
        metrics.insert("total_kib", metrics["user_kib"] + metrics["kernel_kib"]);
    }
    if load.args.burst > 0 {
        let _streams = move_bytes(streams, load.args.burst).await?;
        let after = Usage::of(process).await?;
        metrics.insert("burst_user_kib", (after.user - base.user) / connections);
        metrics.insert("burst_growth", (after.user - base.user) / (idle.user - base.user) - 1.0);
        metrics.insert("burst_descriptors", after.descriptors - idle.descriptors);
    }
    Ok(metrics)
}

struct Usage {
    user: f64,
    kernel: Option<f64>,
    descriptors: f64,
}

impl Usage {
    async fn of(process: &Process) -> Result<Self> {
        sleep(Duration::from_millis(700)).await;
        Ok(Self {
            user: process.user_kib()?,
            kernel: process.kernel_kib(),
            descriptors: process.descriptors()?,
        })
    }
}

/// Every server sends so many bytes in its turn; all players receive.
async fn move_bytes(
    streams: (Vec<TcpStream>, Vec<TcpStream>),
    size: usize,
) -> Result<(Vec<TcpStream>, Vec<TcpStream>)> {
    let (players, mut servers) = streams;
    let mut receiving = JoinSet::new();
    for player in players {
        receiving.spawn(receive(player, size));
    }
    let bytes = vec![7; size];
    for server in &mut servers {
        server.write_all(&bytes).await?;
    }
    let players = receiving.join_all().await.into_iter().collect::<Result<_>>()?;
    Ok((players, servers))
}

async fn receive(mut player: TcpStream, size: usize) -> Result<TcpStream> {
    let mut left = size;
    let mut buffer = [0; 4096];
    while left > 0 {
        let most = left.min(buffer.len());
        let received = player.read(&mut buffer[..most]).await?;
        ensure!(received > 0, "closed by the proxy");
        left -= received;
    }
    Ok(player)
}
