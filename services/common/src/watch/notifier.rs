//! A notifier per process: whoever learns of a change notifies the subscriptions to what changed, and each reads for itself.
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// Notifies subscriptions by what they watch. Clones share the subscriptions.
#[derive(Debug)]
pub struct Notifier<K>(Arc<Mutex<HashMap<K, watch::Sender<()>>>>);

impl<K> Clone for Notifier<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> Default for Notifier<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

/// A subscription to one thing. Notifications between two reads are one.
#[derive(Debug)]
pub struct Subscription<K: Hash + Eq> {
    notifier: Notifier<K>,
    key: K,
    receiver: watch::Receiver<()>,
}

impl<K: Hash + Eq + Clone> Notifier<K> {
    /// Subscribes to a thing from now on.
    pub fn subscribe(&self, key: K) -> Subscription<K> {
        let receiver = self
            .lock()
            .entry(key.clone())
            .or_insert_with(|| watch::Sender::new(()))
            .subscribe();
        Subscription {
            notifier: self.clone(),
            key,
            receiver,
        }
    }

    /// Notifies the subscriptions to a thing.
    pub fn notify(&self, key: &K) {
        if let Some(sender) = self.lock().get(key) {
            sender.send_replace(());
        }
    }

    /// Notifies every subscription.
    pub fn notify_all(&self) {
        for sender in self.lock().values() {
            sender.send_replace(());
        }
    }

    /// What is subscribed to.
    pub fn keys(&self) -> Vec<K> {
        self.lock().keys().cloned().collect()
    }

    /// Whether there is no subscription.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }
}

impl<K> Notifier<K> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, watch::Sender<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Hash + Eq> Subscription<K> {
    /// Waits for the next notification.
    pub async fn notified(&mut self) {
        // the sender lives as long as a subscription
        if self.receiver.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether a notification waits.
    pub fn is_notified(&self) -> bool {
        self.receiver.has_changed().unwrap_or(false)
    }
}

impl<K: Hash + Eq> Drop for Subscription<K> {
    fn drop(&mut self) {
        let mut notifier = self.notifier.lock();
        // this subscription is still counted
        if notifier
            .get(&self.key)
            .is_some_and(|sender| sender.receiver_count() <= 1)
        {
            notifier.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn notifications_arrive_once_and_at_all() {
        let notifier = Notifier::default();
        let (mut a, mut b, other) = (
            notifier.subscribe(1),
            notifier.subscribe(1),
            notifier.subscribe(2),
        );
        notifier.notify(&1);
        notifier.notify(&1);
        a.notified().await;
        assert!(!a.is_notified());
        b.notified().await;
        assert!(!other.is_notified());
        notifier.notify_all();
        assert!(a.is_notified() && other.is_notified());
    }

    #[test]
    fn nothing_is_kept_without_a_subscription() {
        let notifier = Notifier::default();
        let (first, second) = (notifier.subscribe("a"), notifier.subscribe("a"));
        drop(first);
        assert_eq!(notifier.keys(), ["a"]);
        drop(second);
        assert!(notifier.is_empty());
    }
}
