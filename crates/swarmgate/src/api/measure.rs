//! Counts the answers, by the route that gave them.

use axum::extract::{MatchedPath, Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use tokio::time::Instant;

use crate::metrics::Metrics;

/// Whoever reads the metrics is not counted among those who ask.
const METRICS: &str = "/metrics";

pub async fn measure(State(metrics): State<Metrics>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map(MatchedPath::as_str);
    let (began, method) = (Instant::now(), request.method().clone());
    let answering = metrics.answering();
    let response = next.run(request).await;
    drop(answering);
    let status = response.status();
    match status {
        StatusCode::UNAUTHORIZED => metrics.unauthorized(),
        StatusCode::TOO_MANY_REQUESTS => metrics.rate_limited(),
        _ => {}
    }
    if route != Some(METRICS) {
        metrics.answered(method.as_str(), route, status.as_u16(), began.elapsed());
    }
    response
}
