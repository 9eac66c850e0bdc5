//! Capacity reservations, over the APIs of operators and of members.
use gpuaas_common::identity::Caller;
use gpuaas_common::time::proto_time;
use gpuaas_placement::reservations::reconcile;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::scheduler::v1::ReserveRequest;
use gpuaas_proto::gpuaas::internal::scheduler::v1::placement_service_server::PlacementService as _;
use gpuaas_proto::gpuaas::scheduler::v1 as pb;
use gpuaas_proto::gpuaas::scheduler::v1::availability_service_server::AvailabilityService as _;
use gpuaas_proto::gpuaas::scheduler::v1::capacity_reservation_admin_service_server::CapacityReservationAdminService as _;
use gpuaas_proto::gpuaas::scheduler::v1::capacity_reservation_service_server::CapacityReservationService as _;
use gpuaas_proto::gpuaas::scheduler::v1::sku_admin_service_server::SkuAdminService as _;
use gpuaas_proto::gpuaas::scheduler::v1::sku_service_server::SkuService as _;
use jiff::{SignedDuration, Timestamp};
use pb::CapacityReservationState as State;
use tonic::{Code, Request};
use uuid::Uuid;

use crate::world::{LAB, REGION, World, by, lab_sku, ok, refused, reservation};

/// The project of [`reservation`].
const OURS: Uuid = Uuid::from_u128(5);
const THEIRS: Uuid = Uuid::from_u128(6);

/// A request of a member of some projects.
pub fn member<T>(message: T, projects: &[Uuid], key: Option<&str>) -> Request<T> {
    let mut request = by(message, key);
    request.extensions_mut().insert(Caller {
        principal: "user:alice".into(),
        projects: projects.to_vec(),
        platform_role: None,
        action: None,
        request_id: "req-3".into(),
        idempotency_key: key.map(str::to_owned),
    });
    request
}

fn in_hours(hours: i64) -> Option<prost_types::Timestamp> {
    Some(proto_time(
        Timestamp::now() + SignedDuration::from_hours(hours),
    ))
}

fn config(name: &str, gpu_count: u32) -> pb::CapacityReservationConfig {
    pb::CapacityReservationConfig {
        project_id: OURS.to_string(),
        name: name.into(),
        region_code: REGION.into(),
        sku: LAB.into(),
        gpu_count,
        end_time: in_hours(1),
        ..pb::CapacityReservationConfig::default()
    }
}

fn operators(name: &str, gpu_count: u32) -> pb::CreateProjectReservationRequest {
    pb::CreateProjectReservationRequest {
        config: Some(config(name, gpu_count)),
        gather: false,
    }
}

fn members(name: &str, gpu_count: u32) -> pb::CreateCapacityReservationRequest {
    pb::CreateCapacityReservationRequest {
        config: Some(config(name, gpu_count)),
        gather: false,
    }
}

