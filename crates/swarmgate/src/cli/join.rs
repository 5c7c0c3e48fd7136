//! `join`: what happens to a player who joins, through every wait, up to the game's first packet.

mod steps;

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use swarmgate_core::span;
use swarmgate_minecraft::client::{Client, Cookies, Event, Stage};
use swarmgate_minecraft::handshake::{Handshake, Intent};
use swarmgate_minecraft::login::{LONGEST_NAME, LoginStart};
use swarmgate_minecraft::text::plain_of;
use swarmgate_minecraft::version::Protocol;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::output::Output;
use super::reach::{Address, Reach, Reached, Trouble, seconds};
use super::terminal::{is_coloured, paragraph, plain};
use steps::{Step, Steps};

/// From then on a wait is worth a line.
const NOTICE: Duration = Duration::from_secs(2);
const MOST_TRANSFERS: usize = 3;

#[derive(Debug, Args)]
pub struct Join {
    #[command(flatten)]
    reach: Reach,
    /// The player's name. Nobody proves it here, so only a server in offline mode lets it in
    #[arg(long, value_name = "NAME", default_value = "Swarmgate", value_parser = name)]
    name: String,
    /// The player's UUID, where who may wake a server goes by that
    #[arg(long, value_name = "UUID")]
    uuid: Option<Uuid>,
    /// Stay in the game for so long
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds)]
    stay: Duration,
}

/// How it ended, and what was seen of it.
struct Journey {
    event: Event,
    client: Client,
    reached: Reached,
    /// Where servers sent the player, in order.
    transfers: Vec<Address>,
    steps: Steps,
    took: Duration,
}

impl Join {
    /// Exit code 0 if the player would be in the game, 1 if sent away, 2 if the server could not be asked.
    pub async fn run(self, output: Output) -> anyhow::Result<ExitCode> {
        let journey = match self.travel(output).await {
            Ok(journey) => journey,
            Err(trouble) => return Err(self.reach.failed(trouble).into()),
        };
        let json = self.to_json(&journey);
        output.print(&json, |_| self.human(&journey))?;
        Ok(match journey.event {
            Event::SentAway(_) => ExitCode::FAILURE,
            Event::Joined
            | Event::Saw(_)
            | Event::LoggedIn
            | Event::ProofWanted
            | Event::Transferred { .. } => ExitCode::SUCCESS,
        })
    }

    /// From server to server until one keeps the player or sends it away.
    async fn travel(&self, output: Output) -> Result<Journey, Trouble> {
        let started = Instant::now();
        let mut steps = Steps::new(output);
        let mut transfers = Vec::new();
        let mut client = Client::new(self.reach.protocol, Cookies::new());
        let mut address = self.reach.address.clone();
        let mut intent = Intent::Login;
        while transfers.len() <= MOST_TRANSFERS {
            // Sent back to where it came from, it takes the same way.
            let mut reached = if address == self.reach.address {
                self.reach.connect().await?
            } else {
                self.reach.look_up_and_connect(&address).await?
            };
            let event = self.log_in(&mut client, &mut reached, (&address, intent), &mut steps).await?;
            let Event::Transferred { host, port } = event else {
                return Ok(Journey { event, client, reached, transfers, steps, took: started.elapsed() });
            };
            address = Address { host, port };
            intent = Intent::Transfer;
            steps.take(Step::Transferred(address.clone()));
            transfers.push(address.clone());
            client = Client::new(self.reach.protocol, client.into_cookies());
        }
        Err(Trouble::Circle)
    }

