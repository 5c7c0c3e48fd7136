//! A configuration as an API gives it back that does not keep what it was given, but what it understood.

use serde_json::{Map, Value, json};

/// Everything that is not said is, every rule has options and a number, hostnames are in lower case, keys in an order
/// of their own.
pub(super) fn normalised(config: &Value) -> String {
    let mut config = config.clone();
    let rules = config["ingress"].as_array().into_iter().flatten();
    let rules: Vec<Value> = rules.enumerate().map(|(number, rule)| normal_rule(number, rule)).collect();
    config["ingress"] = rules.into();
    for (key, default) in [("originRequest", json!({})), ("warp-routing", json!({"enabled": false}))] {
        if config[key].is_null() {
            config[key] = default;
        }
    }
    sorted(&config).to_string()
}

fn normal_rule(number: usize, rule: &Value) -> Value {
    let mut rule = rule.clone();
    let host = rule["hostname"].as_str().unwrap_or_default().to_ascii_lowercase();
    rule["hostname"] = host.into();
    rule["id"] = (number + 1).to_string().into();
    let mut options = json!({"noTLSVerify": false, "proxyType": "", "http2Origin": false, "access": null});
    for (key, value) in rule["originRequest"].as_object().into_iter().flatten() {
        options[key] = value.clone();
    }
    rule["originRequest"] = options;
    rule
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut keys: Vec<&String> = fields.keys().collect();
            keys.sort();
            keys.into_iter().map(|key| (key.clone(), sorted(&fields[key]))).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}
