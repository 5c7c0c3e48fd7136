//! The document that describes the API, made from the endpoints themselves.

use std::sync::Arc;

use axum::extract::Extension;
use axum::http::header;
use axum::response::IntoResponse;
use swarmgate_core::config::Scope;
use utoipa::ToSchema;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Content, InfoBuilder, OpenApi, OpenApiBuilder, Ref, RefOr, Response, ResponseBuilder, Schema,
};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::error::{Code, Error, Reason};

const TOKEN: &str = "token";

/// As it is served.
#[derive(Debug, Clone)]
pub struct Document(pub Arc<str>);

pub fn read() -> OpenApiRouter<Api> {
    OpenApiRouter::default().routes(routes!(document))
}

/// This document.
#[utoipa::path(get, path = "/v1/openapi.json", tag = "gate", responses((status = 200, body = Object)))]
async fn document(Extension(Document(text)): Extension<Document>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], text.to_string())
}

/// What all endpoints have in common, before any is added.
pub fn frame() -> OpenApi {
    let mut frame = OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("Swarmgate")
                .version(env!("CARGO_PKG_VERSION"))
                .description(Some("What a Swarmgate gate is asked and told over HTTP.")),
        )
        .build();
    let components = frame.components.get_or_insert_default();
    components.add_security_scheme(TOKEN, SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    for (name, schema) in [schema::<Error>(), schema::<Reason>(), schema::<Code>()] {
        components.schemas.insert(name, schema);
    }
    frame
}

fn schema<T: ToSchema>() -> (String, RefOr<Schema>) {
    (T::name().into_owned(), T::schema())
}

/// Says of each endpoint how it refuses, and which scope it needs: any of `access`, where `None` is no token at all.
pub fn complete(endpoints: &mut OpenApi, access: &[Option<Scope>]) {
    let requirement = |scope: &Option<Scope>| match scope {
        Some(scope) => SecurityRequirement::new(TOKEN, [scope.word()]),
        None => SecurityRequirement::default(),
    };
    for operation in endpoints.paths.paths.values_mut().flat_map(operations) {
        operation.responses.responses.insert("default".to_owned(), refusal().into());
        operation.security = (!access.is_empty()).then(|| access.iter().map(requirement).collect());
    }
}

fn refusal() -> Response {
    let error = Content::new(Some(Ref::from_schema_name(Error::name())));
    ResponseBuilder::new().description("It is refused.").content("application/json", error).build()
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem { get, put, post, delete, options, head, patch, trace, .. } = item;
    [get, put, post, delete, options, head, patch, trace].into_iter().filter_map(Option::as_mut)
}
