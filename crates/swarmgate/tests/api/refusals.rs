//! Every refusal is JSON, with a status, a stable code, a sentence, and the part that is meant.

use serde_json::json;

use crate::{OPERATE, READ, Site};

#[tokio::test]
async fn whatever_is_wrong_is_said_in_json() {
    let site = Site::start().await;
    for (method, path, status, code, field) in [
        ("GET", "/", 404, "no_such_page", None),
        ("GET", "/v1", 404, "no_such_page", None),
        ("GET", "/v1/services/", 404, "no_such_page", None),
        ("DELETE", "/v1/services", 405, "method_not_allowed", None),
        ("GET", "/v1/services/survival/wake", 405, "method_not_allowed", None),
        ("POST", "/healthz", 405, "method_not_allowed", None),
        ("GET", "/v1/services/nobody", 404, "no_such_service", None),
        ("POST", "/v1/services/nobody/pin/awake", 404, "no_such_service", None),
        ("GET", "/v1/services/%ff", 400, "bad_request", Some("name")),
        ("POST", "/v1/services/survival/pin/upright", 400, "bad_request", Some("pin")),
        ("POST", "/v1/services/survival/sleep?force=perhaps", 400, "bad_request", Some("force")),
        ("POST", "/v1/services/survival/sleep?forse=true", 400, "bad_request", Some("forse")),
        ("GET", "/v1/services/survival/output?lines=many", 400, "bad_request", Some("lines")),
        ("GET", "/v1/services/survival/output?lines=-1", 400, "bad_request", Some("lines")),
        ("GET", "/v1/explain", 400, "bad_request", Some("host")),
        ("GET", "/v1/explain?host=a&uuid=7", 400, "bad_request", Some("uuid")),
        ("GET", "/v1/explain?host=a&source=here", 400, "bad_request", Some("source")),
        ("GET", "/v1/sessions?kind=sleeping", 400, "bad_request", Some("kind")),
        ("GET", "/v1/sessions?service=nobody", 404, "no_such_service", None),
        ("POST", "/v1/services/hub/wake", 409, "not_scalable", None),
        ("GET", "/v1/services/hub/output", 409, "not_local", None),
        ("POST", "/v1/services/survival/console", 409, "no_console", None),
    ] {
        let answer = site.ask(method, path).token(OPERATE).send().await;
        assert_eq!((answer.status, &*answer.code()), (status, code), "{method} {path}: {}", answer.body);
        let named = &answer.json()["error"]["field"];
        assert_eq!(
            named,
            &field.map_or(json!(null), |field| json!(field)),
            "{method} {path}: {}",
            answer.body
        );
        assert_eq!(answer.header("allow").is_some(), status == 405, "{method} {path}: {answer:?}");
    }
    for (kind, body, status, code, field) in [
        // mc-router's clients need not say what it is.
        ("text/plain", "{}", 400, "bad_request", Some("serverAddress")),
        ("application/json", "{", 400, "bad_request", None),
        ("application/json", "[]", 400, "bad_request", None),
        ("application/json", "{\"backend\": \"a:1\"}", 400, "bad_request", Some("serverAddress")),
        (
            "application/json",
            "{\"serverAddress\": 7, \"backend\": \"a:1\"}",
            400,
            "bad_request",
            Some("serverAddress"),
        ),
        (
            "Application/JSON; charset=utf-8",
            "{\"serverAddress\": \"a b\", \"backend\": \"a:1\"}",
            400,
            "bad_request",
            Some("serverAddress"),
        ),
    ] {
        let ask = site.ask("POST", "/routes").token(OPERATE).header("content-type", kind).body(body);
        let answer = ask.send().await;
        assert_eq!((answer.status, &*answer.code()), (status, code), "{kind} {body}: {}", answer.body);
        let named = &answer.json()["error"]["field"];
        assert_eq!(named, &field.map_or(json!(null), |field| json!(field)), "{body}: {}", answer.body);
    }
    let not_text =
        site.ask("POST", "/v1/services/survival/console").token(OPERATE).body(b"\xff\xfe".to_vec());
    assert_eq!(not_text.send().await.code(), "bad_request");
}

#[tokio::test]
async fn a_page_may_be_asked_for_its_head_alone() {
    let site = Site::start().await;
    let head = site.ask("HEAD", "/v1/services").token(READ).send().await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
}
