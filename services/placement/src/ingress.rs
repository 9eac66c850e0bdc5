//! Ingress mappings (J-13, L-16): which ports of VMs are reached from outside, by which ports of their hosts.
//!
//! A host reports what its operator gave to the platform ([`put_owner`]). A mapping has one port of that alone, which a constraint
//! keeps. What hosts are told is in [`hosts`].
pub mod hosts;

use gpuaas_common::Error as Refusal;
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use tonic::Code;
use uuid::Uuid;

use crate::allocations;
use crate::error::{Error, Result};
use crate::model::{AllocationState, Scope, Shape};

/// How often a free port is looked for beside others that take theirs.
const TRIES: usize = 5;

/// What the platform may open on a host.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Owner {
    /// An IPv4 address.
    pub address: String,
    pub first_port: i32,
    /// Inclusive.
    pub last_port: i32,
}

impl Owner {
    fn has(&self, mapping: &Mapping) -> bool {
        self.address == mapping.external_address
            && (self.first_port..=self.last_port).contains(&mapping.external_port)
    }
}

/// A mapping.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Mapping {
    pub id: Uuid,
    pub project_id: Uuid,
    pub allocation_id: Uuid,
    pub node_id: Uuid,
    /// "tcp" or "udp".
    pub protocol: String,
    pub vm_port: i32,
    /// 0: any.
    pub requested_port: i32,
    pub external_address: String,
    pub external_port: i32,
    /// Networks that may connect; none: everybody.
    pub sources: Vec<String>,
    pub expires_at: Option<Timestamp>,
    /// "pending", "active", "failed" or "deleting".
    pub state: String,
    /// Why it failed.
    pub failure: String,
    pub creator: String,
    pub revision: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

macro_rules! columns {
    () => {
        "id, project_id, allocation_id, node_id, protocol, vm_port, requested_port, host(external_address) AS external_address,
         external_port, sources, expires_at, state, failure, creator, revision, created_at, updated_at"
    };
}

use columns;

/// A mapping that is requested.
#[derive(Debug, Clone)]
pub struct New<'a> {
    pub id: Uuid,
    pub allocation_id: Uuid,
    pub protocol: &'a str,
    pub vm_port: u16,
    /// None: any that is free.
    pub external_port: Option<u16>,
    pub sources: &'a [String],
    pub expires_at: Option<Timestamp>,
    pub creator: &'a str,
}

/// How many mappings there may be.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub per_allocation: u32,
    pub per_project: u32,
}

/// Records what a host says that the platform may open on it; none: nothing. What was opened is told to it again after a change.
///
/// # Errors
/// Those of the database.
pub async fn put_owner(
    conn: &mut PgConnection,
    node_id: Uuid,
    owner: Option<&Owner>,
) -> Result<()> {
    if self::owner(&mut *conn, node_id).await?.as_ref() == owner {
        return Ok(());
    }
    match owner {
        None => {
            sqlx::query("DELETE FROM ingress_owners WHERE node_id = $1")
                .bind(node_id)
                .execute(&mut *conn)
                .await?;
        }
        Some(owner) => {
            sqlx::query(
                "INSERT INTO ingress_owners (node_id, address, first_port, last_port) VALUES ($1, $2::inet, $3, $4)
                 ON CONFLICT (node_id) DO UPDATE SET address = excluded.address, first_port = excluded.first_port,
                        last_port = excluded.last_port, updated_at = clock_timestamp()",
            )
            .bind(node_id)
            .bind(&owner.address)
            .bind(owner.first_port)
            .bind(owner.last_port)
            .execute(&mut *conn)
            .await?;
        }
    }
    // in the order in which everybody locks several of them
    sqlx::query("SELECT FROM ingress_mappings WHERE node_id = $1 ORDER BY id FOR UPDATE")
        .bind(node_id)
        .execute(&mut *conn)
        .await?;
    sqlx::query(
        "UPDATE ingress_mappings
            SET state = 'pending', failure = '', retry_at = clock_timestamp(), revision = revision + 1,
                updated_at = greatest(clock_timestamp(), updated_at)
          WHERE node_id = $1 AND state IN ('active', 'failed')",
    )
    .bind(node_id)
    .execute(conn)
    .await?;
    Ok(())
}

/// What the platform may open on a host; none: nothing.
///
/// # Errors
/// Those of the database.
pub async fn owner(conn: &mut PgConnection, node_id: Uuid) -> Result<Option<Owner>> {
    Ok(sqlx::query_as(
        "SELECT host(address) AS address, first_port, last_port FROM ingress_owners WHERE node_id = $1",
    )
    .bind(node_id)
    .fetch_optional(conn)
    .await?)
}

