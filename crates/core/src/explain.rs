//! What would happen to a hostname now, and why: for people who wonder and for programs that ask for them.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::fleet::{Fleet, Report};
use crate::learned::Pin;
use crate::moment::Moment;
use crate::name::HostName;
use crate::routes::{Conflict, Match};
use crate::service::{Clients, Players, ServiceId, State, Wait, Wakers};
use crate::span;

/// The answer to "what happens when somebody joins this hostname?".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
    /// What both depend on that the question left open.
    pub only_if: Option<String>,
    /// When it is put to sleep.
    pub sleep: Option<String>,
    pub problems: Vec<String>,
    /// Configured names that are most like it, if nothing matches.
    pub nearest: Vec<String>,
}

/// Who asks, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Visitor {
    pub name: Option<String>,
    pub uuid: Option<Uuid>,
    pub source: Option<IpAddr>,
}

/// Explains what `visitor` would meet at `host`, as a client would send it, tails cut by the caller.
pub fn explain(fleet: &Fleet, host: &str, visitor: &Visitor, now: Moment) -> Explanation {
    let name = HostName::parse(host);
    let found = fleet.find(name.as_ref().ok());
    let report = found.as_ref().and_then(|(id, _)| fleet.report(id, now));
    let mut explanation = match (&found, &report) {
        (Some((id, how)), Some(report)) => Case { fleet, id, how: *how, report, visitor, now }.explain(),
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
        let Conflict { other, holder, .. } = conflict;
        format!("{other} claims this name too; it leads to {holder}: {}", conflict.rule())
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
        only_if: None,
        sleep: None,
        problems: Vec::new(),
        nearest: Vec::new(),
    }
}

/// A service, and who comes to it.
struct Case<'a> {
    fleet: &'a Fleet,
    id: &'a ServiceId,
    how: Match,
    report: &'a Report,
    visitor: &'a Visitor,
    now: Moment,
}

