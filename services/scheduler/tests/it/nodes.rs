//! Cordon, drain and explanations as an administrator calls them; batches as the allocation service does.
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::scheduler::v1::placement_service_server::PlacementService as _;
use gpuaas_proto::gpuaas::internal::scheduler::v1::{
    ApproveSlotsRequest, PutNodeRequest, ReserveBatchRequest, ReserveRequest,
};
use gpuaas_proto::gpuaas::scheduler::v1::availability_service_server::AvailabilityService as _;
use gpuaas_proto::gpuaas::scheduler::v1::node_placement_service_server::NodePlacementService as _;
use gpuaas_proto::gpuaas::scheduler::v1::{
    CordonNodeRequest, DrainNodeRequest, ExplainNodesRequest, ExplainPlacementRequest,
    GetNodePlacementRequest, ListNodePlacementsRequest, PlacementConstraints, PlacementExplanation,
    UnavailableReason, UncordonNodeRequest,
};
use jiff_sqlx::Timestamp;
use tonic::{Code, Request};
use uuid::Uuid;

use crate::reservations::member;
use crate::world::{LAB, REGION, World, approval, by, node, ok, refused, reservation};

#[tokio::test]
async fn b_50_a_drain_is_said_once_per_key_audited_and_shows_its_progress() {
    let (world, node_id, _) = World::with_slots(2).await;
    ok(world.api.reserve(Request::new(reservation("a"))).await);
    let drain = |reason: &str| DrainNodeRequest {
        node_id: node_id.clone(),
        reason: reason.into(),
        ..DrainNodeRequest::default()
    };
    let unkeyed = refused(world.api.drain_node(by(drain("rack move"), None)).await);
    assert_eq!(unkeyed.reason(), ErrorReason::IdempotencyKeyMissing);
    let first = ok(world
        .api
        .drain_node(by(drain("rack move"), Some("k1")))
        .await);
    assert_eq!(
        (first.admin_state.as_str(), first.admin_reason.as_str()),
        ("draining", "rack move")
    );
    assert_eq!(
        (
            first.live_claims,
            first.live_allocations,
            first.available_slots,
            first.drained
        ),
        (1, 1, 1, false)
    );
    assert!(first.admin_time.is_some());
    assert_eq!(
        ok(world
            .api
            .drain_node(by(drain("rack move"), Some("k1")))
            .await),
        first
    );
    let other = refused(world.api.drain_node(by(drain("other"), Some("k1"))).await);
    assert_eq!(other.reason(), ErrorReason::IdempotencyKeyReused);
    let audited = "SELECT count(*) FROM placement.audit WHERE action = 'node.drain' AND detail->>'reason' = 'rack move'";
    assert_eq!(world.number(audited).await, 1);
    assert_eq!(
        world
            .number("SELECT count(*) FROM placement.outbox WHERE type = 'node.draining'")
            .await,
        1
    );

    let error = refused(world.api.reserve(Request::new(reservation("b"))).await);
    assert!(
        error.metadata().contains_key("NODE_DRAINING.nodes"),
        "{error}"
    );

    let cordon = CordonNodeRequest {
        node_id: node_id.clone(),
        reason: "watch it".into(),
        ..CordonNodeRequest::default()
    };
    assert_eq!(
        ok(world.api.cordon_node(by(cordon, Some("k2"))).await).admin_state,
        "cordoned"
    );
    let uncordon = UncordonNodeRequest {
        node_id: node_id.clone(),
        ..UncordonNodeRequest::default()
    };
    let open = ok(world.api.uncordon_node(by(uncordon, Some("k3"))).await);
    assert_eq!(
        (open.admin_state.as_str(), open.admin_reason.as_str()),
        ("enabled", "")
    );
    ok(world.api.reserve(Request::new(reservation("b"))).await);
    let listed = ok(world
        .api
        .list_node_placements(by(ListNodePlacementsRequest::default(), None))
        .await)
    .nodes;
    let got = ok(world
        .api
        .get_node_placement(by(GetNodePlacementRequest { node_id }, None))
        .await);
    assert_eq!((listed.len(), &listed[0], got.live_claims), (1, &got, 2));
}

