//! `FileService`: declared, not in this release.

use agentd_proto::v1::{self as pb, file_service_server::FileService};
use tonic::{Request, Response, Status, Streaming};

use super::{status::Problem, stream::Responses};

/// The service.
#[derive(Debug, Clone, Copy)]
pub(super) struct Files;

fn absent<T>() -> Result<Response<T>, Status> {
    Err(Problem::unimplemented("FileService").into())
}

#[tonic::async_trait]
impl FileService for Files {
    type ReadStream = Responses<pb::ReadFileResponse>;

    async fn stat(
        &self,
        _: Request<pb::StatRequest>,
    ) -> Result<Response<pb::StatResponse>, Status> {
        absent()
    }

    async fn list(
        &self,
        _: Request<pb::ListFilesRequest>,
    ) -> Result<Response<pb::ListFilesResponse>, Status> {
        absent()
    }

    async fn read(
        &self,
        _: Request<pb::ReadFileRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        absent()
    }

    async fn write(
        &self,
        _: Request<Streaming<pb::WriteFileRequest>>,
    ) -> Result<Response<pb::WriteFileResponse>, Status> {
        absent()
    }

    async fn remove(
        &self,
        _: Request<pb::RemoveFileRequest>,
    ) -> Result<Response<pb::RemoveFileResponse>, Status> {
        absent()
    }

    async fn r#move(
        &self,
        _: Request<pb::MoveFileRequest>,
    ) -> Result<Response<pb::MoveFileResponse>, Status> {
        absent()
    }

    async fn make_dir(
        &self,
        _: Request<pb::MakeDirRequest>,
    ) -> Result<Response<pb::MakeDirResponse>, Status> {
        absent()
    }
}
