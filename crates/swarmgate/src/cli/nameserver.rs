//! Asks the machine's nameservers for a server's SRV record.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use swarmgate_minecraft::srv::{self, Target};
use tokio::net::UdpSocket;
use tokio::time::timeout;

/// A record that does not come is as good as none: the name itself is tried then.
const PATIENCE: Duration = Duration::from_secs(2);
const DNS_PORT: u16 = 53;
/// What every resolver takes without further agreement.
const LONGEST_MESSAGE: usize = 512;

/// `None` also where nobody answers.
pub async fn look_up(name: &str) -> Option<Target> {
    let configured = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    look_up_at(&nameservers(&configured), name).await
}

async fn look_up_at(nameservers: &[SocketAddr], name: &str) -> Option<Target> {
    for nameserver in nameservers {
        match timeout(PATIENCE, ask(*nameserver, name)).await {
            Ok(Ok(answer)) => return answer,
            Ok(Err(error)) => tracing::debug!(%nameserver, %error, "no answer about the SRV record"),
            Err(_) => tracing::debug!(%nameserver, "no answer about the SRV record in time"),
        }
    }
    None
}

async fn ask(nameserver: SocketAddr, name: &str) -> std::io::Result<Option<Target>> {
    // Random enough: the kernel's choice of the port is the other half.
    let [low, high, ..] = RandomState::new().build_hasher().finish().to_le_bytes();
    let id = u16::from_le_bytes([low, high]);
    let Some(question) = srv::question(id, name) else { return Ok(None) };
    let any: IpAddr =
        if nameserver.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(nameserver).await?;
    socket.send(&question).await?;
    let mut message = [0; LONGEST_MESSAGE];
    loop {
        let size = socket.recv(&mut message).await?;
        // Anything else on this socket is noise, or somebody who guesses.
        if let Ok(answer) = srv::answer(id, message.get(..size).unwrap_or_default()) {
            return Ok(answer);
        }
    }
}

/// The first ones of a resolv.conf, which are the ones that are asked.
fn nameservers(configured: &str) -> Vec<SocketAddr> {
    const MOST: usize = 2;
    let addresses = configured.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let address: IpAddr =
            words.next().filter(|word| *word == "nameserver").and(words.next())?.parse().ok()?;
        Some(SocketAddr::new(address, DNS_PORT))
    });
    addresses.take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configured_nameservers() {
        let file = "# a comment\nsearch example.com\nnameserver 192.0.2.1\nnameserver  2001:db8::1 \n\
                    nameserver fe80::1%eth0\nnameserver 192.0.2.2\n";
        let expected = ["192.0.2.1:53", "[2001:db8::1]:53"].map(|text| text.parse().unwrap());
        assert_eq!(nameservers(file), expected);
    }

    #[tokio::test]
    async fn the_second_nameserver_is_asked_when_the_first_is_down() {
        let up = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let down = UdpSocket::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let both = [down, up.local_addr().unwrap()];
        let server = async {
            let mut message = [0; 512];
            let (size, client) = up.recv_from(&mut message).await.unwrap();
            let mut answer = message[..size].to_vec();
            answer[2..8].copy_from_slice(b"\x81\x80\0\x01\0\x01");
            answer.extend(b"\xc0\x0c\0\x21\0\x01\0\0\0\x3c\0\x08\0\0\0\x05\x63\xde\xc0\x1c");
            up.send_to(b"noise", client).await.unwrap();
            up.send_to(&answer, client).await.unwrap();
        };
        let (found, ()) = tokio::join!(look_up_at(&both, "example.com"), server);
        assert_eq!(found, Some(Target { host: "example.com.".to_owned(), port: 25566 }));
    }
}
