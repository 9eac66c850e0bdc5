//! Making a reservation.
use gpuaas_common::audit;
use std::time::Instant;

use gpuaas_common::id::IdGen;
use gpuaas_common::idempotency::{self, Lookup, Scope as Key};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jiff::{SignedDuration, Timestamp};
use jiff_sqlx::ToSqlx as _;
use serde_json::json;
use sqlx::PgConnection;
use tonic::Code;
use uuid::Uuid;

use super::hold;
use super::limit::{self, limit};
use super::message::message;
use super::reconcile::{self, Reconciled};
use super::record::record;
use super::stored::{CapacityReservation, get, least, offered};
use crate::capacity::Ledger;
use crate::catalog::Sku;
use crate::error::{Error, Exceeded, Reason, Result, sentence};
use crate::model::{ReservationState, Scope};
use crate::quota;
use crate::reserve::{Mode, Policy, Search, ids_of, in_transaction, over_quota, refusal, retry};

/// Method of a member's reservation, in the scope of idempotency keys.
pub const METHOD: &str = "CreateCapacityReservation";
/// Method of an operator's.
pub const ADMIN_METHOD: &str = "CreateProjectReservation";
/// Most GPUs of a reservation.
pub const MAX_GPUS: u32 = 1024;
/// How far ahead a window may begin.
pub const MAX_AHEAD: SignedDuration = SignedDuration::from_hours(90 * 24);
/// Longest window.
pub const MAX_WINDOW: SignedDuration = SignedDuration::from_hours(90 * 24);
/// What `release_unused_after` may be, in seconds.
pub const UNUSED_SECONDS: std::ops::RangeInclusive<u32> = 60..=90 * 24 * 3600;

/// A requested capacity reservation.
#[derive(Debug, Clone)]
pub struct ReservationSpec {
    /// The requesting principal.
    pub principal: String,
    /// Key of the caller.
    pub idempotency_key: String,
    /// SHA-256 of the canonical request.
    pub request_hash: Vec<u8>,
    pub request_id: String,
    /// A member makes the request, within the project's limit, and not an operator.
    pub made_by_project: bool,
    /// Whose allocations may draw on it.
    pub project_id: Uuid,
    /// DNS label.
    pub name: String,
    pub region_code: String,
    pub sku: String,
    pub gpu_count: u32,
    /// Begin of the window; none: now.
    pub starts_at: Option<Timestamp>,
    /// End of the window.
    pub ends_at: Timestamp,
    /// Seconds that a reserved GPU may be unused; none: as long as the site allows.
    pub release_unused_after: Option<u32>,
    /// Begin with what is free instead of being refused.
    pub gather: bool,
}

/// Makes a reservation and, when its window begins now, reserves its slots. The second value: the key was seen
/// before with this very request.
///
/// All of it is one transaction, which holds the locks of the nodes it takes until its end. With `gather` only the
/// reservation itself is: what is free is then reserved node by node, as it would be later.
///
/// # Errors
/// [`Error::Invalid`] for a field; [`Error::Refused`] for quota, limit, or capacity that is not free now;
/// [`Error::Busy`]; a name that is taken or a reused key from `gpuaas_common`. Nothing was stored then.
pub async fn create(
    ledger: &Ledger,
    ids: IdGen,
    policy: Policy,
    spec: &ReservationSpec,
) -> Result<(CapacityReservation, bool)> {
    let until = Instant::now() + policy.placement_timeout;
    let search = Search {
        capacity: &ledger.capacity,
        policy,
        until,
        savepoints: true,
    };
    loop {
        let body = async |conn: &mut PgConnection| create_in(conn, ids, search, spec).await;
        let outcome = {
            let mut conn = ledger.acquire().await?;
            match ledger.capacity.refresh(&mut conn).await {
                Ok(()) => in_transaction(&mut conn, Mode::Commit, body).await,
                Err(error) => Err(error),
            }
        };
        match outcome {
            Err(error) => retry(error, until)?,
            Ok((made, false)) if spec.gather && made.state == ReservationState::Active => {
                reconcile::reconcile_one(ledger, policy, made.id, &mut Reconciled::default())
                    .await?;
                let mut conn = ledger.acquire().await?;
                return Ok((get(&mut conn, Scope::Platform, made.id).await?, false));
            }
            done => return done,
        }
    }
}

