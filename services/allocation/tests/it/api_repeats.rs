//! The same call twice at once, as a client sends it whose first connection broke: the second is answered as the first (P4).

use gpuaas_common::Error;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use uuid::Uuid;

use crate::platform::{Platform, good};

const BOTH_WAIT: &str = "SELECT count(*) >= 2 FROM pg_locks l JOIN pg_stat_activity a USING (pid)
     WHERE NOT l.granted AND a.datname = current_database() AND $1::uuid IS NOT NULL";

impl Platform {
    /// Makes two calls at once: the row of the node, which both need, is held until both have come.
    fn at_once<T>(
        &self,
        one: impl Future<Output = T>,
        other: impl Future<Output = T>,
    ) -> impl Future<Output = (T, T)> {
        let (one, other) = (Box::pin(one), Box::pin(other));
        async move {
            let node_id = self.world.node_id;
            let mut held = self.world.owner.begin().await.expect("a transaction");
            sqlx::query("SELECT id FROM placement.nodes WHERE id = $1 FOR UPDATE")
                .bind(node_id)
                .execute(&mut *held)
                .await
                .expect("the node");
            let go_on = async {
                self.world.until("both wait", BOTH_WAIT, node_id).await;
                held.rollback().await.expect("rollback");
            };
            let (one, other, ()) = tokio::join!(one, other, go_on);
            (one, other)
        }
    }

    async fn workflows(&self, id: Uuid, kind: &str) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM workflows WHERE allocation_id = $1 AND kind = $2")
            .bind(id)
            .bind(kind)
            .fetch_one(&self.world.pool)
            .await
            .expect("workflows")
    }
}

async fn stop(platform: &Platform, id: Uuid, key: &str) -> Result<pb::Allocation, Error> {
    let request = pb::StopAllocationRequest {
        allocation_id: id.to_string(),
        force: false,
    };
    let mut users = platform.users.clone();
    let answer = users
        .stop_allocation(platform.user(request, Some(key)))
        .await;
    Ok(answer?.into_inner())
}

async fn end(platform: &Platform, id: Uuid, reason: &str) -> Result<pb::Allocation, Error> {
    let request = pb::ReleaseTenantAllocationRequest {
        allocation_id: id.to_string(),
        reason: reason.to_owned(),
    };
    let mut admins = platform.admins.clone();
    let answer = admins
        .release_tenant_allocation(platform.admin(request, Some("end")))
        .await;
    Ok(answer?.into_inner())
}

async fn rename(
    platform: &Platform,
    read: &pb::Allocation,
    name: &str,
    key: &str,
) -> Result<pb::Allocation, Error> {
    let request = pb::UpdateAllocationRequest {
        allocation_id: read.id.clone(),
        display_name: Some(name.to_owned()),
        etag: read.etag.clone(),
        ..pb::UpdateAllocationRequest::default()
    };
    let mut users = platform.users.clone();
    let answer = users
        .update_allocation(platform.user(request, Some(key)))
        .await;
    Ok(answer?.into_inner())
}

#[tokio::test]
async fn p4_a_call_sent_twice_at_once_is_answered_twice_and_done_once() {
    let platform = Platform::start().await;
    let created = platform.create(good("web"), "create").await;
    let id: Uuid = created.expect("created").id.parse().expect("a uuid");
    platform.world.until_state(id, "active").await;
    platform.world.until_idle(id).await;

    let both = platform
        .at_once(stop(&platform, id, "stop"), stop(&platform, id, "stop"))
        .await;
    both.0.expect("accepted");
    both.1.expect("the same call");
    platform.world.until_idle(id).await;
    assert_eq!(platform.workflows(id, "stop").await, 1);

    let read = platform.get(&id.to_string()).await;
    let both = platform
        .at_once(
            rename(&platform, &read, "run 1", "name"),
            rename(&platform, &read, "run 1", "name"),
        )
        .await;
    let (one, other) = (both.0.expect("changed"), both.1.expect("the same call"));
    assert_eq!(one.display_name, "run 1");
    assert_eq!(one.etag, other.etag);
    assert_ne!(one.etag, read.etag);

    let both = platform
        .at_once(
            end(&platform, id, "scrapped"),
            end(&platform, id, "scrapped"),
        )
        .await;
    both.0.expect("accepted");
    both.1.expect("the same call");
    platform.world.until_state(id, "released").await;
    assert_eq!(platform.workflows(id, "release").await, 1);
}

#[tokio::test]
async fn p4_of_two_calls_at_once_with_one_key_the_other_is_refused() {
    let platform = Platform::start().await;
    let created = platform.create(good("web"), "create").await;
    let id: Uuid = created.expect("created").id.parse().expect("a uuid");
    platform.world.until_state(id, "active").await;
    platform.world.until_idle(id).await;
    let read = platform.get(&id.to_string()).await;
    let both = platform
        .at_once(
            rename(&platform, &read, "run 1", "name"),
            rename(&platform, &read, "run 2", "name"),
        )
        .await;
    let (done, refused) = match both {
        (Ok(done), Err(refused)) | (Err(refused), Ok(done)) => (done, refused),
        both => panic!("{both:?}"),
    };
    assert_eq!(refused.reason(), ErrorReason::IdempotencyKeyReused);
    assert_eq!(platform.get(&id.to_string()).await.etag, done.etag);
}
