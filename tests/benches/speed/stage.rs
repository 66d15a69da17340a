//! The daemon that is measured, and a client that throws away what it reads.

use std::sync::atomic::{AtomicU64, Ordering};

use agentd_proto::v1::{self, exec_event::Event};
use agentd_tests::harness::{Api, Daemon, Footprint, Mode, World, script, wire};
use tokio::runtime::Runtime;

/// A daemon with a connected client.
pub(crate) struct Stage {
    world: World,
    daemon: Daemon,
    launcher: i32,
    idle: [Footprint; 2],
    runtime: Runtime,
    api: Api,
    next: AtomicU64,
}

/// What the readers of one command got.
#[derive(Debug)]
pub(crate) struct Told {
    /// Bytes that the command wrote, as the daemon counted them.
    pub(crate) stdout_bytes: u64,
    /// Bytes that all readers received.
    pub(crate) received: u64,
    /// Bytes that gaps told all readers of.
    pub(crate) lost: u64,
    /// Readers.
    pub(crate) readers: u64,
}

impl Stage {
    /// The best tier of this machine and user.
    pub(crate) fn new() -> Self {
        let world = World::new(*Mode::possible().first().expect("some kind of host"));
        let daemon = Daemon::start(&world);
        let launcher = daemon.launcher();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let api = runtime
            .block_on(Api::dial(&daemon.socket))
            .expect("a daemon");
        let idle = [Footprint::of(daemon.pid()), Footprint::of(launcher)];
        Self {
            world,
            daemon,
            launcher,
            idle,
            runtime,
            api,
            next: AtomicU64::new(0),
        }
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, text: &str) {
        let told = self.stream(text, 1);
        assert_eq!(told.stdout_bytes, 0);
    }

    /// Runs a command with so many readers, each on a connection of its own but for the first.
    pub(crate) fn stream(&self, text: &str, readers: usize) -> Told {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let id = format!("bench-{number}");
        self.runtime.block_on(async {
            let mut spec = script(&self.world, &id, text);
            let limits = spec.limits.insert(v1::LimitRequest::default());
            limits.timeout = wire(std::time::Duration::from_secs(600));
            let request = v1::RunRequest { spec: Some(spec) };
            let answer = self.api.execs().run(request).await.expect("it starts");
            let mut stream = answer.into_inner();
            let others: Vec<_> = (1..readers)
                .map(|_| {
                    let (socket, id) = (self.daemon.socket.clone(), id.clone());
                    tokio::spawn(async move { attach(&socket, &id).await })
                })
                .collect();
            let mut told = Told {
                stdout_bytes: 0,
                received: 0,
                lost: 0,
                readers: readers as u64,
            };
            while let Some(message) = stream.message().await.expect("the stream holds") {
                told.take(message.event);
            }
            for other in others {
                let other = other.await.expect("a reader does not panic");
                told.received += other.received;
                told.lost += other.lost;
            }
            told
        })
    }

    /// Prints what the daemon took when idle and takes now, and its peak.
    pub(crate) fn print_memory(&self) {
        let now = [
            Footprint::of(self.daemon.pid()),
            Footprint::of(self.launcher),
        ];
        for (name, (idle, now)) in ["agentd", "launcher"]
            .into_iter()
            .zip(self.idle.into_iter().zip(now))
        {
            println!(
                "  {:6.1}  MiB resident, {name} when idle; {:.1} after everything",
                idle.rss_kib as f64 / 1024.0,
                now.rss_kib as f64 / 1024.0
            );
        }
        let peak = self.daemon.peak_memory_kib() as f64 / 1024.0;
        println!("  {peak:6.1}  MiB resident, agentd at its peak");
    }
}

impl Told {
    fn take(&mut self, event: Option<v1::ExecEvent>) {
        match event.and_then(|event| event.event).expect("an event") {
            Event::Output(output) => self.received += output.data.len() as u64,
            Event::Gap(gap) => self.lost += gap.stdout_bytes,
            Event::Exited(end) => self.stdout_bytes = end.stdout_bytes,
            Event::Started(_) | Event::Heartbeat(_) => {}
        }
    }
}

async fn attach(socket: &std::path::Path, id: &str) -> Told {
    let api = Api::dial(socket).await.expect("a daemon");
    let request = v1::AttachRequest {
        exec_id: id.to_owned(),
        ..v1::AttachRequest::default()
    };
    let answer = api.execs().attach(request).await.expect("it is known");
    let mut stream = answer.into_inner();
    let mut told = Told {
        stdout_bytes: 0,
        received: 0,
        lost: 0,
        readers: 1,
    };
    while let Some(message) = stream.message().await.expect("the stream holds") {
        told.take(message.event);
    }
    told
}
