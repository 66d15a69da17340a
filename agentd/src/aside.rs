//! Pure work on what commands printed, off the thread that serves everybody when there is much of it.

/// Bytes up to which the work takes less time than a change of threads is worth.
const SMALL: usize = 32 * 1024;

/// Does work whose effort grows with `bytes`. `None`: it panicked.
///
/// Only for work that is bounded and waits for nothing: few threads do it, and the blacklist's parser
/// shares them.
pub(crate) async fn aside<T, W>(bytes: usize, work: W) -> Option<T>
where
    T: Send + 'static,
    W: FnOnce() -> T + Send + 'static,
{
    if bytes <= SMALL {
        return Some(work());
    }
    let done = tokio::task::spawn_blocking(work).await;
    done.inspect_err(|error| tracing::error!(%error, "work on a command's output failed"))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn small_work_is_done_here_and_much_of_it_elsewhere() {
        let here = std::thread::current().id();
        let place = || std::thread::current().id();
        assert_eq!(aside(0, place).await, Some(here));
        assert_eq!(aside(SMALL, place).await, Some(here));
        let elsewhere = aside(SMALL + 1, place).await.unwrap();
        assert_ne!(elsewhere, here);
        let failed: Option<()> = aside(SMALL + 1, || panic!("as a parser may")).await;
        assert_eq!(failed, None);
    }
}
