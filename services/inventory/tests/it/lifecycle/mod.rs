//! The lifecycle of a node as operators see and shape it: onboarding, configuration, retirement, deletion, history.
mod deletion;
mod onboarding;
mod retirement;
mod settings;

use gpuaas_common::Error;
use gpuaas_proto::gpuaas::inventory::v1::{self as api, NodeLifeState, OnboardingState};

use crate::world::World;

/// State of a node's lifecycle, and the steps of its onboarding that are done or current.
async fn lifecycle(world: &World, node_id: &str) -> (NodeLifeState, Vec<String>, String) {
    let status = world.status(node_id).await;
    assert_eq!(status.onboarding.len(), 8);
    let of = |state: OnboardingState| {
        let steps = status.onboarding.iter();
        steps
            .filter(move |step| step.state() == state)
            .map(|step| step.name.clone())
    };
    let done = of(OnboardingState::Done).collect();
    let current = of(OnboardingState::Current).next().unwrap_or_default();
    let life = status.life.expect("a life");
    (life.state(), done, current)
}

async fn update(
    world: &World,
    key: &str,
    request: api::UpdateNodeRequest,
) -> Result<api::Node, Error> {
    let answer = world.nodes().update_node(world.admin(key, request)).await;
    Ok(answer.map_err(Error::from)?.into_inner())
}

async fn retire(world: &World, node_id: &str, key: &str) -> Result<api::Node, Error> {
    let request = api::RetireNodeRequest {
        node_id: node_id.into(),
        reason: "scrapped".into(),
        ..Default::default()
    };
    let answer = world.nodes().retire_node(world.admin(key, request)).await;
    Ok(answer.map_err(Error::from)?.into_inner())
}

async fn delete(world: &World, node_id: &str, key: &str) -> Result<(), Error> {
    let request = api::DeleteNodeRequest {
        node_id: node_id.into(),
        ..Default::default()
    };
    let answer = world.nodes().delete_node(world.admin(key, request)).await;
    answer.map(|_| ()).map_err(Error::from)
}

async fn names(world: &World, include_retired: bool) -> Vec<String> {
    let request = api::ListNodesRequest {
        include_retired,
        ..Default::default()
    };
    let listed = world.nodes().list_nodes(world.admin("", request)).await;
    let nodes = listed.expect("a list").into_inner().nodes;
    nodes
        .into_iter()
        .map(|node| node.config.expect("a config").hostname)
        .collect()
}
