//! Answers are what the document says that they are.

use serde_json::Value;

use crate::{OPERATE, READ, Site, play};

/// What is wrong with `value` by `schema`: as much of JSON Schema as the document uses, and a complaint about any more.
fn faults(document: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (word, rule) in schema.as_object().into_iter().flatten() {
        match word.as_str() {
            "$ref" => {
                let place = rule.as_str().unwrap().trim_start_matches('#');
                let target = document.pointer(place).unwrap_or_else(|| panic!("{place} is nowhere"));
                found.extend(faults(document, target, value, at));
            }
            "type" => {
                let types = rule.as_array().cloned().unwrap_or_else(|| vec![rule.clone()]);
                if !types.iter().any(|kind| is(value, kind.as_str().unwrap())) {
                    found.push(format!("{at}: {value} is no {rule}"));
                }
            }
            "enum" if !rule.as_array().unwrap().contains(value) => {
                found.push(format!("{at}: {value} is none of {rule}"))
            }
            "const" if rule != value => found.push(format!("{at}: {value} is not {rule}")),
            "minimum" if value.is_number() && value.as_f64() < rule.as_f64() => {
                found.push(format!("{at}: {value} < {rule}"))
            }
            "required" => {
                let missing = rule
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter(|name| value.get(name.as_str().unwrap()).is_none());
                found.extend(missing.map(|name| format!("{at}: no {name}")));
            }
            "properties" => {
                for (name, schema) in rule.as_object().unwrap() {
                    let inner =
                        value.get(name).map(|value| faults(document, schema, value, &format!("{at}.{name}")));
                    found.extend(inner.unwrap_or_default());
                }
                let unknown =
                    value.as_object().into_iter().flatten().filter(|(name, _)| rule.get(name).is_none());
                found.extend(unknown.map(|(name, _)| format!("{at}: {name} is not documented")));
            }
            "items" => {
                let items = value.as_array().into_iter().flatten();
                found.extend(items.flat_map(|item| faults(document, rule, item, &format!("{at}[]"))));
            }
            "oneOf" | "anyOf" => {
                let of = rule.as_array().unwrap().iter().map(|schema| faults(document, schema, value, at));
                found.extend(of.min_by_key(Vec::len).unwrap());
            }
            "enum" | "const" | "minimum" | "description" | "format" => {}
            other => panic!("{at}: what does {other} mean?"),
        }
    }
    found
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("there is no type {other}"),
    }
}

#[tokio::test]
async fn what_is_answered_is_what_is_documented() {
    let site = Site::start().await;
    let document = site.get("/v1/openapi.json", READ).await;
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let _player = play(site.gate.address, "mc.example.com", "Ann").await;
    let mut compared = 0;
    for (method, path, asked) in [
        ("get", "/v1/services", "/v1/services"),
        ("get", "/v1/services/{name}", "/v1/services/survival"),
        ("get", "/v1/services/{name}", "/v1/services/nobody"),
        ("post", "/v1/services/{name}/wake", "/v1/services/survival/wake"),
        ("post", "/v1/services/{name}/pin/{pin}", "/v1/services/survival/pin/awake"),
        ("post", "/v1/services/{name}/sleep", "/v1/services/survival/sleep"),
        ("post", "/v1/services/{name}/sleep", "/v1/services/survival/sleep?force=x"),
        ("get", "/v1/sessions", "/v1/sessions"),
        ("get", "/v1/routes", "/v1/routes"),
        ("get", "/v1/explain", "/v1/explain?host=mc.example.com"),
        ("get", "/v1/explain", "/v1/explain?host=nowhere"),
        ("get", "/v1/publication", "/v1/publication"),
        ("get", "/v1/plan", "/v1/plan"),
    ] {
        let answer = site.ask(method.to_uppercase().as_str(), asked).token(OPERATE).send().await;
        let responses = &document["paths"][path][method]["responses"];
        let response = responses.get(answer.status.to_string()).unwrap_or(&responses["default"]);
        let schema = &response["content"]["application/json"]["schema"];
        assert!(schema.is_object(), "{method} {path} has no schema for {}", answer.status);
        let value = answer.json();
        assert_eq!(faults(&document, schema, &value, asked), Vec::<String>::new());
        assert_ne!(
            faults(&document, schema, &7.into(), asked),
            Vec::<String>::new(),
            "anything is fine there"
        );
        compared += 1;
    }
    assert_eq!(compared, 13);
}
