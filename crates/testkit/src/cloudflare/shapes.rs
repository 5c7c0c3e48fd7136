//! Whether a request has the shape that the API documents (`shapes.json`, which says how it is read).
//!
//! What a client read and gives back as it was is the API's own, and is not held against it.

use std::sync::LazyLock;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::call::Call;
use super::raw;
use crate::http::Request;

static SHAPES: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("shapes.json")).expect("shapes.json is JSON"));

/// What is wrong with the request. `stored` is the text of the object that it would replace.
pub(super) fn faults(call: Call, request: &Request, stored: Option<&str>) -> Vec<String> {
    let template = Call::all().find_map(|(known, template)| (known == call).then_some(template));
    let template = template.expect("every call has a template");
    let shape = SHAPES["calls"].get(template).unwrap_or_else(|| panic!("shapes.json has no {template}"));
    let mut faults = Vec::new();
    match request.header("content-type").map(|kind| kind.split(';').next()) {
        Some(Some("application/json")) => {}
        None if request.body.is_empty() => {}
        kind => faults.push(format!("its content type is {kind:?}")),
    }
    check(
        shape.get("query").unwrap_or(&Map::new().into()),
        &query(request, &mut faults),
        "query",
        &mut faults,
    );
    match (shape.get("body"), request.body.as_str()) {
        (None, "") => {}
        (None, _) => faults.push("it has a body".into()),
        (Some(shape), body) => match own_part(call, body, stored.unwrap_or("null")) {
            Some(body) => check(shape, &body, "body", &mut faults),
            None => faults.push("its body is not a JSON object".into()),
        },
    }
    faults
}

/// Everything in a query is text; what reads as a number or a truth is one here.
fn query(request: &Request, faults: &mut Vec<String>) -> Value {
    let mut query = Map::new();
    for (key, text) in &request.query {
        let plain =
            serde_json::from_str(text).ok().filter(|value: &Value| value.is_u64() || value.is_boolean());
        if query.insert(key.clone(), plain.unwrap_or_else(|| text.as_str().into())).is_some() {
            faults.push(format!("query: {key} is there twice"));
        }
    }
    query.into()
}

/// The body without what stands in `stored` with the same text. Keys that every body needs stay, and so do policies,
/// which are read in full and written as links.
fn own_part(call: Call, body: &str, stored: &str) -> Option<Value> {
    let whole: Value = serde_json::from_str(body).ok().filter(Value::is_object)?;
    let (body, stored) = (raw::object(body), raw::object(stored));
    match call {
        Call::WriteConfig => {
            let config = raw::object(body.get("config")?.get());
            let rules = |config: &raw::Object| {
                config.get("ingress").map(|rules| raw::list(rules.get())).unwrap_or_default()
            };
            let known = rules(&stored);
            let rules = rules(&config);
            let new = rules.iter().filter(|rule| !known.iter().any(|known| known.get() == rule.get()));
            let new: Vec<Value> = new.map(|rule| value(rule)).collect();
            let mut own = changed(&config, &stored, |_| false);
            own.insert("ingress".into(), new.into());
            let mut outer = changed(&body, &raw::Object::new(), |_| true);
            outer.insert("config".into(), own.into());
            Some(outer.into())
        }
        Call::ReplaceApp => {
            Some(changed(&body, &stored, |key| matches!(key, "type" | "domain" | "policies")).into())
        }
        _ => Some(whole),
    }
}

fn changed(object: &raw::Object, stored: &raw::Object, needed: impl Fn(&str) -> bool) -> Map<String, Value> {
    let same =
        |key: &str, value: &RawValue| stored.get(key).is_some_and(|stored| stored.get() == value.get());
    let own = object.iter().filter(|(key, text)| needed(key) || !same(key, text));
    own.map(|(key, text)| (key.clone(), value(text))).collect()
}

fn value(text: &RawValue) -> Value {
    serde_json::from_str(text.get()).expect("a raw value is JSON")
}

fn check(shape: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
    match shape {
        Value::String(kind) => match kind.strip_prefix('@') {
            Some(name) => check(&SHAPES["shapes"][name], value, at, faults),
            None if fits(kind, value) => {}
            None => faults.push(format!("{at}: {value} is not {kind}")),
        },
        Value::Array(item) => match value.as_array() {
            Some(values) => values.iter().for_each(|value| check(&item[0], value, at, faults)),
            None => faults.push(format!("{at}: {value} is not a list")),
        },
        Value::Object(keys) => match keys.get("either").and_then(Value::as_array) {
            Some(shapes) => check_either(shapes, value, at, faults),
            None => check_object(keys, value, at, faults),
        },
        _ => panic!("shapes.json: {shape} is no shape"),
    }
}

fn check_either(shapes: &[Value], value: &Value, at: &str, faults: &mut Vec<String>) {
    let is_one = |shape: &Value| {
        let mut faults = Vec::new();
        check(shape, value, at, &mut faults);
        faults.is_empty()
    };
    if !shapes.iter().any(is_one) {
        faults.push(format!("{at}: {value} is none of {shapes:?}"));
    }
}

fn check_object(keys: &Map<String, Value>, value: &Value, at: &str, faults: &mut Vec<String>) {
    let Some(object) = value.as_object() else {
        return faults.push(format!("{at}: {value} is not an object"));
    };
    for (key, shape) in keys {
        let (name, optional) = key.strip_suffix('?').map_or((key.as_str(), false), |name| (name, true));
        match object.get(name) {
            Some(value) => check(shape, value, &format!("{at}.{name}"), faults),
            None if optional => {}
            None => faults.push(format!("{at}: {name} is missing")),
        }
    }
    let known = |name: &str| keys.keys().any(|key| key.strip_suffix('?').unwrap_or(key) == name);
    let unknown = object.keys().filter(|name| !known(name));
    faults.extend(unknown.map(|name| format!("{at}: there is no {name}")));
}

fn fits(kind: &str, value: &Value) -> bool {
    let (word, limits) = kind.split_once(' ').unwrap_or((kind, ".."));
    let within = |number: u64| {
        let (least, most) = limits.split_once("..").expect("limits have two dots");
        let limit = |text: &str, open| {
            if text.is_empty() { open } else { text.parse().expect("a limit is a number") }
        };
        (limit(least, 0)..=limit(most, u64::MAX)).contains(&number)
    };
    let text = value.as_str();
    let hex = |length: usize, text: &str| {
        text.len() == length && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
    };
    match word {
        "text" => text.is_some_and(|text| within(text.chars().count() as u64)),
        "number" => value.as_u64().is_some_and(within),
        "flag" => value.is_boolean(),
        "hex32" => text.is_some_and(|text| hex(32, text)),
        "uuid" => text.is_some_and(|text| hex(36, text)),
        "is" => limits.split('|').any(|word| value == word),
        _ => panic!("shapes.json: {kind} is no kind"),
    }
}
