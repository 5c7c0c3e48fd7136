//! `ping`: what the server list shows of a server.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use swarmgate_minecraft::handshake::{Handshake, Intent};
use swarmgate_minecraft::legacy::{self, Form};
use swarmgate_minecraft::status::{self, StatusSummary};
use swarmgate_minecraft::version::Protocol;
use swarmgate_minecraft::{Malformed, frame};
use tokio::time::timeout;

use super::output::Output;
use super::reach::{Address, Reach, Reached, Trouble};
use super::terminal::{is_coloured, paragraph, plain};

/// The game shows an entry without its bars when the pong does not come.
const PONG_PATIENCE: Duration = Duration::from_secs(5);
/// A pong has it unchanged.
const PAYLOAD: i64 = 0x5377_6172_6d67_6174;

#[derive(Debug, Args)]
pub struct Ping {
    #[command(flatten)]
    reach: Reach,
    /// Ask as versions before 1.7 did
    #[arg(long, value_name = "FORM", num_args = 0..=1, require_equals = true, default_missing_value = "1.6")]
    legacy: Option<Legacy>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Legacy {
    /// FE: beta 1.8 to 1.3
    #[value(name = "beta", alias = "fe")]
    Beta,
    /// FE 01: 1.4 and 1.5
    #[value(name = "1.4", alias = "fe01")]
    Release,
    /// FE 01 FA and the hostname: 1.6
    #[value(name = "1.6")]
    WithHost,
}

/// What came back.
struct Answer {
    status: Value,
    /// From the ping to its pong; without one there was none.
    latency: Option<Duration>,
}

impl Ping {
    /// Exit code 0 for any answer, 2 for none.
    pub async fn run(self, output: Output) -> anyhow::Result<ExitCode> {
        let asked = async {
            let mut reached = self.reach.connect().await?;
            let answer = match self.legacy {
                Some(form) => self.ask_legacy(form.form(), &mut reached).await?,
                None => self.ask(&mut reached).await?,
            };
            Ok((reached, answer))
        };
        match asked.await {
            Ok((reached, answer)) => {
                let json = self.to_json(&reached, &answer);
                output.print(&json, |_| self.human(&reached, &answer))?;
                Ok(ExitCode::SUCCESS)
            }
            Err(trouble) => Err(self.reach.failed(trouble).into()),
        }
    }

    async fn ask(&self, reached: &mut Reached) -> Result<Answer, Trouble> {
        let protocol = self.reach.protocol;
        let Address { host, port } = reached.said(&self.reach.address, protocol, false).clone();
        let handshake = Handshake { protocol, address: host, port, intent: Intent::Status };
        reached.send(&status::request(&handshake)).await?;
        let mut received = Vec::new();
        let status = status::parse_response(&next_frame(reached, &mut received).await?)?;
        let sent = Instant::now();
        reached.send(&status::ping(PAYLOAD)).await?;
        let pong = timeout(PONG_PATIENCE, next_frame(reached, &mut received)).await;
        let ponged = matches!(pong, Ok(Ok(body)) if status::parse_pong(&body) == Ok(PAYLOAD));
        Ok(Answer { status, latency: ponged.then(|| sent.elapsed()) })
    }

    async fn ask_legacy(&self, form: Form, reached: &mut Reached) -> Result<Answer, Trouble> {
        let Address { host, port } = reached.said(&self.reach.address, 0, false).clone();
        reached.send(&legacy::Ping::request(form, &host, port)).await?;
        let mut received = Vec::new();
        let text = loop {
            reached.receive(&mut received).await?;
            if let Some(text) = legacy::parse_kick(&received)? {
                break text;
            }
        };
        let answer = legacy::Answer::from_kick(&text).ok_or(Malformed::Truncated)?;
        let version = match form {
            Form::Beta => Value::Null,
            Form::Release | Form::WithHost => json!({ "name": answer.version, "protocol": answer.protocol }),
        };
        let players = json!({ "online": answer.online, "max": answer.max });
        let status = json!({ "version": version, "players": players, "description": answer.motd });
        Ok(Answer { status, latency: None })
    }

