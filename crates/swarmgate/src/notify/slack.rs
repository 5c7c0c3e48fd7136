//! Slack's incoming webhooks (Slack API documentation, "Sending messages using incoming webhooks").

use serde_json::{Value, json};

use super::Note;
use super::text::{Limits, pack};

/// More is allowed, and cut off by readers. Room is left for what [`escape`] adds.
const LIMITS: Limits = Limits { title: None, body: 3000, length: char::len_utf8, fence: "```" };

/// The body of a call, and how many of `notes` are in it.
pub fn body(notes: &[Note]) -> (Value, usize) {
    let packed = pack(notes, LIMITS);
    (json!({"text": escape(&packed.body)}), packed.taken)
}

/// Mentions and links are written between `<` and `>`; escaped, nobody is mentioned.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_mentioned() {
        let (body, taken) = body(&[Note::of_log("<!channel> & <@U1>".to_owned(), "WARN")]);
        assert_eq!((body["text"].as_str(), taken), (Some("&lt;!channel&gt; &amp; &lt;@U1&gt;"), 1));
    }
}
