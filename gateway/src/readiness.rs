//! Whether the gateway can serve, for load balancers: whether its database answers. Nobody has to prove who they are to ask.
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

/// How long an answer counts, whoever asks.
const FRESH: Duration = Duration::from_secs(1);

/// The latest answer.
#[derive(Debug, Default)]
pub struct Readiness(Mutex<Option<(Instant, bool)>>);

impl Readiness {
    /// The latest answer, or that of `ask` where there is none of the last second. Who asks meanwhile waits for the same.
    pub async fn get(&self, ask: impl Future<Output = bool>) -> bool {
        let mut latest = self.0.lock().await;
        if let Some((since, answer)) = *latest
            && since.elapsed() < FRESH
        {
            return answer;
        }
        let answer = ask.await;
        *latest = Some((Instant::now(), answer));
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn many_at_once_ask_the_database_once() {
        for expected in [true, false] {
            let readiness = Readiness::default();
            let asked = AtomicUsize::new(0);
            let ask = || async {
                asked.fetch_add(1, Ordering::SeqCst);
                // the others come meanwhile
                tokio::task::yield_now().await;
                expected
            };
            let all = (0..1000).map(|_| readiness.get(ask()));
            let answers = futures::future::join_all(all).await;
            assert!(answers.iter().all(|answer| *answer == expected));
            assert_eq!(asked.load(Ordering::SeqCst), 1);
        }
    }

    #[tokio::test]
    async fn an_answer_counts_for_a_moment_only() {
        let readiness = Readiness::default();
        assert!(readiness.get(async { true }).await);
        assert!(readiness.get(async { false }).await);
        *readiness.0.lock().await = Instant::now().checked_sub(FRESH).map(|then| (then, true));
        assert!(!readiness.get(async { false }).await);
    }
}