    async fn log_in(
        &self,
        client: &mut Client,
        reached: &mut Reached,
        (address, intent): (&Address, Intent),
        steps: &mut Steps,
    ) -> Result<Event, Trouble> {
        let protocol = self.reach.protocol;
        let Address { host, port } = reached.said(address, protocol, true).clone();
        let handshake = Handshake { protocol, address: host, port, intent };
        let start = LoginStart { name: self.name.clone(), uuid: self.uuid, key: None };
        reached.send(&[handshake.encode(), start.encode(protocol)].concat()).await?;

        let mut place = Place { stage: client.stage(), since: Instant::now(), told: false };
        let mut leave = None;
        let mut received = Vec::new();
        loop {
            while let Some(step) = client.step()? {
                reached.send(&step.send).await?;
                let waits = place.look(client, steps);
                match step.event {
                    Some(Event::Saw(sight)) if waits => steps.take(Step::Saw(sight)),
                    Some(Event::Joined | Event::Saw(_)) if waits || leave.is_some() => {}
                    Some(Event::Joined | Event::Saw(_)) => {
                        steps.take(Step::In);
                        leave = Some(self.leaves_at(client, steps.output));
                    }
                    Some(end) => return Ok(end),
                    None => {}
                }
            }
            let notice = place.since + NOTICE;
            tokio::select! {
                read = reached.receive(&mut received) => {
                    read?;
                    client.receive(&received);
                    received.clear();
                }
                () = sleep_until(leave.unwrap_or(notice)), if leave.is_some() || !place.told => match leave {
                    Some(_) => return Ok(Event::Joined),
                    None => place.tell(steps),
                },
            }
        }
    }

    fn leaves_at(&self, client: &Client, output: Output) -> Instant {
        if self.stay.is_zero() {
            return Instant::now();
        }
        if !client.can_stay() {
            output.notice("joined; leaving at once, because this version's keep-alives are not known");
            return Instant::now();
        }
        output.notice(&format!("joined; leaving in {}", span::human(self.stay)));
        Instant::now() + self.stay
    }

    fn to_json(&self, journey: &Journey) -> Value {
        let seen = journey.client.seen();
        let (outcome, reason) = match &journey.event {
            Event::Joined | Event::Saw(_) => ("joined", None),
            Event::LoggedIn => ("logged_in", None),
            Event::ProofWanted => ("online_mode", None),
            Event::SentAway(reason) => ("sent_away", Some(reason)),
            Event::Transferred { .. } => ("transferred", None),
        };
        json!({
            "address": self.reach.address.to_string(),
            "peer": journey.reached.peer.to_string(),
            "srv": journey.reached.srv.as_ref().map(ToString::to_string),
            "outcome": outcome,
            "reason": reason.map(|reason| plain_of(&in_english(reason))),
            "reason_component": reason,
            "seconds": journey.took.as_secs_f64(),
            "steps": journey.steps.to_json(),
            "transfers": journey.transfers.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "name": seen.player.as_ref().map(|(name, _)| name),
            "uuid": seen.player.as_ref().and_then(|(_, uuid)| uuid.map(|uuid| uuid.to_string())),
            "brand": seen.brand,
            "compression": seen.compression,
            "registries": seen.registries,
        })
    }

    fn human(&self, journey: &Journey) -> String {
        let server = journey.transfers.last().unwrap_or(&self.reach.address);
        let server = plain(&server.to_string());
        let took = span::human(journey.took);
        match &journey.event {
            Event::SentAway(reason) => {
                let text = paragraph(&in_english(reason), is_coloured());
                format!("{server} sent {} away after {took}, with the words\n\n{text}", self.name)
            }
            Event::ProofWanted => format!(
                "{server} asks after {took} for the proof of an account, which is not known here. A server in online mode would now let a real player in; a gate in front of a server with `wakers.verified` would start it."
            ),
            Event::LoggedIn => format!(
                "{server} has let {} in after {took}. What follows is not known here for {}.",
                self.name,
                Protocol(self.reach.protocol)
            ),
            Event::Joined | Event::Saw(_) | Event::Transferred { .. } => {
                let mut lines = vec![format!("{} joined {server} after {took}.", self.name), String::new()];
                lines.extend(seen(journey));
                lines.join("\n")
            }
        }
    }
}

/// Where the player is on one connection, and since when.
struct Place {
    stage: Stage,
    since: Instant,
    /// That nothing goes on has been told.
    told: bool,
}

