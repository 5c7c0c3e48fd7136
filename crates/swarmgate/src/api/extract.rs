//! What a request carries, or a refusal that names the part that is wrong.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use serde::de::value::MapDeserializer;

use super::error::{Code, Refused};

/// The named parts of the path, as texts or words.
#[derive(Debug)]
pub struct Path<T>(pub T);

/// Of the query. Of a name that is there twice the last counts.
#[derive(Debug)]
pub struct Query<T>(pub T);

/// The body as text, whatever its type is said to be: `curl -d` says that it is a form.
#[derive(Debug)]
pub struct Text(pub String);

/// The body as JSON, whatever its type is said to be: mc-router does not ask either.
#[derive(Debug)]
pub struct Json<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let named = RawPathParams::from_request_parts(parts, state).await.map_err(|error| {
            let why = error.body_text();
            let part = why.split('`').nth(1).map(str::to_owned);
            let refused = Refused::new(Code::BadRequest, format!("the path: {why}"));
            part.into_iter().fold(refused, Refused::field)
        })?;
        let path = MapDeserializer::<_, serde::de::value::Error>::new(named.iter());
        serde_path_to_error::deserialize(path).map(Self).map_err(|error| of_part("path", &error))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        let pairs = url::form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes());
        let query = serde_urlencoded::Deserializer::new(pairs);
        serde_path_to_error::deserialize(query).map(Self).map_err(|error| of_part("query", &error))
    }
}

impl<S: Send + Sync> FromRequest<S> for Text {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refused> {
        let text = String::from_request(request, state).await;
        text.map(Self).map_err(|error| of_body(error.status(), &error.body_text()))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refused> {
        let bytes = Bytes::from_request(request, state).await;
        let bytes = bytes.map_err(|error| of_body(error.status(), &error.body_text()))?;
        let mut json = serde_json::Deserializer::from_slice(&bytes);
        serde_path_to_error::deserialize(&mut json).map(Self).map_err(|error| of_part("body", &error))
    }
}

fn of_part<E: std::error::Error>(part: &str, error: &serde_path_to_error::Error<E>) -> Refused {
    let why = error.inner().to_string();
    let refused = Refused::new(Code::BadRequest, format!("the {part}: {why}"));
    // A field that is missing, or one too many, has no place: its name is in the sentence alone.
    let named = ["missing field `", "unknown field `"].into_iter().find_map(|begin| why.strip_prefix(begin));
    let named = named.and_then(|rest| rest.split('`').next());
    let place = Some(error.path().to_string()).filter(|place| !matches!(place.as_str(), "." | "?"));
    named.map(str::to_owned).or(place).into_iter().fold(refused, Refused::field)
}

fn of_body(status: StatusCode, why: &str) -> Refused {
    let code = if status == StatusCode::PAYLOAD_TOO_LARGE { Code::TooLarge } else { Code::BadRequest };
    Refused::new(code, format!("the body: {why}"))
}
