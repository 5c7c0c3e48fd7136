//! Text components and dialogs as the client decodes them from NBT: what is no component closes the connection.
//!
//! Source: minecraft.wiki, "Text component format" and "Dialog".

use std::io;

use serde_json::Value;

use crate::nbt;
use crate::text::words;
use crate::wire::{Fields, malformed};

const COLOURS: [&str; 16] = [
    "black",
    "dark_blue",
    "dark_green",
    "dark_aqua",
    "dark_red",
    "dark_purple",
    "gold",
    "gray",
    "dark_gray",
    "blue",
    "green",
    "aqua",
    "red",
    "light_purple",
    "yellow",
    "white",
];
/// One of them says what kind of component it is.
const CONTENTS: [&str; 7] = ["text", "translate", "keybind", "selector", "nbt", "score", ""];
const STYLES: [&str; 5] = ["bold", "italic", "underlined", "strikethrough", "obfuscated"];
const DIALOGS: [&str; 5] = ["notice", "confirmation", "multi_action", "server_links", "dialog_list"];

/// The words of the next component.
pub(super) fn read(fields: &mut Fields<'_>, protocol: i32) -> io::Result<String> {
    let component = nbt::read(fields)?;
    check(&component, protocol)?;
    Ok(words(&component))
}

/// What a dialog says, in the order of its fields: title, body, buttons.
pub(super) fn read_dialog(fields: &mut Fields<'_>, protocol: i32) -> io::Result<String> {
    let dialog = nbt::read(fields)?;
    let kind = dialog["type"].as_str().unwrap_or_default();
    let kind = kind.strip_prefix("minecraft:").unwrap_or(kind);
    if !DIALOGS.contains(&kind) {
        return Err(malformed(format!("a dialog of type {kind:?}")));
    }
    let needed = match kind {
        "confirmation" => &["yes", "no"][..],
        "multi_action" => &["actions"],
        "dialog_list" => &["dialogs"],
        _ => &[],
    };
    if let Some(field) = needed.iter().find(|field| dialog.get(**field).is_none()) {
        return Err(malformed(format!("a {kind} without {field:?}")));
    }
    if kind == "multi_action" && list(&dialog["actions"]).is_empty() {
        return Err(malformed("a multi_action without an action"));
    }
    // A game that pauses must go on after the player's choice.
    if truth(&dialog["pause"], true)? && dialog["after_action"] == "none" {
        return Err(malformed("a dialog that pauses for ever"));
    }
    truth(&dialog["can_close_with_escape"], true)?;
    let mut said = vec![component(&dialog["title"], protocol)?];
    for body in list(&dialog["body"]) {
        match body["type"].as_str().unwrap_or_default() {
            "plain_message" | "minecraft:plain_message" => {
                let contents = &body["contents"];
                // Short for { contents }.
                let inner = contents.get("contents").unwrap_or(contents);
                said.push(component(inner, protocol)?);
            }
            other => return Err(malformed(format!("a dialog's body of type {other:?}"))),
        }
    }
    let buttons = ["action", "yes", "no", "exit_action"].iter().filter_map(|field| dialog.get(*field));
    for button in buttons.chain(list(&dialog["actions"])) {
        said.push(component(&button["label"], protocol)?);
    }
    Ok(said.join("\n"))
}

fn component(value: &Value, protocol: i32) -> io::Result<String> {
    check(value, protocol)?;
    Ok(words(value))
}

fn check(value: &Value, protocol: i32) -> io::Result<()> {
    match value {
        Value::String(_) => Ok(()),
        Value::Array(parts) if !parts.is_empty() => parts.iter().try_for_each(|part| check(part, protocol)),
        Value::Object(fields) => {
            if !CONTENTS.iter().any(|key| fields.contains_key(*key)) {
                return Err(malformed(format!("a component with no content: {value}")));
            }
            for style in STYLES {
                truth(&value[style], false)?;
            }
            if let Some(colour) = fields.get("color") {
                check_colour(colour)?;
            }
            // Renamed in 1.21.5: the old names are ignored, so whatever they should do does not happen.
            let stale =
                if protocol >= 770 { ["clickEvent", "hoverEvent"] } else { ["click_event", "hover_event"] };
            if let Some(stale) = stale.iter().find(|name| fields.contains_key(**name)) {
                return Err(malformed(format!("{stale:?} means nothing to protocol {protocol}")));
            }
            for children in ["extra", "with"] {
                match fields.get(children) {
                    None => {}
                    // Arguments may be numbers, and may be none.
                    Some(Value::Array(parts)) if children == "with" => {
                        parts
                            .iter()
                            .filter(|part| !part.is_number())
                            .try_for_each(|part| check(part, protocol))?;
                    }
                    Some(parts @ Value::Array(_)) => check(parts, protocol)?,
                    Some(other) => return Err(malformed(format!("{children:?} is {other}"))),
                }
            }
            Ok(())
        }
        other => Err(malformed(format!("{other} is no component"))),
    }
}

fn check_colour(colour: &Value) -> io::Result<()> {
    let name = colour.as_str().unwrap_or_default();
    let hex = name
        .strip_prefix('#')
        .is_some_and(|digits| digits.len() == 6 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
    if hex || COLOURS.contains(&name) { Ok(()) } else { Err(malformed(format!("the colour {colour}"))) }
}

/// A byte in NBT.
fn truth(value: &Value, default: bool) -> io::Result<bool> {
    match value {
        Value::Null => Ok(default),
        Value::Number(number) => Ok(number.as_i64() != Some(0)),
        other => Err(malformed(format!("{other} in place of a boolean"))),
    }
}

fn list(value: &Value) -> &[Value] {
    match value {
        Value::Null => &[],
        Value::Array(items) => items,
        one => std::slice::from_ref(one),
    }
}
