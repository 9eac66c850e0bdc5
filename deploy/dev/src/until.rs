//! Waiting for something to become true, with a deadline instead of a guess.
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

/// First and longest pause between two polls: what is there at once is found at once, and a system is not kept busy by who waits
/// for it.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// Polls until `poll` returns something.
///
/// # Panics
/// When the deadline passes; says what was waited for.
pub async fn until<T>(
    what: &str,
    deadline: Duration,
    mut poll: impl AsyncFnMut() -> Option<T>,
) -> T {
    until_ok(what, deadline, async || {
        poll().await.ok_or_else(String::new)
    })
    .await
}

/// The same for a poll that says why not yet.
///
/// # Panics
/// When the deadline passes, also while a poll runs; says what was waited for, and the last answer.
pub async fn until_ok<T>(
    what: &str,
    deadline: Duration,
    mut poll: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let end = Instant::now() + deadline;
    let mut pause = FIRST_PAUSE;
    let mut last = String::new();
    loop {
        match timeout_at(end, poll()).await {
            Ok(Ok(found)) => return found,
            Ok(Err(why)) => last = why,
            Err(_) => {}
        }
        let reported = if last.is_empty() { "" } else { "; at last: " };
        assert!(
            Instant::now() < end,
            "waited {deadline:?} in vain for {what}{reported}{last}"
        );
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    #[should_panic(expected = "in vain for the host; at last: it is cordoned")]
    async fn the_last_answer_is_told() {
        let refused = async || Err::<(), _>("it is cordoned".to_owned());
        until_ok("the host", Duration::ZERO, refused).await;
    }

    #[tokio::test]
    #[should_panic(expected = "in vain for an answer; at last: first")]
    async fn a_poll_that_never_ends_is_waited_for_no_longer() {
        let mut first = true;
        let deadline = 2 * LONGEST_PAUSE;
        until_ok("an answer", deadline, async || {
            if !std::mem::take(&mut first) {
                std::future::pending::<()>().await;
            }
            Err::<(), _>("first".to_owned())
        })
        .await;
    }

    #[tokio::test]
    async fn what_is_found_is_returned() {
        let mut answers = [None, Some(7)].into_iter();
        let found = until("it", Duration::from_mins(1), async || {
            answers.next().flatten()
        })
        .await;
        assert_eq!(found, 7);
    }
}
