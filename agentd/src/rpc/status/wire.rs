//! How a refusal travels: a status whose details are the messages of `google.rpc`.

use std::collections::HashMap;

use prost::Message;
use tonic::Status;

use super::{Problem, Retry};

/// How long a client waits before it tries again when the daemon is full or going away.
pub(super) const RETRY_AFTER_SECONDS: i64 = 1;

impl From<Problem> for Status {
    fn from(problem: Problem) -> Self {
        let mut details = vec![packed(
            "google.rpc.ErrorInfo",
            &ErrorInfo {
                reason: problem.reason.to_owned(),
                domain: agentd_proto::ERROR_DOMAIN.to_owned(),
                metadata: problem
                    .metadata
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect(),
            },
        )];
        if problem.retry == Retry::Later {
            details.push(packed(
                "google.rpc.RetryInfo",
                &RetryInfo {
                    retry_delay: Some(prost_types::Duration {
                        seconds: RETRY_AFTER_SECONDS,
                        nanos: 0,
                    }),
                },
            ));
        }
        let rich = RichStatus {
            code: problem.code.into(),
            message: problem.message.clone(),
            details,
        };
        Self::with_details(problem.code, problem.message, rich.encode_to_vec().into())
    }
}

fn packed(name: &str, message: &impl Message) -> prost_types::Any {
    prost_types::Any {
        type_url: format!("type.googleapis.com/{name}"),
        value: message.encode_to_vec(),
    }
}

/// `google.rpc.Status`, the form in which details travel.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RichStatus {
    #[prost(int32, tag = "1")]
    pub(super) code: i32,
    #[prost(string, tag = "2")]
    pub(super) message: String,
    #[prost(message, repeated, tag = "3")]
    pub(super) details: Vec<prost_types::Any>,
}

/// `google.rpc.ErrorInfo`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ErrorInfo {
    #[prost(string, tag = "1")]
    pub(super) reason: String,
    #[prost(string, tag = "2")]
    pub(super) domain: String,
    #[prost(map = "string, string", tag = "3")]
    pub(super) metadata: HashMap<String, String>,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    pub(super) retry_delay: Option<prost_types::Duration>,
}
