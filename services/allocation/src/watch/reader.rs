//! The one reader of the log: learns what changed and notifies the subscriptions to it.
use std::collections::HashMap;
use std::sync::atomic::Ordering;

use gpuaas_common::{Error, db};
use gpuaas_placement::{events, timeline};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{Key, Watching};

/// Events read in one go.
const BATCH: i64 = 1000;

/// Where the reader is.
#[derive(Default)]
struct Place {
    /// Nothing while there are no streams.
    position: Option<i64>,
    /// Last change of each watched timeline.
    timelines: HashMap<Uuid, i64>,
}

impl Watching {
    /// Reads the log until `shutdown`. Without streams it reads nothing.
    pub async fn read_on(&self, shutdown: CancellationToken) {
        let waiter = self.deps.wake.subscribe(events::TOPIC);
        let mut place = Place::default();
        while !shutdown.is_cancelled() {
            if self.notifier.is_empty() {
                place = Place::default();
            } else if let Err(error) = db::within(db::PASS, read_log(self, &mut place)).await {
                tracing::warn!("wait to read events for watches: {}", error.chain());
            }
            shutdown.run_until_cancelled(waiter.wait(self.poll())).await;
        }
    }
}

async fn read_log(watching: &Watching, place: &mut Place) -> Result<(), Error> {
    let notifier = &watching.notifier;
    let mut conn = watching.deps.pool.acquire().await?;
    let mut position = match place.position {
        Some(position) => position,
        None => {
            // streams that came first have read from their own position and are notified once to be sure
            let head = events::kept(&mut conn).await?.head;
            notifier.notify_all();
            head
        }
    };
    loop {
        let (found, _) = events::read(&mut conn, position, BATCH).await?;
        for event in &found {
            if let Some(project) = event.project_id {
                notifier.notify(&Key::Project(project));
                notifier.notify(&Key::Allocation(event.aggregate_id));
            }
        }
        let Some(last) = found.last() else { break };
        position = last.position;
    }
    // after the notifications: a stream that reads this position and was not notified has missed nothing
    place.position = Some(position);
    watching.notified_to.store(position, Ordering::SeqCst);

    let watched: Vec<Uuid> = notifier
        .keys()
        .into_iter()
        .filter_map(|key| match key {
            Key::Allocation(id) => Some(id),
            Key::Project(_) => None,
        })
        .collect();
    let mut seen = HashMap::with_capacity(watched.len());
    if !watched.is_empty() {
        for (id, change) in timeline::last_changes(&mut conn, &watched).await? {
            if place.timelines.get(&id) != Some(&change) {
                notifier.notify(&Key::Allocation(id));
            }
            seen.insert(id, change);
        }
    }
    place.timelines = seen;
    Ok(())
}
