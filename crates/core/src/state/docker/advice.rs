//! How a container is set up against its world: said once when it is discovered, each with the fix.

use std::net::IpAddr;
use std::time::Duration;

use super::api::{Container, PortBinding};
use crate::span;
use crate::state::swarm::advice::{DEFAULT_GRACE, ENOUGH_TO_SAVE, on_its_own};

/// What to change about a container that the gate gives `grace` to stop, and whose game listens on `port`.
pub fn of(container: &Container, grace: Option<Duration>, port: u16) -> Vec<String> {
    [our_grace(grace), own_grace(container), restarts(container), removed(container)]
        .into_iter()
        .flatten()
        .chain(on_its_own(&container.config.env))
        .chain(bypasses(container, port))
        .collect()
}

fn our_grace(grace: Option<Duration>) -> Option<String> {
    let grace = grace.filter(|grace| grace.as_secs() < ENOUGH_TO_SAVE.unsigned_abs())?;
    let grace = span::human(grace);
    Some(format!(
        "the gate has it killed {grace} after it is told to stop, which may be before its world is saved: write \
         swarmgate.grace={ENOUGH_TO_SAVE}s"
    ))
}

fn own_grace(container: &Container) -> Option<String> {
    let seconds = container.config.stop_timeout.unwrap_or(DEFAULT_GRACE);
    (0..ENOUGH_TO_SAVE).contains(&seconds).then(|| {
        format!(
            "whoever else stops it, such as `docker stop` or a shutdown of the machine, has it killed {seconds} s \
             later, which may be before its world is saved: write stop_grace_period: {ENOUGH_TO_SAVE}s"
        )
    })
}

fn restarts(container: &Container) -> Option<String> {
    (container.host_config.restart_policy.name == "always").then(|| {
        "whenever Docker starts, so does it, asleep or not: write restart: unless-stopped".to_owned()
    })
}

fn removed(container: &Container) -> Option<String> {
    container.host_config.auto_remove.then(|| {
        "it is removed when it stops, so it is never put to sleep: create it without --rm".to_owned()
    })
}

fn bypasses(container: &Container, port: u16) -> impl Iterator<Item = String> {
    let bindings = container.host_config.port_bindings.get(&format!("{port}/tcp"));
    let open = bindings.into_iter().flatten().flatten().filter(|binding| !is_loopback(binding));
    open.take(1).map(|PortBinding { host_port, .. }| {
        let at = if host_port.is_empty() { String::new() } else { format!(" {host_port}") };
        format!("players can reach it past the gate, unseen, by its published port{at}: take it out of ports")
    })
}

fn is_loopback(binding: &PortBinding) -> bool {
    binding.host_ip.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn advice(container: Value, grace: u64) -> Vec<String> {
        let grace = Some(Duration::from_secs(grace));
        of(&serde_json::from_value(container).unwrap(), grace, 25565)
    }

    #[test]
    fn a_careful_container_needs_no_advice() {
        let ports = json!({"25565/tcp": [{"HostIp": "127.0.0.1", "HostPort": "25570"}], "8080/tcp": [{"HostPort": "80"}]});
        let mut careful = json!({"Config": {"StopTimeout": 60, "Env": ["ENABLE_AUTOPAUSE=false"]},
            "HostConfig": {"RestartPolicy": {"Name": "unless-stopped"}, "PortBindings": ports}});
        assert_eq!(advice(careful.clone(), 60), Vec::<String>::new());
        careful["Config"]["StopTimeout"] = json!(-1);
        let never_killed = serde_json::from_value(careful).unwrap();
        assert_eq!(of(&never_killed, None, 25565), Vec::<String>::new());
    }

    #[test]
    fn each_danger_to_a_world_is_named_with_its_fix() {
        let safe = || json!({"StopTimeout": 60});
        let host = |host: Value| json!({"Config": safe(), "HostConfig": host});
        for (container, grace, named) in [
            (json!({}), 90, "killed 10 s later"),
            (json!({"Config": {"StopTimeout": 54}}), 90, "stop_grace_period: 55s"),
            (json!({"Config": safe()}), 54, "swarmgate.grace=55s"),
            (host(json!({"RestartPolicy": {"Name": "always"}})), 60, "restart: unless-stopped"),
            (host(json!({"AutoRemove": true})), 60, "without --rm"),
            (
                host(json!({"PortBindings": {"25565/tcp": [{"HostPort": "25570"}]}})),
                60,
                "published port 25570",
            ),
            (
                json!({"Config": {"StopTimeout": 60, "Env": ["ENABLE_AUTOSTOP=TRUE"]}}),
                60,
                "ENABLE_AUTOSTOP=false",
            ),
        ] {
            let advice = advice(container.clone(), grace);
            assert!(advice.len() == 1 && advice[0].contains(named), "{container}: {advice:?}");
        }
    }
}