#[tokio::test]
async fn p4_a_cordon_sent_twice_at_once_is_answered_twice_and_done_once() {
    let (world, node_id, _) = World::with_slots(1).await;
    let get = GetNodePlacementRequest {
        node_id: node_id.clone(),
    };
    let read = ok(world.api.get_node_placement(by(get, None)).await);
    let cordon = |reason: &str| {
        let request = CordonNodeRequest {
            node_id: node_id.clone(),
            reason: reason.into(),
            etag: read.etag.clone(),
        };
        world.api.cordon_node(by(request, Some("k1")))
    };
    let (one, other) = world
        .at_once(&node_id, cordon("watch it"), cordon("watch it"))
        .await;
    let (one, other) = (ok(one), ok(other));
    assert_eq!((one.admin_state.as_str(), &one), ("cordoned", &other));
    let audited = "SELECT count(*) FROM placement.audit WHERE action = 'node.cordon'";
    assert_eq!(world.number(audited).await, 1);
    let reused = refused(cordon("forget it").await);
    assert_eq!(reused.reason(), ErrorReason::IdempotencyKeyReused);
}

#[tokio::test]
async fn a_cordon_needs_a_reason_and_a_node() {
    let (world, node_id, _) = World::with_slots(1).await;
    for (node_id, reason, code, field) in [
        (node_id.as_str(), " ", Code::InvalidArgument, "reason"),
        (
            node_id.as_str(),
            &"x".repeat(501),
            Code::InvalidArgument,
            "reason",
        ),
        ("n1", "why", Code::InvalidArgument, "node_id"),
    ] {
        let request = CordonNodeRequest {
            node_id: node_id.into(),
            reason: reason.into(),
            ..CordonNodeRequest::default()
        };
        let error = refused(world.api.cordon_node(by(request, Some("k"))).await);
        assert_eq!((error.code(), error.fields()[0].0.as_str()), (code, field));
    }
    let nobody = CordonNodeRequest {
        node_id: Uuid::now_v7().to_string(),
        reason: "why".into(),
        ..CordonNodeRequest::default()
    };
    let error = refused(world.api.cordon_node(by(nobody, Some("k"))).await);
    assert_eq!(
        (error.code(), error.reason()),
        (Code::NotFound, ErrorReason::NodeNotFound)
    );
}

#[tokio::test]
async fn b_57_explanations_count_nodes_and_judge_each() {
    let (world, node_id, _) = World::with_slots(2).await;
    let requested = |gpu_count| ExplainPlacementRequest {
        region_code: REGION.into(),
        sku: LAB.into(),
        gpu_count,
        ..ExplainPlacementRequest::default()
    };
    let fits = ok(world.api.explain_placement(by(requested(2), None)).await);
    assert_eq!((fits.nodes, fits.nodes_fit, fits.removed.len()), (1, 1, 0));
    ok(world.api.reserve(Request::new(reservation("a"))).await);
    let out = ok(world.api.explain_placement(by(requested(2), None)).await);
    assert_eq!((out.nodes_fit, out.gpu_count), (0, 2));
    let reasons: Vec<&str> = out
        .removed
        .iter()
        .map(|cause| cause.reason.as_str())
        .collect();
    assert_eq!(reasons, ["FRAGMENTED", "SLOTS_IN_USE"]);

    let nodes = |gpu_count| ExplainNodesRequest {
        region_code: REGION.into(),
        sku: LAB.into(),
        gpu_count,
        page_size: 10,
        ..ExplainNodesRequest::default()
    };
    let one = ok(world.api.explain_nodes(by(nodes(1), None)).await);
    assert_eq!(
        (
            one.nodes.len(),
            one.nodes[0].fits,
            one.nodes[0].node_id.as_str()
        ),
        (1, true, node_id.as_str())
    );
    assert_eq!(one.nodes[0].slot_indexes, [1]);
    assert!(
        one.nodes[0]
            .score
            .iter()
            .any(|part| part.name == "left_over" && part.value == 0)
    );
    let two = ok(world.api.explain_nodes(by(nodes(2), None)).await);
    assert!(!two.nodes[0].fits && two.nodes[0].reasons.len() == 2);
    for (request, field) in [
        (
            ExplainPlacementRequest {
                region_code: String::new(),
                ..requested(1)
            },
            "region_code",
        ),
        (
            ExplainPlacementRequest {
                sku: "nothing".into(),
                ..requested(1)
            },
            "sku",
        ),
        (requested(0), "gpu_count"),
        (requested(5), "gpu_count"),
    ] {
        let error = refused(world.api.explain_placement(by(request, None)).await);
        assert_eq!(
            (error.code(), error.fields()[0].0.as_str()),
            (Code::InvalidArgument, field)
        );
    }
}

