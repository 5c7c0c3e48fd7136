//! ntfy (its documentation, "Publish as JSON").

use serde_json::{Value, json};

use super::text::{Limits, pack};
use super::{Note, Tone};

/// 4096 bytes; a longer message becomes a file that somebody would have to open.
const LIMITS: Limits = Limits { title: Some(250), body: 4000, length: char::len_utf8, fence: "" };

/// The body of a call, and how many of `notes` are in it.
pub fn body(notes: &[Note], topic: &str) -> (Value, usize) {
    let packed = pack(notes, LIMITS);
    let (priority, tag) = match packed.tone {
        Tone::Bad => (4, "warning"),
        Tone::Good => (2, "white_check_mark"),
    };
    let title = if packed.title.is_empty() { "Swarmgate" } else { &packed.title };
    let body =
        json!({"topic": topic, "title": title, "message": packed.body, "priority": priority, "tags": [tag]});
    (body, packed.taken)
}
