//! Tells programs that know mc-router which routes come and go.

use std::collections::BTreeMap;

use swarmgate_core::fleet::Fleet as Core;
use swarmgate_core::moment::Moment;
use swarmgate_core::service::ServiceId;
use tokio_util::sync::CancellationToken;

use super::webhook::Route;
use super::{Note, Notifier};
use crate::fleet::Fleet;

/// By hostname, the default route by none: whose it is, and where it leads now, if anywhere.
type Table = BTreeMap<Option<String>, (ServiceId, Option<String>)>;

/// Those that are there at the start are told as added.
pub async fn run(fleet: Fleet, notifier: Notifier, stop: CancellationToken) {
    if !notifier.tells_of_players() {
        return;
    }
    let mut view = fleet.view();
    let mut told = Table::new();
    loop {
        view.borrow_and_update();
        let now = fleet.look(table);
        for note in changes(&told, &now) {
            notifier.tell(&note);
        }
        told = now;
        tokio::select! {
            () = stop.cancelled() => return,
            changed = view.changed() => if changed.is_err() { return },
        }
    }
}

fn table(core: &Core, _now: Moment) -> Table {
    let by_name = core.routes().names().map(|(name, service)| (Some(name), service));
    let default = core.routes().default_route().map(|service| (None, service));
    let leads = |service: &ServiceId| core.face(service)?.state.endpoint().map(ToString::to_string);
    by_name.chain(default).map(|(name, service)| (name, (service.clone(), leads(service)))).collect()
}

/// A server that starts anew elsewhere has the same route. One that goes over to another service is first removed.
fn changes(before: &Table, now: &Table) -> Vec<Note> {
    let whose = |table: &Table, name| table.get(name).map(|(service, _)| service.clone());
    let removed = before.keys().filter(|name| whose(before, *name) != whose(now, *name));
    let added = now.iter().filter(|(name, _)| whose(before, *name) != whose(now, *name));
    let removed = removed.map(|name| Route { server: name.as_deref(), backend: None }.removed());
    let added =
        added.map(|(name, (_, leads))| Route { server: name.as_deref(), backend: leads.as_deref() }.added());
    removed.chain(added).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_another_service_has_is_told() {
        let table = |routes: &[(Option<&str>, &str, Option<&str>)]| -> Table {
            let route = |(name, service, leads): &(Option<&str>, &str, Option<&str>)| {
                let id = ServiceId::new("file", service);
                (name.map(str::to_owned), (id, leads.map(str::to_owned)))
            };
            routes.iter().map(route).collect()
        };
        let before = table(&[(Some("a"), "one", Some("h:1")), (Some("b"), "one", None), (None, "one", None)]);
        let now = table(&[
            (Some("a"), "one", Some("h:2")),
            (Some("b"), "two", Some("h:3")),
            (Some("c"), "one", None),
        ]);
        let told = |before: &Table, now: &Table| -> Vec<String> {
            let payload = |note| match note {
                Note::Player(payload) => payload,
                Note::Message { .. } => panic!("{note:?}"),
            };
            let word = |payload: &serde_json::Value, key| payload[key].as_str().unwrap_or("-").to_owned();
            let payloads = changes(before, now).into_iter().map(payload);
            payloads.map(|one| ["event", "server", "backend"].map(|key| word(&one, key)).join(" ")).collect()
        };
        assert_eq!(
            told(&before, &now),
            ["default-route-removed  -", "route-removed b -", "route-added b h:3", "route-added c -"]
        );
        assert_eq!(told(&now, &now), [""; 0]);
        assert_eq!(
            told(&Table::new(), &before),
            ["default-route-set  -", "route-added a h:1", "route-added b -"]
        );
    }
}
