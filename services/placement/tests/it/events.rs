//! The event log under concurrent writers and sequencers: no gap, no inversion, nothing lost.
use std::collections::HashMap;

use futures::future::join_all;
use gpuaas_placement::outbox::{self, NewEvent};
use gpuaas_placement::{events, sequencer};
use jiff_sqlx::ToSqlx as _;
use uuid::Uuid;

use crate::world::World;

const AGGREGATES: u128 = 8;
const EACH: i64 = 60;

/// Writes the events of one aggregate one after the other; every third transaction is held open a while, so that
/// later sequence numbers commit first.
async fn write(world: &World, aggregate: Uuid) {
    for revision in 1..=EACH {
        let mut tx = world.scheduler.begin().await.expect("begin");
        let event = NewEvent {
            kind: "slot.available",
            aggregate_id: aggregate,
            revision,
            at: jiff::Timestamp::now().to_sqlx(),
            project_id: None,
            data: serde_json::json!({}),
            traceparent: "",
        };
        outbox::append(&mut tx, event).await.expect("append");
        if revision % 3 == 0 {
            sqlx::query("SELECT pg_sleep(0.003)")
                .execute(&mut *tx)
                .await
                .expect("hold open");
        }
        tx.commit().await.expect("commit");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_sequencers_give_a_gapless_order() {
    let world = World::new().await;
    let total = i64::try_from(AGGREGATES).expect("few") * EACH;
    let writers = async {
        join_all((0..AGGREGATES).map(|n| write(&world, Uuid::from_u128(n + 1)))).await;
    };
    // at the pace of a busy service: a sequencer that spins only takes the processor from the writers
    let sequence = async || {
        let mut pace = tokio::time::interval(std::time::Duration::from_millis(5));
        let mut sequenced = 0;
        while world.number("SELECT position FROM outbox_head").await < total {
            pace.tick().await;
            sequenced += sequencer::run_once(&world.allocation)
                .await
                .expect("sequenced");
        }
        sequenced
    };
    let ((), first, second) = tokio::join!(writers, sequence(), sequence());
    assert_eq!(i64::try_from(first + second).expect("few"), total);

    let mut conn = world.allocation.acquire().await.expect("connection");
    let (mut after, mut seen): (i64, HashMap<Uuid, i64>) = (0, HashMap::new());
    loop {
        let (page, head) = events::read(&mut conn, after, 100).await.expect("read");
        assert_eq!(head, total);
        if page.is_empty() {
            break;
        }
        for event in page {
            assert_eq!(event.position, after + 1, "no gap");
            after = event.position;
            let last = seen.insert(event.aggregate_id, event.revision).unwrap_or(0);
            assert_eq!(event.revision, last + 1, "no inversion within an aggregate");
        }
    }
    assert_eq!(after, total);
    assert_eq!(
        sequencer::run_once(&world.allocation)
            .await
            .expect("nothing left"),
        0
    );
}