async fn create_in(
    conn: &mut PgConnection,
    ids: IdGen,
    search: Search<'_>,
    spec: &ReservationSpec,
) -> Result<(CapacityReservation, bool)> {
    let policy = search.policy;
    let key = Key {
        principal: &spec.principal,
        method: if spec.made_by_project {
            METHOD
        } else {
            ADMIN_METHOD
        },
        key: &spec.idempotency_key,
    };
    let id = ids.next();
    let taken = idempotency::take(conn, key, &spec.request_hash, &id.to_string()).await?;
    if let Lookup::Replay { resource_id } = taken {
        let id = ids_of(&resource_id)?.first().copied().unwrap_or_default();
        return Ok((get(conn, Scope::Platform, id).await?, true));
    }
    let sku = offered(conn, policy, &spec.region_code, &spec.sku).await?;
    check_size(spec, &sku)?;
    let unused = unused(spec, policy)?;
    let now: jiff_sqlx::Timestamp = sqlx::query_scalar("SELECT clock_timestamp()")
        .fetch_one(&mut *conn)
        .await?;
    let starts_at = window(spec, now.to_jiff())?;
    // reservations of a project are counted one after the other, whoever requests them; its launches count for themselves
    limit::lock(conn, spec.project_id).await?;
    check_limit(conn, spec).await?;
    check_quota(conn, policy, spec, starts_at).await?;
    let state = if spec.starts_at.is_some() {
        ReservationState::Scheduled
    } else {
        ReservationState::Active
    };
    insert(conn, id, spec, (starts_at, unused), state).await?;
    let made = get(conn, Scope::Platform, id).await?;
    if state == ReservationState::Active && !spec.gather {
        hold_now(conn, search, spec, &made, &sku).await?;
    }
    let mut detail = json!({
        "name": spec.name, "region_code": spec.region_code, "sku": spec.sku,
        "gpu_count": spec.gpu_count, "start": starts_at.to_string(), "end": spec.ends_at.to_string(),
    });
    if !spec.made_by_project {
        detail[audit::BY_OPERATOR] = true.into();
    }
    let made = get(conn, Scope::Platform, id).await?;
    let detail = audit::with_digests(detail, None, Some(&message(made.clone())));
    let who = (spec.principal.as_str(), spec.request_id.as_str());
    record(
        conn,
        who,
        "reservation.create",
        (id, spec.project_id),
        detail,
    )
    .await?;
    Ok((made, false))
}

fn invalid(reason: ErrorReason, field: &'static str, rule: impl Into<String>) -> Error {
    Error::Invalid {
        reason,
        field,
        rule: rule.into(),
    }
}

fn check_size(spec: &ReservationSpec, sku: &Sku) -> Result<()> {
    let least = least(sku).get();
    if spec.gpu_count == 0 || spec.gpu_count > MAX_GPUS || !spec.gpu_count.is_multiple_of(least) {
        let rule = format!("must be a multiple of {least}, at most {MAX_GPUS}");
        return Err(invalid(ErrorReason::GpuCountNotAllowed, "gpu_count", rule));
    }
    match spec.release_unused_after {
        Some(seconds) if !UNUSED_SECONDS.contains(&seconds) => Err(invalid(
            ErrorReason::FieldInvalid,
            "release_unused_after_seconds",
            format!(
                "must be {} to {}, or absent",
                UNUSED_SECONDS.start(),
                UNUSED_SECONDS.end()
            ),
        )),
        _ => Ok(()),
    }
}

/// Seconds that a reserved GPU may be unused: the site's limit where a project reserves by itself.
fn unused(spec: &ReservationSpec, policy: Policy) -> Result<Option<u32>> {
    let site = policy.release_unused_after.filter(|_| spec.made_by_project);
    match (spec.release_unused_after, site) {
        (Some(seconds), Some(site)) if seconds > site => Err(invalid(
            ErrorReason::FieldInvalid,
            "release_unused_after_seconds",
            format!("must be at most {site} here, or absent; an operator can reserve for longer"),
        )),
        (seconds, site) => Ok(seconds.or(site)),
    }
}

/// The begin of the window, which is legal.
fn window(spec: &ReservationSpec, now: Timestamp) -> Result<Timestamp> {
    let bad = |field, rule: &str| Err(invalid(ErrorReason::FieldInvalid, field, rule));
    let starts_at = spec.starts_at.unwrap_or(now);
    if starts_at < now {
        return bad(
            "start_time",
            "must not be in the past; leave it out to begin now",
        );
    }
    if starts_at.duration_since(now) > MAX_AHEAD {
        return bad("start_time", "must be at most 90 days from now");
    }
    if spec.ends_at <= starts_at {
        return bad("end_time", "must be after the start");
    }
    if spec.ends_at.duration_since(starts_at) > MAX_WINDOW {
        return bad("end_time", "must be at most 90 days after the start");
    }
    Ok(starts_at)
}

