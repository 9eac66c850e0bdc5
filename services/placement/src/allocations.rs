//! Reading allocations. A project sees its own; another project's do not exist.
use gpuaas_common::audit;
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use jiff_sqlx::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::model::{Allocation, AllocationState, Failure, GuestAccess, Scope, Shape};
use crate::outbox;

/// What is read of an allocation.
macro_rules! columns {
    () => {
        "id, project_id, name, region_code, sku, gpu_count, capacity_shape, node_id, state, power, failure,
         image, ssh_public_keys, labels, guest_user, access, readiness, lab, price, principal, request_id, traceparent,
         revision, created_at, updated_at, active_at, releasing_at, ended_at, deadline_at, boot_id, constraints,
         host_lost_since, billed_until, device_drift_since, device_drift, ssh_key_names,
         display_name, operator_action, operator_reason, operator_at, termination_protection, auto_release_at,
         rescue, user_data_digest, user_data_bytes"
    };
}
pub(crate) use columns;

macro_rules! select {
    ($tail:literal) => {
        concat!("SELECT ", columns!(), " FROM allocations ", $tail)
    };
}

/// One allocation.
///
/// # Errors
/// [`Error::NotFound`] when there is none in this scope.
pub async fn get(conn: &mut PgConnection, scope: Scope, id: Uuid) -> Result<Allocation> {
    sqlx::query_as(select!(
        "WHERE id = $1 AND ($2::uuid IS NULL OR project_id = $2)"
    ))
    .bind(id)
    .bind(scope.project())
    .fetch_optional(conn)
    .await?
    .ok_or_else(|| Error::not_found("allocation", id))
}

/// The detail of an audit row with the digests of what an allocation was and is: of what its events say, without its claims (P10).
#[must_use]
pub fn with_digests(detail: Value, before: Option<&Allocation>, after: &Allocation) -> Value {
    let described = |one: &Allocation| outbox::describe(one, &[]);
    audit::with_digests_of_json(detail, before.map(described), Some(described(after)))
}

