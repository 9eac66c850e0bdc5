//! Waiting for something to become true, with a deadline instead of a guess.
use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Polls until `poll` returns something.
///
/// # Panics
/// When the deadline passes; says what was waited for.
pub async fn until<T>(
    what: &str,
    deadline: Duration,
    mut poll: impl AsyncFnMut() -> Option<T>,
) -> T {
    let started = Instant::now();
    let mut ticks = tokio::time::interval(POLL_INTERVAL);
    loop {
        ticks.tick().await;
        if let Some(found) = poll().await {
            return found;
        }
        assert!(
            started.elapsed() < deadline,
            "waited {deadline:?} in vain for {what}"
        );
    }
}
