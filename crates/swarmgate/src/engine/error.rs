//! What an engine says instead of an answer, or why it says nothing; each with the fix where there is one.

use hyper::StatusCode;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// Status 404.
    #[error("{call}: {message}")]
    NotThere { call: String, message: String },
    /// The object has changed since the version that the update was made for.
    #[error("{call}: it has changed since it was read")]
    OutOfSequence { call: String },
    #[error("{}", refused(call, *status, message))]
    Refused { call: String, status: u16, message: String },
    /// No connection, no answer in time, or none that can be understood. A write may have been made.
    #[error("{call} on {host}: {why}")]
    NoAnswer { call: String, host: String, why: String },
}

impl EngineError {
    pub(super) fn refused(call: String, status: StatusCode, body: &[u8]) -> Self {
        let message = message(body);
        if status == StatusCode::NOT_FOUND {
            return Self::NotThere { call, message };
        }
        // Swarm has no status of its own for this (measured on engines 20.10 to 29.7).
        if status == StatusCode::INTERNAL_SERVER_ERROR && message.ends_with("update out of sequence") {
            return Self::OutOfSequence { call };
        }
        Self::Refused { call, status: status.as_u16(), message }
    }

    /// Whether somebody in between, or the engine, does not allow this call at all.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused { status: 401 | 403 | 405, .. })
    }

    /// Whether the engine is in no Swarm at all. A worker is in one, and so is a manager that finds no others: both say
    /// that they are no manager, and something else after it.
    pub fn is_without_swarm(&self) -> bool {
        matches!(self, Self::Refused { status: 503, message, .. }
            if message.contains("not a swarm manager") && message.contains("docker swarm init"))
    }

    /// For metric labels.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::NotThere { .. } => "not_there",
            Self::OutOfSequence { .. } => "out_of_sequence",
            Self::Refused { .. } => "refused",
            Self::NoAnswer { .. } => "no_answer",
        }
    }
}

fn refused(call: &str, status: u16, message: &str) -> String {
    match status {
        401 | 403 | 405 => format!(
            "{call} is not allowed (status {status}: {message}); allow it in the socket proxy: docs/permissions.md \
             lists what the gate needs"
        ),
        503 if message.contains("not a swarm manager") && message.contains("Worker") => format!(
            "{call}: this engine is a worker of its Swarm; run the gate on a manager, set docker.host to one, or make it \
             one with `docker node promote`"
        ),
        503 if message.contains("not a swarm manager") => format!(
            "{call}: this engine is not a manager of a Swarm; run the gate on a manager, set docker.host to one, make \
             it one with `docker swarm init`, or set docker.swarm = \"off\""
        ),
        _ => format!("{call}: status {status}: {message}"),
    }
}

/// The engine's own words, or some of whoever else answered.
fn message(body: &[u8]) -> String {
    const ENOUGH: usize = 300;
    let json: Option<Value> = serde_json::from_slice(body).ok();
    let own = json.as_ref().and_then(|json| json.get("message")).and_then(Value::as_str);
    let text = own.map_or_else(|| String::from_utf8_lossy(body), Into::into);
    let words: Vec<&str> = text.split_whitespace().collect();
    let message: String = words.join(" ").chars().filter(|c| !c.is_control()).take(ENOUGH).collect();
    if message.is_empty() || message.starts_with('<') { "without a reason".into() } else { message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_what_to_do() {
        let sequence = r#"{"message":"rpc error: code = Unknown desc = update out of sequence"}"#;
        let manager = r#"{"message":"This node is not a swarm manager. Use \"docker swarm init\""}"#;
        let worker = r#"{"message":"This node is not a swarm manager. Worker nodes can't be used to view or modify cluster state."}"#;
        for (status, body, kind, part) in [
            (503, worker, "refused", "is a worker of its Swarm; run the gate on a manager"),
            (404, r#"{"message":"service x not found"}"#, "not_there", "GET /x: service x not found"),
            (500, sequence, "out_of_sequence", "has changed"),
            (500, r#"{"message":"The swarm does not have a leader."}"#, "refused", "status 500: The swarm"),
            (503, manager, "refused", "docker.swarm = \"off\""),
            (403, "<html>Forbidden</html>", "refused", "status 403: without a reason"),
            (403, "", "refused", "docs/permissions.md"),
            (502, "bad\n\n gateway", "refused", "status 502: bad gateway"),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let error = EngineError::refused("GET /x".into(), status, body.as_bytes());
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(part), "{error}");
            assert_eq!(error.is_forbidden(), status == 403);
        }
    }

    #[test]
    fn only_one_that_could_begin_a_swarm_is_in_none() {
        for (rest, is_without) in [
            (
                "Use \"docker swarm init\" or \"docker swarm join\" to connect this node to swarm and try again.",
                true,
            ),
            ("Worker nodes can't be used to view or modify cluster state.", false),
            ("Manager is being prepared or has trouble connecting to the cluster.", false),
        ] {
            let body = serde_json::json!({"message": format!("This node is not a swarm manager. {rest}")})
                .to_string();
            let status = StatusCode::SERVICE_UNAVAILABLE;
            let error = EngineError::refused("GET /services".into(), status, body.as_bytes());
            assert_eq!(error.is_without_swarm(), is_without, "{error}");
        }
    }
}