impl Case<'_> {
    fn explain(&self) -> Explanation {
        let state = &self.report.face.state;
        let endpoint = state.endpoint().map(ToString::to_string);
        let (ping, join) = match self.denied_by() {
            Some(list) => {
                let why = format!("{list} keeps this address out");
                (format!("gets no answer: {why}"), format!("is refused: {why}"))
            }
            None => (ping(state, endpoint.as_deref(), self.report.scalable), self.join(endpoint.as_deref())),
        };
        Explanation {
            service: Some(self.id.to_string()),
            matched: Some(self.how.word().to_owned()),
            state: Some(state.word().to_owned()),
            reason: state.reason().map(str::to_owned),
            ping,
            join,
            only_if: self.only_if(),
            endpoint,
            sleep: Some(sleep(self.report, self.now)),
            problems: self.report.problems.clone(),
            ..unknown()
        }
    }

    /// Which addresses may connect, as the gate and as the service have it.
    fn lists(&self) -> [(&'static str, &Clients); 2] {
        let own = &self.report.face.spec.clients;
        [("the gate's list of clients", &self.fleet.policy().clients), ("its own list of clients", own)]
    }

    fn denied_by(&self) -> Option<&'static str> {
        let source = self.visitor.source?;
        self.lists().into_iter().find(|(_, clients)| !clients.admit(source)).map(|(list, _)| list)
    }

    fn only_if(&self) -> Option<String> {
        if self.visitor.source.is_some() {
            return None;
        }
        let lists = self.lists().into_iter().filter(|(_, clients)| **clients != Clients::default());
        let lists: Vec<&str> = lists.map(|(list, _)| list).collect();
        (!lists.is_empty()).then(|| format!("the address is let in by {}", lists.join(" and by ")))
    }

    fn join(&self, endpoint: Option<&str>) -> String {
        let (spec, report) = (&self.report.face.spec, self.report);
        let waits = match spec.wait {
            Wait::World | Wait::Room => {
                let hold = span::human(spec.hold);
                format!("the player waits inside the game, or up to {hold} on the open connection, for it")
            }
            Wait::Hold => format!("the player waits up to {} for it", span::human(spec.hold)),
            Wait::Kick => "the player is told to come back".to_owned(),
        };
        if let State::Running(_) = &report.face.state {
            return match endpoint {
                Some(endpoint) if report.scalable => format!("is relayed to {endpoint}"),
                // An address of the configuration: nothing tells the gate whether anything is there.
                Some(endpoint) => format!("is relayed to {endpoint}, if that answers"),
                None => "is refused: it runs, but at no address the gate can reach".to_owned(),
            };
        }
        if report.waking {
            return format!("{waits} to be ready");
        }
        match (&report.face.state, report.retry_in, self.starts()) {
            (State::Starting { .. } | State::Restarting { .. } | State::Running(_), ..) => {
                format!("{waits} to be ready")
            }
            (State::Failed { .. }, Some(left), _) => {
                format!("is told why it failed; in {} it may be tried again", span::human(left))
            }
            (State::Asleep | State::Stopping | State::Failed { .. } | State::Unknown { .. }, _, Err(why)) => {
                format!("is refused: {why}")
            }
            (State::Asleep, _, Ok(how)) => format!("starts it{how}; {waits}"),
            (State::Stopping, _, Ok(how)) => {
                format!("starts it again once the old process has ended{how}; {waits}")
            }
            (State::Failed { .. }, None, Ok(how)) => format!("starts it again{how}; {waits}"),
            (State::Unknown { .. }, _, Ok(how)) => {
                format!("starts it, if it is found asleep{how}; {waits}")
            }
        }
    }

    /// Under which conditions a join starts it, or why it does not. In the order in which the fleet asks.
    fn starts(&self) -> Result<String, String> {
        let (spec, report) = (&self.report.face.spec, self.report);
        let never = if report.pin == Pin::Asleep {
            Some("it is pinned asleep")
        } else if !report.scalable {
            Some("it has only an address, so the gate cannot start it")
        } else if !spec.wake {
            Some("wake = false: joins do not start it")
        } else if self.how == Match::Default && !spec.default_wakes {
            Some("the default route does not wake it (default_wakes = false)")
        } else if is_among(&spec.wakers, self.visitor) == Some(false) {
            Some("the player is not among its wakers")
        } else if self.fleet.is_full() && !report.awake {
            Some("as many servers are awake as joins may have awake (limits.awake_at_once)")
        } else {
            None
        };
        if let Some(why) = never {
            return Err(why.to_owned());
        }
        let source = self.visitor.source;
        if let Some(left) = source.and_then(|source| self.fleet.wakes_again_in(source, self.now)) {
            let left = span::human(left);
            return Err(format!(
                "this address has started enough servers for now (limits.wake_rate); in {left} it may again"
            ));
        }
        let mut how = String::new();
        if is_among(&spec.wakers, self.visitor).is_none() {
            how += ", if the player is among its wakers";
        }
        if spec.wakers.verified {
            how += ", once the player's account is proven (wakers.verified)";
        }
        if self.fleet.is_busy() {
            how += ", after those that are starting now (limits.waking_at_once)";
        }
        Ok(how)
    }
}

/// `None` if it depends on what is not known of the visitor.
fn is_among(wakers: &Wakers, visitor: &Visitor) -> Option<bool> {
    let Visitor { name, uuid, source } = visitor;
    let by_name = name.as_ref().map(|name| wakers.names.contains(&name.to_lowercase()));
    let by_uuid = uuid.map(|uuid| wakers.uuids.contains(&uuid));
    let by_address =
        source.map(|source| wakers.addresses.iter().any(|net| net.contains(&source.to_canonical())));
    let listed = [
        (by_name, wakers.names.is_empty()),
        (by_uuid, wakers.uuids.is_empty()),
        (by_address, wakers.addresses.is_empty()),
    ];
    if wakers.is_everybody() || listed.iter().any(|(is, _)| *is == Some(true)) {
        return Some(true);
    }
    let open = listed.iter().any(|(is, empty)| is.is_none() && !empty);
    if open { None } else { Some(false) }
}

