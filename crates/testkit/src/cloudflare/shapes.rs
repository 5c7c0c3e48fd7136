//! Whether a request has the shape that the API documents: the official one (`official.schema.json`, of the types of
//! Cloudflare's library for TypeScript 7.3.0), and that of `calls.json`.
//!
//! What a client read and gives back as it was is the API's own, and is not held against it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jsonschema::{Draft, Validator};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::call::{Call, PathParams};
use super::raw;
use crate::http::Request;

static SHAPES: LazyLock<BTreeMap<String, Shape>> = LazyLock::new(shapes);

/// Of one call.
#[derive(Debug)]
struct Shape {
    query: Validator,
    body: Option<Validator>,
}

fn shapes() -> BTreeMap<String, Shape> {
    let read = |text: &str| serde_json::from_str::<Value>(text).expect("it is JSON");
    let (official, calls) = (read(include_str!("official.schema.json")), read(include_str!("calls.json")));
    let definitions =
        [&official, &calls].map(|file| file["definitions"].as_object().expect("definitions").clone());
    let definitions: Map<String, Value> = definitions.into_iter().flatten().collect();
    let validator = |shape: &Value| {
        let mut schema = shape.clone();
        schema["definitions"] = Value::Object(definitions.clone());
        jsonschema::options().with_draft(Draft::Draft7).build(&schema).expect("it is a schema")
    };
    let shape = |call: &Value| {
        let nothing = json!({});
        let mut query = call.get("query").unwrap_or(&nothing).clone();
        query["additionalProperties"] = false.into();
        Shape { query: validator(&query), body: call.get("body").map(validator) }
    };
    let calls = calls["calls"].as_object().expect("calls");
    calls.iter().map(|(template, call)| (template.clone(), shape(call))).collect()
}

/// What is wrong with the request. `stored` is the text of the object that it would replace.
pub(super) fn faults(
    call: Call,
    params: &PathParams,
    request: &Request,
    stored: Option<&str>,
) -> Vec<String> {
    let template = Call::all().find_map(|(known, template)| (known == call).then_some(template));
    let template = template.expect("every call has a template");
    let shape = SHAPES.get(template).unwrap_or_else(|| panic!("calls.json has no {template}"));
    let mut faults = Vec::new();
    match request.header("content-type").map(|kind| kind.split(';').next()) {
        Some(Some("application/json")) => {}
        None if request.body.is_empty() => {}
        kind => faults.push(format!("its content type is {kind:?}")),
    }
    let query = query(request, &mut faults);
    check(&shape.query, "query", &query, &mut faults);
    match (&shape.body, request.body.as_str()) {
        (None, "") => {}
        (None, _) => faults.push("it has a body".into()),
        (Some(shape), body) => match own_part(call, body, stored.unwrap_or("null")) {
            Some(body) => check(shape, "body", &with(body, params), &mut faults),
            None => faults.push("its body is not a JSON object".into()),
        },
    }
    faults
}

/// The library's types have what stands in the path beside the rest.
fn with(mut body: Value, params: &PathParams) -> Value {
    let of_shape = params.iter().filter(|(name, _)| matches!(*name, "account_id" | "zone_id"));
    of_shape.for_each(|(name, value)| body[*name] = value.as_str().into());
    body
}

fn check(shape: &Validator, what: &str, value: &Value, faults: &mut Vec<String>) {
    let found = shape.iter_errors(value);
    faults.extend(found.map(|error| format!("{what}{}: {error}", error.instance_path())));
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
