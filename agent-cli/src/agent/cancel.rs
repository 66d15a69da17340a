//! A cancellation signal: one side fires it once, any number of clones see it, also those that look late.

use tokio::sync::watch;

/// The side that fires. Dropping it unfired means "never".
#[derive(Debug)]
pub struct Canceller(watch::Sender<bool>);

/// The side that watches.
#[derive(Debug, Clone)]
pub struct Cancel(watch::Receiver<bool>);

/// A fresh pair, usually one per turn.
#[must_use]
pub fn cancel_pair() -> (Canceller, Cancel) {
    let (sender, receiver) = watch::channel(false);
    (Canceller(sender), Cancel(receiver))
}

impl Canceller {
    /// Fires. Firing again changes nothing.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }
}

impl Cancel {
    /// Whether it has fired.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns once it has fired; never, if it cannot any more.
    pub async fn cancelled(&self) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|fired| *fired).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
