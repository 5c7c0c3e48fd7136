use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::{LocalSet, yield_now};
use tokio::time::sleep;

use super::{Load, percentile};
use crate::Metrics;

/// Length (2 bytes), when it was sent in microseconds of the run (8 bytes), then nothing of interest.
const HEADER: usize = 10;

#[derive(Default)]
struct Seen {
    messages: u64,
    /// Of messages to players, in microseconds.
    delays: Vec<u32>,
}

pub async fn run(load: Load<'_>) -> Result<Metrics> {
    let args = load.args;
    let (players, servers) = load.connect(args.conns()).await?;
    let connected = servers.len();

    let start = Instant::now();
    let seen = Rc::new(RefCell::new(Seen::default()));
    let tasks = LocalSet::new();
    let halves = |streams: Vec<TcpStream>, delays: bool| -> Vec<OwnedWriteHalf> {
        let split = streams.into_iter().map(TcpStream::into_split);
        split
            .map(|(read, write)| {
                tasks.spawn_local(receive(read, start, delays, seen.clone()));
                write
            })
            .collect()
    };
    let (up, down) = (halves(players, true), halves(servers, false));
    tasks.spawn_local(send(up, down, start, args.rate, usize::from(args.up), args.down));

    let (before, after) = (RefCell::new(0), RefCell::new(Seen::default()));
    let window = load.window(
        || {
            seen.borrow_mut().delays.clear();
            before.replace(seen.borrow().messages);
        },
        || {
            after.replace(seen.take());
        },
    );
    let (cpu, seconds) = tasks.run_until(window).await?;
    let Seen { messages, mut delays } = after.take();
    let messages = (messages - before.take()) as f64;
    delays.sort_unstable();

    let mut metrics = Metrics::from([
        ("connected", connected as f64),
        ("messages_per_s", messages / seconds),
        ("p50_us", percentile(&delays, 0.5)),
        ("p99_us", percentile(&delays, 0.99)),
    ]);
    metrics.extend(cpu.map(|cpu| ("us_per_message", cpu / 1000.0 / messages)));
    Ok(metrics)
}

/// Every connection sends once per period, at its own moment of it. A peer that takes no more misses a message.
async fn send(
    up: Vec<OwnedWriteHalf>,
    down: Vec<OwnedWriteHalf>,
    start: Instant,
    rate: u32,
    up_size: usize,
    (least, most): (usize, usize),
) {
    let period = (1000 / rate as usize).max(1);
    let (mut bytes, mut random) = ([0; 1500], 1_u32);
    for tick in 0.. {
        let due = start + Duration::from_millis(tick as u64);
        // Even the shortest sleep takes a millisecond: too long for one who is late.
        match due.checked_duration_since(Instant::now()) {
            Some(early) => sleep(early).await,
            None => yield_now().await,
        }
        for (streams, is_down) in [(&up, false), (&down, true)] {
            for stream in streams.iter().skip(tick % period).step_by(period) {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let size =
                    if is_down { least + (random >> 8) as usize % (most - least + 1) } else { up_size };
                bytes[..2].copy_from_slice(&(size as u16).to_be_bytes());
                bytes[2..HEADER].copy_from_slice(&(start.elapsed().as_micros() as u64).to_be_bytes());
                let _ = stream.try_write(&bytes[..size]);
            }
        }
    }
}

async fn receive(mut from: OwnedReadHalf, start: Instant, delays: bool, seen: Rc<RefCell<Seen>>) {
    let mut pending = Vec::with_capacity(2048);
    while from.read_buf(&mut pending).await.is_ok_and(|length| length > 0) {
        let now = start.elapsed().as_micros() as u64;
        let mut seen = seen.borrow_mut();
        let mut used = 0;
        while let Some((size, sent)) = message(&pending[used..]) {
            used += size;
            seen.messages += 1;
            if delays {
                seen.delays.push(now.saturating_sub(sent) as u32);
            }
        }
        pending.drain(..used);
    }
}

/// The size of the first message and when it was sent, if all of it is there.
fn message(bytes: &[u8]) -> Option<(usize, u64)> {
    let (size, rest) = bytes.split_first_chunk()?;
    let (sent, _) = rest.split_first_chunk()?;
    let size = usize::from(u16::from_be_bytes(*size));
    (bytes.len() >= size).then(|| (size, u64::from_be_bytes(*sent)))
}
