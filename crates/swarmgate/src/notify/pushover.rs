//! Pushover (its Message API).

use url::form_urlencoded::Serializer;

use super::text::{Limits, pack};
use super::{Note, Tone};

/// 1024 characters, and 250 of a title.
const LIMITS: Limits = Limits { title: Some(250), body: 1024, length: |_| 1, fence: "" };

/// The form of a call, and how many of `notes` are in it.
pub fn form(notes: &[Note], token: &str, user: &str, devices: Option<&str>) -> (String, usize) {
    let packed = pack(notes, LIMITS);
    // Good news makes no sound.
    let priority = match packed.tone {
        Tone::Bad => "0",
        Tone::Good => "-1",
    };
    let mut form = Serializer::new(String::new());
    form.append_pair("token", token).append_pair("user", user).append_pair("message", &packed.body);
    form.append_pair("title", if packed.title.is_empty() { "Swarmgate" } else { &packed.title });
    form.append_pair("priority", priority).append_pair("timestamp", &packed.at.to_string());
    if let Some(devices) = devices {
        form.append_pair("device", devices);
    }
    (form.finish(), packed.taken)
}
