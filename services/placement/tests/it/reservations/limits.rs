//! Who may reserve how much, keys, names, windows, and cancelling.
use futures::future::join_all;
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_placement::model::{ReservationState, Scope};
use gpuaas_placement::reservations::{self, Cancellation, Query, RESERVATIONS, ReservationSpec};
use gpuaas_placement::reserve::Policy;
use gpuaas_placement::{Error, Result, quota};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::{create, get, of_others, requested, reserved, sound};
use crate::world::{LAB, POLICY, World};

fn hours(hours: i64) -> Timestamp {
    Timestamp::now() + SignedDuration::from_hours(hours)
}

async fn put_limit(world: &World, gpus: i32) {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    reservations::put_limit(&mut conn, world.project, gpus)
        .await
        .expect("limit");
}

pub async fn cancel(
    world: &World,
    key: &str,
    scope: Scope,
    id: Uuid,
) -> Result<reservations::CapacityReservation> {
    let requested = Cancellation {
        principal: "user:alice",
        idempotency_key: key,
        request_hash: &[3; 32],
        request_id: "req-2",
        scope,
        id,
        reason: "the run is over",
    };
    reservations::cancel(&world.scheduler, POLICY, &requested).await
}

#[tokio::test]
async fn p4_a_key_makes_one_reservation() {
    let (world, _) = World::with_lab_slots(2).await;
    let once = requested(&world, 1);
    let made = join_all((0..4).map(|_| {
        let once = once.clone();
        let world = &world;
        async move { reservations::create(&world.scheduler, world.ids, POLICY, &once).await }
    }))
    .await;
    let made: Vec<_> = made.into_iter().map(|one| one.expect("made")).collect();
    assert!(made.iter().all(|(row, _)| row.id == made[0].0.id));
    assert_eq!(made.iter().filter(|(_, replayed)| !replayed).count(), 1);
    assert_eq!(world.number("SELECT count(*) FROM reserved_slots").await, 1);
    let other = ReservationSpec {
        request_hash: vec![8; 32],
        ..once.clone()
    };
    let error = gpuaas_common::Error::from(create(&world, &other).await.expect_err("reused"));
    assert_eq!(error.reason(), ErrorReason::IdempotencyKeyReused);
    let taken = ReservationSpec {
        name: once.name.clone(),
        ..requested(&world, 1)
    };
    let error = gpuaas_common::Error::from(create(&world, &taken).await.expect_err("taken"));
    assert_eq!(
        (error.reason(), error.fields()[0].0.as_str()),
        (ErrorReason::AlreadyExists, "name")
    );
    let audited = "SELECT count(*) FROM audit WHERE action = 'reservation.create' AND principal = 'user:root'";
    assert_eq!(world.number(audited).await, 1);
}

#[tokio::test]
async fn what_cannot_be_is_refused_by_its_field_and_stores_nothing() {
    let (world, _) = World::with_lab_slots(2).await;
    let good = requested(&world, 1);
    let cases = [
        (
            "gpu_count",
            ReservationSpec {
                gpu_count: 0,
                ..good.clone()
            },
        ),
        (
            "gpu_count",
            ReservationSpec {
                gpu_count: 1025,
                ..good.clone()
            },
        ),
        (
            "region_code",
            ReservationSpec {
                region_code: "nowhere".into(),
                ..good.clone()
            },
        ),
        (
            "sku",
            ReservationSpec {
                sku: "nothing".into(),
                ..good.clone()
            },
        ),
        (
            "start_time",
            ReservationSpec {
                starts_at: Some(hours(-1)),
                ..good.clone()
            },
        ),
        (
            "start_time",
            ReservationSpec {
                starts_at: Some(hours(91 * 24)),
                ends_at: hours(92 * 24),
                ..good.clone()
            },
        ),
        (
            "end_time",
            ReservationSpec {
                ends_at: hours(-1),
                ..good.clone()
            },
        ),
        (
            "end_time",
            ReservationSpec {
                ends_at: hours(91 * 24),
                ..good.clone()
            },
        ),
        (
            "release_unused_after_seconds",
            ReservationSpec {
                release_unused_after: Some(59),
                ..good.clone()
            },
        ),
    ];
    let before = world.fingerprint().await;
    for (field, case) in cases {
        let error = gpuaas_common::Error::from(create(&world, &case).await.expect_err(field));
        assert_eq!(error.fields()[0].0, field, "{error:?}");
    }
    // what the quota keeps from being launched is not reserved
    let mut conn = world.scheduler.acquire().await.expect("connection");
    quota::put(&mut conn, world.project, LAB, 1)
        .await
        .expect("quota");
    drop(conn);
    let error = gpuaas_common::Error::from(
        create(&world, &requested(&world, 2))
            .await
            .expect_err("quota"),
    );
    assert_eq!(error.reason(), ErrorReason::Quota);
    assert_eq!(
        world
            .number("SELECT count(*) FROM capacity_reservations")
            .await,
        0
    );
    let after = world.fingerprint().await;
    assert_eq!(
        (before[0], before[1], before[3..].to_vec()),
        (after[0], after[1], after[3..].to_vec())
    );
    reserved(&world, 1).await;
}

