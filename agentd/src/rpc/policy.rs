//! `PolicyService`: what is allowed, asked without doing it.

use std::{collections::BTreeMap, sync::Arc};

use agentd_proto::v1::{self as pb, policy_service_server::PolicyService};
use agentd_sandbox::{
    explain::Query,
    policy::{Invocation, Lifetime, LimitRequest, PathAccess, Program, Refusal, Stdin},
};
use tonic::{Request, Response, Status};

use super::{Daemon, convert, encode, status::Problem};
use crate::commands;

/// The service.
#[derive(Debug, Clone)]
pub(super) struct Policies(pub(super) Arc<Daemon>);

#[tonic::async_trait]
impl PolicyService for Policies {
    async fn list_profiles(
        &self,
        _: Request<pb::ListProfilesRequest>,
    ) -> Result<Response<pb::ListProfilesResponse>, Status> {
        let in_force = self.0.executor.link().profiles();
        let mut profiles: Vec<_> = in_force
            .iter()
            .map(|profile| pb::Profile {
                name: profile.name.clone(),
                description: profile.description.clone(),
                digest: profile.digest.clone(),
                minimum_tier: encode::tier(profile.minimum_tier).into(),
                available: profile.unavailable.is_none(),
                unavailable_reason: profile.unavailable.clone().unwrap_or_default(),
                is_default: profile.name == self.0.default_profile,
            })
            .collect();
        profiles.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Response::new(pb::ListProfilesResponse { profiles }))
    }

    async fn explain(
        &self,
        mut request: Request<pb::ExplainRequest>,
    ) -> Result<Response<pb::ExplainResponse>, Status> {
        let ask = std::mem::take(request.get_mut());
        let asker = self.0.asker(&request)?;
        let (profile, workspace) = convert::sandbox(ask.sandbox, asker)?;
        let query = query(ask.query)?;
        let invocation = Invocation {
            profile,
            workspace,
            cwd: None,
            program: Program::Script,
            env_set: BTreeMap::new(),
            env_unset: Vec::new(),
            limits: LimitRequest::default(),
            caller: asker.caller,
            stdin: Stdin::Null,
            terminal: None,
            lifetime: Lifetime::Call,
            in_session: None,
        };
        let answers = self.0.executor.link().explain(invocation, vec![query]);
        let verdicts = answers.await.map_err(Problem::from)?;
        let verdict = verdicts
            .into_iter()
            .next()
            .ok_or_else(|| Status::internal("the launcher gave no verdict"))?;
        Ok(Response::new(pb::ExplainResponse {
            allowed: verdict.allowed,
            rule: verdict.rule,
            layers: verdict.layers.iter().map(ToString::to_string).collect(),
            text: verdict.text,
        }))
    }

    async fn check_command(
        &self,
        mut request: Request<pb::CheckCommandRequest>,
    ) -> Result<Response<pb::CheckCommandResponse>, Status> {
        let ask = std::mem::take(request.get_mut());
        let name = convert::profile_name(ask.profile, self.0.asker(&request)?);
        let script = convert::script(ask.script)?;
        let profiles = self.0.executor.link().profiles();
        let Some(profile) = profiles.iter().find(|profile| profile.name == name) else {
            let known: Vec<_> = profiles.iter().map(|p| p.name.as_str()).collect();
            return Err(Problem::from(Refusal::UnknownProfile {
                name: crate::text::neutralise(&name),
                known: known.join(", "),
            })
            .into());
        };
        let rules = profile.commands.clone();
        let checked = tokio::task::spawn_blocking(move || commands::check(&rules, &script)).await;
        let verdict = checked.map_err(|error| {
            tracing::error!(%error, "the command blacklist failed on a command");
            Status::internal("the command blacklist failed on this script")
        })?;
        Ok(Response::new(pb::CheckCommandResponse {
            blocked: verdict.blocked.as_ref().map(encode::blocked),
            unparsable: verdict.unparsable,
        }))
    }
}

fn query(query: Option<pb::explain_request::Query>) -> Result<Query, Problem> {
    use pb::explain_request::Query as Wire;
    match query {
        None => Err(Problem::invalid(
            "'query' is required: a path, 'connect' or 'syscall'",
        )),
        Some(Wire::Path(path)) => Ok(Query::Path {
            access: access(path.access())?,
            path: convert::absolute("path", &path.path)?,
        }),
        Some(Wire::Connect(target)) => {
            let (host, port) = target
                .rsplit_once(':')
                .ok_or_else(|| Problem::invalid("'connect' has the form host:port"))?;
            convert::short("connect", host)?;
            Ok(Query::Connect {
                host: host.trim_matches(['[', ']']).to_owned(),
                port: port
                    .parse()
                    .ok()
                    .ok_or_else(|| Problem::invalid("the port of 'connect' is 0 to 65535"))?,
            })
        }
        Some(Wire::Syscall(name)) => {
            convert::short("syscall", &name)?;
            Ok(Query::Syscall { name })
        }
    }
}

fn access(access: pb::PathAccess) -> Result<PathAccess, Problem> {
    match access {
        pb::PathAccess::Unspecified => Err(Problem::invalid(
            "'access' is required: read, write, execute or create",
        )),
        pb::PathAccess::Read => Ok(PathAccess::Read),
        pb::PathAccess::Write => Ok(PathAccess::Write),
        pb::PathAccess::Execute => Ok(PathAccess::Exec),
        pb::PathAccess::Create => Ok(PathAccess::Create),
    }
}

#[cfg(test)]
mod tests {
    use pb::explain_request::Query as Wire;

    use super::*;

    #[test]
    fn questions_are_checked_in_form() {
        let connect = |text: &str| query(Some(Wire::Connect(text.to_owned())));
        assert_eq!(
            connect("[::1]:80"),
            Ok(Query::Connect {
                host: "::1".to_owned(),
                port: 80
            })
        );
        connect("host").unwrap_err();
        connect("host:99999").unwrap_err();
        connect(&format!("{}:1", "h".repeat(300))).unwrap_err();
        for (length, is_fine) in [(255, true), (256, false), (200_000, false)] {
            let syscall = query(Some(Wire::Syscall("s".repeat(length))));
            assert_eq!(syscall.is_ok(), is_fine, "{length}");
        }
        query(None).unwrap_err();
        let path = |path: &str, access: pb::PathAccess| {
            query(Some(Wire::Path(pb::PathQuery {
                path: path.to_owned(),
                access: access.into(),
            })))
        };
        path("/x", pb::PathAccess::Unspecified).unwrap_err();
        path("x", pb::PathAccess::Read).unwrap_err();
        assert_eq!(
            path("/x", pb::PathAccess::Execute),
            Ok(Query::Path {
                path: "/x".into(),
                access: PathAccess::Exec
            })
        );
    }
}