/// Makes a mapping for an allocation of this scope.
///
/// # Errors
/// [`Error::NotFound`] when there is no such allocation in the scope; it is bare metal, or not active; `INGRESS_OFF`; a port that
/// the platform does not own, or that is taken; `QUOTA`; `NO_CAPACITY` when all ports are taken.
pub async fn create(
    conn: &mut PgConnection,
    scope: Scope,
    new: &New<'_>,
    limits: Limits,
) -> Result<Mapping> {
    let project_id = allocations::get(&mut *conn, scope, new.allocation_id)
        .await?
        .project_id;
    // counts of a project are exact: its mappings are made one after the other
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('ingress/' || $1, 0))")
        .bind(project_id.to_string())
        .execute(&mut *conn)
        .await?;
    let allocation = allocations::lock(&mut *conn, new.allocation_id).await?;
    if allocation.capacity_shape != Shape::GpuSlice {
        return Err(invalid(
            "allocation_id",
            "must be a slice: the platform does not make the network of bare metal".to_owned(),
        ));
    }
    let node_id = allocation
        .node_id
        .filter(|_| allocation.state == AllocationState::Active);
    let Some(node_id) = node_id else {
        return Err(Error::Conflict {
            what: "allocation",
            id: allocation.id,
            state: allocation.state.as_str().to_owned(),
        });
    };
    let owner = owner(&mut *conn, node_id).await?.ok_or_else(off)?;
    if let Some(port) = new.external_port
        && !(owner.first_port..=owner.last_port).contains(&i32::from(port))
    {
        let rule = format!(
            "must be from {} to {}, or left out",
            owner.first_port, owner.last_port
        );
        return Err(invalid("config.external_port", rule));
    }
    check_limits(&mut *conn, project_id, new.allocation_id, limits).await?;
    for _ in 0..TRIES {
        if let Some(mapping) = insert(&mut *conn, project_id, node_id, &owner, new).await? {
            return Ok(mapping);
        }
        if let Some(port) = new.external_port {
            let rule = format!("must be free; {port}/{} is another mapping's", new.protocol);
            let text = format!("config.external_port: {rule}");
            let taken = Refusal::new(Code::AlreadyExists, ErrorReason::AlreadyExists, text);
            return Err(taken.field("config.external_port", rule).into());
        }
    }
    let text = "All external ports of the allocation's host are taken; ask an operator for more, or delete a mapping.";
    Err(Refusal::new(Code::ResourceExhausted, ErrorReason::NoCapacity, text).into())
}

async fn insert(
    conn: &mut PgConnection,
    project_id: Uuid,
    node_id: Uuid,
    owner: &Owner,
    new: &New<'_>,
) -> Result<Option<Mapping>> {
    // any one: a port that was free a moment ago may still be in somebody's configuration
    Ok(sqlx::query_as(concat!(
        "INSERT INTO ingress_mappings (id, project_id, allocation_id, node_id, protocol, vm_port, requested_port,
                                       external_address, external_port, sources, expires_at, creator)
         SELECT $1, $2, $3, $4, $5, $6, $7, $8::inet, port, $9, $10, $11
           FROM generate_series($12, $13) AS port
          WHERE $7 IN (0, port)
            AND NOT EXISTS (SELECT FROM ingress_mappings m
                             WHERE m.node_id = $4 AND m.protocol = $5 AND m.external_port = port)
          ORDER BY random() LIMIT 1
         ON CONFLICT ON CONSTRAINT ingress_mappings_one_per_port DO NOTHING
         RETURNING ",
        columns!()
    ))
    .bind(new.id)
    .bind(project_id)
    .bind(new.allocation_id)
    .bind(node_id)
    .bind(new.protocol)
    .bind(i32::from(new.vm_port))
    .bind(i32::from(new.external_port.unwrap_or_default()))
    .bind(&owner.address)
    .bind(new.sources)
    .bind(new.expires_at)
    .bind(new.creator)
    .bind(owner.first_port)
    .bind(owner.last_port)
    .fetch_optional(conn)
    .await?)
}

async fn check_limits(
    conn: &mut PgConnection,
    project_id: Uuid,
    allocation_id: Uuid,
    limits: Limits,
) -> Result<()> {
    let (of_project, of_allocation): (i64, i64) = sqlx::query_as(
        "SELECT count(*), count(*) FILTER (WHERE allocation_id = $2) FROM ingress_mappings WHERE project_id = $1",
    )
    .bind(project_id)
    .bind(allocation_id)
    .fetch_one(conn)
    .await?;
    for (what, used, limit) in [
        ("allocation", of_allocation, limits.per_allocation),
        ("project", of_project, limits.per_project),
    ] {
        if used >= i64::from(limit) {
            let text = match limit {
                0 => "The operator of the platform lets nobody open ports of VMs.".to_owned(),
                _ => format!(
                    "The {what} has {used} ingress mappings, and may have {limit}. Delete one first."
                ),
            };
            let refused = Refusal::new(Code::ResourceExhausted, ErrorReason::Quota, text)
                .field(
                    "allocation_id",
                    format!("must be of {what}s with less than {limit} ingress mappings"),
                )
                .meta("quota", format!("ingress_mappings_per_{what}"))
                .meta("limit", limit.to_string())
                .meta("used", used.to_string());
            return Err(refused.into());
        }
    }
    Ok(())
}