#[tokio::test]
async fn an_operator_reserves_and_its_project_sees_and_draws() {
    let (world, ..) = World::with_slots(2).await;
    let requested = operators("training", 2);
    let mut made = Vec::new();
    for _ in 0..2 {
        let call = by(requested.clone(), Some("k-1"));
        made.push(ok(world.api.create_project_reservation(call).await));
    }
    assert_eq!(made[0], made[1]);
    let row = made.remove(0);
    let status = row.status.clone().expect("status");
    assert_eq!(
        (status.state(), status.reserved_gpus, status.unused_gpus),
        (State::Active, 2, 2)
    );
    assert!(status.unused_since.is_some());
    let room: Vec<_> = status
        .launches
        .iter()
        .map(|one| (one.gpu_count, one.fits))
        .collect();
    assert_eq!(room, [(1, 2), (2, 1)]);
    let metadata = row.metadata.clone().expect("metadata");
    assert_eq!(
        (metadata.created_by.as_str(), metadata.made_by_project),
        ("operator", false),
        "its name is not for the members"
    );
    let named = async |created_by: &str| {
        let request = pb::ListCapacityReservationsRequest {
            filter: format!("created_by = \"{created_by}\""),
            ..pb::ListCapacityReservationsRequest::default()
        };
        let found = world
            .api
            .list_capacity_reservations(member(request, &[OURS], None))
            .await;
        ok(found).reservations.len()
    };
    assert_eq!((named("operator").await, named("user:root").await), (1, 0));
    let audited = "SELECT count(*) FROM placement.audit WHERE action = 'reservation.create'";
    assert_eq!(world.number(audited).await, 1);

    // others see that nothing is left, and not for whom it is kept
    let list = async |projects: &[Uuid], project_id: &str| {
        let request = pb::ListAvailabilityRequest {
            project_id: project_id.into(),
            ..pb::ListAvailabilityRequest::default()
        };
        world
            .api
            .list_availability(member(request, projects, None))
            .await
    };
    assert_eq!(ok(list(&[OURS], "").await).availability[0].fits, 2);
    let reported = ok(list(&[THEIRS], "").await).availability;
    assert_eq!(
        (reported[0].fits, reported[0].reasons[0].reason.as_str()),
        (0, "CAPACITY_RESERVED")
    );
    assert!(!format!("{reported:?}").contains(&OURS.to_string()));
    // of several projects the one that is named
    assert_eq!(ok(list(&[OURS, THEIRS], "").await).availability[0].fits, 0);
    assert_eq!(
        ok(list(&[OURS, THEIRS], &OURS.to_string()).await).availability[0].fits,
        2
    );
    assert_eq!(
        refused(list(&[THEIRS], &OURS.to_string()).await).reason(),
        ErrorReason::ProjectUnknown
    );
    let explain = pb::ExplainPlacementRequest {
        region_code: REGION.into(),
        sku: LAB.into(),
        gpu_count: 1,
        ..pb::ExplainPlacementRequest::default()
    };
    let found = ok(world
        .api
        .explain_placement(member(explain.clone(), &[OURS], None))
        .await);
    assert_eq!(found.nodes_fit, 1);
    let found = ok(world
        .api
        .explain_placement(member(explain, &[THEIRS], None))
        .await);
    assert_eq!((found.nodes_fit, found.removed[0].gpus), (0, 2));

    let others = ReserveRequest {
        project_id: THEIRS.to_string(),
        ..reservation("b")
    };
    let error = refused(world.api.reserve(Request::new(others)).await);
    assert_eq!(
        (error.code(), error.reason()),
        (Code::ResourceExhausted, ErrorReason::CapacityReserved)
    );
    ok(world.api.reserve(Request::new(reservation("a"))).await);

    let get = |projects: &[Uuid]| {
        let request = pb::GetCapacityReservationRequest {
            reservation_id: row.id.clone(),
        };
        world
            .api
            .get_capacity_reservation(member(request, projects, None))
    };
    let seen = ok(get(&[THEIRS, OURS]).await).status.expect("status");
    assert_eq!((seen.used_gpus, seen.unused_gpus), (1, 1));
    assert_eq!(refused(get(&[THEIRS]).await).code(), Code::NotFound);
    let listed = pb::ListCapacityReservationsRequest::default();
    let listed = ok(world
        .api
        .list_capacity_reservations(member(listed, &[OURS], None))
        .await);
    assert_eq!(listed.reservations.len(), 1);

    let cancel = pb::CancelCapacityReservationRequest {
        reservation_id: row.id.clone(),
        reason: String::new(),
    };
    let call = member(cancel, &[OURS], Some("k-2"));
    let error = refused(world.api.cancel_capacity_reservation(call).await);
    assert_eq!(error.reason(), ErrorReason::PermissionDenied);
    let cancel = pb::CancelProjectReservationRequest {
        reservation_id: row.id.clone(),
        reason: "over".into(),
    };
    let done = ok(world
        .api
        .cancel_project_reservation(by(cancel, Some("k-3")))
        .await);
    let status = done.status.expect("status");
    assert_eq!(
        (status.state(), status.reason.as_str()),
        (State::Canceled, "over")
    );
    assert!(done.metadata.expect("metadata").end_time.is_some());
    assert_eq!(ok(list(&[THEIRS], "").await).availability[0].fits, 1);
}

