//! Places of a process for workflows. A workflow at a wipe has one of its own kind: wipes may take hours, and launches, stops and
//! releases go on meanwhile.

use std::sync::Arc;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// All places of a process.
pub struct Places {
    running: Arc<Semaphore>,
    wiping: Arc<Semaphore>,
}

impl Places {
    /// So many places for workflows, and so many more for those at a wipe.
    pub fn new(running: usize, wiping: usize) -> Self {
        Self {
            running: Arc::new(Semaphore::new(running)),
            wiping: Arc::new(Semaphore::new(wiping)),
        }
    }

    /// Waits for a place for one more workflow.
    ///
    /// # Errors
    /// There will be none any more.
    pub async fn take(&self) -> Result<Place, AcquireError> {
        Ok(Place {
            held: self.running.clone().acquire_owned().await?,
            wiping: self.wiping.clone(),
        })
    }
}

/// The place of one workflow, which is free for another when this is dropped.
pub struct Place {
    held: OwnedSemaphorePermit,
    wiping: Arc<Semaphore>,
}

impl Place {
    /// Exchanges the place for one among the wipes, which the workflow keeps to its end: what follows a wipe is short. False
    /// when none is free.
    pub fn move_to_wipes(&mut self) -> bool {
        if Arc::ptr_eq(self.held.semaphore(), &self.wiping) {
            return true;
        }
        let Ok(place) = self.wiping.clone().try_acquire_owned() else {
            return false;
        };
        self.held = place;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_workflow_at_a_wipe_leaves_its_place_to_another() {
        let places = Places::new(1, 1);
        let mut first = places.take().await.expect("a place");
        assert_eq!(places.running.available_permits(), 0);
        assert!(first.move_to_wipes());
        assert!(first.move_to_wipes(), "it has one");
        let mut second = places.take().await.expect("the place of the first");
        assert!(!second.move_to_wipes(), "all wipes are taken");
        assert_eq!(places.running.available_permits(), 0, "it keeps its own");
        drop(first);
        assert!(second.move_to_wipes());
        drop(second);
        let free = [&places.running, &places.wiping].map(|all| all.available_permits());
        assert_eq!(free, [1, 1]);
    }
}
