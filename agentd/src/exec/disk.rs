//! Work on files, which can hang for as long as a disk does. It has threads of its own, so that nothing but
//! such work waits for them.

use std::{io, sync::Arc, thread, time::Duration};

use tokio::sync::{Semaphore, oneshot};

/// Files that are read or written at once.
const AT_ONCE: usize = 4;

/// Longest time that one piece of work may take, its wait for a turn included, before the disk counts as
/// broken.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where files are read and written. Cheap to clone; clones share their bound.
#[derive(Debug, Clone)]
pub(super) struct Disk {
    turns: Arc<Semaphore>,
    patience: Duration,
}

impl Default for Disk {
    fn default() -> Self {
        Self {
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            patience: PATIENCE,
        }
    }
}

impl Disk {
    /// How long to wait for one piece of work.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// Does `work` on another thread when its turn has come. Work that hangs keeps its turn until it is
    /// done, whoever still waits for it; dropping the future before its turn leaves it undone.
    ///
    /// # Errors
    /// No thread can be made, or the work panicked.
    pub(super) async fn run<T, W>(&self, work: W) -> io::Result<T>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        let turn = turn.map_err(io::Error::other)?;
        let (done, outcome) = oneshot::channel();
        // A thread for each piece of work: making one costs less than what it does, and none is left idle.
        thread::Builder::new()
            .name("disk".to_owned())
            .spawn(move || {
                let made = work();
                // ORDER: the turn is over before anybody hears of it.
                drop(turn);
                // An error means that nobody waits any more.
                drop(done.send(made));
            })?;
        outcome.await.map_err(io::Error::other)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::mpsc;

    use super::*;

    impl Disk {
        pub(in crate::exec) fn with_patience(patience: Duration) -> Self {
            Self {
                patience,
                ..Self::default()
            }
        }
    }

    /// Work that hangs until the sender is dropped, on each thread.
    pub(in crate::exec) fn hang(disk: &Disk) -> mpsc::Sender<()> {
        let (sender, receiver) = mpsc::channel::<()>();
        let receiver = Arc::new(std::sync::Mutex::new(receiver));
        for _ in 0..AT_ONCE {
            let (disk, receiver) = (disk.clone(), Arc::clone(&receiver));
            tokio::spawn(async move {
                disk.run(move || receiver.lock().unwrap().recv().unwrap_or(()))
                    .await
            });
        }
        sender
    }

    #[tokio::test]
    async fn work_that_hangs_keeps_a_bound_and_what_gave_up_waiting_is_never_done() {
        let disk = Disk::default();
        assert_eq!(disk.run(|| 7).await.unwrap(), 7);
        let hung = hang(&disk);
        tokio::task::yield_now().await;
        let (told, heard) = mpsc::channel();
        let late = disk.run(move || told.send(()));
        let late = tokio::time::timeout(Duration::from_millis(100), late).await;
        assert!(late.is_err(), "all threads hang");
        drop(hung);
        assert_eq!(disk.run(|| 8).await.unwrap(), 8);
        assert!(heard.recv().is_err(), "its work was dropped undone");
        disk.run(|| panic!("on purpose")).await.unwrap_err();
        assert_eq!(disk.run(|| 9).await.unwrap(), 9, "the turn was given back");
    }
}
