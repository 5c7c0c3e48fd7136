//! Discord's webhooks (Discord developer documentation, "Execute Webhook").

use serde_json::{Value, json};

use super::Note;
use super::text::{Limits, pack};

/// 2000 characters. An emoji may count as two.
const LIMITS: Limits = Limits { title: None, body: 2000, length: char::len_utf16, fence: "```" };

/// The body of a call, and how many of `notes` are in it. Whatever stands in it, nobody is mentioned.
pub fn body(notes: &[Note]) -> (Value, usize) {
    let packed = pack(notes, LIMITS);
    (json!({"content": packed.body, "allowed_mentions": {"parse": []}}), packed.taken)
}
