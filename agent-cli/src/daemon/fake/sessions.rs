//! Sessions of the fake: names that it knows until they are deleted.

use std::sync::atomic::Ordering;

use agentd_proto::v1::{self, session_service_server::SessionService};
use tonic::{Request, Response};

use super::{Answer, Fake, unused};

#[tonic::async_trait]
impl SessionService for Fake {
    async fn create(
        &self,
        request: Request<v1::CreateSessionRequest>,
    ) -> Answer<v1::CreateSessionResponse> {
        let request = request.into_inner();
        let session = v1::Session {
            session_id: request.session_id.clone(),
            sandbox: request.sandbox.clone(),
            lease: request.lease,
            ..v1::Session::default()
        };
        let mut sessions = self.0.sessions.lock().unwrap();
        sessions.insert(request.session_id.clone(), request);
        Ok(Response::new(v1::CreateSessionResponse {
            session: Some(session),
            session_token: String::new(),
        }))
    }

    async fn get(&self, request: Request<v1::GetSessionRequest>) -> Answer<v1::GetSessionResponse> {
        let id = request.into_inner().session_id;
        self.session(&id)?;
        let sandbox = self.0.sessions.lock().unwrap()[&id].sandbox.clone();
        let session = v1::Session {
            session_id: id,
            sandbox,
            ..v1::Session::default()
        };
        Ok(Response::new(v1::GetSessionResponse {
            session: Some(session),
        }))
    }

    async fn list(&self, _: Request<v1::ListSessionsRequest>) -> Answer<v1::ListSessionsResponse> {
        unused()
    }

    async fn keep_alive(
        &self,
        request: Request<v1::KeepAliveRequest>,
    ) -> Answer<v1::KeepAliveResponse> {
        self.session(&request.into_inner().session_id)?;
        self.0.kept_alive.fetch_add(1, Ordering::Relaxed);
        Ok(Response::new(v1::KeepAliveResponse::default()))
    }

    async fn delete(
        &self,
        request: Request<v1::DeleteSessionRequest>,
    ) -> Answer<v1::DeleteSessionResponse> {
        let id = request.into_inner().session_id;
        self.session(&id)?;
        self.0.sessions.lock().unwrap().remove(&id);
        self.0.deleted.fetch_add(1, Ordering::Relaxed);
        Ok(Response::new(v1::DeleteSessionResponse::default()))
    }
}
