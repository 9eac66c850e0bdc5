//! `QueueAdminService`: queued requests, and their priority classes. Each change has its audit row (P10).
use gpuaas_common::idempotency::{self, Lookup, Scope};
use gpuaas_common::identity::Caller;
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use gpuaas_common::time::proto_time;
use gpuaas_common::{Error, Result, audit, etag, id, page};
use gpuaas_placement::model::Priority;
use gpuaas_placement::{catalog, outbox, queue, quota};
use gpuaas_proto::gpuaas::scheduler::v1 as pb;
use gpuaas_proto::gpuaas::scheduler::v1::queue_admin_service_server::QueueAdminService;
use serde_json::{Value, json};
use tonic::{Request, Response, Status};
use uuid::Uuid;

use super::Api;

/// What a queue can be selected by.
pub static QUEUED: Catalog = Catalog {
    fields: &[
        Field::sortable("slot_class", Kind::Text, "listed.slot_class"),
        Field::sortable("position", Kind::Number, "listed.place"),
        Field::sortable("project_id", Kind::Id, "listed.project_id"),
        Field::new(
            "priority",
            Kind::OneOf(&["low", "normal", "high"]),
            "listed.priority",
        ),
        Field::sortable("gpus", Kind::Number, "listed.gpus"),
        Field::sortable("since", Kind::Time, "listed.since"),
        Field::sortable("deadline", Kind::Time, "listed.deadline"),
        Field::new("reason", Kind::Text, "listed.reason"),
    ],
    // by slot class in queue order
    key: Field::new("number", Kind::Number, "listed.number"),
    order: "",
};

/// Which request of those that were read is on a page.
#[derive(sqlx::FromRow)]
struct Number {
    number: i64,
}

#[tonic::async_trait]
impl QueueAdminService for Api {
    async fn list_queue(
        &self,
        request: Request<pb::ListQueueRequest>,
    ) -> Result<Response<pb::ListQueueResponse>, Status> {
        Caller::of(&request)?;
        Ok(Response::new(self.queue(request.get_ref()).await?))
    }

    async fn put_project_priority(
        &self,
        request: Request<pb::PutProjectPriorityRequest>,
    ) -> Result<Response<pb::ProjectPriority>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(
            self.prioritise(&caller, request.get_ref()).await?,
        ))
    }

    async fn get_project_priority(
        &self,
        request: Request<pb::GetProjectPriorityRequest>,
    ) -> Result<Response<pb::ProjectPriority>, Status> {
        Caller::of(&request)?;
        Ok(Response::new(
            self.priority(&request.get_ref().project_id).await?,
        ))
    }
}

impl Api {
    async fn queue(&self, request: &pb::ListQueueRequest) -> Result<pb::ListQueueResponse> {
        let region_code = request.region_code.as_str();
        if region_code.is_empty() {
            return Err(Error::required("region_code"));
        }
        let selection = Selection::parse(&QUEUED, &request.filter, &request.order_by)?;
        let wanted = Wanted {
            page_token: &request.page_token,
            size: page::page_size(request.page_size)?,
            query: &["queue", region_code],
        };
        let mut conn = self.pool.acquire().await?;
        catalog::known_region(&mut conn, region_code).await?;
        // the order is made anew for each page
        let (mut requests, mut rows) = (Vec::new(), Vec::new());
        for (of, slot_class) in queue::queues(&mut conn).await? {
            if of != region_code {
                continue;
            }
            let kept = queue::backfill_reservations(&mut conn, region_code, slot_class).await?;
            let (queued, now) = queue::load(&mut conn, region_code, slot_class).await?;
            for (place, one) in queued.into_iter().enumerate() {
                let priority = one.batch.class_at(now);
                rows.push(json!({
                    "number": rows.len(),
                    "slot_class": slot_class.as_str(),
                    "place": place + 1,
                    "project_id": one.batch.project_id,
                    "priority": priority,
                    "gpus": one.gpus(),
                    "since": one.batch.since.to_string(),
                    "deadline": one.deadline.to_string(),
                    "reason": one.reason,
                }));
                let nodes = kept
                    .iter()
                    .filter(|(_, batch_id)| *batch_id == one.batch.id)
                    .map(|(node, _)| node.to_string());
                requests.push(pb::QueuedRequest {
                    slot_class: slot_class.as_str().to_owned(),
                    position: count(place + 1),
                    project_id: one.batch.project_id.to_string(),
                    priority: to_proto(priority).into(),
                    allocation_ids: one
                        .members
                        .iter()
                        .map(|member| member.allocation_id.to_string())
                        .collect(),
                    gpus: one.gpus(),
                    since: Some(proto_time(one.batch.since)),
                    deadline: Some(proto_time(one.deadline)),
                    reason: one.reason,
                    backfill_node_ids: nodes.collect(),
                });
            }
        }
        let total = count(requests.len());
        let statement = Statement::new(&[
            "SELECT * FROM jsonb_to_recordset($1) AS queued
                (number bigint, slot_class text, place bigint, project_id uuid, priority text, gpus bigint,
                 since timestamptz, deadline timestamptz, reason text)",
        ])
        .bind(Value::Array(rows));
        let (chosen, next_page_token) = selection
            .page::<Number>(&mut conn, statement, wanted)
            .await?;
        let chosen = chosen.into_iter().filter_map(|one| {
            let request = requests.get_mut(usize::try_from(one.number).ok()?)?;
            Some(std::mem::take(request))
        });
        Ok(pb::ListQueueResponse {
            requests: chosen.collect(),
            next_page_token,
            total,
        })
    }