impl Place {
    /// Tells where the player has come; whether it is a place to wait in.
    fn look(&mut self, client: &Client, steps: &mut Steps) -> bool {
        let (stage, waits) = (client.stage(), client.is_waiting());
        if stage != self.stage {
            if self.stage == Stage::Login {
                steps.take(Step::LoggedIn);
            }
            if waits {
                steps.take(Step::World);
            }
            *self = Self { stage, since: Instant::now(), told: waits };
        }
        waits || stage == Stage::Configuration
    }

    /// Nothing has gone on for a while.
    fn tell(&mut self, steps: &mut Steps) {
        self.told = true;
        match self.stage {
            Stage::Login => steps.take(Step::Held),
            Stage::Configuration => steps.take(Step::Room),
            Stage::Play => {}
        }
    }
}

fn seen(journey: &Journey) -> Vec<String> {
    let seen = journey.client.seen();
    let line = |name: &str, value: Option<String>| value.map(|value| format!("  {name:<12} {value}"));
    let player = seen.player.as_ref().map(|(name, uuid)| match uuid {
        Some(uuid) => format!("{}, {uuid}", plain(name)),
        None => plain(name),
    });
    let lines = [
        line("player", player),
        line("server", seen.brand.as_deref().map(plain)),
        line("compression", seen.compression.map(|size| format!("from {size} bytes on"))),
        line("registries", (seen.registries > 0).then(|| seen.registries.to_string())),
    ];
    lines.into_iter().flatten().collect()
}

/// What the game shows for the commonest reasons, which servers send as keys alone.
fn in_english(reason: &Value) -> Value {
    let Some(key) = reason.get("translate").and_then(Value::as_str) else { return reason.clone() };
    let argument = reason.pointer("/with/0").map(plain_of).unwrap_or_default();
    let sentence = match key.strip_prefix("multiplayer.disconnect.") {
        Some("outdated_client" | "incompatible") => {
            format!("It speaks version {argument} of the game. Try --protocol {argument}")
        }
        Some("outdated_server") => format!("It is older than this version of the game: it speaks {argument}"),
        Some("not_whitelisted") => "You are not white-listed on this server!".to_owned(),
        Some("server_full") => "The server is full!".to_owned(),
        Some("transfers_disabled") => "The server does not accept transfers".to_owned(),
        Some("unverified_username") => "Failed to verify username!".to_owned(),
        Some("slow_login") => "Took too long to log in".to_owned(),
        Some("duplicate_login") => "You logged in from another location".to_owned(),
        Some("server_shutdown") => "Server closed".to_owned(),
        Some("kicked") => "Kicked by an operator".to_owned(),
        Some("idling") => "You have been idle for too long!".to_owned(),
        Some("invalid_player_data") => "Invalid player data".to_owned(),
        Some(_) | None => return reason.clone(),
    };
    Value::String(sentence)
}

fn name(text: &str) -> Result<String, String> {
    match text.encode_utf16().count() {
        0 => Err("a player needs a name".to_owned()),
        1..=LONGEST_NAME => Ok(text.to_owned()),
        _ => Err(format!("a name has at most {LONGEST_NAME} characters")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_reasons_are_readable() {
        for (reason, text) in [
            (json!("bye"), "bye"),
            (
                json!({"translate": "multiplayer.disconnect.outdated_client", "with": ["1.21.4"]}),
                "It speaks version 1.21.4 of the game. Try --protocol 1.21.4",
            ),
            (
                json!({"translate": "multiplayer.disconnect.not_whitelisted"}),
                "You are not white-listed on this server!",
            ),
            (json!({"translate": "some.plugin.key"}), "some.plugin.key"),
        ] {
            assert_eq!(plain_of(&in_english(&reason)), text);
        }
    }

    #[test]
    fn names() {
        assert!(name("").is_err() && name(&"a".repeat(65)).is_err());
        assert_eq!(name(".Bedrock Player").as_deref(), Ok(".Bedrock Player"));
    }
}
