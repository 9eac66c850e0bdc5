//! What every stream of a project reads is read once: the first stream reads, the others share its page.
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::ChangeKind;
use uuid::Uuid;

/// The lanes of the projects that are watched. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Lanes(Arc<Mutex<HashMap<Uuid, Weak<Lane>>>>);

/// One project's last page. A reader blocks the others.
#[derive(Default)]
pub(super) struct Lane(tokio::sync::Mutex<Option<Arc<Page>>>);

/// What changed after a position, as it was when the reading began.
pub(super) struct Page {
    pub(super) after: i64,
    /// Before anything of it was read.
    pub(super) begun: Instant,
    /// There may be more behind the last entry.
    pub(super) full: bool,
    /// By position.
    pub(super) entries: Vec<Entry>,
}

/// An allocation that changed.
pub(super) struct Entry {
    /// Of its last event.
    pub(super) position: i64,
    /// Of its first event, if that is on the page.
    pub(super) created: Option<i64>,
    /// Its present state; the kind is that for a reader who knew it.
    pub(super) change: pb::AllocationChange,
}

impl Lanes {
    /// The lane of a project; it lives as long as a stream holds it.
    pub(super) fn of(&self, project: Uuid) -> Arc<Lane> {
        let mut lanes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = lanes.get(&project).and_then(Weak::upgrade) {
            return lane;
        }
        lanes.retain(|_, lane| lane.strong_count() > 0);
        let lane = Arc::<Lane>::default();
        lanes.insert(project, Arc::downgrade(&lane));
        lane
    }
}

impl Lane {
    /// A page for a stream that began at `since`, is at `position` and took its notification at `heard`: the last one, or a new
    /// one by `read`. None is older than the stream's own first state: it never goes back.
    ///
    /// # Errors
    /// Those of `read`; the next stream tries for itself.
    pub(super) async fn page<E>(
        &self,
        position: i64,
        (since, heard): (Instant, Instant),
        read: impl AsyncFnOnce() -> Result<Page, E>,
    ) -> Result<Arc<Page>, E> {
        let mut last = self.0.lock().await;
        if let Some(page) = last
            .as_ref()
            .filter(|page| page.begun >= since && page.serves(position, heard))
        {
            return Ok(page.clone());
        }
        let page = Arc::new(read().await?);
        *last = Some(page.clone());
        Ok(page)
    }
}

impl Page {
    /// Either it goes on from the position, or it shows that there was nothing more when the notification was taken.
    fn serves(&self, position: i64, heard: Instant) -> bool {
        let goes_on = self.entries.last().is_some_and(|e| e.position > position);
        self.after <= position && (goes_on || self.is_all_since(heard))
    }

    /// Nothing that rang until `heard` is missing behind it.
    pub(super) fn is_all_since(&self, heard: Instant) -> bool {
        !self.full && self.begun >= heard
    }

    /// What a stream at this position has not sent yet.
    pub(super) fn beyond(&self, position: i64) -> &[Entry] {
        let known = self.entries.partition_point(|e| e.position <= position);
        &self.entries[known..]
    }
}

