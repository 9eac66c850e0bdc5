//! Every step of the onboarding.
use gpuaas_proto::gpuaas::agent::v1::ReadinessReport;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::inventory::v1::{self as api, NodeLifeState};

use super::lifecycle;
use crate::discovery::{discover, ended};
use crate::host::{Host, good};
use crate::ready::Ready;
use crate::world::{World, refused, until};

#[tokio::test]
async fn a_22_a_23_every_step_of_the_onboarding_is_shown_and_none_is_skipped() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let (state, done, current) = lifecycle(&world, &node.id).await;
    assert_eq!(
        (state, done.len(), current.as_str()),
        (NodeLifeState::Registered, 0, "commission")
    );
    // no step is reached by calling it
    let early = api::DiscoverTopologyRequest {
        node_id: node.id.clone(),
    };
    let early = refused(
        world
            .nodes()
            .discover_topology(world.admin("d0", early))
            .await,
    );
    assert_eq!(early.reason(), ErrorReason::HostNotReady);

    let host = Host::enrol(&world, &node.id).await;
    let (state, done, current) = lifecycle(&world, &node.id).await;
    assert_eq!(
        (state, current.as_str()),
        (NodeLifeState::Enrolled, "deploy")
    );
    assert_eq!(done, ["commission", "tag"]);
    // a host of another mode proves nothing for this one
    let other = ReadinessReport {
        host_profile: "gpuaas-profile-baremetal".into(),
        ..good()
    };
    host.heartbeat(other).await.expect("taken");
    let (state, _, current) = lifecycle(&world, &node.id).await;
    assert_eq!(
        (state, current.as_str()),
        (NodeLifeState::Validating, "tag")
    );
    let status = world.status(&node.id).await;
    assert_eq!(
        (status.schedulable, status.blockers),
        (false, vec!["profile_mismatch".to_owned()])
    );

    host.send_heartbeat().await;
    let (state, _, current) = lifecycle(&world, &node.id).await;
    assert_eq!(
        (state, current.as_str()),
        (NodeLifeState::Validating, "discover")
    );
    discover(&world, &node.id, "d1").await;
    let discovery = ended(&world, &node.id).await.id;
    assert_eq!(lifecycle(&world, &node.id).await.2, "review");
    let ready = Ready { world, host };
    ready
        .approve("a1", &discovery, &[0, 1])
        .await
        .expect("approved");
    assert_eq!(lifecycle(&ready.world, &node.id).await.2, "activate");
    ready.world.ledger.wipe(&node.id).await;
    until("the ledger has taken it in", || async {
        lifecycle(&ready.world, &node.id).await.0 == NodeLifeState::Ready
    })
    .await;
    let (state, done, current) = lifecycle(&ready.world, &node.id).await;
    assert_eq!(
        (state, done.len(), current.as_str()),
        (NodeLifeState::Ready, 8, "")
    );
    ready.world.ledger.say(&node.id, "cordoned").await;
    let (state, _, current) = lifecycle(&ready.world, &node.id).await;
    assert_eq!(
        (state, current.as_str()),
        (NodeLifeState::Cordoned, "activate")
    );
}
