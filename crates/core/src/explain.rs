//! What would happen to a hostname now, and why: for people who wonder and for programs that ask for them.

use serde::{Deserialize, Serialize};

use crate::fleet::{Fleet, Report};
use crate::learned::Pin;
use crate::moment::Moment;
use crate::name::HostName;
use crate::routes::Match;
use crate::service::{Players, ServiceId, State, Wait};
use crate::span;

/// The answer to "what happens when somebody joins this hostname?".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// As asked.
    pub host: String,
    /// In normal form, if it is a hostname at all.
    pub normal: Option<String>,
    pub service: Option<String>,
    /// `exact`, `wildcard` or `default`.
    pub matched: Option<String>,
    pub state: Option<String>,
    pub reason: Option<String>,
    pub endpoint: Option<String>,
    /// What a server list entry gets.
    pub ping: String,
    /// What a player gets.
    pub join: String,
    /// When it is put to sleep.
    pub sleep: Option<String>,
    pub problems: Vec<String>,
    /// Configured names that are most like it, if nothing matches.
    pub nearest: Vec<String>,
}

/// Explains `host` as a client would send it, tails cut by the caller.
pub fn explain(fleet: &Fleet, host: &str, now: Moment) -> Explanation {
    let name = HostName::parse(host);
    let found = fleet.find(name.as_ref().ok());
    let report = found.as_ref().and_then(|(id, _)| fleet.report(id, now));
    let mut explanation = match (&found, &report) {
        (Some((id, how)), Some(report)) => known(id, *how, report, now),
        (Some(_), None) | (None, _) => unknown(),
    };
    explanation.host = host.to_owned();
    if let Err(error) = &name {
        explanation.problems.push(format!("not a hostname: {error}"));
    }
    if found.is_none() {
        explanation.nearest = fleet.routes().nearest(name.as_ref().map_or(host, HostName::as_str));
    }
    let conflicts = fleet
        .routes()
        .conflicts()
        .iter()
        .filter(|conflict| Some(conflict.claim.as_str()) == name.as_ref().ok().map(HostName::as_str));
    explanation.problems.extend(conflicts.map(|conflict| {
        format!("{} claims this name too; {} had it first and keeps it", conflict.other, conflict.holder)
    }));
    explanation.normal = name.ok().map(|name| name.to_string());
    explanation
}

fn unknown() -> Explanation {
    Explanation {
        host: String::new(),
        normal: None,
        service: None,
        matched: None,
        state: None,
        reason: None,
        endpoint: None,
        ping: "is answered that there is no such server, unless unknown_host = \"close\"".to_owned(),
        join: "is refused: no service has this hostname, and there is no default".to_owned(),
        sleep: None,
        problems: Vec::new(),
        nearest: Vec::new(),
    }
}

fn known(id: &ServiceId, how: Match, report: &Report, now: Moment) -> Explanation {
    let state = &report.face.state;
    let endpoint = match state {
        State::Running(running) => running.endpoints.first().map(ToString::to_string),
        State::Asleep
        | State::Starting { .. }
        | State::Restarting { .. }
        | State::Stopping
        | State::Failed { .. }
        | State::Unknown { .. } => None,
    };
    Explanation {
        service: Some(id.to_string()),
        matched: Some(how.word().to_owned()),
        state: Some(state.word().to_owned()),
        reason: state.reason().map(str::to_owned),
        ping: ping(state, endpoint.as_deref()),
        join: join(how, report, endpoint.as_deref()),
        endpoint,
        sleep: Some(sleep(report, now)),
        problems: report.problems.clone(),
        ..unknown()
    }
}

fn ping(state: &State, endpoint: Option<&str>) -> String {
    match endpoint {
        Some(endpoint) => format!("is relayed to {endpoint}, which answers itself"),
        None => format!("is answered by the gate with the text for \"{}\"; a ping never wakes", state.word()),
    }
}

fn join(how: Match, report: &Report, endpoint: Option<&str>) -> String {
    let spec = &report.face.spec;
    let waits = match spec.wait {
        Wait::World | Wait::Room => {
            let hold = span::human(spec.hold);
            format!("the player waits inside the game, or up to {hold} on the open connection, for it")
        }
        Wait::Hold => format!("the player waits up to {} for it", span::human(spec.hold)),
        Wait::Kick => "the player is told to come back".to_owned(),
    };
    let default_sleeps = how == Match::Default && !spec.default_wakes;
    let wakes = if report.pin == Pin::Asleep {
        Err("it is pinned asleep")
    } else if !report.scalable {
        Err("it has only an address, so the gate cannot start it")
    } else if !spec.wake {
        Err("wake = false: joins do not start it")
    } else if default_sleeps {
        Err("the default route does not wake it (default_wakes = false)")
    } else {
        Ok(())
    };
    match (&report.face.state, wakes) {
        (State::Running(_), _) => match endpoint {
            Some(endpoint) => format!("is relayed to {endpoint}"),
            None => "is refused: it runs, but at no address the gate can reach".to_owned(),
        },
        (State::Starting { .. } | State::Restarting { .. }, _) => format!("{waits} to be ready"),
        (State::Asleep | State::Stopping | State::Failed { .. } | State::Unknown { .. }, Err(why)) => {
            format!("is refused: {why}")
        }
        (State::Asleep, Ok(())) => format!("starts it{}; {waits}", who(report)),
        (State::Stopping, Ok(())) => {
            format!("starts it again once the old process has ended{}; {waits}", who(report))
        }
        (State::Failed { .. }, Ok(())) => match report.retry_in {
            Some(left) => format!("is told why it failed; in {} it may be tried again", span::human(left)),
            None => format!("starts it again{}; {waits}", who(report)),
        },
        (State::Unknown { .. }, Ok(())) => format!("waits until the state is known; {waits}"),
    }
}