    async fn priority(&self, project_id: &str) -> Result<pb::ProjectPriority> {
        let project_id = id::parse("project_id", project_id)?;
        let mut conn = self.pool.acquire().await?;
        let priority = queue::priority::get(&mut conn, project_id).await?;
        Ok(answer(project_id, priority))
    }

    async fn prioritise(
        &self,
        caller: &Caller,
        request: &pb::PutProjectPriorityRequest,
    ) -> Result<pb::ProjectPriority> {
        let hash = idempotency::hash(request);
        let scope = Scope {
            principal: &caller.principal,
            method: "PutProjectPriority",
            key: caller.idempotency_key()?,
        };
        let project_id = id::parse("project_id", &request.project_id)?;
        let priority = match pb::Priority::try_from(request.priority) {
            Ok(pb::Priority::Low) => Priority::Low,
            Ok(pb::Priority::Normal) => Priority::Normal,
            Ok(pb::Priority::High) => Priority::High,
            Ok(pb::Priority::Unspecified) => return Err(Error::required("priority")),
            Err(_) => return Err(Error::invalid("priority", "must be low, normal or high")),
        };
        let mut tx = self.pool.begin().await?;
        let resource_id = project_id.to_string();
        let taken = idempotency::take(&mut tx, scope, &hash, &resource_id).await?;
        if let Lookup::Fresh = taken {
            quota::lock_limits(&mut tx, project_id).await?;
            let before = answer(project_id, queue::priority::get(&mut tx, project_id).await?);
            etag::check(&request.etag, &before.etag)?;
            queue::priority::put(&mut tx, project_id, priority).await?;
            let after = answer(project_id, priority);
            let detail = json!({ "priority": priority });
            let detail = audit::with_digests(detail, Some(&before), Some(&after));
            let entry = audit::Entry {
                principal: &caller.principal,
                action: "queue.prioritise",
                resource: "project",
                resource_id: &resource_id,
                request_id: &caller.request_id,
                detail: audit::in_project(detail, project_id),
            };
            audit::record(&mut tx, entry).await?;
            tx.commit().await?;
            tracing::info!(%project_id, %priority, "put priority");
            // the order may be another one now
            self.wake.notify(outbox::TOPIC).await;
            return Ok(after);
        }
        let priority = queue::priority::get(&mut tx, project_id).await?;
        Ok(answer(project_id, priority))
    }
}

fn answer(project_id: Uuid, priority: Priority) -> pb::ProjectPriority {
    let answer = pb::ProjectPriority {
        project_id: project_id.to_string(),
        priority: to_proto(priority).into(),
        etag: String::new(),
    };
    pb::ProjectPriority {
        etag: etag::of(&answer),
        ..answer
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn to_proto(priority: Priority) -> pb::Priority {
    match priority {
        Priority::Low => pb::Priority::Low,
        Priority::Normal => pb::Priority::Normal,
        Priority::High => pb::Priority::High,
    }
}
