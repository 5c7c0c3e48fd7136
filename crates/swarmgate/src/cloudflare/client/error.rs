//! What the API says instead of an answer, what that means for the next try, and how it is fixed.

use std::time::Duration;

use serde::Deserialize;
use swarmgate_core::span;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    #[error("{call}: {message} (status {status}, code {}){}", shown(*code), fix.as_ref().map(|fix| format!("; {fix}")).unwrap_or_default())]
    Refused { call: String, status: u16, code: Option<u32>, message: String, fix: Option<String> },
    /// Too many requests, by its count or by ours.
    #[error("{call}: too many requests; the next in {}", span::human(*after))]
    Limited { call: String, after: Duration },
    /// No connection, no answer in time, or none that can be understood. A write may have been made.
    #[error("{call}: {why}")]
    NoAnswer { call: String, why: String },
}

/// What to do after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// It will be refused until somebody changes something.
    Permanent,
    /// Something else is there already: look again, then decide.
    Conflict,
    /// Try again later.
    Transient,
}

/// One of the errors in an answer.
#[derive(Debug, Deserialize)]
pub(super) struct Problem {
    #[serde(default)]
    code: Option<u32>,
    #[serde(default)]
    message: String,
    #[serde(default)]
    error_chain: Vec<Problem>,
}

impl ApiError {
    /// `right` is what the call needs of a token.
    pub(super) fn refused(call: String, right: &str, status: u16, problems: &[Problem]) -> Self {
        let (code, message) =
            problems.first().map_or((None, String::new()), |first| (first.code, first.message()));
        let message = if message.is_empty() { "refused without a reason".into() } else { message };
        Self::Refused { call, status, code, message, fix: fix(status, code, right) }
    }

    pub const fn class(&self) -> Class {
        match self {
            Self::Refused { code: Some(81053 | 81054 | 81057 | 81058 | 11010 | 1013), .. }
            | Self::Refused { status: 409, .. } => Class::Conflict,
            Self::Refused { status: 408 | 429 | 500.., .. }
            | Self::Limited { .. }
            | Self::NoAnswer { .. } => Class::Transient,
            Self::Refused { .. } => Class::Permanent,
        }
    }

    /// The number that the API gives to this kind of error.
    pub const fn code(&self) -> Option<u32> {
        match self {
            Self::Refused { code, .. } => *code,
            Self::Limited { .. } | Self::NoAnswer { .. } => None,
        }
    }

    /// Whether what was called for is not there (any more).
    pub const fn is_not_there(&self) -> bool {
        matches!(self, Self::Refused { status: 404, code, .. } if !matches!(code, Some(7000 | 7003)))
    }

    /// Whether the credentials or their rights are at fault, so that no other call is likely to fare better.
    pub const fn is_unauthorized(&self) -> bool {
        matches!(
            self,
            Self::Refused { status: 401 | 403, .. } | Self::Refused { code: Some(6003 | 9106), .. }
        )
    }

    /// Whether the credentials cannot be those of anybody.
    pub const fn is_malformed(&self) -> bool {
        matches!(self, Self::Refused { code: Some(6003 | 9106), .. })
    }

    /// How long not to try again.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Limited { after, .. } => Some(*after),
            Self::Refused { .. } | Self::NoAnswer { .. } => None,
        }
    }

    /// For metric labels.
    pub const fn kind(&self) -> &'static str {
        match (self, self.class()) {
            (Self::Limited { .. }, _) => "limited",
            (Self::NoAnswer { .. }, _) => "no_answer",
            (Self::Refused { .. }, Class::Conflict) => "conflict",
            (Self::Refused { .. }, Class::Transient) => "unavailable",
            (Self::Refused { .. }, Class::Permanent) => "refused",
        }
    }
}