/// A project's allocations, newest first, at most `limit`; `before` is the last row of the page before.
///
/// # Errors
/// Those of the database.
pub async fn list(
    conn: &mut PgConnection,
    project_id: Uuid,
    include_ended: bool,
    before: Option<(Timestamp, Uuid)>,
    limit: i64,
) -> Result<Vec<Allocation>> {
    let (time, id) = before.unzip();
    let rows = sqlx::query_as(select!(
        "WHERE project_id = $1 AND ($2 OR state NOT IN ('released', 'failed'))
           AND ($3::timestamptz IS NULL OR (created_at, id) < ($3, $4::uuid))
         ORDER BY created_at DESC, id DESC LIMIT $5"
    ))
    .bind(project_id)
    .bind(include_ended)
    .bind(time)
    .bind(id)
    .bind(limit)
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

/// Which allocations a caller lists, beside its filter.
#[derive(Debug, Clone, Copy, Default)]
pub struct Listed {
    /// Of one project.
    pub project_id: Option<Uuid>,
    /// On one node.
    pub node_id: Option<Uuid>,
    /// In one state.
    pub state: Option<AllocationState>,
    /// The released and failed ones, too; of no effect with a state.
    pub include_ended: bool,
}

/// The fields of an allocation that filters and orders of lists may name.
macro_rules! fields {
    ($($more:expr),*) => {
        &[
            Field::new("id", Kind::Id, "listed.id"),
            Field::sortable("name", Kind::Text, "listed.name"),
            Field::new("display_name", Kind::Text, "listed.display_name"),
            Field::sortable("state", Kind::OneOf(AllocationState::WORDS), "listed.state"),
            Field::new("power", Kind::OneOf(POWER), "coalesce(listed.power, '')"),
            Field::sortable("region_code", Kind::Text, "listed.region_code"),
            Field::sortable("sku", Kind::Text, "listed.sku"),
            Field::sortable("gpu_count", Kind::Number, "listed.gpu_count::bigint"),
            Field::new("capacity_shape", Kind::OneOf(Shape::WORDS), "listed.capacity_shape"),
            Field::sortable("image", Kind::Text, "(listed.image ->> 'slug')"),
            Field::sortable("creator", Kind::Text, "listed.principal"),
            Field::new("lab", Kind::Flag, "listed.lab"),
            Field::new("termination_protection", Kind::Flag, "listed.termination_protection"),
            Field::sortable("create_time", Kind::Time, "listed.created_at"),
            Field::sortable("update_time", Kind::Time, "listed.updated_at"),
            Field::new("active_time", Kind::Time, "listed.active_at"),
            Field::new("auto_release_time", Kind::Time, "listed.auto_release_at"),
            Field::new("labels", Kind::Labels, "listed.labels"),
            $($more),*
        ]
    };
}

const POWER: &[&str] = &[
    "running",
    "stopping",
    "stopped",
    "starting",
    "rebooting",
    "rescuing",
    "rescued",
    "unrescuing",
];

/// What a project's list can be selected by.
pub static OF_PROJECT: Catalog = Catalog {
    fields: fields!(),
    key: Field::new("id", Kind::Id, "listed.id"),
    order: "create_time desc",
};

/// What the list of all projects can be selected by.
pub static OF_ALL: Catalog = Catalog {
    fields: fields!(
        Field::sortable("project_id", Kind::Id, "listed.project_id"),
        Field::new("node_id", Kind::Id, "listed.node_id")
    ),
    key: Field::new("id", Kind::Id, "listed.id"),
    order: "create_time desc",
};

/// A page of the allocations that a caller selects, and the token of the next one.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; those of the database.
pub async fn select(
    conn: &mut PgConnection,
    listed: Listed,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> gpuaas_common::Result<(Vec<Allocation>, String)> {
    let statement = Statement::new(&[select!(
        "WHERE ($1::uuid IS NULL OR project_id = $1) AND ($2::uuid IS NULL OR node_id = $2)
           AND CASE WHEN $3::text IS NULL THEN $4 OR state NOT IN ('released', 'failed') ELSE state = $3 END"
    )])
    .bind(listed.project_id)
    .bind(listed.node_id)
    .bind(listed.state.map(AllocationState::as_str))
    .bind(listed.include_ended || selection.names("state"));
    selection.page(conn, statement, wanted).await
}

/// Event of a change by [`update`], and of what came of readiness checks.
pub const UPDATED: &str = "updated";

/// The row, locked. Take node and slots first ([`crate::lock`]).
pub(crate) async fn lock(conn: &mut PgConnection, id: Uuid) -> Result<Allocation> {
    sqlx::query_as(select!("WHERE id = $1 FOR NO KEY UPDATE"))
        .bind(id)
        .fetch_optional(conn)
        .await?
        .ok_or_else(|| Error::not_found("allocation", id))
}

/// What changes with a transition, besides revision and times.
#[derive(Debug, Default)]
pub(crate) struct Change<'a> {
    pub failure: Option<&'a Failure>,
    pub access: Option<&'a GuestAccess>,
    pub boot_id: Option<Uuid>,
    /// End of the billable time, when it is not the time of this change.
    pub billed_until: Option<Timestamp>,
    /// Seconds until the new state must have been left; none: it may last.
    pub window_seconds: Option<i64>,
}

/// Moves a locked allocation to a state, writes the event of that name and returns the row.
pub(crate) async fn advance(
    conn: &mut PgConnection,
    id: Uuid,
    to: AllocationState,
    change: Change<'_>,
) -> Result<Allocation> {
    sqlx::query(
        "WITH clock AS MATERIALIZED
            (SELECT greatest(clock_timestamp(), updated_at) AS t FROM allocations WHERE id = $1)
         UPDATE allocations
            SET state = $2,
                power = CASE WHEN $2 = 'active' THEN 'running' END,
                failure = $3, access = coalesce($4, access), boot_id = coalesce($6, boot_id),
                revision = revision + 1, updated_at = clock.t,
                active_at = CASE WHEN $2 = 'active' THEN clock.t ELSE active_at END,
                releasing_at = CASE WHEN $2 = 'releasing' THEN clock.t ELSE releasing_at END,
                ended_at = CASE WHEN $2 IN ('released', 'failed') THEN clock.t END,
                deadline_at = clock.t + make_interval(secs => $5), billed_until = coalesce($7, billed_until),
                host_lost_since = CASE WHEN $2 NOT IN ('released', 'failed') THEN host_lost_since END,
                device_drift_since = CASE WHEN $2 NOT IN ('released', 'failed') THEN device_drift_since END,
                device_drift = CASE WHEN $2 NOT IN ('released', 'failed') THEN device_drift ELSE '' END
           FROM clock WHERE id = $1",
    )
    .bind(id)
    .bind(to.as_str())
    .bind(change.failure.map(Json))
    .bind(change.access.map(Json))
    .bind(change.window_seconds.map(|seconds| seconds as f64))
    .bind(change.boot_id)
    .bind(change.billed_until)
    .execute(&mut *conn)
    .await?;
    let allocation = get(conn, Scope::Platform, id).await?;
    outbox::append_allocation(conn, &format!("allocation.{to}"), &allocation).await?;
    Ok(allocation)
}
