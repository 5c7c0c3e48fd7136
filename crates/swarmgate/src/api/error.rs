//! How the API says no: with a status, a stable code, a sentence, and the part of the request that is meant.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use swarmgate_core::fleet::CommandError;
use utoipa::ToSchema;

/// One line for each code: what programs read, its status, and what it means.
macro_rules! codes {
    ($($code:ident $word:tt $status:ident $about:tt)*) => {
        /// Stable, for programs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        pub enum Code {
            $(#[doc = $about] #[serde(rename = $word)] $code,)*
        }

        impl Code {
            pub const ALL: &'static [Self] = &[$(Self::$code),*];

            pub const fn word(self) -> &'static str {
                match self { $(Self::$code => $word),* }
            }

            pub const fn status(self) -> StatusCode {
                match self { $(Self::$code => StatusCode::$status),* }
            }

            /// A sentence for the documentation.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$code => $about),* }
            }
        }
    };
}

codes! {
    BadRequest "bad_request" BAD_REQUEST "The path, the query or the body is not what the endpoint takes."
    NoToken "no_token" UNAUTHORIZED "No token came with the request."
    BadToken "bad_token" UNAUTHORIZED "The gate does not know the token."
    ApiClosed "api_closed" FORBIDDEN "The gate has no tokens, so nobody may use its API over TCP."
    NotLabelled "not_labelled" FORBIDDEN "The service has no labels for the gate, and `[update] services` does not say that this does not matter."
    ImageNotAllowed "image_not_allowed" FORBIDDEN "The image is not among `[update] images`."
    NotAllowed "not_allowed" FORBIDDEN "The token is for reading only, and this needs one that may operate."
    NoSuchPage "no_such_page" NOT_FOUND "There is no such path."
    NoSuchService "no_such_service" NOT_FOUND "There is no such service."
    NoSuchRoute "no_such_route" NOT_FOUND "There is no route of the API for this hostname."
    NoOutput "no_output" NOT_FOUND "The server has no output that can be read."
    MethodNotAllowed "method_not_allowed" METHOD_NOT_ALLOWED "The path takes another method; the header `Allow` says which."
    AmbiguousName "ambiguous_name" CONFLICT "Several services have this name; `SOURCE/NAME` says which is meant."
    NotScalable "not_scalable" CONFLICT "The gate cannot start or stop this service."
    PinnedAsleep "pinned_asleep" CONFLICT "The service is pinned asleep."
    PinnedAwake "pinned_awake" CONFLICT "The service is pinned awake."
    NotNow "not_now" CONFLICT "The service is in a state in which that cannot be done."
    Occupied "occupied" CONFLICT "Players are in the service."
    UnknownPlayers "unknown_players" CONFLICT "The game has not said how many players it has."
    NotLocal "not_local" CONFLICT "The service is not run by the gate on its own machine."
    NoConsole "no_console" CONFLICT "The server takes no line on its console now."
    NotASwarmService "not_a_swarm_service" CONFLICT "The service has no image that the gate could change."
    NoSwarm "no_swarm" CONFLICT "The gate knows no Swarm."
    OutOfSequence "out_of_sequence" CONFLICT "Somebody else changes the service again and again."
    UpdatePaused "update_paused" CONFLICT "Swarm has paused the update: tasks of the new image failed."
    UpdateRolledBack "update_rolled_back" CONFLICT "Swarm has gone back to what the service was before: tasks of the new image failed."
    RollbackPaused "rollback_paused" CONFLICT "Swarm has tried to go back to what the service was before, and failed."
    UpdateSuperseded "update_superseded" CONFLICT "Somebody else has updated the service since."
    RouteTaken "route_taken" CONFLICT "Labels or the configuration file lead the hostname elsewhere, and go before routes of the API."
    NotAnApiRoute "not_an_api_route" CONFLICT "The route comes from labels or the configuration file; it is removed there."
    TooManyRoutes "too_many_routes" CONFLICT "There are as many routes of the API as there may be."
    TooLarge "too_large" PAYLOAD_TOO_LARGE "The body is larger than 64 KiB."
    WrongHost "wrong_host" MISDIRECTED_REQUEST "The header `Host` has another name than those that `[api] hosts` allows."
    TooManyRequests "too_many_requests" TOO_MANY_REQUESTS "More requests than `[api] rate` allows."
    TooManyFailures "too_many_failures" TOO_MANY_REQUESTS "More wrong tokens than `[api] failure_rate` allows."
    Internal "internal" INTERNAL_SERVER_ERROR "A fault of the gate; its log says more."
    EngineRefused "engine_refused" BAD_GATEWAY "The Docker engine has refused a call; the sentence says what it said."
    SourceDoesNotAnswer "source_does_not_answer" SERVICE_UNAVAILABLE "The orchestrator does not answer, so nothing is started or stopped."
    Stopping "stopping" SERVICE_UNAVAILABLE "The gate stops before it is known how it ends."
    TooManyStreams "too_many_streams" SERVICE_UNAVAILABLE "As many long answers are under way as there may be."
    NotConverged "not_converged" GATEWAY_TIMEOUT "The update is made, and was not done within the time that was to be waited."
    NotKept "not_kept" INSUFFICIENT_STORAGE "The data directory cannot be written, so nothing was changed."
}

