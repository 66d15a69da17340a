//! A proxy between two Unix sockets that breaks connections, one way per connection, as a seed says.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        UnixListener, UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    task::JoinHandle,
    time::{Instant, sleep, sleep_until, timeout},
};

use super::random::Random;

/// Bytes after which writing in single bytes is no longer worth its time.
const SPLIT_BYTES: u64 = 16 * 1024;

/// Bytes read at once.
const READ_BYTES: usize = 64 * 1024;

/// What happens to a connection after some bytes in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// Both directions end in order.
    Cut,
    /// This direction ends, the other one goes on.
    HalfCut,
    /// Both ends are reset: closed with bytes unread.
    Reset,
    /// Everything stands still for a while and then goes on.
    Stall(Duration),
    /// Everything stands still for ever, and the connection stays open.
    Hole,
    /// As with a load balancer: once nothing went over the connection for this long, both directions end.
    IdleCut(Duration),
    /// As with an address translator: once nothing went over the connection for this long, it is
    /// forgotten, and neither end hears of it.
    IdleHole(Duration),
}

impl Fault {
    /// Silence that brings it about.
    fn silence(self) -> Option<Duration> {
        match self {
            Self::IdleCut(silence) | Self::IdleHole(silence) => Some(silence),
            Self::None | Self::Cut | Self::HalfCut | Self::Reset | Self::Stall(_) | Self::Hole => {
                None
            }
        }
    }

    /// Whether a number of bytes brings it about.
    fn is_counted(self) -> bool {
        self != Self::None && self.silence().is_none()
    }
}

/// How bytes are handed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// As they come.
    Whole,
    /// One by one.
    Single,
    /// In small pieces of at most this length.
    Pieces(usize),
}

/// The fate of one connection.
#[derive(Debug, Clone, Copy)]
pub struct Fate {
    /// What happens.
    pub fault: Fault,
    /// In the direction to the client instead of the one to the daemon.
    pub downwards: bool,
    /// After this many bytes of that direction.
    pub after: u64,
    /// How bytes are handed on, in both directions.
    pub pace: Pace,
}

impl Fate {
    /// This fault, whatever was carried before.
    pub fn of(fault: Fault) -> Self {
        Self {
            fault,
            ..Self::CLEAN
        }
    }

    /// Nothing happens.
    pub const CLEAN: Self = Self {
        fault: Fault::None,
        downwards: true,
        after: 0,
        pace: Pace::Whole,
    };

    /// The fate of a connection by seed.
    pub fn random(random: &mut Random) -> Self {
        let stall = Fault::Stall(Duration::from_millis(random.between(5, 150)));
        let faults = [
            Fault::None,
            Fault::Cut,
            Fault::Cut,
            Fault::HalfCut,
            Fault::Reset,
            Fault::Reset,
            stall,
            Fault::Hole,
        ];
        let pieces = usize::try_from(random.between(2, 9)).expect("small");
        // Early faults hit the preface, headers and the request; late ones hit the output.
        let span = random.pick(&[40, 400, 4_000, 40_000, 400_000]);
        Self {
            fault: random.pick(&faults),
            downwards: random.percent(70),
            after: random.between(0, span),
            pace: random.pick(&[Pace::Whole, Pace::Whole, Pace::Single, Pace::Pieces(pieces)]),
        }
    }
}

/// A running proxy; it ends when dropped.
#[derive(Debug)]
pub struct Proxy {
    /// Where it listens.
    pub socket: PathBuf,
    accepted: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Listens at `socket` for connections to `upstream`. `fate` decides by the number of the connection.
    pub fn start(
        socket: &Path,
        upstream: &Path,
        mut fate: impl FnMut(u64) -> Fate + Send + 'static,
    ) -> Self {
        let listener = UnixListener::bind(socket).expect("the proxy's socket");
        let accepted = Arc::new(AtomicU64::new(0));
        let (count, upstream) = (Arc::clone(&accepted), upstream.to_owned());
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let number = count.fetch_add(1, Ordering::Relaxed);
                let fate = fate(number);
                let upstream = upstream.clone();
                tokio::spawn(async move {
                    if let Ok(daemon) = UnixStream::connect(upstream).await {
                        carry(client, daemon, fate).await;
                    }
                });
            }
        });
        Self {
            socket: socket.to_owned(),
            accepted,
            task,
        }
    }

    /// Connections so far.
    pub fn connections(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
        drop(std::fs::remove_file(&self.socket));
    }
}

/// How a direction stopped.
enum Stopped {
    /// Its source ended, or its sink is gone.
    Ended,
    /// Its fault struck.
    Struck,
}

async fn carry(client: UnixStream, daemon: UnixStream, fate: Fate) {
    let (from_client, to_client) = client.into_split();
    let (from_daemon, to_daemon) = daemon.into_split();
    let limit = |here: bool| (here && fate.fault.is_counted()).then_some(fate.after);
    let mut up = Direction::new(from_client, to_daemon, limit(!fate.downwards), fate.pace);
    let mut down = Direction::new(from_daemon, to_client, limit(fate.downwards), fate.pace);
    let heard = Arc::clone(&up.heard);
    down.heard = Arc::clone(&heard);
    loop {
        let struck = tokio::select! {
            stopped = up.run(), if !up.over => stopped,
            stopped = down.run(), if !down.over => stopped,
            () = quiet(fate.fault.silence(), &heard), if !(up.over && down.over) => Stopped::Struck,
            else => return,
        };
        if matches!(struck, Stopped::Ended) {
            continue;
        }
        match fate.fault {
            Fault::None | Fault::Stall(_) => {
                if let Fault::Stall(time) = fate.fault {
                    sleep(time).await;
                }
            }
            Fault::Cut | Fault::IdleCut(_) => return,
            Fault::HalfCut => {
                let broken = if fate.downwards { &mut down } else { &mut up };
                broken.over = true;
                drop(broken.to.shutdown().await);
                // An end of one direction only may be waited out for ever; a real one is not endless.
                let rest = async {
                    let whole = if fate.downwards { &mut up } else { &mut down };
                    whole.run().await;
                };
                drop(timeout(Duration::from_secs(1), rest).await);
                return;
            }
            Fault::Reset => {
                // Bytes that nobody reads make the close a reset.
                let unread = async {
                    drop(tokio::join!(up.from.readable(), down.from.readable()));
                };
                drop(timeout(Duration::from_millis(20), unread).await);
                return;
            }
            Fault::Hole | Fault::IdleHole(_) => {
                // Until the client gives up: it closes, and only that is looked for.
                let mut sink = [0; 4096];
                while matches!(up.from.read(&mut sink).await, Ok(1..)) {}
                return;
            }
        }
    }
}