async fn check_limit(conn: &mut PgConnection, spec: &ReservationSpec) -> Result<()> {
    if !spec.made_by_project {
        return Ok(());
    }
    let limit = limit(conn, spec.project_id).await?;
    if limit.reserved_gpus + i64::from(spec.gpu_count) <= limit.max_gpus {
        return Ok(());
    }
    let message = format!(
        "The project may reserve {} GPUs and has reserved {}.",
        limit.max_gpus, limit.reserved_gpus
    );
    let exceeded = Exceeded {
        quota: "reserved_gpus",
        limit: limit.max_gpus,
        used: limit.reserved_gpus,
        requested: i64::from(spec.gpu_count),
    };
    Err(Error::Refused {
        reason: ErrorReason::ReservationLimit,
        message,
        causes: Vec::new(),
        exceeded: Some(exceeded),
    })
}

/// A reservation beyond the project's quota could never be launched on.
async fn check_quota(
    conn: &mut PgConnection,
    policy: Policy,
    spec: &ReservationSpec,
    starts_at: Timestamp,
) -> Result<()> {
    let quota = quota::read(conn, spec.project_id, &spec.sku, policy).await?;
    let reserved: i64 = sqlx::query_scalar(
        "SELECT coalesce(sum(gpu_count - released_gpus), 0) FROM capacity_reservations
          WHERE project_id = $1 AND sku = $2 AND ended_at IS NULL AND starts_at < $4 AND ends_at > $3",
    )
    .bind(spec.project_id)
    .bind(&spec.sku)
    .bind(starts_at.to_sqlx())
    .bind(spec.ends_at.to_sqlx())
    .fetch_one(conn)
    .await?;
    if reserved + i64::from(spec.gpu_count) <= quota.max_gpus {
        return Ok(());
    }
    let message = format!(
        "The project may hold {} GPU of {} and has reserved {reserved} for that time, so it could not use {} more.",
        quota.max_gpus, spec.sku, spec.gpu_count
    );
    Err(over_quota(message, None))
}

async fn insert(
    conn: &mut PgConnection,
    id: Uuid,
    spec: &ReservationSpec,
    (starts_at, unused): (Timestamp, Option<u32>),
    state: ReservationState,
) -> Result<()> {
    let done = sqlx::query(
        "INSERT INTO capacity_reservations (id, project_id, name, region_code, sku, gpu_count, starts_at, ends_at,
                                            release_unused_after, state, made_by_project, principal)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
    )
    .bind(id)
    .bind(spec.project_id)
    .bind(&spec.name)
    .bind(&spec.region_code)
    .bind(&spec.sku)
    .bind(spec.gpu_count.cast_signed())
    .bind(starts_at.to_sqlx())
    .bind(spec.ends_at.to_sqlx())
    .bind(unused.map(u32::cast_signed))
    .bind(state.as_str())
    .bind(spec.made_by_project)
    .bind(&spec.principal)
    .execute(conn)
    .await;
    match done {
        Ok(_) => Ok(()),
        Err(error)
            if error.as_database_error().and_then(|e| e.constraint())
                == Some("capacity_reservations_name") =>
        {
            let message = format!(
                "The project already has a capacity reservation named {:?}. Choose another name or cancel it.",
                spec.name
            );
            let taken =
                gpuaas_common::Error::new(Code::AlreadyExists, ErrorReason::AlreadyExists, message);
            let rule = "must be unique among the project's reservations that are not over";
            Err(Error::Common(taken.field("name", rule)))
        }
        Err(error) => Err(error.into()),
    }
}

/// Holds all of it.
async fn hold_now(
    conn: &mut PgConnection,
    search: Search<'_>,
    spec: &ReservationSpec,
    made: &CapacityReservation,
    sku: &Sku,
) -> Result<()> {
    // every group is searched in what the ones before left
    let own = search.capacity.for_transaction().await?;
    let search = Search {
        capacity: &own,
        ..search
    };
    let (mut missing, mut seen) = (spec.gpu_count, hold::SearchState::nothing());
    while missing > 0 {
        match hold::some(conn, search, made, sku, missing, &mut seen).await {
            Ok(held) => missing -= held.get(),
            Err(Error::Refused { causes, .. }) => {
                return Err(not_all(spec, spec.gpu_count - missing, causes));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The refusal of what can be reserved in part only. What this reservation had reserved itself is no reason.
fn not_all(spec: &ReservationSpec, held: u32, mut causes: Vec<Reason>) -> Error {
    for cause in &mut causes {
        if cause.reason == ErrorReason::CapacityReserved {
            cause.gpus = cause.gpus.saturating_sub(held);
            cause.message = sentence(cause.reason).to_owned();
        }
    }
    causes.retain(|cause| cause.gpus > 0);
    match refusal(causes) {
        Error::Refused {
            reason,
            message,
            causes,
            exceeded,
        } => Error::Refused {
            reason,
            message: format!(
                "{held} of {} GPUs can be reserved now. {message}",
                spec.gpu_count
            ),
            causes,
            exceeded,
        },
        other => other,
    }
}
