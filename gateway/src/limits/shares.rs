//! How many of a thing each of many holders may have at once: a share that nobody can take from the others.
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts by holder. Clones share the counts.
#[derive(Debug)]
pub struct Shares<K> {
    most: usize,
    held: Arc<Mutex<HashMap<K, usize>>>,
}

impl<K> Clone for Shares<K> {
    fn clone(&self) -> Self {
        Self {
            most: self.most,
            held: self.held.clone(),
        }
    }
}

/// One of a holder's share, given back when dropped.
#[derive(Debug)]
pub struct Share<K: Hash + Eq> {
    holder: K,
    held: Arc<Mutex<HashMap<K, usize>>>,
}

impl<K: Hash + Eq + Clone> Shares<K> {
    /// So many for each holder; 0 is no limit.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            held: Arc::default(),
        }
    }

    /// One more for a holder; `None` when it has all of its share.
    pub fn take(&self, holder: &K) -> Option<Share<K>> {
        let mut held = lock(&self.held);
        match held.get_mut(holder) {
            Some(count) if self.most > 0 && *count >= self.most => return None,
            Some(count) => *count += 1,
            None => {
                held.insert(holder.clone(), 1);
            }
        }
        Some(Share {
            holder: holder.clone(),
            held: self.held.clone(),
        })
    }
}

impl<K: Hash + Eq> Drop for Share<K> {
    fn drop(&mut self) {
        let mut held = lock(&self.held);
        if let Some(count) = held.get_mut(&self.holder) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.holder);
            }
        }
    }
}

fn lock<K>(held: &Mutex<HashMap<K, usize>>) -> MutexGuard<'_, HashMap<K, usize>> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_takes_nothing_from_another_and_gives_back_what_it_drops() {
        let shares = Shares::new(2);
        let first = [shares.take(&"a"), shares.take(&"a")];
        assert!(first.iter().all(Option::is_some));
        assert!(shares.take(&"a").is_none());
        assert!(shares.take(&"b").is_some());
        drop(first);
        assert!(shares.take(&"a").is_some());
        assert!(lock(&shares.held).is_empty(), "nothing is kept of nobody");
    }

    #[test]
    fn zero_is_no_limit() {
        let shares = Shares::new(0);
        let all: Vec<_> = (0..100).map(|_| shares.take(&1)).collect();
        assert!(all.iter().all(Option::is_some));
    }
}