/// Waits until nothing went in either direction for that long; for ever without a bound.
async fn quiet(silence: Option<Duration>, heard: &Mutex<Instant>) {
    let Some(silence) = silence else {
        return std::future::pending().await;
    };
    loop {
        let until = *heard.lock().expect("no panic while it is held") + silence;
        if until <= Instant::now() {
            return;
        }
        sleep_until(until).await;
    }
}

struct Direction {
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    /// Bytes until its fault.
    limit: Option<u64>,
    carried: u64,
    pace: Pace,
    over: bool,
    /// Read and not written yet: a direction can be left at any time.
    held: Vec<u8>,
    /// How much of `held` is written.
    done: usize,
    /// When bytes were last carried, in either direction.
    heard: Arc<Mutex<Instant>>,
}

impl Direction {
    fn new(from: OwnedReadHalf, to: OwnedWriteHalf, limit: Option<u64>, pace: Pace) -> Self {
        Self {
            from,
            to,
            limit,
            carried: 0,
            pace,
            over: false,
            held: Vec::new(),
            done: 0,
            heard: Arc::new(Mutex::new(Instant::now())),
        }
    }

    /// Carries bytes until the source ends or the fault strikes. Can be dropped at any await.
    async fn run(&mut self) -> Stopped {
        loop {
            if self.limit.is_some_and(|limit| self.carried >= limit) {
                self.limit = None;
                return Stopped::Struck;
            }
            if self.done == self.held.len() {
                self.done = 0;
                self.held.clear();
                self.held.reserve(READ_BYTES);
                if matches!(self.from.read_buf(&mut self.held).await, Ok(0) | Err(_)) {
                    break;
                }
            }
            let length = self.step();
            // One write at a time, so that nothing is forgotten when this is dropped.
            match self.to.write(&self.held[self.done..][..length]).await {
                Ok(0) | Err(_) => break,
                Ok(written) => {
                    *self.heard.lock().expect("no panic while it is held") = Instant::now();
                    self.done += written;
                    self.carried += u64::try_from(written).expect("a length");
                }
            }
        }
        self.over = true;
        drop(self.to.shutdown().await);
        Stopped::Ended
    }

    /// Bytes of the next write: never beyond the fault.
    fn step(&self) -> usize {
        let most = match self.pace {
            Pace::Single if self.carried < SPLIT_BYTES => 1,
            Pace::Pieces(most) if self.carried < SPLIT_BYTES => most,
            Pace::Whole | Pace::Single | Pace::Pieces(_) => usize::MAX,
        };
        let left = self.limit.map_or(u64::MAX, |limit| limit - self.carried);
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        (self.held.len() - self.done).min(most).min(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENCE: Duration = Duration::from_millis(1500);

    /// Says everything again.
    fn echo(socket: &Path) {
        let listener = UnixListener::bind(socket).expect("a socket");
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = client.split();
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
    }

    async fn answered(stream: &mut UnixStream) -> bool {
        let mut byte = [0];
        let asked = stream.write_all(b"x").await.is_ok();
        let answer = timeout(Duration::from_secs(1), stream.read_exact(&mut byte)).await;
        asked && matches!(answer, Ok(Ok(_)))
    }

    #[tokio::test]
    async fn an_idle_connection_is_cut_or_forgotten_and_a_busy_one_is_not() {
        let base = std::env::temp_dir().join(format!("proxy-{}", std::process::id()));
        std::fs::create_dir(&base).expect("a directory");
        let upstream = base.join("upstream");
        echo(&upstream);
        for fault in [
            Fault::None,
            Fault::IdleCut(SILENCE),
            Fault::IdleHole(SILENCE),
        ] {
            let proxy = Proxy::start(&base.join("proxy"), &upstream, move |_| Fate::of(fault));
            let mut stream = UnixStream::connect(&proxy.socket)
                .await
                .expect("it listens");
            // Longer than the silence, and never silent.
            let busy = Instant::now() + SILENCE * 2;
            while Instant::now() < busy {
                assert!(answered(&mut stream).await, "{fault:?}");
                sleep(SILENCE / 20).await;
            }
            sleep(SILENCE * 2).await;
            let mut byte = [0];
            let end = timeout(Duration::from_millis(200), stream.read(&mut byte)).await;
            let is_cut = matches!(end, Ok(Ok(0) | Err(_)));
            assert_eq!(is_cut, fault == Fault::IdleCut(SILENCE), "{fault:?}");
            let goes_on = answered(&mut stream).await;
            assert_eq!(goes_on, fault == Fault::None, "{fault:?}");
            assert_eq!(proxy.connections(), 1, "{fault:?}");
        }
        std::fs::remove_dir_all(&base).expect("it is ours");
    }
}
