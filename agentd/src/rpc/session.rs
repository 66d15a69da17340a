//! `SessionService`: declared, not in this release.

use agentd_proto::v1::{self as pb, session_service_server::SessionService};
use tonic::{Request, Response, Status};

use super::status::Problem;

/// The service.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sessions;

fn absent<T>() -> Result<Response<T>, Status> {
    Err(Problem::unimplemented("SessionService").into())
}

#[tonic::async_trait]
impl SessionService for Sessions {
    async fn create(
        &self,
        _: Request<pb::CreateSessionRequest>,
    ) -> Result<Response<pb::CreateSessionResponse>, Status> {
        absent()
    }

    async fn get(
        &self,
        _: Request<pb::GetSessionRequest>,
    ) -> Result<Response<pb::GetSessionResponse>, Status> {
        absent()
    }

    async fn list(
        &self,
        _: Request<pb::ListSessionsRequest>,
    ) -> Result<Response<pb::ListSessionsResponse>, Status> {
        absent()
    }

    async fn keep_alive(
        &self,
        _: Request<pb::KeepAliveRequest>,
    ) -> Result<Response<pb::KeepAliveResponse>, Status> {
        absent()
    }

    async fn delete(
        &self,
        _: Request<pb::DeleteSessionRequest>,
    ) -> Result<Response<pb::DeleteSessionResponse>, Status> {
        absent()
    }
}
