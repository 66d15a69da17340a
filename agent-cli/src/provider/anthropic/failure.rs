//! One failed attempt: whether another may help, and what to tell the person when none is left. Pure.

use super::Credential;
use super::assemble::StreamProblem;
use super::retry::RetryHints;
use super::wire::ApiProblem;
use crate::provider::ProviderError;

/// Whether the person has seen anything of the attempt's reply. Once they have, trying again would show
/// them a second answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivered {
    /// Nothing.
    Nothing,
    /// At least a piece.
    Something,
}

/// An attempt that gave no reply.
#[derive(Debug)]
pub(super) enum AttemptFailure {
    /// No connection, or it broke before an answer.
    Unreachable { url: String, detail: String },
    /// An HTTP error.
    Status {
        status: u16,
        problem: ApiProblem,
        hints: RetryHints,
    },
    /// The stream failed under HTTP 200.
    Stream {
        problem: StreamProblem,
        request_id: Option<String>,
        delivered: Delivered,
    },
    /// No byte came for the idle timeout. Not tried again: it has cost minutes already.
    Silent {
        seconds: u64,
        request_id: Option<String>,
    },
}

impl AttemptFailure {
    /// What the server says about trying again; `None` when there is no point in it.
    pub(super) fn retry_hints(&self) -> Option<RetryHints> {
        match self {
            Self::Unreachable { .. }
            | Self::Stream {
                problem: StreamProblem::Broken(_),
                delivered: Delivered::Nothing,
                ..
            } => Some(RetryHints::default()),
            Self::Status { status, hints, .. } => {
                let passing = matches!(*status, 408 | 409 | 429 | 500..);
                hints.should_retry.unwrap_or(passing).then_some(*hints)
            }
            Self::Stream {
                problem: StreamProblem::Api(problem),
                delivered: Delivered::Nothing,
                ..
            } => problem.is_passing().then(RetryHints::default),
            Self::Stream {
                delivered: Delivered::Something,
                ..
            }
            | Self::Silent { .. } => None,
        }
    }

    /// Why, in one line, for the notice about a retry.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Unreachable { detail, .. } => format!("no connection ({detail})"),
            Self::Status {
                status, problem, ..
            } => format!("{status} {}", problem.message),
            Self::Stream {
                problem: StreamProblem::Api(problem),
                ..
            } => problem.message.clone(),
            Self::Stream {
                problem: StreamProblem::Broken(detail),
                ..
            } => detail.clone(),
            Self::Silent { seconds, .. } => format!("no answer for {seconds} s"),
        }
    }

    /// The error when no attempt is left; `credential` is the one that was sent.
    pub(super) fn into_error(self, credential: &Credential) -> ProviderError {
        match self {
            Self::Unreachable { url, detail } => ProviderError::Unreachable { url, detail },
            Self::Status {
                status,
                problem,
                hints,
            } => status_error(status, problem, hints, credential),
            Self::Stream {
                problem: StreamProblem::Api(problem),
                request_id,
                ..
            } => {
                let request_id = problem.request_id.or(request_id);
                ProviderError::Unavailable {
                    message: problem.message,
                    request_id,
                }
            }
            Self::Stream {
                problem: StreamProblem::Broken(detail),
                request_id,
                ..
            } => ProviderError::Broken { detail, request_id },
            Self::Silent {
                seconds,
                request_id,
            } => {
                let detail = format!("the API sent nothing for {seconds} s");
                ProviderError::Broken { detail, request_id }
            }
        }
    }
}

