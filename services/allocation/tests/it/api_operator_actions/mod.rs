//! What operators see of the allocations of all projects and do to them, and what the members read of it.
mod list;
mod release;
mod stop;

use gpuaas_common::Error;
use gpuaas_placement::audit;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::Code;
use uuid::Uuid;

use crate::platform::{Platform, good};

const REASON: &str = "The node goes into maintenance on Monday";

fn uuid(id: &str) -> Uuid {
    id.parse().expect("a uuid")
}

/// Name, or field, of a refusal.
pub fn refused<T: std::fmt::Debug>(
    answer: Result<T, tonic::Status>,
) -> (Code, ErrorReason, String) {
    let error = Error::from(answer.expect_err("refused"));
    let field = error.fields().first().map(|(field, _)| field.clone());
    (error.code(), error.reason(), field.unwrap_or_default())
}

impl Platform {
    pub async fn launched(&self, name: &str, key: &str) -> String {
        let id = self.create(good(name), key).await.expect("created").id;
        self.world.until_state(uuid(&id), "active").await;
        self.world.until_idle(uuid(&id)).await;
        id
    }

    pub async fn timeline(&self, id: &str) -> Vec<pb::TimelineEntry> {
        let request = pb::ListTimelineRequest {
            allocation_id: id.to_owned(),
            page_size: 500,
            ..Default::default()
        };
        let mut users = self.users.clone();
        let answer = users.list_timeline(self.user(request, None)).await;
        answer.expect("a timeline").into_inner().entries
    }

    /// The last entry of a step: who asked for it, and why.
    async fn who(&self, id: &str, step: &str) -> (String, String) {
        let entries = self.timeline(id).await;
        let found = entries.into_iter().rev().find(|entry| entry.step == step);
        let found = found.unwrap_or_else(|| panic!("no entry {step}"));
        (found.actor, found.reason)
    }

    async fn operator_stop(
        &self,
        id: &str,
        reason: &str,
        key: &str,
    ) -> Result<pb::Allocation, tonic::Status> {
        let request = pb::StopTenantAllocationRequest {
            allocation_id: id.to_owned(),
            reason: reason.to_owned(),
        };
        let mut admins = self.admins.clone();
        let answer = admins
            .stop_tenant_allocation(self.admin(request, Some(key)))
            .await;
        answer.map(tonic::Response::into_inner)
    }

    async fn operator_release(
        &self,
        id: &str,
        reason: &str,
        key: &str,
    ) -> Result<pb::Allocation, tonic::Status> {
        let request = pb::ReleaseTenantAllocationRequest {
            allocation_id: id.to_owned(),
            reason: reason.to_owned(),
        };
        let mut admins = self.admins.clone();
        let answer = admins
            .release_tenant_allocation(self.admin(request, Some(key)))
            .await;
        answer.map(tonic::Response::into_inner)
    }

    async fn all(&self, request: pb::ListAllAllocationsRequest) -> pb::ListAllAllocationsResponse {
        let mut admins = self.admins.clone();
        let answer = admins.list_all_allocations(self.admin(request, None)).await;
        answer.expect("a list").into_inner()
    }

    pub async fn rename(
        &self,
        id: &str,
        name: Option<&str>,
        key: &str,
    ) -> Result<pb::Allocation, tonic::Status> {
        let request = pb::UpdateAllocationRequest {
            allocation_id: id.to_owned(),
            display_name: name.map(str::to_owned),
            ..Default::default()
        };
        let mut users = self.users.clone();
        let answer = users.update_allocation(self.user(request, Some(key))).await;
        answer.map(tonic::Response::into_inner)
    }

    pub async fn events(&self, id: &str) -> Vec<(String, serde_json::Value)> {
        sqlx::query_as("SELECT type::text, data::jsonb FROM placement.outbox WHERE aggregate_id = $1 ORDER BY seq")
            .bind(uuid(id))
            .fetch_all(&self.world.owner)
            .await
            .expect("events")
    }

    pub async fn audited(&self, action: &str) -> Vec<(String, serde_json::Value)> {
        sqlx::query_as("SELECT principal::text, detail::jsonb FROM placement.audit WHERE action = $1 ORDER BY id")
            .bind(action)
            .fetch_all(&self.world.owner)
            .await
            .expect("rows")
    }

    pub async fn assert_sound(&self) {
        let mut conn = self.world.scheduler.acquire().await.expect("a connection");
        let report = audit::ledger(&mut conn).await.expect("an audit");
        assert_eq!(
            report.broken().collect::<Vec<_>>(),
            Vec::<&audit::InvariantCheck>::new()
        );
    }
}
