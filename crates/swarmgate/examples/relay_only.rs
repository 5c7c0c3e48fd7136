//! The relay alone: every connection to LISTEN is relayed to BACKEND. For the benchmarks, as a floor under the gate.
//!
//! `relay_only LISTEN BACKEND`, for example `relay_only 127.0.0.1:25565 127.0.0.1:25566`.

use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::Context;
use swarmgate::gateway::relay::{self, Counters};
use tokio::net::{TcpListener, TcpStream};

static COUNTERS: Counters = Counters { up: AtomicU64::new(0), down: AtomicU64::new(0) };

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut address = move |name| -> anyhow::Result<SocketAddr> {
        arguments.next().with_context(|| format!("{name} is missing"))?.parse().context(name)
    };
    let (listen, backend) = (address("LISTEN")?, address("BACKEND")?);

    let listener = TcpListener::bind(listen).await?;
    relay::tune(&listener)?;
    loop {
        let (client, _) = listener.accept().await?;
        tokio::spawn(async move {
            let server = TcpStream::connect(backend).await?;
            relay::tune(&server)?;
            relay::run(client, server, Duration::from_secs(60), &COUNTERS).await;
            std::io::Result::Ok(())
        });
    }
}