fn status_error(
    status: u16,
    problem: ApiProblem,
    hints: RetryHints,
    credential: &Credential,
) -> ProviderError {
    let ApiProblem {
        message,
        request_id,
        ..
    } = problem;
    let remedy = match status {
        401 | 403 => {
            return ProviderError::Auth {
                status,
                message,
                request_id,
                remedy: credential_remedy(credential),
            };
        }
        429 => {
            return ProviderError::RateLimited {
                status,
                message,
                request_id,
                wait: hints.wait,
            };
        }
        408 | 409 | 500.. => {
            let message = format!("{status} {message}");
            return ProviderError::Unavailable {
                message,
                request_id,
            };
        }
        300..=399 => "set ANTHROPIC_BASE_URL to the address that it redirects to",
        402 => "check the billing of the account",
        404 => "check MODEL_ID and ANTHROPIC_BASE_URL",
        413 => "the conversation has grown too large: start a new session",
        _ => {
            "start a new session if the conversation has grown too large; otherwise check MODEL_ID \
             and that the server speaks the Messages API"
        }
    };
    ProviderError::Rejected {
        status,
        message,
        request_id,
        remedy,
    }
}

fn credential_remedy(sent: &Credential) -> &'static str {
    match sent {
        Credential::ApiKey(_) => {
            "check ANTHROPIC_API_KEY, or use --auth bearer with ANTHROPIC_AUTH_TOKEN if the gateway \
             wants that"
        }
        // Without a token, --auth bearer sends the key.
        Credential::Bearer(_) => {
            "check ANTHROPIC_AUTH_TOKEN (ANTHROPIC_API_KEY if only that is set), or use --auth \
             x-api-key with ANTHROPIC_API_KEY if the gateway wants that"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::ErrorClass;

    fn status(status: u16, should_retry: Option<bool>) -> AttemptFailure {
        let problem = ApiProblem {
            kind: String::new(),
            message: "m".into(),
            request_id: Some("req_1".into()),
        };
        AttemptFailure::Status {
            status,
            problem,
            hints: RetryHints {
                should_retry,
                wait: None,
            },
        }
    }

    #[test]
    fn statuses_are_retried_and_named_as_the_table_says() {
        let cases = [
            (307, false, ErrorClass::Rejected),
            (400, false, ErrorClass::Rejected),
            (401, false, ErrorClass::Auth),
            (402, false, ErrorClass::Rejected),
            (403, false, ErrorClass::Auth),
            (404, false, ErrorClass::Rejected),
            (408, true, ErrorClass::Unavailable),
            (409, true, ErrorClass::Unavailable),
            (413, false, ErrorClass::Rejected),
            (429, true, ErrorClass::RateLimited),
            (500, true, ErrorClass::Unavailable),
            (504, true, ErrorClass::Unavailable),
            (529, true, ErrorClass::Unavailable),
        ];
        for (code, retried, class) in cases {
            assert_eq!(
                status(code, None).retry_hints().is_some(),
                retried,
                "{code}"
            );
            assert!(status(code, Some(true)).retry_hints().is_some(), "{code}");
            assert!(status(code, Some(false)).retry_hints().is_none(), "{code}");
            let error = status(code, None).into_error(&Credential::ApiKey("k".into()));
            assert_eq!(error.class(), class, "{code}");
            assert!(error.to_string().contains("[request-id req_1]"), "{error}");
        }
    }

    #[test]
    fn a_refused_credential_is_named() {
        for (credential, expected) in [
            (Credential::ApiKey("k".into()), "; check ANTHROPIC_API_KEY"),
            (
                Credential::Bearer("k".into()),
                "; check ANTHROPIC_AUTH_TOKEN",
            ),
        ] {
            let error = status(401, None).into_error(&credential).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_stream_is_tried_again_only_before_anything_was_delivered() {
        let stream = |kind: &str, delivered| AttemptFailure::Stream {
            problem: match kind {
                "" => StreamProblem::Broken("x".into()),
                kind => StreamProblem::Api(ApiProblem {
                    kind: kind.into(),
                    message: "m".into(),
                    request_id: None,
                }),
            },
            request_id: None,
            delivered,
        };
        let cases = [
            ("", Delivered::Nothing, true),
            ("", Delivered::Something, false),
            ("overloaded_error", Delivered::Nothing, true),
            ("overloaded_error", Delivered::Something, false),
            ("invalid_request_error", Delivered::Nothing, false),
        ];
        for (kind, delivered, retried) in cases {
            let failure = stream(kind, delivered);
            assert_eq!(
                failure.retry_hints().is_some(),
                retried,
                "{kind} {delivered:?}"
            );
        }
    }
}