#[tokio::test]
async fn a_member_reserves_within_the_limit_that_an_operator_sets() {
    let (world, ..) = World::with_slots(2).await;
    let create = |request, key| {
        world
            .api
            .create_capacity_reservation(member(request, &[OURS], Some(key)))
    };
    assert_eq!(
        refused(create(members("a", 1), "k-1").await).reason(),
        ErrorReason::ReservationLimit
    );
    let limit = pb::PutProjectReservationLimitRequest {
        project_id: OURS.to_string(),
        max_gpus: 1,
        ..pb::PutProjectReservationLimitRequest::default()
    };
    for _ in 0..2 {
        let call = by(limit.clone(), Some("k-limit"));
        let answer = ok(world.api.put_project_reservation_limit(call).await);
        assert_eq!((answer.max_gpus, answer.reserved_gpus), (1, 0));
    }
    let audited = "SELECT count(*) FROM placement.audit WHERE action = 'reservation.limit'";
    assert_eq!(world.number(audited).await, 1);
    let mut first = members("a", 1);
    if let Some(config) = &mut first.config {
        config.project_id = String::new();
        config.release_unused_after_seconds = 600;
    }
    let row = ok(create(first, "k-2").await);
    let shown = row.config.expect("config");
    assert_eq!(
        (
            shown.project_id.as_str(),
            shown.release_unused_after_seconds
        ),
        (OURS.to_string().as_str(), 600)
    );
    assert!(row.metadata.expect("metadata").made_by_project);
    assert_eq!(
        refused(create(members("b", 1), "k-3").await).fields()[0].0,
        "config.gpu_count"
    );
    let cancel = pb::CancelCapacityReservationRequest {
        reservation_id: row.id,
        reason: String::new(),
    };
    let call = member(cancel, &[OURS], Some("k-4"));
    ok(world.api.cancel_capacity_reservation(call).await);
    ok(create(members("b", 1), "k-5").await);
    let mut later = operators("b", 1);
    let config = later.config.as_mut().expect("config");
    (config.start_time, config.end_time) = (in_hours(2), in_hours(4));
    let call = by(later.clone(), Some("k-7"));
    let error = refused(world.api.create_project_reservation(call).await);
    assert_eq!(
        (error.reason(), error.fields()[0].0.as_str()),
        (ErrorReason::AlreadyExists, "config.name")
    );
    // nobody is a member of this one
    later.config.as_mut().expect("config").project_id = Uuid::nil().to_string();
    let call = by(later, Some("k-8"));
    let made = ok(world.api.create_project_reservation(call).await);
    let look = pb::GetCapacityReservationRequest {
        reservation_id: made.id,
    };
    let call = member(look, &[OURS], None);
    let error = refused(world.api.get_capacity_reservation(call).await);
    assert_eq!(error.code(), Code::NotFound);
    let foreign = member(members("c", 1), &[THEIRS], Some("k-6"));
    let error = refused(world.api.create_capacity_reservation(foreign).await);
    assert_eq!(
        (error.reason(), error.fields()[0].0.as_str()),
        (ErrorReason::ProjectUnknown, "config.project_id")
    );
}

