//! Answers in the API's envelope.

use serde_json::{Value, json};

use crate::http::Request;

/// Status and body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reply {
    pub status: u16,
    pub content_type: &'static str,
    pub retry_after: Option<u32>,
    pub body: String,
}

impl Reply {
    pub fn ok(result: &Value) -> Self {
        Self::raw(200, &result.to_string())
    }

    /// With a result that is JSON already.
    pub fn raw(status: u16, result: &str) -> Self {
        Self::json(status, format!(r#"{{"success":true,"errors":[],"messages":[],"result":{result}}}"#))
    }

    /// The page that the request asks for, of `default` items if it does not say.
    pub fn page(items: &[&Value], request: &Request, default: usize) -> Self {
        let number =
            |key, default: usize| request.asks(key).and_then(|text| text.parse().ok()).unwrap_or(default);
        let (page, size) = (number("page", 1).max(1), number("per_page", default).max(1));
        let shown: Vec<_> = items.iter().skip((page - 1) * size).take(size).collect();
        let info = json!({"page": page, "per_page": size, "count": shown.len(), "total_count": items.len(),
            "total_pages": items.len().div_ceil(size)});
        let body =
            json!({"success": true, "errors": [], "messages": [], "result": shown, "result_info": info});
        Self::json(200, body.to_string())
    }

    pub fn error(status: u16, code: u32, message: &str) -> Self {
        Self::errors(status, &json!([{"code": code, "message": message}]))
    }

    /// An error with another behind it.
    pub fn chain(status: u16, outer: (u32, &str), inner: (u32, &str)) -> Self {
        let chain = json!([{"code": inner.0, "message": inner.1}]);
        Self::errors(status, &json!([{"code": outer.0, "message": outer.1, "error_chain": chain}]))
    }

    fn errors(status: u16, errors: &Value) -> Self {
        let body = json!({"success": false, "errors": errors, "messages": [], "result": null});
        Self::json(status, body.to_string())
    }

    fn json(status: u16, body: String) -> Self {
        Self { status, content_type: "application/json", retry_after: None, body }
    }

    /// A page for people, as the edge before the API sends when the API itself is in trouble.
    pub fn html(status: u16) -> Self {
        let body = format!("<html><head><title>{status}</title></head><body>cloudflare</body></html>");
        Self { status, content_type: "text/html; charset=UTF-8", retry_after: None, body }
    }

    pub fn limited(seconds: u32) -> Self {
        let reply = Self::error(429, 10429, "Please wait and consider throttling your request speed");
        Self { retry_after: Some(seconds), ..reply }
    }

    pub fn write(&self) -> Vec<u8> {
        let Self { status, content_type, body, .. } = self;
        let retry_after =
            self.retry_after.map(|seconds| format!("retry-after: {seconds}\r\n")).unwrap_or_default();
        let length = body.len();
        format!(
            "HTTP/1.1 {status} X\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\nconnection: close\r\n\
             ratelimit: \"default\";r=1150;t=120\r\nratelimit-policy: \"default\";q=1200;w=300\r\n{retry_after}\r\n{body}"
        )
        .into_bytes()
    }
}
