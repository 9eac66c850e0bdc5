//! Waiting for something to become true, with a deadline instead of a guess.
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Looks again and again until `look` returns something.
///
/// # Panics
/// When the deadline passes; says what was waited for.
pub async fn until<T>(
    what: &str,
    deadline: Duration,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> T {
    let started = Instant::now();
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    loop {
        ticks.tick().await;
        if let Some(found) = look().await {
            return found;
        }
        assert!(
            started.elapsed() < deadline,
            "waited {deadline:?} in vain for {what}"
        );
    }
}
