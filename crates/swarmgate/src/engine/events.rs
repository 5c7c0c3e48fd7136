//! The stream of events: hints that something changed, never what.

use std::collections::BTreeMap;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use jiff::Timestamp;
use serde_json::Value;
use tokio_util::task::AbortOnDropHandle;

/// An event is a few hundred bytes.
const LONGEST: usize = 1024 * 1024;

/// One event. What is missing is empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// `service`, `node`, `container`
    pub kind: String,
    /// `update`, `health_status: healthy`
    pub action: String,
    /// Of what it is about.
    pub id: String,
    /// On the engine's clock.
    pub time: Option<Timestamp>,
    pub attributes: BTreeMap<String, String>,
}

/// An open stream. It may be silent for hours.
#[derive(Debug)]
pub struct Events {
    body: Incoming,
    buffer: Vec<u8>,
    _connection: AbortOnDropHandle<()>,
}

impl Events {
    pub(super) fn new(body: Incoming, connection: AbortOnDropHandle<()>) -> Self {
        Self { body, buffer: Vec::new(), _connection: connection }
    }

    /// The next events, at least one; `None` when the stream has ended, for whatever reason.
    pub async fn next(&mut self) -> Option<Vec<Event>> {
        loop {
            let frame = self.body.frame().await?.ok()?;
            self.buffer.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
            let events = take(&mut self.buffer);
            if !events.is_empty() {
                return Some(events);
            }
            if self.buffer.len() > LONGEST {
                return None;
            }
        }
    }
}

/// Takes the whole events out of `buffer`. Engines write them one after the other, with or without a line
/// end or a record separator between; what is not JSON is skipped up to the next line.
fn take(buffer: &mut Vec<u8>) -> Vec<Event> {
    let mut events = Vec::new();
    loop {
        let blank = buffer.iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == 0x1e).count();
        buffer.drain(..blank);
        let mut values = serde_json::Deserializer::from_slice(buffer).into_iter::<Value>();
        let used = match values.next() {
            None => return events,
            Some(Ok(value)) => {
                events.push(event(&value));
                values.byte_offset()
            }
            Some(Err(error)) if error.is_eof() => return events,
            Some(Err(_)) => match buffer.iter().position(|byte| *byte == b'\n') {
                Some(end) => end + 1,
                None => return events,
            },
        };
        buffer.drain(..used);
    }
}

fn event(value: &Value) -> Event {
    let text = |key| value.pointer(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let nanos = value.get("timeNano").and_then(Value::as_i64);
    let attributes = value.pointer("/Actor/Attributes").and_then(Value::as_object).into_iter().flatten();
    let attributes = attributes.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    Event {
        kind: text("/Type"),
        action: text("/Action"),
        id: text("/Actor/ID"),
        time: nanos.and_then(|nanos| Timestamp::from_nanosecond(nanos.into()).ok()),
        attributes: attributes.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = r#"{"Type":"service","Action":"update","Actor":{"ID":"s","Attributes":{"name":"mc","replicas.new":"1"}},"time":1,"timeNano":1000000002}"#;
    const TWO: &str = r#"{"status":"start","Type":"container","Action":"start","Actor":null}"#;

    fn all(chunks: &[&str]) -> Vec<Event> {
        let mut buffer = Vec::new();
        chunks
            .iter()
            .flat_map(|chunk| {
                buffer.extend_from_slice(chunk.as_bytes());
                take(&mut buffer)
            })
            .collect()
    }

    #[test]
    fn events_are_read_however_they_are_cut_and_joined() {
        let [one, two] =
            [event(&serde_json::from_str(ONE).unwrap()), event(&serde_json::from_str(TWO).unwrap())];
        assert_eq!((one.kind.as_str(), one.action.as_str()), ("service", "update"));
        assert_eq!((one.id.as_str(), one.attributes["replicas.new"].as_str()), ("s", "1"));
        assert_eq!(one.time.unwrap().to_string(), "1970-01-01T00:00:01.000000002Z");
        let expected = [one, two];
        for between in ["", "\n", "\r\n", "\n\u{1e}", "\nnot JSON\n"] {
            let text = format!("{ONE}{between}{TWO}");
            for cut in 0..text.len() {
                let (head, tail) = text.split_at(cut);
                assert_eq!(all(&[head, tail]), expected, "{between:?} {cut}");
            }
        }
    }

    #[test]
    fn what_is_no_event_is_an_empty_one() {
        assert_eq!(all(&["[1]", "7 "]), [Event::default(), Event::default()]);
        assert_eq!(all(&["nothing"]), []);
    }
}