fn who(report: &Report) -> &'static str {
    let wakers = &report.face.spec.wakers;
    let everybody = wakers.names.is_empty() && wakers.uuids.is_empty() && wakers.addresses.is_empty();
    if everybody { "" } else { ", if the player is among its wakers" }
}

fn sleep(report: &Report, now: Moment) -> String {
    let spec = &report.face.spec;
    if !report.scalable {
        return "never: the gate cannot stop it".to_owned();
    }
    if report.kept_awake {
        let why = if report.pin == Pin::Awake { "it is pinned awake" } else { "these are its warm hours" };
        return format!("not now: {why}");
    }
    if report.pin == Pin::Asleep {
        return "as soon as nobody is in it: it is pinned asleep".to_owned();
    }
    if !spec.sleep {
        return "never: sleep = false".to_owned();
    }
    match (&report.face.state, report.sleeps_at) {
        (State::Running(_), Some(at)) => format!("in {} if nobody comes", span::human(now.until(at))),
        (State::Running(_), None) => {
            let counted = match spec.players {
                Players::Game => "the game has said \"nobody\"",
                Players::Connections => "the gate has had no connection",
            };
            format!("after {} in which {counted} and no player is connected", span::human(spec.idle))
        }
        (
            State::Asleep
            | State::Starting { .. }
            | State::Restarting { .. }
            | State::Stopping
            | State::Failed { .. }
            | State::Unknown { .. },
            _,
        ) => format!("{} after it is up and empty", span::human(spec.idle)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::fleet::Policy;
    use crate::service::tests::spec;
    use crate::service::{Clients, Endpoint, Running, Service, Snapshot};
    use crate::throttle::Rate;

    fn fleet(state: State, scalable: bool) -> Fleet {
        let mut fleet = Fleet::new(Policy {
            clients: Clients::default(),
            waking_at_once: 1,
            awake_at_once: None,
            wake_rate: Rate { burst: 1, every: Duration::from_secs(1) },
            limbo: crate::fleet::Caps { per_source: 64, total: 1000 },
            trusted: Vec::new(),
        });
        let service = Service {
            id: ServiceId::new("process", "mc"),
            spec: Arc::new(spec(&["mc.example.com", "*.mc.example.com"])),
            state,
            scalable,
            problems: vec!["something".to_owned()],
        };
        fleet.observe("process", Snapshot { services: vec![service] }, Moment::START);
        fleet
    }

    #[test]
    fn a_sleeping_server() {
        let explanation = explain(&fleet(State::Asleep, true), "MC.example.com.", Moment::START);
        assert_eq!(explanation.normal.as_deref(), Some("mc.example.com"));
        assert_eq!(
            (explanation.matched.as_deref(), explanation.state.as_deref()),
            (Some("exact"), Some("asleep"))
        );
        assert_eq!(
            explanation.join,
            "starts it; the player waits inside the game, or up to 25s on the open connection, for it"
        );
        assert_eq!(explanation.problems, ["something"]);
    }

    #[test]
    fn a_running_server_with_only_an_address() {
        let endpoint = Endpoint { host: "127.0.0.1".into(), port: 7 };
        let state = State::Running(Running { run: "r".into(), endpoints: vec![endpoint] });
        let explanation = explain(&fleet(state, false), "a.mc.example.com", Moment::START);
        assert_eq!(explanation.matched.as_deref(), Some("wildcard"));
        assert_eq!(explanation.join, "is relayed to 127.0.0.1:7");
        assert_eq!(explanation.sleep.as_deref(), Some("never: the gate cannot stop it"));
    }

    #[test]
    fn pins_and_failures_change_what_happens() {
        let mut asleep = fleet(State::Asleep, true);
        asleep.pin(&ServiceId::new("process", "mc"), Pin::Asleep, Moment::START).unwrap();
        let explanation = explain(&asleep, "mc.example.com", Moment::START);
        assert_eq!(explanation.join, "is refused: it is pinned asleep");
        let mut awake = fleet(State::Asleep, true);
        awake.pin(&ServiceId::new("process", "mc"), Pin::Awake, Moment::START).unwrap();
        let explanation = explain(&awake, "mc.example.com", Moment::START);
        assert_eq!(explanation.sleep.as_deref(), Some("not now: it is pinned awake"));
        let failed = fleet(State::Failed { reason: "x".to_owned() }, true);
        let explanation = explain(&failed, "mc.example.com", Moment::START);
        assert_eq!(
            explanation.join,
            "starts it again; the player waits inside the game, or up to 25s on the open connection, for it"
        );
    }

    #[test]
    fn a_name_nobody_has() {
        let explanation = explain(&fleet(State::Asleep, true), "mcc.example.com", Moment::START);
        assert_eq!(explanation.service, None);
        assert!(explanation.nearest.contains(&"mc.example.com".to_owned()), "{:?}", explanation.nearest);
        let odd = explain(&fleet(State::Asleep, true), "a b", Moment::START);
        assert!(odd.problems[0].contains("not a hostname"), "{:?}", odd.problems);
    }
}
