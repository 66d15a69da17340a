//! Ctrl-C and termination requests, as values. Installed before anything is started, so that none is lost.

use std::io;

/// What the process was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// End in good order.
    Terminate,
}

impl Signal {
    /// Exit code of a program that ends because of it.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

/// The signals of this process. While it exists, none of them ends the process by itself.
#[cfg(unix)]
#[derive(Debug)]
pub struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    /// Hangup and quit.
    of_terminal: Option<(tokio::signal::unix::Signal, tokio::signal::unix::Signal)>,
}

#[cfg(unix)]
impl Signals {
    /// Takes over.
    ///
    /// # Errors
    /// The runtime cannot watch signals.
    pub fn install() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            of_terminal: None,
        })
    }

    /// Takes over the other signals that would end the process at once, too: whoever has changed the terminal
    /// must be able to give it back. They count as [`Signal::Terminate`].
    ///
    /// # Errors
    /// As for [`Self::install`].
    pub fn install_for_terminal(&mut self) -> io::Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        self.of_terminal = Some((signal(SignalKind::hangup())?, signal(SignalKind::quit())?));
        Ok(())
    }

    /// The next one.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
            () = either(&mut self.of_terminal) => Signal::Terminate,
        }
    }
}

#[cfg(unix)]
async fn either(signals: &mut Option<(tokio::signal::unix::Signal, tokio::signal::unix::Signal)>) {
    match signals {
        Some((hangup, quit)) => tokio::select! {
            _ = hangup.recv() => {}
            _ = quit.recv() => {}
        },
        None => std::future::pending().await,
    }
}

/// The signals of this process: Ctrl-C only.
#[cfg(not(unix))]
#[derive(Debug)]
pub struct Signals {}

#[cfg(not(unix))]
impl Signals {
    /// Takes over.
    ///
    /// # Errors
    /// Never.
    pub fn install() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Nothing more to take over.
    ///
    /// # Errors
    /// Never.
    pub fn install_for_terminal(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// The next one.
    pub async fn next(&mut self) -> Signal {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Signal::Interrupt
    }
}
