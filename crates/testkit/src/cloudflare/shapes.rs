//! Whether a request has the shape that the API documents (`shapes.json`).
//!
//! What a client read and gives back as it was is the API's own, and is not held against it.

use std::collections::HashMap;
use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::call::{Call, PathParams};
use super::raw;
use crate::http::Request;

static SHAPES: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("shapes.json")).expect("shapes.json is JSON"));

static VALIDATORS: LazyLock<HashMap<Call, Validator>> = LazyLock::new(|| {
    let of_call = |template: &str| {
        let shape = &SHAPES["calls"][template];
        assert!(shape.is_object(), "shapes.json has no {template}");
        let parts: Vec<_> = shape.as_object().into_iter().flat_map(Map::keys).collect();
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "definitions": SHAPES["definitions"],
            "type": "object", "additionalProperties": false, "properties": shape, "required": parts})
    };
    let compiled = Call::all().map(|(call, template)| {
        (call, jsonschema::validator_for(&of_call(template)).expect("shapes.json has schemas"))
    });
    compiled.collect()
});

/// What is wrong with the request. `stored` is the text of the object that it would replace.
pub(super) fn faults(
    call: Call,
    params: &PathParams,
    request: &Request,
    stored: Option<&str>,
) -> Vec<String> {
    let mut faults = content_type(request);
    let path: Map<_, _> =
        params.iter().map(|(key, value)| ((*key).to_owned(), value.as_str().into())).collect();
    let mut instance = json!({"path": path, "query": query(call, request, &mut faults)});
    if !request.body.is_empty() {
        match own_part(call, &request.body, stored.unwrap_or("null")) {
            Some(body) => instance["body"] = body,
            None => faults.push("its body is not a JSON object".into()),
        }
    }
    let found = VALIDATORS[&call].iter_errors(&instance);
    faults.extend(found.map(|error| format!("{}: {error}", error.instance_path())));
    faults
}

fn content_type(request: &Request) -> Vec<String> {
    let is_json =
        request.header("content-type").map(|kind| kind.split(';').next() == Some("application/json"));
    match is_json {
        Some(true) => Vec::new(),
        None if request.body.is_empty() => Vec::new(),
        Some(false) | None => vec![format!("its content type is {:?}", request.header("content-type"))],
    }
}

/// Everything in a query is text; the shapes speak of numbers and booleans.
fn query(call: Call, request: &Request, faults: &mut Vec<String>) -> Value {
    let template = Call::all().find_map(|(known, template)| (known == call).then_some(template));
    let shape = &SHAPES["calls"][template.expect("every call has a template")]["query"]["properties"];
    let mut query = Map::new();
    for (key, text) in &request.query {
        let value = match shape[key]["type"].as_str() {
            Some("integer" | "boolean") => {
                serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into())
            }
            _ => text.as_str().into(),
        };
        if query.insert(key.clone(), value).is_some() {
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
            let (config, stored) = (raw::object(body.get("config")?.get()), stored);
            let known = stored.get("ingress").map(|rules| raw::list(rules.get())).unwrap_or_default();
            let rules = config.get("ingress").map(|rules| raw::list(rules.get())).unwrap_or_default();
            let new: Vec<Value> = rules
                .iter()
                .filter(|rule| !known.iter().any(|known| known.get() == rule.get()))
                .map(|rule| serde_json::from_str(rule.get()).expect("a raw value is JSON"))
                .collect();
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
    object
        .iter()
        .filter(|(key, value)| needed(key) || !same(key, value))
        .map(|(key, value)| (key.clone(), serde_json::from_str(value.get()).expect("a raw value is JSON")))
        .collect()
}
