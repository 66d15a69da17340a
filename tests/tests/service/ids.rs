//! Ids that clients choose: one id is one run, and an id of an earlier daemon is told as such.

use agentd_proto::v1;
use agentd_tests::harness::{Api, in_every_mode, script};
use tonic::Code;

use crate::site::{Site, close, look, open, refused};

async fn tool(api: &Api, site: &Site, command: &str) -> Result<v1::ToolResult, tonic::Status> {
    let request = v1::CallToolRequest {
        name: "bash".to_owned(),
        input_json: serde_json::json!({ "command": command }).to_string(),
        session_id: "s".to_owned(),
        call_id: "call".to_owned(),
        ..v1::CallToolRequest::default()
    };
    let mut stream = api.tools().call_tool(request).await?.into_inner();
    let mut last = None;
    while let Some(response) = stream.message().await? {
        if let Some(v1::call_tool_response::Message::Result(result)) = response.message {
            last = Some(result);
        }
    }
    site.world.everything();
    Ok(last.expect("a result"))
}

#[test]
fn one_id_is_one_run_by_whatever_call_and_another_request_is_refused() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            open(&api, site.session("s")).await;
            let spec = site.within("s", "once", "echo x >>once; sleep 0.3; cat once");
            let calls = (0..10).map(|_| {
                let (api, spec) = (api.clone(), spec.clone());
                tokio::spawn(async move { api.start(spec).await.expect("it is known").created })
            });
            let mut created = 0;
            for call in calls.collect::<Vec<_>>() {
                created += u32::from(call.await.expect("an answer"));
            }
            assert_eq!(created, 1);
            let told = crate::site::run(&api, spec.clone()).await;
            assert_eq!(told.stdout.bytes(), b"x\n");
            // A directory that another command changed does not make a retry another request.
            crate::site::run(
                &api,
                site.within("s", "move", "mkdir -p d; cd d; export A=1"),
            )
            .await;
            assert!(!api.start(spec.clone()).await.expect("a retry").created);
            let changes: [fn(&mut v1::ExecSpec); 6] = [
                |spec| spec.background = true,
                |spec| spec.limits = Some(crate::site::within_seconds(9)),
                |spec| {
                    spec.io = Some(v1::IoSpec {
                        stdin: true,
                        ..v1::IoSpec::default()
                    });
                },
                |spec| drop(spec.labels.insert("a".to_owned(), "b".to_owned())),
                |spec| spec.command.as_mut().expect("a command").cwd = "d".to_owned(),
                |spec| spec.command.as_mut().expect("a command").env = None,
            ];
            for (n, change) in changes.into_iter().enumerate() {
                let mut other = spec.clone();
                change(&mut other);
                let answer = api.start(other).await.map(|_| n);
                refused(answer, Code::AlreadyExists, "EXEC_ID_CONFLICT");
            }
            let alone = script(&site.world, "once", "echo x >>once; sleep 0.3; cat once");
            refused(
                api.start(alone).await,
                Code::AlreadyExists,
                "EXEC_ID_CONFLICT",
            );
            let first = tool(&api, site, "echo y >>tool; cat tool")
                .await
                .expect("it runs");
            let again = tool(&api, site, "echo y >>tool; cat tool")
                .await
                .expect("it is known");
            assert_eq!(first, again);
            let other = tool(&api, site, "echo z >>tool").await;
            refused(other, Code::AlreadyExists, "EXEC_ID_CONFLICT");
            close(&api, "s").await.expect("it is there");
        });
    });
}

#[test]
fn what_an_earlier_daemon_knew_is_told_to_be_of_an_earlier_daemon() {
    in_every_mode(|mode| {
        let mut site = Site::new(mode);
        let (exec, session) = site.call(async |api: Api| {
            let session = open(&api, site.session("")).await.session_id;
            let spec = site.within(&session, "", "sleep 600");
            let exec = api
                .start(spec)
                .await
                .expect("it starts")
                .exec
                .expect("an execution");
            (exec.exec_id, session)
        });
        site.restart();
        site.becomes_empty("the first daemon's commands");
        let site = &site;
        site.call(|api| async move {
            refused(api.get(&exec).await, Code::NotFound, "INSTANCE_RESTARTED");
            refused(
                api.terminate(&exec).await,
                Code::NotFound,
                "INSTANCE_RESTARTED",
            );
            let request = v1::AttachRequest {
                exec_id: exec.clone(),
                after_seq: 1,
                strict: false,
            };
            refused(
                api.execs().attach(request).await.map(drop),
                Code::NotFound,
                "INSTANCE_RESTARTED",
            );
            refused(
                look(&api, &session).await,
                Code::NotFound,
                "INSTANCE_RESTARTED",
            );
            let late = api.start(site.within(&session, "x", "true")).await;
            refused(late, Code::NotFound, "INSTANCE_RESTARTED");
            refused(
                close(&api, &session).await,
                Code::NotFound,
                "INSTANCE_RESTARTED",
            );
            // An id that never was is told apart.
            refused(api.get("never").await, Code::NotFound, "EXEC_EXPIRED");
            refused(look(&api, "never").await, Code::NotFound, "SESSION_EXPIRED");
        });
    });
}