#[tokio::test]
async fn b_57_con_10_an_explanation_is_of_the_request_as_it_would_be_made() {
    let (world, first, _) = World::with_slots(2).await;
    let digest = format!("sha256:{}", "a".repeat(64));
    let second = PutNodeRequest {
        image_digests: vec![digest.clone()],
        ..node()
    };
    ok(world.api.put_node(Request::new(second.clone())).await);
    let approval = ApproveSlotsRequest {
        idempotency_key: "k-second".into(),
        ..approval(&second.node_id, 2)
    };
    world.approve(approval).await;
    let there = ok(world.api.reserve(Request::new(reservation("a"))).await);
    let there = there.allocation_id;
    let project = Uuid::from_u128(5);
    let requested = |placement: PlacementConstraints, image_digest: &str| ExplainPlacementRequest {
        region_code: REGION.into(),
        sku: LAB.into(),
        gpu_count: 1,
        image_digest: image_digest.into(),
        placement: Some(placement),
        ..ExplainPlacementRequest::default()
    };
    let beside = PlacementConstraints {
        affinity: there.clone(),
        ..PlacementConstraints::default()
    };
    let apart = PlacementConstraints {
        anti_affinity: vec![there],
        ..PlacementConstraints::default()
    };
    let prewarmed = PlacementConstraints {
        require_prewarmed: true,
        ..PlacementConstraints::default()
    };
    let causes = |found: &PlacementExplanation| -> Vec<(String, u32)> {
        let reported = |cause: &UnavailableReason| (cause.reason.clone(), cause.nodes);
        found.removed.iter().map(reported).collect()
    };
    for (placement, image, cause) in [
        (beside.clone(), "", "AFFINITY"),
        (apart.clone(), "", "AFFINITY"),
        (prewarmed.clone(), digest.as_str(), "IMAGE_NOT_CACHED"),
    ] {
        let request = member(requested(placement.clone(), image), &[project], None);
        let found = ok(world.api.explain_placement(request).await);
        assert_eq!((found.nodes, found.nodes_fit), (2, 1), "{placement:?}");
        assert!(causes(&found).contains(&(cause.to_owned(), 1)), "{found:?}");
        let each = ExplainNodesRequest {
            region_code: REGION.into(),
            sku: LAB.into(),
            gpu_count: 1,
            project_id: project.to_string(),
            image_digest: image.into(),
            placement: Some(placement.clone()),
            ..ExplainNodesRequest::default()
        };
        let each = ok(world.api.explain_nodes(by(each, None)).await);
        assert_eq!(each.explanation.as_ref(), Some(&found), "{placement:?}");
        let at_first = placement != beside;
        let fits = each.nodes.iter().find(|node| node.fits).expect("one");
        assert_eq!(fits.node_id != first, at_first, "{placement:?}");
    }
    // what would be refused of a launch, or says nothing without more, is refused with its field
    let bad = PlacementConstraints {
        affinity: "web".into(),
        ..PlacementConstraints::default()
    };
    let strangers = member(requested(apart.clone(), ""), &[Uuid::from_u128(6)], None);
    for (request, field) in [
        (strangers, "placement.anti_affinity"),
        (
            member(requested(bad, ""), &[project], None),
            "placement.affinity",
        ),
        (by(requested(apart, ""), None), "project_id"),
        (
            member(requested(prewarmed, ""), &[project], None),
            "image_digest",
        ),
        (
            member(requested(beside, "latest"), &[project], None),
            "image_digest",
        ),
    ] {
        let error = refused(world.api.explain_placement(request).await);
        assert_eq!(
            (error.code(), error.fields()[0].0.as_str()),
            (Code::InvalidArgument, field)
        );
    }
}

