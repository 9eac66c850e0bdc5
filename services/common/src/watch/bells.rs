//! Bells: whoever learns of a change rings the bell of what changed, and every stream on it looks for itself.
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// The bells of a process, one per watched thing. Clones share them.
#[derive(Debug)]
pub struct Bells<K>(Arc<Mutex<HashMap<K, watch::Sender<()>>>>);

impl<K> Clone for Bells<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> Default for Bells<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

/// One listener's ear at a bell. Rings between two looks are one ring.
#[derive(Debug)]
pub struct Bell<K: Hash + Eq> {
    bells: Bells<K>,
    key: K,
    ear: watch::Receiver<()>,
}

impl<K: Hash + Eq + Clone> Bells<K> {
    /// Listens to a thing's bell from now on.
    pub fn listen(&self, key: K) -> Bell<K> {
        let ear = self
            .lock()
            .entry(key.clone())
            .or_insert_with(|| watch::Sender::new(()))
            .subscribe();
        Bell {
            bells: self.clone(),
            key,
            ear,
        }
    }

    /// Rings a thing's bell, if anybody listens.
    pub fn ring(&self, key: &K) {
        if let Some(bell) = self.lock().get(key) {
            bell.send_replace(());
        }
    }

    /// Rings every bell.
    pub fn ring_all(&self) {
        for bell in self.lock().values() {
            bell.send_replace(());
        }
    }

    /// What is listened to.
    pub fn keys(&self) -> Vec<K> {
        self.lock().keys().cloned().collect()
    }

    /// Whether nobody listens.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }
}

impl<K> Bells<K> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, watch::Sender<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Hash + Eq> Bell<K> {
    /// Waits for the next ring that was not heard yet.
    pub async fn rung(&mut self) {
        // the sender lives as long as somebody listens
        if self.ear.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether it has rung since it was last heard.
    pub fn is_ringing(&self) -> bool {
        self.ear.has_changed().unwrap_or(false)
    }
}

impl<K: Hash + Eq> Drop for Bell<K> {
    fn drop(&mut self) {
        let mut bells = self.bells.lock();
        // this ear is still counted
        if bells
            .get(&self.key)
            .is_some_and(|bell| bell.receiver_count() <= 1)
        {
            bells.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn rings_are_heard_once_and_by_all() {
        let bells = Bells::default();
        let (mut a, mut b, other) = (bells.listen(1), bells.listen(1), bells.listen(2));
        bells.ring(&1);
        bells.ring(&1);
        a.rung().await;
        assert!(!a.is_ringing());
        b.rung().await;
        assert!(!other.is_ringing());
        bells.ring_all();
        assert!(a.is_ringing() && other.is_ringing());
    }

    #[test]
    fn nothing_is_kept_for_what_nobody_listens_to() {
        let bells = Bells::default();
        let (first, second) = (bells.listen("a"), bells.listen("a"));
        drop(first);
        assert_eq!(bells.keys(), ["a"]);
        drop(second);
        assert!(bells.is_empty());
    }
}
