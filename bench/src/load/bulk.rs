use std::cell::Cell;
use std::rc::Rc;

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::{LocalSet, yield_now};

use super::Load;
use crate::Metrics;

const CHUNK: usize = 256 * 1024;

pub async fn run(load: Load<'_>) -> Result<Metrics> {
    let (players, servers) = load.connect(load.args.conns()).await?;
    let connected = servers.len();

    let received = Rc::new(Cell::new(0_u64));
    let tasks = LocalSet::new();
    for mut server in servers {
        tasks.spawn_local(async move {
            static BYTES: [u8; CHUNK] = [7; CHUNK];
            while server.write_all(&BYTES).await.is_ok() {
                // Otherwise those who send leave no time to those who receive.
                yield_now().await;
            }
        });
    }
    for mut player in players {
        let received = received.clone();
        tasks.spawn_local(async move {
            let mut buffer = vec![0; CHUNK];
            while let Ok(length @ 1..) = player.read(&mut buffer).await {
                received.set(received.get() + length as u64);
            }
        });
    }
    let (before, after) = (Cell::new(0), Cell::new(0));
    let window = load.window(|| before.set(received.get()), || after.set(received.get()));
    let (cpu, seconds) = tasks.run_until(window).await?;

    let gigabytes = (after.get() - before.get()) as f64 / 1e9;
    let mut metrics = Metrics::from([("connected", connected as f64), ("gb_per_s", gigabytes / seconds)]);
    metrics.extend(cpu.map(|cpu| ("cpu_s_per_gb", cpu / 1e9 / gigabytes)));
    Ok(metrics)
}