#[tokio::test]
async fn a_project_reserves_within_its_limit_and_cancels_its_own() {
    let (world, _) = World::with_lab_slots(4).await;
    let own = |gpus| ReservationSpec {
        made_by_project: true,
        principal: "user:alice".into(),
        ..requested(&world, gpus)
    };
    let error = gpuaas_common::Error::from(create(&world, &own(1)).await.expect_err("no limit"));
    assert_eq!(error.reason(), ErrorReason::ReservationLimit);
    assert!(!error.is_transient(), "{error:?}");
    assert_eq!(error.metadata().get("limit").map(String::as_str), Some("0"));
    put_limit(&world, 2).await;
    let several: Vec<ReservationSpec> = (0..4).map(|_| own(1)).collect();
    let made = join_all(several.iter().map(|requested| create(&world, requested))).await;
    let made: Vec<_> = made.into_iter().filter_map(Result::ok).collect();
    assert_eq!(made.len(), 2, "{made:?}");
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let limit = reservations::limit(&mut conn, world.project)
        .await
        .expect("limit");
    assert_eq!((limit.max_gpus, limit.reserved_gpus), (2, 2));
    drop(conn);

    // an operator's does not count, and is not the project's to cancel
    let operators = reserved(&world, 1).await;
    let project = Scope::Project(world.project);
    let error = gpuaas_common::Error::from(
        cancel(&world, "k-1", project, operators.id)
            .await
            .expect_err("an operator's"),
    );
    assert_eq!(error.reason(), ErrorReason::PermissionDenied);
    let stranger = Scope::Project(Uuid::from_u128(77));
    let missing = cancel(&world, "k-2", stranger, made[0].id).await;
    assert!(matches!(missing, Err(Error::NotFound { .. })));
    assert_eq!(
        get(&world, made[0].id).await.state,
        ReservationState::Active
    );
    for _ in 0..2 {
        let row = cancel(&world, "k-3", project, made[0].id)
            .await
            .expect("canceled");
        assert_eq!(
            (row.state, row.reserved_gpus, row.reason.as_str()),
            (ReservationState::Canceled, 0, "the run is over")
        );
    }
    let again = cancel(&world, "k-4", project, made[0].id).await;
    assert!(matches!(again, Err(Error::Conflict { .. })), "{again:?}");
    create(&world, &own(1))
        .await
        .expect("within the limit again");
    world
        .reserve(&of_others(&world, 1))
        .await
        .expect("one is open");
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let mut query = Query {
        project_id: Some(world.project),
        ..Query::default()
    };
    let selection = Selection::parse(&RESERVATIONS, "", "").expect("everything");
    let page = |page_token, size| Wanted {
        page_token,
        size,
        query: &[],
    };
    let (live, _) = reservations::list(&mut conn, &query, &selection, page("", 10))
        .await
        .expect("listed");
    assert_eq!(live.len(), 3);
    query.include_ended = true;
    let (newest, token) = reservations::list(&mut conn, &query, &selection, page("", 1))
        .await
        .expect("listed");
    assert_eq!(newest[0].id, live[0].id);
    let (older, _) = reservations::list(&mut conn, &query, &selection, page(&token, 10))
        .await
        .expect("listed");
    assert_eq!(older.len(), 3);
    drop(conn);
    // who reads of it learns which of them operators did
    cancel(&world, "k-5", Scope::Platform, operators.id)
        .await
        .expect("canceled by an operator");
    for (id, by_operator) in [(operators.id, 2), (made[0].id, 0)] {
        let marked = format!(
            "SELECT count(*) FROM audit WHERE resource_id = '{id}' AND detail ->> 'by_operator' = 'true'"
        );
        assert_eq!(world.number(&marked).await, by_operator, "{id}");
        let all = format!("SELECT count(*) FROM audit WHERE resource_id = '{id}'");
        assert_eq!(world.number(&all).await, 2, "{id}");
    }
    sound(&world).await;
}

/// A site that does not want GPUs to idle bounds what projects reserve by themselves, and nobody else.
#[tokio::test]
async fn a_site_bounds_how_long_a_project_keeps_what_it_does_not_use() {
    let (world, _) = World::with_lab_slots(4).await;
    put_limit(&world, 4).await;
    let site = Policy {
        release_unused_after: Some(3600),
        ..POLICY
    };
    let make = async |made_by_project: bool, seconds: Option<u32>| {
        let request = ReservationSpec {
            made_by_project,
            release_unused_after: seconds,
            ..requested(&world, 1)
        };
        let made = reservations::create(&world.scheduler, world.ids, site, &request).await;
        made.map(|(row, _)| row.release_unused_after)
    };
    let before = world.fingerprint().await;
    let error = gpuaas_common::Error::from(make(true, Some(3601)).await.expect_err("too long"));
    assert_eq!(
        error.fields(),
        [(
            "release_unused_after_seconds".to_owned(),
            "must be at most 3600 here, or absent; an operator can reserve for longer".to_owned()
        )]
    );
    assert_eq!(world.fingerprint().await, before);
    assert_eq!(make(true, None).await.expect("made"), Some(3600));
    assert_eq!(make(true, Some(60)).await.expect("made"), Some(60));
    assert_eq!(make(false, Some(7200)).await.expect("made"), Some(7200));
    assert_eq!(make(false, None).await.expect("made"), None);
}