fn off() -> Error {
    let text = "Ingress is not configured on the allocation's host. Ask the operator: the settings agent.ingress.address and \
                agent.ingress.ports of the host name what the platform may open.";
    Refusal::new(Code::FailedPrecondition, ErrorReason::IngressOff, text).into()
}

fn invalid(field: &'static str, rule: String) -> Error {
    Error::Invalid {
        reason: ErrorReason::FieldInvalid,
        field,
        rule,
    }
}

/// One mapping of an allocation.
///
/// # Errors
/// [`Error::NotFound`] when the allocation has none of this id.
pub async fn get(conn: &mut PgConnection, allocation_id: Uuid, id: Uuid) -> Result<Mapping> {
    sqlx::query_as(concat!(
        "SELECT ",
        columns!(),
        " FROM ingress_mappings WHERE id = $1 AND allocation_id = $2"
    ))
    .bind(id)
    .bind(allocation_id)
    .fetch_optional(conn)
    .await?
    .ok_or_else(|| Error::not_found("ingress mapping", id))
}

/// The mappings of an allocation, oldest first.
async fn of_allocation(conn: &mut PgConnection, allocation_id: Uuid) -> Result<Vec<Mapping>> {
    Ok(sqlx::query_as(concat!(
        "SELECT ",
        columns!(),
        " FROM ingress_mappings WHERE allocation_id = $1 ORDER BY created_at, id"
    ))
    .bind(allocation_id)
    .fetch_all(conn)
    .await?)
}

/// What the list of an allocation's mappings can be selected by.
pub static MAPPINGS: Catalog = Catalog {
    fields: &[
        Field::sortable("protocol", Kind::OneOf(&["tcp", "udp"]), "listed.protocol"),
        Field::sortable("vm_port", Kind::Number, "listed.vm_port::bigint"),
        Field::new("external_address", Kind::Text, "listed.external_address"),
        Field::sortable(
            "external_port",
            Kind::Number,
            "listed.external_port::bigint",
        ),
        Field::sortable(
            "state",
            Kind::OneOf(&["pending", "active", "failed", "deleting"]),
            "listed.state",
        ),
        Field::new("failure", Kind::Text, "listed.failure"),
        Field::sortable("creator", Kind::Text, "listed.creator"),
        Field::new("expire_time", Kind::Time, "listed.expires_at"),
        Field::sortable("create_time", Kind::Time, "listed.created_at"),
        Field::sortable("update_time", Kind::Time, "listed.updated_at"),
    ],
    key: Field::new("id", Kind::Id, "listed.id"),
    order: "create_time",
};

/// A page of the mappings of an allocation that a caller selects, and the token of the next one.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; those of the database.
pub async fn list(
    conn: &mut PgConnection,
    allocation_id: Uuid,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> gpuaas_common::Result<(Vec<Mapping>, String)> {
    let statement = Statement::new(&[
        "SELECT ",
        columns!(),
        " FROM ingress_mappings WHERE allocation_id = $1",
    ])
    .bind(allocation_id);
    selection.page(conn, statement, wanted).await
}

/// The mappings of a node that its host has opened, by all that is known.
///
/// # Errors
/// Those of the database.
pub async fn active_on(conn: &mut PgConnection, node_id: Uuid) -> Result<Vec<Mapping>> {
    Ok(sqlx::query_as(concat!(
        "SELECT ",
        columns!(),
        " FROM ingress_mappings WHERE node_id = $1 AND state = 'active' ORDER BY id"
    ))
    .bind(node_id)
    .fetch_all(conn)
    .await?)
}

/// The mapping, locked.
///
/// # Errors
/// [`Error::NotFound`] when the allocation has none of this id.
pub async fn locked(conn: &mut PgConnection, allocation_id: Uuid, id: Uuid) -> Result<Mapping> {
    sqlx::query_as(concat!(
        "SELECT ",
        columns!(),
        " FROM ingress_mappings WHERE id = $1 AND allocation_id = $2 FOR NO KEY UPDATE"
    ))
    .bind(id)
    .bind(allocation_id)
    .fetch_optional(conn)
    .await?
    .ok_or_else(|| Error::not_found("ingress mapping", id))
}

/// Ends a mapping. It is gone once its host has closed the port; until then nobody else gets it. Returns whether it had not been
/// ended before.
///
/// # Errors
/// [`Error::NotFound`] when the allocation has none of this id.
pub async fn end(
    conn: &mut PgConnection,
    allocation_id: Uuid,
    id: Uuid,
) -> Result<(Mapping, bool)> {
    let ended = sqlx::query(
        "UPDATE ingress_mappings
            SET state = 'deleting', failure = '', retry_at = clock_timestamp(), revision = revision + 1,
                updated_at = greatest(clock_timestamp(), updated_at)
          WHERE id = $1 AND allocation_id = $2 AND state <> 'deleting'",
    )
    .bind(id)
    .bind(allocation_id)
    .execute(&mut *conn)
    .await?;
    Ok((
        get(conn, allocation_id, id).await?,
        ended.rows_affected() > 0,
    ))
}
