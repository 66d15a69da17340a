//! Passes our own standard input and the size of our own terminal on to a running command. Never ends: the
//! end of the command does.

use std::{convert::Infallible, future};

use tokio::{io::AsyncReadExt, sync::Notify};

use crate::{
    daemon::{self, Daemon, DaemonError, ExecInput, Input, PIECE, Taken},
    local::Resizes,
};

/// Feeds a command from the moment at which `begun` says that it runs.
pub(super) async fn feed(
    daemon: &Daemon,
    exec_id: &str,
    (input, begun): (ExecInput, &Notify),
) -> Infallible {
    match input {
        ExecInput::Nothing => {}
        ExecInput::Pipe => {
            begun.notified().await;
            // Whatever goes wrong with its input, the command's end tells more.
            drop(pass_on(daemon, exec_id).await);
        }
        ExecInput::Terminal(_) => {
            begun.notified().await;
            let bytes = async {
                drop(pass_on(daemon, exec_id).await);
                future::pending::<Infallible>().await
            };
            tokio::select! {
                never = bytes => return never,
                () = resize(daemon, exec_id) => {}
            }
        }
    }
    future::pending().await
}

/// Everything that our standard input gives, and then its end.
async fn pass_on(daemon: &Daemon, exec_id: &str) -> Result<(), DaemonError> {
    let mut input = Input::of(daemon.link(), exec_id);
    let mut stdin = tokio::io::stdin();
    let mut buffer = vec![0; PIECE];
    loop {
        let length = match stdin.read(&mut buffer).await {
            // What cannot be read has ended for the command.
            Ok(0) | Err(_) => return input.close().await,
            Ok(length) => length,
        };
        let bytes = buffer.get(..length).unwrap_or_default();
        if input.write(bytes).await? == Taken::Closed {
            return Ok(());
        }
    }
}

/// Every new size of our terminal. Returns when there are none to be had.
async fn resize(daemon: &Daemon, exec_id: &str) {
    let Some(mut resizes) = Resizes::watch() else {
        return future::pending().await;
    };
    loop {
        let size = resizes.next().await;
        // The next size makes good for it.
        drop(daemon::resize(daemon.link(), exec_id, size).await);
    }
}
