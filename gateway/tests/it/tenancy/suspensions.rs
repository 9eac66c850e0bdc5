//! The ledger hears which projects are suspended, and keeps what is queued there from starting.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gpuaas_dev::until::until;
use gpuaas_proto::gpuaas::internal::scheduler::v1::suspension_service_server::SuspensionService;
use gpuaas_proto::gpuaas::internal::scheduler::v1::{
    PutProjectSuspensionsRequest, PutProjectSuspensionsResponse,
};
use reqwest::Method;
use serde_json::json;
use tonic::{Request, Response, Status};

use crate::world::World;

/// What the ledger makes of what it is told: of a project the highest version counts.
#[derive(Clone, Debug, Default)]
pub struct Suspensions {
    told: Arc<Mutex<BTreeMap<String, (i64, bool)>>>,
    is_silent: Arc<Mutex<bool>>,
}

impl Suspensions {
    /// The projects of which nothing starts.
    pub fn suspended(&self) -> BTreeSet<String> {
        let told = self.told.lock().expect("lock");
        let suspended = told.iter().filter(|(_, (_, suspended))| *suspended);
        suspended.map(|(id, _)| id.clone()).collect()
    }

    fn answer(&self, is_silent: bool) {
        *self.is_silent.lock().expect("lock") = is_silent;
    }
}

#[tonic::async_trait]
impl SuspensionService for Suspensions {
    async fn put_project_suspensions(
        &self,
        request: Request<PutProjectSuspensionsRequest>,
    ) -> Result<Response<PutProjectSuspensionsResponse>, Status> {
        if *self.is_silent.lock().expect("lock") {
            return Err(Status::unavailable("the ledger is away"));
        }
        for one in request.into_inner().projects {
            let mut told = self.told.lock().expect("lock");
            let known = told.entry(one.project_id).or_default();
            *known = (*known).max((one.version, one.suspended));
        }
        Ok(Response::new(PutProjectSuspensionsResponse {
            suspended_project_ids: self.suspended().into_iter().collect(),
        }))
    }
}

fn set(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

#[tokio::test]
async fn the_ledger_knows_of_a_suspension_and_its_end_when_they_are_answered() {
    let world = World::start().await;
    world.users(&["olga"]).await;
    let own = world.seeded.project_id.to_string();
    let organisation = world.organisation("acme", "olga").await;
    let first = world.project(&organisation, "first", "olga").await;
    let second = world.project(&organisation, "second", "olga").await;
    let suspended = || world.suspensions.suspended();
    let change = async |who: &str, target: String| {
        world
            .made(who, &target, json!({ "reason": "Unpaid" }))
            .await;
    };
    change("demo", format!("/api/v1/projects/{own}:suspend")).await;
    assert_eq!(suspended(), set(&[&own]));
    // an organisation takes its projects with it, and one that is suspended by itself stays so
    change("olga", format!("/api/v1/projects/{first}:suspend")).await;
    let organisation = format!("/api/v1/admin/organisations/{organisation}");
    change("admin", format!("{organisation}:suspend")).await;
    assert_eq!(suspended(), set(&[&own, &first, &second]));
    world
        .made("admin", &format!("{organisation}:resume"), json!({}))
        .await;
    assert_eq!(suspended(), set(&[&own, &first]));
    for (who, project) in [("demo", &own), ("olga", &first)] {
        let resume = format!("/api/v1/projects/{project}:resume");
        world.made(who, &resume, json!({})).await;
    }
    assert_eq!(suspended(), set(&[]));
}

#[tokio::test]
async fn a_ledger_that_is_away_hears_of_it_later_and_the_change_stands() {
    let world = World::start().await;
    let own = world.seeded.project_id.to_string();
    let project = format!("/api/v1/projects/{own}");
    let heard = async |expected: &BTreeSet<String>| {
        until(
            "what the ledger hears",
            Duration::from_secs(30),
            async || (world.suspensions.suspended() == *expected).then_some(()),
        )
        .await;
    };
    world.suspensions.answer(true);
    let suspend = format!("{project}:suspend");
    let body = json!({ "reason": "Quarter is over" });
    let (status, answer) = world
        .send_as("demo", Method::POST, &suspend, body, "k")
        .await;
    assert_eq!((status, &answer["state"]), (200, &json!("suspended")));
    assert_eq!(world.suspensions.suspended(), set(&[]));
    world.suspensions.answer(false);
    heard(&set(&[&own])).await;

    // so of the end, which it cannot tell from what it has
    world.suspensions.answer(true);
    world
        .made("demo", &format!("{project}:resume"), json!({}))
        .await;
    assert_eq!(world.suspensions.suspended(), set(&[&own]));
    world.suspensions.answer(false);
    heard(&set(&[])).await;
}
