//! What a run is at, so that one that hangs can be told of.
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What is being done, for whoever waits for its end.
#[derive(Debug, Clone, Default)]
pub struct Doing(Arc<Mutex<Option<(Instant, String)>>>);

impl Doing {
    pub fn begin(&self, what: String) {
        *self.0.lock().expect("lock") = Some((Instant::now(), what));
    }

    /// What is being done for longer than this.
    pub fn longer_than(&self, limit: Duration) -> Option<String> {
        let doing = self.0.lock().expect("lock");
        let long = doing.as_ref().filter(|(since, _)| since.elapsed() > limit);
        long.map(|(_, what)| what.clone())
    }
}