impl Problem {
    /// With the reasons behind it, printable and of a bounded length.
    fn message(&self) -> String {
        const ENOUGH: usize = 300;
        let inner = self.error_chain.iter().map(Self::message);
        let parts: Vec<String> = std::iter::once(self.message.clone()).chain(inner).collect();
        let text = parts.join(": ");
        text.split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .chars()
            .filter(|c| !c.is_control())
            .take(ENOUGH)
            .collect()
    }
}

fn fix(status: u16, code: Option<u32>, right: &str) -> Option<String> {
    let fix = match (status, code) {
        (_, Some(6003)) => {
            "the token or key is malformed: copy it again, and write a global API key as key with \
                            its email, not as token"
                .into()
        }
        (_, Some(7000 | 7003)) => "an id is wrong: compare account and tunnel with the dashboard".into(),
        (_, Some(9106)) | (401, _) => {
            "the token or key is not valid any more, or was copied incompletely".into()
        }
        (403, _) => format!("the token needs the permission {right}, for this account and this zone"),
        (408 | 429 | 500.., _) => return None,
        (_, Some(81053 | 81054 | 81057)) => {
            "another record has this name: remove it, or let the gate adopt it".into()
        }
        (_, Some(_) | None) => return None,
    };
    Some(fix)
}

fn shown(code: Option<u32>) -> String {
    code.map_or_else(|| "none".into(), |code| code.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, errors: &str) -> ApiError {
        let problems: Vec<Problem> = serde_json::from_str(errors).unwrap();
        ApiError::refused("GET /zones".into(), "Zone · Zone · Read", status, &problems)
    }

    #[test]
    fn refusals_are_classed_and_say_what_to_do() {
        use Class::{Conflict, Permanent, Transient};
        for (status, errors, class, part) in [
            (
                403,
                r#"[{"code":10000,"message":"Authentication error"}]"#,
                Permanent,
                "permission Zone · Zone · Read",
            ),
            (403, r#"[{"code":9109,"message":"Unauthorized"}]"#, Permanent, "permission Zone · Zone · Read"),
            (401, r#"[{"code":1000,"message":"Invalid API Token"}]"#, Permanent, "not valid any more"),
            (
                400,
                r#"[{"code":6003,"message":"Invalid request headers","error_chain":[{"code":6111,"message":"Invalid format"}]}]"#,
                Permanent,
                "Invalid request headers: Invalid format (status 400, code 6003); the token or key is malformed",
            ),
            (404, r#"[{"code":7003,"message":"Could not route"}]"#, Permanent, "an id is wrong"),
            (400, r#"[{"code":81053,"message":"exists"}]"#, Conflict, "let the gate adopt it"),
            (400, r#"[{"code":81054,"message":"exists"}]"#, Conflict, "another record"),
            (400, r#"[{"code":81057,"message":"exists"}]"#, Conflict, "another record"),
            (
                400,
                r#"[{"code":81058,"message":"identical"}]"#,
                Conflict,
                "identical (status 400, code 81058)",
            ),
            (409, "[]", Conflict, "refused without a reason (status 409, code none)"),
            (400, r#"[{"code":1056,"message":"Bad\n Configuration"}]"#, Permanent, "Bad Configuration"),
            (400, r#"[{"code":9005}]"#, Permanent, "refused without a reason"),
            (500, "[]", Transient, "status 500"),
            (503, r#"[{"code":10000,"message":"x"}]"#, Transient, "x (status 503, code 10000)"),
            (408, "[]", Transient, "status 408"),
        ] {
            let error = refused(status, errors);
            assert_eq!(error.class(), class, "{error}");
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn what_is_gone_is_told_from_what_was_never_right() {
        assert!(refused(404, r#"[{"code":81044}]"#).is_not_there());
        assert!(refused(404, r#"[{"code":12045}]"#).is_not_there());
        assert!(!refused(404, r#"[{"code":7003}]"#).is_not_there());
        assert!(!refused(400, r#"[{"code":81044}]"#).is_not_there());
    }
}