/// The answer to a request that is not granted.
#[derive(Debug)]
pub struct Refused {
    code: Code,
    message: String,
    field: Option<String>,
    retry_after: Option<Duration>,
}

/// As it is sent.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Error {
    pub error: Reason,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Reason {
    /// The status of the answer.
    pub status: u16,
    pub code: Code,
    /// One sentence for people.
    pub message: String,
    /// The parameter or the field of the body that is meant, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub field: Option<String>,
}

impl Refused {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), field: None, retry_after: None }
    }

    pub const fn code(&self) -> Code {
        self.code
    }

    pub fn field(self, field: impl Into<String>) -> Self {
        Self { field: Some(field.into()), ..self }
    }

    pub fn retry_after(self, time: Duration) -> Self {
        Self { retry_after: Some(time), ..self }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self { code, message, field, retry_after } = self;
        let status = code.status();
        let mut headers = HeaderMap::new();
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(time) = retry_after {
            // Rounded up: a second too early would be refused again.
            let seconds = time.as_secs().saturating_add(1);
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        let reason = Reason { status: status.as_u16(), code, message, field };
        (status, headers, Json(Error { error: reason })).into_response()
    }
}

impl From<CommandError> for Refused {
    fn from(error: CommandError) -> Self {
        let code = match &error {
            CommandError::NoSuchService { .. } => Code::NoSuchService,
            CommandError::Ambiguous(..) => Code::AmbiguousName,
            CommandError::NotScalable(_) => Code::NotScalable,
            CommandError::PinnedAsleep(_) => Code::PinnedAsleep,
            CommandError::PinnedAwake(_) => Code::PinnedAwake,
            CommandError::NotNow(..) => Code::NotNow,
            CommandError::Occupied { .. } => Code::Occupied,
            CommandError::UnknownPlayers(_) => Code::UnknownPlayers,
            CommandError::Stale(_) => Code::SourceDoesNotAnswer,
        };
        Self::new(code, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_code_is_one_word_of_its_own_and_an_error() {
        let words: BTreeSet<&str> = Code::ALL.iter().map(|code| code.word()).collect();
        assert_eq!(words.len(), Code::ALL.len());
        for code in Code::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.word());
            assert!(code.status().is_client_error() || code.status().is_server_error(), "{code:?}");
            assert!(code.about().ends_with('.'), "{code:?}");
        }
    }

    #[test]
    fn who_has_to_wait_is_told_how_long_at_least() {
        let refused = Refused::new(Code::TooManyRequests, "too many").retry_after(Duration::from_millis(400));
        assert_eq!(refused.into_response().headers()[header::RETRY_AFTER], "1");
    }
}
