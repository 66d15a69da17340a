//! Each refusal has its code and reason, and its details decode.

use agentd_sandbox::policy::{Layer, Tier};
use prost::Message;
use tonic::Status;

use super::{
    wire::{ErrorInfo, RETRY_AFTER_SECONDS, RetryInfo, RichStatus},
    *,
};
use crate::exec::ExecId;

fn refusals() -> Vec<(Refusal, Code, &'static str)> {
    let text = String::new;
    vec![
        (
            Refusal::UnknownProfile {
                name: "x".to_owned(),
                known: text(),
            },
            Code::InvalidArgument,
            "PROFILE_UNKNOWN",
        ),
        (
            Refusal::TierTooLow {
                profile: text(),
                required: Tier::Rootless,
                available: Tier::Nested,
                remedy: text(),
            },
            Code::FailedPrecondition,
            "SANDBOX_UNAVAILABLE",
        ),
        (
            Refusal::LayerMissing {
                profile: text(),
                layer: Layer::Landlock,
                remedy: text(),
            },
            Code::FailedPrecondition,
            "SANDBOX_UNAVAILABLE",
        ),
        (
            Refusal::BadWorkspace {
                path: "/".into(),
                reason: text(),
            },
            Code::InvalidArgument,
            "WORKSPACE_REFUSED",
        ),
        (
            Refusal::Malformed(text()),
            Code::InvalidArgument,
            "INVALID_REQUEST",
        ),
    ]
}

#[test]
fn each_refusal_has_its_code_and_reason() {
    for (refusal, code, reason) in refusals() {
        assert_eq!(Problem::from(refusal).kind(), (code, reason));
    }
}

#[test]
fn a_status_carries_error_info_and_retry_info_that_decode() {
    let full: Status = Problem::from(AdmitError::Full(3)).into();
    assert_eq!(full.code(), Code::ResourceExhausted);
    let rich = RichStatus::decode(full.details()).unwrap();
    assert_eq!(rich.code, 8);
    let [info, retry] = rich.details.as_slice() else {
        panic!("two details");
    };
    assert_eq!(info.type_url, "type.googleapis.com/google.rpc.ErrorInfo");
    let info = ErrorInfo::decode(info.value.as_slice()).unwrap();
    assert_eq!(
        (info.reason.as_str(), info.domain.as_str()),
        ("LIMIT_EXECS", "agentd")
    );
    let retry = RetryInfo::decode(retry.value.as_slice()).unwrap();
    assert_eq!(retry.retry_delay.unwrap().seconds, RETRY_AFTER_SECONDS);

    let id = ExecId::parse("a").unwrap();
    let expired = Problem::from(AdmitError::Expired(id.clone()));
    assert_eq!(expired.kind(), (Code::NotFound, "EXEC_EXPIRED"));
    let conflict: Status = Problem::from(AdmitError::Conflict(id)).into();
    assert_eq!(
        RichStatus::decode(conflict.details())
            .unwrap()
            .details
            .len(),
        1
    );
}