impl Entry {
    /// The change for a stream at this position.
    pub(super) fn change_after(&self, position: i64) -> pb::AllocationChange {
        let mut change = self.change.clone();
        if change.kind() == ChangeKind::Modified && self.created.is_some_and(|at| at > position) {
            change.set_kind(ChangeKind::Added);
        }
        change
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn page(after: i64, positions: &[i64]) -> Page {
        let entry = |position: &i64| Entry {
            position: *position,
            created: Some(*position - 1),
            change: pb::AllocationChange {
                kind: ChangeKind::Modified.into(),
                allocation: None,
            },
        };
        Page {
            after,
            begun: Instant::now(),
            full: false,
            entries: positions.iter().map(entry).collect(),
        }
    }

    /// One stream of the project: what it sends until it has all that was notified before it took its notification.
    async fn stream(lane: &Lane, from: i64, log: &[i64], readings: &AtomicUsize) -> Vec<i64> {
        stream_since(Instant::now(), lane, from, log, readings).await
    }

    /// The same of one that began earlier.
    async fn stream_since(
        since: Instant,
        lane: &Lane,
        from: i64,
        log: &[i64],
        readings: &AtomicUsize,
    ) -> Vec<i64> {
        let heard = Instant::now();
        let (mut position, mut sent) = (from, Vec::new());
        loop {
            let read = async || {
                readings.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                let there: Vec<i64> = log.iter().copied().filter(|at| *at > position).collect();
                Ok::<_, Infallible>(page(position, &there))
            };
            let Ok(page) = lane.page(position, (since, heard), read).await;
            for entry in page.beyond(position) {
                position = entry.position;
                sent.push(position);
            }
            if page.is_all_since(heard) {
                return sent;
            }
        }
    }

    #[tokio::test]
    async fn p8_a_thousand_streams_of_a_project_share_what_is_read() {
        let lanes = Lanes::default();
        let project = Uuid::now_v7();
        let (lane, readings) = (lanes.of(project), AtomicUsize::new(0));
        let log = [7, 9];
        let streams = (0..1000).map(|_| stream(&lane, 5, &log, &readings));
        for sent in futures::future::join_all(streams).await {
            assert_eq!(sent, log);
        }
        // one page with the events, and one for those that were notified after that was begun
        assert!(readings.load(Ordering::SeqCst) <= 2);

        // an event more, of which everyone is notified after all that was read
        readings.store(0, Ordering::SeqCst);
        let log = [7, 9, 12];
        for sent in
            futures::future::join_all((0..1000).map(|n| stream(&lane, 9 + n % 2, &log, &readings)))
                .await
        {
            assert_eq!(sent, [12]);
        }
        assert!(readings.load(Ordering::SeqCst) <= 3);
    }

    #[tokio::test]
    async fn a_page_never_hides_what_came_after_it_was_begun() {
        let (lane, readings) = (Lane::default(), AtomicUsize::new(0));
        assert!(stream(&lane, 0, &[], &readings).await.is_empty());
        assert_eq!(stream(&lane, 0, &[3], &readings).await, [3]);
        // the page of another stream is taken as far as it goes, and read on from
        let since = Instant::now();
        assert_eq!(stream(&lane, 0, &[3], &readings).await, [3]);
        readings.store(0, Ordering::SeqCst);
        let two = stream_since(since, &lane, 1, &[3, 4], &readings).await;
        assert_eq!((two, readings.load(Ordering::SeqCst)), (vec![3, 4], 1));
        // but not by one that began after it, and may have reported what came later
        readings.store(0, Ordering::SeqCst);
        assert_eq!(stream(&lane, 1, &[3, 4], &readings).await, [3, 4]);
        assert_eq!(readings.load(Ordering::SeqCst), 1);
        // a stream that is further back than the page
        assert_eq!(stream(&lane, -1, &[3, 4], &readings).await, [3, 4]);
        assert!(stream(&lane, 4, &[3, 4], &readings).await.is_empty());
    }

    #[test]
    fn only_who_did_not_know_it_is_told_that_it_is_new() {
        let page = page(4, &[8]);
        let kinds = [6, 7].map(|at| page.beyond(at)[0].change_after(at).kind());
        assert_eq!(kinds, [ChangeKind::Added, ChangeKind::Modified]);
        assert!(page.beyond(8).is_empty());
    }

    #[test]
    fn nothing_is_kept_for_projects_that_nobody_watches() {
        let lanes = Lanes::default();
        let (one, other) = (Uuid::now_v7(), Uuid::now_v7());
        let first = lanes.of(one);
        assert!(Arc::ptr_eq(&first, &lanes.of(one)));
        drop(first);
        let _held = lanes.of(other);
        assert_eq!(lanes.0.lock().map(|lanes| lanes.len()).ok(), Some(1));
    }
}
