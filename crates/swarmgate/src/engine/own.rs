//! Which container the gate itself runs in, if it runs in one.

use std::fs;
use std::time::Duration;

use serde_json::Value;
use swarmgate_core::state::OwnNetwork;
use tokio::time::Instant;

use super::Engine;
use super::access::Need;
use super::error::EngineError;

/// The networks of a container do not change often.
const ASK_EVERY: Duration = Duration::from_secs(10);

/// The container that the gate runs in, and what its engine says about it.
#[derive(Debug)]
pub struct Own {
    /// `None`: the gate runs on the machine itself.
    container: Option<String>,
    network: Network,
    asked: Option<Instant>,
}

/// The network of the gate's own container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Network {
    /// The machine's: it is in no container of this engine, or in one that uses the machine's network.
    Machine,
    /// Those that it is attached to.
    Networks(Vec<OwnNetwork>),
    /// The engine does not say.
    Unknown,
}

impl Own {
    pub fn new(container: Option<String>) -> Self {
        let network = if container.is_some() { Network::Unknown } else { Network::Machine };
        Self { container, network, asked: None }
    }

    pub fn container(&self) -> Option<&str> {
        self.container.as_deref()
    }

    /// As the engine said last.
    pub fn last(&self) -> &Network {
        &self.network
    }

    /// As the engine says; it is asked again now and then.
    pub async fn network(&mut self, engine: &Engine) -> &Network {
        if let Some(container) = &self.container
            && self.asked.is_none_or(|asked| asked.elapsed() >= ASK_EVERY)
        {
            self.asked = Some(Instant::now());
            let inspected = engine.get(&format!("/containers/{container}/json")).await;
            engine.access().note(Need::OwnContainer, &inspected);
            match inspected {
                Ok(inspected) => self.network = network_of(&inspected),
                Err(EngineError::NotThere { .. }) => self.network = Network::Machine,
                Err(_) => {}
            }
        }
        &self.network
    }
}

/// From what `GET /containers/{id}/json` answers.
fn network_of(container: &Value) -> Network {
    if container.pointer("/HostConfig/NetworkMode").and_then(Value::as_str) == Some("host") {
        return Network::Machine;
    }
    let networks = container.pointer("/NetworkSettings/Networks").and_then(Value::as_object);
    let own = networks.into_iter().flatten().filter_map(|(name, network)| {
        let id = network.get("NetworkID")?.as_str().filter(|id| !id.is_empty())?;
        Some(OwnNetwork { id: id.to_owned(), name: name.clone() })
    });
    Network::Networks(own.collect())
}

/// The id of the gate's own container; its first 12 digits where no more can be told.
pub fn container() -> Option<String> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let name = rustix::system::uname();
    find(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"), &name.nodename().to_string_lossy())
}

fn find(mounts: &str, cgroups: &str, hostname: &str) -> Option<String> {
    mounts
        .lines()
        .find_map(mounted_from)
        .or_else(|| cgroups.lines().find_map(id_at_the_end))
        .or_else(|| is_id(hostname, 12).then(|| hostname.to_owned()))
}

/// Docker mounts these files of the container's own into it: `.../containers/ID/hostname /etc/hostname`. Other
/// mounts with an id in them belong to others, as the machine itself sees them.
fn mounted_from(line: &str) -> Option<String> {
    let mut fields = line.split(' ').skip(3);
    let (from, to) = (fields.next()?, fields.next()?);
    let own = ["/etc/hostname", "/etc/hosts", "/etc/resolv.conf"].contains(&to);
    let (_, rest) = from.rsplit_once("/containers/").filter(|_| own)?;
    rest.split('/').next().filter(|id| is_id(id, 64)).map(str::to_owned)
}

/// `/docker/ID`, `/system.slice/docker-ID.scope`
fn id_at_the_end(line: &str) -> Option<String> {
    let last = line.rsplit('/').next()?;
    let id = last.strip_prefix("docker-").and_then(|rest| rest.strip_suffix(".scope")).unwrap_or(last);
    is_id(id, 64).then(|| id.to_owned())
}

fn is_id(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0f3c0f3c0f3c0f3c0f3c0f3c0f3c0f3c0f3c0f3c0f3c0f3c0f3c0f3c0f3c0f3c";

    #[test]
    fn a_container_finds_itself_and_a_machine_finds_none() {
        let own = format!(
            "1 2 0:1 / / rw\n3 1 8:1 /data/docker/containers/{ID}/hostname /etc/hostname rw - ext4 x rw"
        );
        let others = format!("9 2 0:5 / /var/lib/docker/containers/{ID}/mounts/shm rw - tmpfs shm rw");
        let v1 = format!("12:pids:/docker/{ID}\n0::/");
        let systemd = format!("0::/system.slice/docker-{ID}.scope");
        for (mounts, cgroups, hostname, found) in [
            (own.as_str(), "0::/", "mc", Some(ID)),
            ("", &v1, "mc", Some(ID)),
            ("", &systemd, "mc", Some(ID)),
            ("", "0::/", "0f3c0f3c0f3c", Some("0f3c0f3c0f3c")),
            (&others, "0::/init.scope", "manager-1", None),
            ("", "0::/user.slice/user-1000.slice", "cafe", None),
        ] {
            assert_eq!(find(mounts, cgroups, hostname).as_deref(), found, "{mounts} {cgroups} {hostname}");
        }
    }
}
