//! A launcher for tests: the other end of a real channel, played by a thread.

use std::{
    collections::BTreeMap,
    os::fd::OwnedFd,
    sync::{Arc, Mutex},
    thread,
};

use agentd_sandbox::{
    monitor::{Channel, Event, ExecKey, JailReport, ProfileSummary, Received, Request},
    policy::{Caller, Identity, Invocation, Lifetime, LimitRequest, Limits, Program, Stdin, Tier},
    profile::CommandRules,
};
use tonic::codegen::Bytes;

use super::Link;
use crate::exec::{Disconnect, ExecId, ExecSpec};

/// The launcher's end, for behaviours. Closing it is the launcher's death.
#[derive(Debug, Clone)]
pub(crate) struct Side(Arc<Mutex<Option<Channel<Event, Request>>>>);

impl Side {
    pub(crate) fn send(&self, event: &Event) {
        if let Some(channel) = &*self.0.lock().unwrap() {
            channel.send(event, &[]).unwrap();
        }
    }

    /// Sends an event with descriptors beside it.
    pub(crate) fn send_with(&self, event: &Event, fds: &[OwnedFd]) {
        let fds: Vec<_> = fds.iter().map(std::os::fd::AsFd::as_fd).collect();
        if let Some(channel) = &*self.0.lock().unwrap() {
            channel.send(event, &fds).unwrap();
        }
    }

    pub(crate) fn die(&self) {
        self.0.lock().unwrap().take();
    }
}

/// A link to a thread that answers each request with `behaviour`.
pub(crate) fn launcher<B>(mut behaviour: B) -> Link
where
    B: FnMut(&Side, Request, Vec<OwnedFd>) + Send + 'static,
{
    let (ours, theirs) = Channel::<Request, Event>::pair().unwrap();
    let reading = Channel::<Event, Request>::from_fd(
        std::os::fd::AsFd::as_fd(&theirs)
            .try_clone_to_owned()
            .unwrap(),
    );
    let side = Side(Arc::new(Mutex::new(Some(theirs))));
    thread::spawn(move || {
        while let Ok(Some(Received { message, fds, .. })) = reading.recv() {
            behaviour(&side, message, fds);
            if side.0.lock().unwrap().is_none() {
                break;
            }
        }
    });
    Link::new(ours, Arc::new(vec![profile("workspace")])).unwrap()
}

pub(crate) fn limits() -> Limits {
    Limits {
        timeout_ms: 120_000,
        idle_timeout_ms: None,
        kill_grace_ms: 2000,
        cpu_seconds: None,
        memory_bytes: None,
        pids: None,
        file_size_bytes: None,
        open_files: 1024,
        output_bytes: None,
        disk_bytes: None,
    }
}

pub(crate) fn profile(name: &str) -> ProfileSummary {
    ProfileSummary {
        name: name.to_owned(),
        description: "for tests".to_owned(),
        digest: "00".to_owned(),
        minimum_tier: Tier::Nested,
        unavailable: None,
        limits: limits(),
        max_timeout_ms: 600_000,
        commands: CommandRules::default(),
        meta: BTreeMap::new(),
    }
}

pub(crate) fn started(exec: ExecKey) -> Event {
    Event::Started {
        exec,
        report: Box::new(JailReport {
            profile: "workspace".to_owned(),
            digest: "00".to_owned(),
            tier: Tier::Rootless,
            layers: Vec::new(),
            degraded: Vec::new(),
            landlock_abi: 7,
            identity: Identity::Caller { uid: 1, gid: 1 },
            uid: 1,
            cgroup: "none".to_owned(),
        }),
        limits: limits(),
        cwd: "/w".to_owned(),
        notes: Vec::new(),
        output_file: String::new(),
    }
}

pub(crate) fn script_spec(id: &str, script: &str) -> ExecSpec {
    ExecSpec {
        id: ExecId::parse(id),
        invocation: Invocation {
            profile: "workspace".to_owned(),
            workspace: "/w".into(),
            cwd: None,
            program: Program::Script,
            env_set: BTreeMap::new(),
            env_unset: Vec::new(),
            limits: LimitRequest::default(),
            caller: Caller { uid: 1, gid: 1 },
            stdin: Stdin::Null,
            terminal: None,
            lifetime: Lifetime::Call,
            in_session: None,
        },
        script: Some(Bytes::copy_from_slice(script.as_bytes())),
        hook: None,
        disconnect: Disconnect::default(),
        queue_timeout: std::time::Duration::ZERO,
        output_file_bytes: 0,
        labels: BTreeMap::new(),
    }
}