#[tokio::test]
async fn a_batch_is_parsed_as_a_whole() {
    let (world, ..) = World::with_slots(2).await;
    let batch = |names: &[&str]| ReserveBatchRequest {
        principal: "user:alice".into(),
        idempotency_key: "k-batch".into(),
        request_hash: vec![1; 32],
        reservations: names.iter().map(|name| reservation(name)).collect(),
        validate_only: false,
        wait_until: None,
    };
    for (request, field) in [
        (batch(&[]), "reservations"),
        (
            ReserveBatchRequest {
                principal: String::new(),
                ..batch(&["a"])
            },
            "principal",
        ),
        (
            ReserveBatchRequest {
                reservations: vec![
                    reservation("a"),
                    ReserveRequest {
                        project_id: Uuid::from_u128(6).to_string(),
                        ..reservation("b")
                    },
                ],
                ..batch(&[])
            },
            "reservations",
        ),
        (
            ReserveBatchRequest {
                reservations: vec![ReserveRequest {
                    placement: Some(PlacementConstraints {
                        anti_affinity_label: "no-value".into(),
                        ..PlacementConstraints::default()
                    }),
                    ..reservation("a")
                }],
                ..batch(&[])
            },
            "placement.anti_affinity_label",
        ),
    ] {
        let error = refused(world.api.reserve_batch(Request::new(request)).await);
        assert_eq!(
            (error.code(), error.fields()[0].0.as_str()),
            (Code::InvalidArgument, field)
        );
    }
    let dry = ReserveBatchRequest {
        validate_only: true,
        ..batch(&["a", "b"])
    };
    assert!(
        ok(world.api.reserve_batch(Request::new(dry)).await)
            .allocation_ids
            .is_empty()
    );
    let made = ok(world
        .api
        .reserve_batch(Request::new(batch(&["a", "b"])))
        .await);
    assert_eq!((made.allocation_ids.len(), made.replayed), (2, false));
    let again = ok(world
        .api
        .reserve_batch(Request::new(batch(&["a", "b"])))
        .await);
    assert_eq!(
        (again.allocation_ids, again.replayed),
        (made.allocation_ids, true)
    );
}

/// The time is the host's: it says that this is another run of its agent, and nothing else.
#[tokio::test]
async fn d_82_a_start_of_an_agent_is_noted_once() {
    let (world, node_id, _) = World::with_slots(1).await;
    let owner = world.db.owner_pool().await;
    let noted = async |seconds: Option<i64>| -> Option<Timestamp> {
        let started = seconds.map(|seconds| prost_types::Timestamp { seconds, nanos: 0 });
        let reported = PutNodeRequest {
            node_id: node_id.clone(),
            agent_started_time: started,
            ..node()
        };
        ok(world.api.put_node(Request::new(reported)).await);
        let noted = "SELECT noted_at FROM placement.agent_starts WHERE node_id = $1::uuid";
        let noted = sqlx::query_scalar(noted).bind(&node_id);
        noted.fetch_optional(&owner).await.expect("the ledger")
    };
    assert_eq!(noted(None).await, None, "an agent that does not say it");
    let first = noted(Some(100)).await.expect("noted");
    assert_eq!(noted(Some(100)).await, Some(first));
    assert_eq!(noted(None).await, Some(first));
    // also by a clock that went back
    assert!(noted(Some(50)).await > Some(first));
}