    fn to_json(&self, reached: &Reached, answer: &Answer) -> Value {
        let summary = StatusSummary::of(&answer.status);
        json!({
            "address": self.reach.address.to_string(),
            "peer": reached.peer.to_string(),
            "srv": reached.srv.as_ref().map(ToString::to_string),
            "latency_ms": answer.latency.map(|latency| latency.as_secs_f64() * 1000.0),
            "version": { "name": summary.version_name, "protocol": summary.protocol },
            "players": { "online": summary.online, "max": summary.max, "sample": names(&answer.status) },
            "description": summary.description,
            "favicon": summary.favicon.is_some(),
            "status": answer.status,
        })
    }

    fn human(&self, reached: &Reached, answer: &Answer) -> String {
        let summary = StatusSummary::of(&answer.status);
        let mut head = self.reach.address.to_string();
        if let Some(srv) = &reached.srv {
            head += &format!(", by its SRV record {srv}");
        }
        if self.reach.address.to_string() != reached.peer.to_string() {
            head += &format!(", at {}", reached.peer);
        }
        let text = answer.status.get("description").unwrap_or(&Value::Null);
        let count = |count: Option<u32>| count.map_or_else(|| "?".to_owned(), |count| count.to_string());
        let mut players = format!("{} of {}", count(summary.online), count(summary.max));
        let names = names(&answer.status);
        if !names.is_empty() {
            players += &format!(": {}", names.join(", "));
        }
        let pong = match answer.latency {
            Some(latency) => format!("{:.1} ms", latency.as_secs_f64() * 1000.0),
            None if self.legacy.is_some() => "not asked for".to_owned(),
            None => "none".to_owned(),
        };
        let icon = if summary.favicon.is_some() { "yes" } else { "no" };
        let text = paragraph(text, is_coloured());
        let version = version(&summary);
        format!(
            "{head}\n\n{text}\n  version  {version}\n  players  {players}\n  pong     {pong}\n  icon     {icon}"
        )
    }
}

impl Legacy {
    const fn form(self) -> Form {
        match self {
            Self::Beta => Form::Beta,
            Self::Release => Form::Release,
            Self::WithHost => Form::WithHost,
        }
    }
}

async fn next_frame(reached: &mut Reached, received: &mut Vec<u8>) -> Result<Vec<u8>, Trouble> {
    loop {
        if let Some(frame) = frame::split(received, status::LONGEST_RESPONSE)? {
            let (body, consumed) = (frame.body.to_vec(), frame.consumed);
            received.drain(..consumed);
            return Ok(body);
        }
        reached.receive(received).await?;
    }
}

/// The server's own name for it, and what its number adds to that.
fn version(summary: &StatusSummary) -> String {
    let name = summary.version_name.as_deref().map_or_else(|| "not told".to_owned(), plain);
    let Some(number) = summary.protocol else { return name };
    let releases = Protocol(number).releases();
    if releases.is_empty() || releases.iter().any(|release| name.contains(release)) {
        return format!("{name} (protocol {number})");
    }
    format!("{name} (protocol {number}, which is {})", Protocol(number))
}

/// Who is in, as far as the server tells.
fn names(status: &Value) -> Vec<String> {
    let sample = status.pointer("/players/sample").and_then(Value::as_array).into_iter().flatten();
    sample.filter_map(|player| player.get("name")?.as_str().map(plain)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        for (name, number, text) in [
            (Some("26.3"), Some(777), "26.3 (protocol 777)"),
            (Some("Paper 1.21.1"), Some(767), "Paper 1.21.1 (protocol 767)"),
            (
                Some("Velocity 1.7-26.3"),
                Some(765),
                "Velocity 1.7-26.3 (protocol 765, which is 1.20.3-1.20.4)",
            ),
            (Some("demo"), Some(127), "demo (protocol 127)"),
            (None, None, "not told"),
        ] {
            let version_name = name.map(str::to_owned);
            let summary = StatusSummary { version_name, protocol: number, ..StatusSummary::default() };
            assert_eq!(version(&summary), text);
        }
    }
}