fn ping(state: &State, endpoint: Option<&str>, scalable: bool) -> String {
    match endpoint {
        Some(endpoint) if !scalable => format!("is relayed to {endpoint}, if that answers"),
        Some(endpoint) => format!("is relayed to {endpoint}, which answers itself"),
        None => format!("is answered by the gate with the text for \"{}\"; a ping never wakes", state.word()),
    }
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
    use crate::knock::{Knock, Player, Purpose, Verdict};
    use crate::ladder::Client;
    use crate::service::tests::spec;
    use crate::service::{Clients, Endpoint, Running, Service, Snapshot, Spec};
    use crate::throttle::Rate;

    fn policy() -> Policy {
        Policy {
            clients: Clients::default(),
            waking_at_once: 1,
            awake_at_once: None,
            wake_rate: Rate { burst: 1, every: Duration::from_secs(1) },
            limbo: crate::fleet::Caps { per_source: 64, total: 1000 },
            trusted: Vec::new(),
        }
    }

    fn service(name: &str, spec: Spec, state: State, scalable: bool) -> Service {
        let problems = vec!["something".to_owned()];
        Service { id: ServiceId::new("process", name), spec: Arc::new(spec), state, scalable, problems }
    }

    fn fleet(state: State, scalable: bool) -> Fleet {
        let mut fleet = Fleet::new(policy());
        let mc = service("mc", spec(&["mc.example.com", "*.mc.example.com"]), state, scalable);
        fleet.observe("process", Snapshot::of(vec![mc]), Moment::START);
        fleet
    }

    fn anybody() -> Visitor {
        Visitor::default()
    }

    #[test]
    fn a_sleeping_server() {
        let explanation = explain(&fleet(State::Asleep, true), "MC.example.com.", &anybody(), Moment::START);
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
        let explanation = explain(&fleet(state, false), "a.mc.example.com", &anybody(), Moment::START);
        assert_eq!(explanation.matched.as_deref(), Some("wildcard"));
        assert_eq!(explanation.join, "is relayed to 127.0.0.1:7, if that answers");
        assert_eq!(explanation.sleep.as_deref(), Some("never: the gate cannot stop it"));
    }

    #[test]
    fn pins_and_failures_change_what_happens() {
        let mut asleep = fleet(State::Asleep, true);
        asleep.pin(&ServiceId::new("process", "mc"), Pin::Asleep, Moment::START).unwrap();
        let explanation = explain(&asleep, "mc.example.com", &anybody(), Moment::START);
        assert_eq!(explanation.join, "is refused: it is pinned asleep");
        let mut awake = fleet(State::Asleep, true);
        awake.pin(&ServiceId::new("process", "mc"), Pin::Awake, Moment::START).unwrap();
        let explanation = explain(&awake, "mc.example.com", &anybody(), Moment::START);
        assert_eq!(explanation.sleep.as_deref(), Some("not now: it is pinned awake"));
        let failed = fleet(State::Failed { reason: "x".to_owned() }, true);
        let explanation = explain(&failed, "mc.example.com", &anybody(), Moment::START);
        assert_eq!(
            explanation.join,
            "starts it again; the player waits inside the game, or up to 25s on the open connection, for it"
        );
    }

    /// A fleet in which `mc` is asked for, beside one that runs and one that somebody else has just started.
    fn busy(change: impl FnOnce(&mut Spec, &mut Policy)) -> Fleet {
        let holds = |host| Spec { wait: Wait::Hold, ..spec(&[host]) };
        let (mut mc, mut policy) = (holds("mc.example.com"), policy());
        change(&mut mc, &mut policy);
        let mut fleet = Fleet::new(policy);
        let up = State::Running(Running { run: "r".into(), endpoints: vec![] });
        let services = vec![
            service("mc", mc, State::Asleep, true),
            service("up", spec(&["up.example.com"]), up, true),
            service("next", holds("next.example.com"), State::Asleep, true),
        ];
        fleet.observe("process", Snapshot::of(services), Moment::START);
        fleet
    }

    fn ann() -> Visitor {
        let source = Some("192.0.2.1".parse().unwrap());
        Visitor { name: Some("Ann".to_owned()), uuid: Some(Uuid::from_u128(7)), source }
    }

    /// What is explained is what happens.
    #[test]
    fn it_says_of_a_visitor_what_the_fleet_does() {
        type Change = fn(&mut Spec, &mut Policy);
        let cases: [(Change, &str); 15] = [
            (|_, _| {}, "starts it; the player waits up to 25s for it"),
            (
                |mc, _| mc.clients.deny = vec!["192.0.2.0/24".parse().unwrap()],
                "is refused: its own list of clients",
            ),
            (
                |_, all| all.clients.allow = vec!["10.0.0.0/8".parse().unwrap()],
                "is refused: the gate's list of clients",
            ),
            (|_, all| all.clients.allow = vec!["192.0.2.1/32".parse().unwrap()], "starts it;"),
            (|mc, _| mc.wake = false, "is refused: wake = false"),
            (
                |mc, _| mc.wakers.names = ["bo".to_owned()].into(),
                "is refused: the player is not among its wakers",
            ),
            (|mc, _| mc.wakers.names = ["ann".to_owned()].into(), "starts it;"),
            (|mc, _| mc.wakers.uuids = [Uuid::from_u128(7)].into(), "starts it;"),
            (|mc, _| mc.wakers.addresses = vec!["192.0.2.0/24".parse().unwrap()], "starts it;"),
            (
                |mc, _| mc.wakers.verified = true,
                "starts it, once the player's account is proven (wakers.verified);",
            ),
            (
                |mc, _| {
                    mc.wakers.verified = true;
                    mc.wakers.names = ["bo".to_owned()].into();
                },
                "is refused: the player is not among its wakers",
            ),
            (|_, all| all.awake_at_once = Some(1), "is refused: as many servers are awake"),
            (|_, all| all.awake_at_once = Some(2), "starts it;"),
            (|_, all| all.wake_rate.burst = 0, "is refused: this address has started enough"),
            (|mc, _| mc.wait = Wait::Kick, "starts it; the player is told to come back"),
        ];
        for (number, (change, expected)) in cases.into_iter().enumerate() {
            let mut fleet = busy(change);
            let explanation = explain(&fleet, "mc.example.com", &ann(), Moment::START);
            assert!(explanation.join.starts_with(expected), "{number}: {}", explanation.join);
            let Visitor { name, uuid, source } = ann();
            let (host, player) =
                (HostName::parse("mc.example.com").ok(), Player { name: name.unwrap(), uuid });
            let knock = Knock {
                host,
                purpose: Purpose::Login(player, Client::default()),
                source: source.unwrap(),
                pass: None,
                account: None,
            };
            let refused = matches!(fleet.admit(&knock, Moment::START), Verdict::Refuse(_));
            assert_eq!(refused, explanation.join.starts_with("is refused"), "{number}: {}", explanation.join);
        }
    }

    #[test]
    fn what_is_not_known_of_the_visitor_is_a_condition() {
        let fleet = busy(|mc, all| {
            mc.clients.deny = vec!["10.0.0.0/8".parse().unwrap()];
            all.clients.allow = vec!["192.0.2.0/24".parse().unwrap()];
            mc.wakers.names = ["ann".to_owned()].into();
            mc.wakers.addresses = vec!["192.0.2.1/32".parse().unwrap()];
        });
        let explained = |visitor: &Visitor| explain(&fleet, "mc.example.com", visitor, Moment::START);
        let of_anybody = explained(&anybody());
        assert!(of_anybody.join.starts_with("starts it, if the player is among its wakers;"));
        let lists = "the address is let in by the gate's list of clients and by its own list of clients";
        assert_eq!(of_anybody.only_if.as_deref(), Some(lists));
        let from = |source: &str| Visitor { source: Some(source.parse().unwrap()), ..anybody() };
        assert_eq!(explained(&from("192.0.2.1")).only_if, None);
        assert!(explained(&from("192.0.2.1")).join.starts_with("starts it;"));
        assert!(explained(&from("192.0.2.2")).join.contains("if the player is among"));
        let denied = explained(&from("::ffff:10.0.0.1")).ping;
        assert_eq!(denied, "gets no answer: the gate's list of clients keeps this address out");
        let named = |name: &str| Visitor { name: Some(name.to_owned()), ..anybody() };
        assert!(explained(&named("ANN")).join.starts_with("starts it;"));
        assert!(explained(&named("Bo")).join.contains("if the player is among"), "the address may be");
        let bo = Visitor { source: Some("192.0.2.9".parse().unwrap()), ..named("Bo") };
        assert_eq!(explained(&bo).join, "is refused: the player is not among its wakers");
    }

    #[test]
    fn a_start_that_has_to_wait_says_so() {
        let mut fleet = busy(|_, _| {});
        fleet.wake(&ServiceId::new("process", "next"), Moment::START).unwrap();
        let explanation = explain(&fleet, "mc.example.com", &anybody(), Moment::START);
        assert!(explanation.join.contains("after those that are starting now"), "{}", explanation.join);
        let explanation = explain(&fleet, "next.example.com", &anybody(), Moment::START);
        assert_eq!(explanation.join, "the player waits up to 25s for it to be ready");
    }

    #[test]
    fn a_name_nobody_has() {
        let explanation = explain(&fleet(State::Asleep, true), "mcc.example.com", &anybody(), Moment::START);
        assert_eq!(explanation.service, None);
        assert!(explanation.nearest.contains(&"mc.example.com".to_owned()), "{:?}", explanation.nearest);
        let odd = explain(&fleet(State::Asleep, true), "a b", &anybody(), Moment::START);
        assert!(odd.problems[0].contains("not a hostname"), "{:?}", odd.problems);
    }
}