#[tokio::test]
async fn reservations_are_listed_in_pages_with_how_far_they_are() {
    let (world, ..) = World::with_slots(1).await;
    let mut later = operators("later", 1);
    if let Some(config) = &mut later.config {
        config.start_time = in_hours(2);
        config.end_time = in_hours(4);
    }
    ok(world
        .api
        .create_project_reservation(by(later, Some("k-1")))
        .await);
    let mut large = operators("large", 3);
    let error = refused(
        world
            .api
            .create_project_reservation(by(large.clone(), Some("k-2")))
            .await,
    );
    assert!(
        error
            .message()
            .starts_with("1 of 3 GPUs can be reserved now."),
        "{error:?}"
    );
    large.gather = true;
    ok(world
        .api
        .create_project_reservation(by(large, Some("k-2")))
        .await);
    reconcile(&world.api.pool, world.api.policy)
        .await
        .expect("reconciled");
    let mut request = pb::ListAllReservationsRequest {
        region_code: REGION.into(),
        page_size: 1,
        ..pb::ListAllReservationsRequest::default()
    };
    let mut seen = Vec::new();
    loop {
        let page = ok(world
            .api
            .list_all_reservations(by(request.clone(), None))
            .await);
        for row in page.reservations {
            let status = row.status.expect("status");
            let name = row.config.expect("config").name;
            seen.push((name, status.state(), status.reserved_gpus));
        }
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(
        seen,
        [
            ("large".to_owned(), State::Gathering, 1),
            ("later".to_owned(), State::Scheduled, 0)
        ]
    );
    request.project_id = THEIRS.to_string();
    let error = refused(
        world
            .api
            .list_all_reservations(by(request.clone(), None))
            .await,
    );
    assert_eq!(error.reason(), ErrorReason::PageTokenInvalid);
    request.page_token = String::new();
    request.region_code = "nowhere".into();
    let error = refused(world.api.list_all_reservations(by(request, None)).await);
    assert_eq!(error.reason(), ErrorReason::RegionUnknown);
}

#[tokio::test]
async fn bad_reservations_name_their_field() {
    let (world, ..) = World::with_slots(1).await;
    let good = config("a", 1);
    let with = |change: &dyn Fn(&mut pb::CapacityReservationConfig)| {
        let mut config = good.clone();
        change(&mut config);
        config
    };
    for (config, field) in [
        (with(&|c| c.name = "No".into()), "config.name"),
        (
            with(&|c| c.region_code = String::new()),
            "config.region_code",
        ),
        (
            with(&|c| c.region_code = "nowhere".into()),
            "config.region_code",
        ),
        (with(&|c| c.sku = "nothing".into()), "config.sku"),
        (with(&|c| c.gpu_count = 0), "config.gpu_count"),
        (with(&|c| c.gpu_count = 2000), "config.gpu_count"),
        (with(&|c| c.end_time = None), "config.end_time"),
        (with(&|c| c.end_time = in_hours(-1)), "config.end_time"),
        (with(&|c| c.start_time = in_hours(-1)), "config.start_time"),
        (with(&|c| c.project_id = "x".into()), "config.project_id"),
        (
            with(&|c| c.release_unused_after_seconds = 5),
            "config.release_unused_after_seconds",
        ),
    ] {
        let request = pb::CreateProjectReservationRequest {
            config: Some(config),
            gather: false,
        };
        let error = refused(
            world
                .api
                .create_project_reservation(by(request, Some("k")))
                .await,
        );
        assert_eq!(
            (error.code(), error.fields()[0].0.as_str()),
            (Code::InvalidArgument, field)
        );
    }
    let keyless = by(operators("a", 1), None);
    let error = refused(world.api.create_project_reservation(keyless).await);
    assert_eq!(error.reason(), ErrorReason::IdempotencyKeyMissing);
    let long = pb::CancelProjectReservationRequest {
        reservation_id: Uuid::nil().to_string(),
        reason: "x".repeat(501),
    };
    let error = refused(
        world
            .api
            .cancel_project_reservation(by(long, Some("k")))
            .await,
    );
    assert_eq!(error.fields()[0].0, "reason");
    assert_eq!(
        world
            .number("SELECT count(*) FROM placement.capacity_reservations")
            .await,
        0
    );
}

/// Who disables a SKU sees how many GPUs reservations of it go on holding, and sees it in the list; members do not.
#[tokio::test]
async fn who_disables_a_sku_sees_what_is_reserved_of_it() {
    let (world, ..) = World::with_slots(2).await;
    let call = by(operators("training", 2), Some("k-1"));
    let made = ok(world.api.create_project_reservation(call).await);
    let put = async |disabled: bool, key: &str| {
        let sku = pb::Sku {
            disabled: Some(disabled),
            ..lab_sku()
        };
        let request = pb::PutSkuRequest { sku: Some(sku) };
        ok(world.api.put_sku(by(request, Some(key))).await)
    };
    let off = put(true, "off").await;
    assert_eq!((off.disabled(), off.reserved_gpus), (true, 2));
    assert_eq!(put(true, "off").await, off, "a repetition says the same");
    let all = async |request| ok(world.api.list_skus(request).await).skus;
    let shown = all(by(pb::ListSkusRequest::default(), None)).await;
    let of_lab = shown.iter().find(|sku| sku.code == LAB);
    assert_eq!(of_lab.expect("shown").reserved_gpus, 2);

    // its project launches on it, and cancels it
    let launched = world.api.reserve(Request::new(reservation("own"))).await;
    ok(launched);
    let cancel = pb::CancelProjectReservationRequest {
        reservation_id: made.id,
        reason: "disabled".into(),
    };
    ok(world
        .api
        .cancel_project_reservation(by(cancel, Some("k-2")))
        .await);
    let on = put(false, "on").await;
    assert_eq!((on.disabled(), on.reserved_gpus), (false, 0));
    let shown = all(member(pb::ListSkusRequest::default(), &[OURS], None)).await;
    assert!(shown.iter().all(|sku| sku.reserved_gpus == 0));
}
