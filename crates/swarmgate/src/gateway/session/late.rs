//! The answer of a client that has taken too long to say whether it has a pass.

use std::io;

use swarmgate_minecraft::{frame, login};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{COOKIE, LONGEST_PASS, Visit};

impl Visit {
    /// Lets the server's bytes through until the client's first packet behind its opening has come. If that is the late answer, it is for nobody: a server closes on what it has not asked for.
    /// What breaks or ends meanwhile, the relay hears of.
    pub(super) async fn without_late_answer(&mut self, server: &mut TcpStream) {
        let first = self.opening.take_rest();
        let close = self.gateway.close.clone();
        tokio::select! {
            _ = self.relay_until_first_packet(server, first) => {}
            () = close.cancelled() => {}
        }
    }

    async fn relay_until_first_packet(
        &mut self,
        server: &mut TcpStream,
        mut first: Vec<u8>,
    ) -> io::Result<()> {
        let (mut from_client, mut from_server) = ([0; LONGEST_PASS], [0; 4096]);
        loop {
            match frame::split(&first, LONGEST_PASS) {
                Ok(Some(packet)) => {
                    let is_late = login::parse_cookie(packet.body, COOKIE).is_ok();
                    let kept = first.get(if is_late { packet.consumed } else { 0 }..).unwrap_or_default();
                    return server.write_all(kept).await;
                }
                Ok(None) => {}
                Err(_) => return server.write_all(&first).await,
            }
            tokio::select! {
                read = self.stream.read(&mut from_client) => match read? {
                    0 => return server.write_all(&first).await,
                    read => first.extend_from_slice(from_client.get(..read).unwrap_or_default()),
                },
                read = server.read(&mut from_server) => match read? {
                    0 => return server.write_all(&first).await,
                    read => self.stream.write_all(from_server.get(..read).unwrap_or_default()).await?,
                },
            }
        }
    }
}
