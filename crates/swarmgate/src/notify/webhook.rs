//! Webhooks of people's own: JSON, posted.

use jiff::Timestamp;
use serde_json::{Value, json};
use std::net::SocketAddr;

use super::Note;

/// Alerts in one call, at most.
const MOST: usize = 50;

/// The body of a call, and how many of `notes` are in it: `{"source": "swarmgate", "alerts": [...]}`, the oldest first.
pub fn body(notes: &[Note]) -> (Value, usize) {
    let alerts = notes.iter().take(MOST).map_while(|note| match note {
        Note::Message { title, text, lines, at, details, .. } => {
            let mut alert = json!({"at": at.to_string(), "title": title, "text": text, "lines": lines});
            if let (Some(alert), Some(details)) = (alert.as_object_mut(), details.as_object()) {
                alert.extend(details.clone());
            }
            Some(alert)
        }
        Note::Player(_) => None,
    });
    let alerts: Vec<Value> = alerts.collect();
    let taken = alerts.len();
    (json!({"source": "swarmgate", "version": env!("CARGO_PKG_VERSION"), "alerts": alerts}), taken)
}

/// A player who connects or disconnects, or fails to, as mc-router tells it (its README, "Webhook Support").
#[derive(Debug, Clone, Copy)]
pub struct Player<'a> {
    pub client: SocketAddr,
    /// The hostname as it was asked for.
    pub server: &'a str,
    pub name: &'a str,
    pub uuid: Option<uuid::Uuid>,
    pub backend: Option<&'a str>,
}

impl Player<'_> {
    pub fn connected(self) -> Note {
        self.payload("connect", "success", None)
    }

    pub fn disconnected(self) -> Note {
        self.payload("disconnect", "success", None)
    }

    pub fn missing_backend(self) -> Note {
        self.payload("connect", "missing-backend", Some("No backend found"))
    }

    pub fn failed(self, error: &str) -> Note {
        self.payload("connect", "failed-backend-connection", Some(error))
    }

    fn payload(self, event: &str, status: &str, error: Option<&str>) -> Note {
        let mut payload = json!({
            "event": event,
            "timestamp": Timestamp::now().to_string(),
            "status": status,
            "client": {"host": self.client.ip().to_canonical().to_string(), "port": self.client.port()},
            "server": self.server,
            "player": {"name": self.name, "uuid": self.uuid},
        });
        let more = [("backend", self.backend), ("error", error)];
        for (key, value) in more.into_iter().filter_map(|(key, value)| Some((key, value?))) {
            if let Some(payload) = payload.as_object_mut() {
                payload.insert(key.to_owned(), value.into());
            }
        }
        Note::Player(payload)
    }
}

/// A route that comes or goes, as mc-router tells it (`webhook_notifier.go`, events `route-added` and the like).
#[derive(Debug, Clone, Copy)]
pub struct Route<'a> {
    /// `None`: the default route.
    pub server: Option<&'a str>,
    pub backend: Option<&'a str>,
}

impl Route<'_> {
    pub fn added(self) -> Note {
        self.payload(if self.server.is_some() { "route-added" } else { "default-route-set" })
    }

    pub fn removed(self) -> Note {
        self.payload(if self.server.is_some() { "route-removed" } else { "default-route-removed" })
    }

    fn payload(self, event: &str) -> Note {
        let mut payload = json!({
            "event": event,
            "timestamp": Timestamp::now().to_string(),
            "status": "success",
            "server": self.server.unwrap_or_default(),
        });
        if let (Some(payload), Some(backend)) = (payload.as_object_mut(), self.backend) {
            payload.insert("backend".to_owned(), backend.into());
        }
        Note::Player(payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn players_are_told_as_mc_router_tells_them() {
        let player = Player {
            client: "127.0.0.1:56860".parse().unwrap(),
            server: "mc.example",
            name: "Alex",
            uuid: Some(uuid::Uuid::nil()),
            backend: Some("10.0.0.5:25565"),
        };
        let nobody = Player { backend: None, uuid: None, ..player };
        for (note, event, status, keys) in [
            (player.connected(), "connect", "success", "event timestamp status client server player backend"),
            (
                player.disconnected(),
                "disconnect",
                "success",
                "event timestamp status client server player backend",
            ),
            (
                nobody.missing_backend(),
                "connect",
                "missing-backend",
                "event timestamp status client server player error",
            ),
            (
                player.failed("refused"),
                "connect",
                "failed-backend-connection",
                "event timestamp status client server player backend error",
            ),
        ] {
            let Note::Player(payload) = note else { panic!("{note:?}") };
            assert_eq!((payload["event"].as_str(), payload["status"].as_str()), (Some(event), Some(status)));
            let found: Vec<&str> = payload.as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(found.join(" "), keys);
            assert_eq!(payload["client"], json!({"host": "127.0.0.1", "port": 56860}));
        }
    }
}
