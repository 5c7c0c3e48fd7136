use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;
use tokio::time::timeout;

use super::{Load, percentile};
use crate::{Metrics, Scenario, wire};

#[derive(Default)]
struct Seen {
    /// In microseconds.
    delays: Vec<u32>,
    failures: u64,
}

/// A closed loop: each of so many players begins anew as soon as it is done.
pub async fn run(load: Load<'_>) -> Result<Metrics> {
    let args = load.args;
    let seen = Rc::new(RefCell::new(Seen::default()));
    let tasks = LocalSet::new();
    for player in 0..args.inflight {
        tasks.spawn_local(again_and_again(args.scenario, load.dial, player, seen.clone()));
    }
    let after = RefCell::new(Seen::default());
    let begin = || drop(seen.take());
    let end = || drop(after.replace(seen.take()));
    let (cpu, seconds) = tasks
        .run_until(async {
            tokio::select! {
                window = load.window(begin, end) => window,
                failed = answer(&load.backend) => Err(failed),
            }
        })
        .await?;
    let Seen { mut delays, failures } = after.take();
    delays.sort_unstable();
    ensure!(failures <= delays.len() as u64 / 100, "{failures} failures, {} successes", delays.len());

    let done = delays.len() as f64;
    let mut metrics = Metrics::from([
        ("per_s", done / seconds),
        ("failures", failures as f64),
        ("p50_us", percentile(&delays, 0.5)),
        ("p99_us", percentile(&delays, 0.99)),
    ]);
    metrics.extend(cpu.map(|cpu| ("us_each", cpu / 1000.0 / done)));
    Ok(metrics)
}

async fn again_and_again(scenario: Scenario, dial: SocketAddr, player: u32, seen: Rc<RefCell<Seen>>) {
    for turn in 0.. {
        let began = Instant::now();
        let once = async {
            if scenario == Scenario::Status {
                status(dial).await
            } else {
                join(dial, player.wrapping_mul(31).wrapping_add(turn)).await
            }
        };
        let success = timeout(Duration::from_secs(5), once).await.is_ok_and(|result| result.is_ok());
        let mut seen = seen.borrow_mut();
        if success {
            seen.delays.push(began.elapsed().as_micros() as u32);
        } else {
            seen.failures += 1;
        }
    }
}

async fn join(dial: SocketAddr, index: u32) -> Result<()> {
    let mut stream = TcpStream::connect(dial).await?;
    stream.set_nodelay(true)?;
    stream.write_all(&wire::login(&wire::host(index))).await?;
    stream.read_exact(&mut [0; wire::REPLY.len()]).await?;
    Ok(())
}

/// A server list ping, as the game does it: the status, then a ping.
async fn status(dial: SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect(dial).await?;
    stream.set_nodelay(true)?;
    stream.write_all(&wire::status(wire::ASLEEP)).await?;
    let mut answer = Vec::with_capacity(1024);
    while wire::frame_length(&answer).is_none_or(|length| answer.len() < length) {
        ensure!(stream.read_buf(&mut answer).await? > 0, "closed before the status");
    }
    let ping = wire::ping(0x0123_4567_89ab_cdef);
    stream.write_all(&ping).await?;
    let mut pong = [0; 10];
    stream.read_exact(&mut pong).await?;
    ensure!(pong[..] == ping[..], "not the same pong");
    Ok(())
}

/// The backend: replies to an opening and waits for the end.
async fn answer(listener: &TcpListener) -> anyhow::Error {
    loop {
        let mut stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => return error.into(),
        };
        tokio::task::spawn_local(async move {
            let _ = stream.set_nodelay(true);
            let mut opening = vec![0; wire::login(&wire::host(0)).len()];
            stream.read_exact(&mut opening).await?;
            stream.write_all(&wire::REPLY).await?;
            while stream.read(&mut opening).await? > 0 {}
            std::io::Result::Ok(())
        });
    }
}
