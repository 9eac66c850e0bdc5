//! The fleet's capacity over time.
use std::time::Duration;

use gpuaas_placement::Error;
use gpuaas_placement::history::{self, Bucket, Query};
use gpuaas_placement::reserve::Policy;
use sqlx::AssertSqlSafe;

use crate::baremetal::{bare_metal, world_of};
use crate::reserving;
use crate::world::{H200, LAB, POLICY, REGION, World};

/// What the last sample says of a SKU: nodes, GPUs, held, free.
async fn sampled(world: &World, sku: &str) -> Option<(i32, i32, i32, i32)> {
    world.run("DELETE FROM capacity_samples").await;
    let mut conn = world.scheduler.acquire().await.expect("connection");
    history::sample(&mut conn).await.expect("sampled");
    let last = "SELECT nodes, gpus, gpus_in_use, gpus_free FROM capacity_samples WHERE sku = $1";
    sqlx::query_as(AssertSqlSafe(last))
        .bind(sku)
        .fetch_optional(&mut *conn)
        .await
        .expect("a sample")
}

#[tokio::test]
async fn a_sample_counts_what_is_held_and_what_could_be_allocated() {
    let (world, node) = World::with_lab_slots(4).await;
    world.active(1).await;
    assert_eq!(sampled(&world, LAB).await, Some((1, 4, 1, 3)));
    assert_eq!(sampled(&world, H200).await, None, "no slots of that class");
    world
        .run("UPDATE slots SET host_health = 'degraded' WHERE slot_index = 3")
        .await;
    assert_eq!(sampled(&world, LAB).await, Some((1, 4, 1, 2)));
    world
        .run(&format!(
            "UPDATE nodes SET admin_state = 'cordoned' WHERE id = '{node}'"
        ))
        .await;
    assert_eq!(sampled(&world, LAB).await, Some((1, 4, 1, 0)));
}

#[tokio::test]
async fn a_bare_metal_node_is_free_when_all_of_it_is() {
    let (world, specs) = world_of(3).await;
    assert_eq!(sampled(&world, "h200-sxm-node").await, Some((3, 24, 0, 24)));
    assert_eq!(sampled(&world, H200).await, Some((3, 24, 0, 24)));
    let policy = Policy {
        baremetal: true,
        ..POLICY
    };
    reserving::one(&world.scheduler, world.ids, policy, &bare_metal(&world))
        .await
        .expect("reserved");
    let one = format!(
        "UPDATE slots SET host_health = 'failed' WHERE slot_index = 0 AND node_id =
            (SELECT id FROM nodes WHERE mode = 'slice' AND id IN ('{}', '{}', '{}') LIMIT 1)",
        specs[0].id, specs[1].id, specs[2].id
    );
    world.run(&one).await;
    assert_eq!(sampled(&world, "h200-sxm-node").await, Some((3, 24, 8, 8)));
    assert_eq!(sampled(&world, H200).await, Some((3, 24, 0, 15)));
}

#[tokio::test]
async fn history_is_shown_in_buckets_and_kept_for_its_time() {
    let (world, _) = World::with_lab_slots(1).await;
    let start: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    for (minute, held, free) in [(0, 1, 3), (1, 4, 0), (2, 2, 2), (61, 0, 4)] {
        let at = start + jiff::SignedDuration::from_mins(minute);
        world
            .run(&format!(
                "INSERT INTO capacity_samples VALUES ('{at}', '{REGION}', '{LAB}', 1, 4, {held}, {free})"
            ))
            .await;
    }
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let query = Query {
        region_code: None,
        sku: Some(LAB),
        from: start,
        until: start + jiff::SignedDuration::from_hours(2),
        bucket: Duration::from_secs(3600),
        after: None,
        limit: 1000,
    };
    let shown = history::history(&mut conn, &query).await.expect("history");
    let seen = |one: &Bucket| (one.at.to_jiff(), one.gpus_in_use, one.gpus_free);
    let hour = start + jiff::SignedDuration::from_hours(1);
    assert_eq!(
        shown.iter().map(seen).collect::<Vec<_>>(),
        [(start, 4, 0), (hour, 0, 4)],
        "the most that was held, the least that was free"
    );
    let mean = |one: &Bucket| (one.mean_gpus_in_use * 3.0).round() / one.mean_gpus;
    assert_eq!(
        shown.iter().map(mean).collect::<Vec<_>>(),
        [7.0 / 4.0, 0.0],
        "the mean is over all samples: a peak of one minute does not count for the hour"
    );
    let first = Query {
        limit: 1,
        ..query.clone()
    };
    let shown = history::history(&mut conn, &first).await.expect("history");
    assert_eq!(shown.iter().map(seen).collect::<Vec<_>>(), [(start, 4, 0)]);
    for (after, rest) in [
        ((start, REGION, LAB), vec![(hour, 0, 4)]),
        ((start, REGION, ""), vec![(start, 4, 0), (hour, 0, 4)]),
        ((hour, REGION, LAB), vec![]),
    ] {
        let next = Query {
            after: Some(after),
            ..query.clone()
        };
        let shown = history::history(&mut conn, &next).await.expect("history");
        assert_eq!(
            shown.iter().map(seen).collect::<Vec<_>>(),
            rest,
            "{after:?}"
        );
    }
    let short = Query {
        until: start + jiff::SignedDuration::from_mins(1),
        ..query.clone()
    };
    let shown = history::history(&mut conn, &short).await.expect("history");
    assert_eq!(shown.iter().map(seen).collect::<Vec<_>>(), [(start, 1, 3)]);
    let unknown = Query {
        region_code: Some("nowhere"),
        ..query
    };
    let refused = history::history(&mut conn, &unknown).await;
    assert!(
        matches!(
            refused,
            Err(Error::Invalid {
                field: "region_code",
                ..
            })
        ),
        "{refused:?}"
    );

    history::sample(&mut conn).await.expect("today's");
    let gone = history::prune(&mut conn, Duration::from_secs(24 * 3600)).await;
    assert_eq!(gone.expect("pruned"), 4);
    assert_eq!(
        world.number("SELECT count(*) FROM capacity_samples").await,
        1
    );
}

#[tokio::test]
async fn what_is_too_old_goes_in_bounded_batches_the_oldest_first() {
    let (world, _) = World::with_lab_slots(1).await;
    world
        .run(&format!(
            "INSERT INTO capacity_samples
             SELECT date_trunc('minute', now(), 'UTC') - make_interval(days => 2, mins => n), '{REGION}', '{LAB}', 1, 4, 0, 4
               FROM generate_series(0, 1200) AS n"
        ))
        .await;
    let mut conn = world.scheduler.acquire().await.expect("connection");
    history::sample(&mut conn).await.expect("today's");
    let keep = Duration::from_secs(24 * 3600);
    let gone = history::prune(&mut conn, keep).await;
    assert_eq!(gone.expect("pruned"), history::PRUNED_AT_ONCE);
    let left = "SELECT (extract(epoch FROM max(at) - min(at)) / 60)::bigint FROM capacity_samples
                 WHERE at < now() - interval '1 day'";
    assert_eq!(world.number(left).await, 200, "the latest are left");
    for rest in [201, 0] {
        let gone = history::prune(&mut conn, keep).await;
        assert_eq!(gone.expect("pruned"), rest);
    }
    assert_eq!(
        world.number("SELECT count(*) FROM capacity_samples").await,
        1
    );
}
