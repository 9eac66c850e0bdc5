//! Grants for single allocations of a project.
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use jiff_sqlx::Timestamp;
use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection, Row as _};
use uuid::Uuid;

use super::column::decode;

/// What a grant lets a member do in an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AllocationPermission {
    /// Open terminals.
    Terminal,
    /// Read the serial log.
    SerialLog,
}

impl AllocationPermission {
    /// From the column.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "terminal" => Some(Self::Terminal),
            "serial_log" => Some(Self::SerialLog),
            _ => None,
        }
    }

    /// For the column.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Terminal => "terminal",
            Self::SerialLog => "serial_log",
        }
    }

    /// Whether it is about this action of the contract. Whatever it is for, what is to be found on it may be read.
    pub fn lets(self, action: &str) -> bool {
        let own = match self {
            Self::Terminal => "terminal.create",
            Self::SerialLog => "serial_log.read",
        };
        action == own || action == "allocation.get"
    }
}

/// A grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocationGrantRow {
    /// Id.
    pub id: Uuid,
    /// The allocation's project.
    pub project: Uuid,
    /// The allocation.
    pub allocation: Uuid,
    /// Name of who has the grant.
    pub principal: String,
    /// To do what.
    pub permission: AllocationPermission,
    /// Principal who granted it.
    pub creator: String,
    /// When.
    pub create_time: Timestamp,
    /// Until when.
    pub expire_time: Timestamp,
}

impl FromRow<'_, PgRow> for AllocationGrantRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        read(row)
    }
}

fn read(row: &PgRow) -> sqlx::Result<AllocationGrantRow> {
    Ok(AllocationGrantRow {
        id: row.try_get("id")?,
        project: row.try_get("project_id")?,
        allocation: row.try_get("allocation_id")?,
        principal: row.try_get("principal")?,
        permission: decode(row, "permission", AllocationPermission::parse)?,
        creator: row.try_get("creator")?,
        create_time: row.try_get("create_time")?,
        expire_time: row.try_get("expire_time")?,
    })
}

/// A grant to make.
#[derive(Clone, Copy, Debug)]
pub struct NewAllocationGrant<'a> {
    /// Id.
    pub id: Uuid,
    /// The allocation's project.
    pub project: Uuid,
    /// The allocation.
    pub allocation: Uuid,
    /// Who gets the grant.
    pub principal: Uuid,
    /// To do what.
    pub permission: AllocationPermission,
    /// Principal who grants it.
    pub creator: &'a str,
    /// Until when.
    pub expire_time: Timestamp,
}

/// Adds a grant, and forgets those of the project that have expired; `false` when the principal has it already.
///
/// # Errors
/// Database errors.
pub async fn insert_allocation_grant(
    conn: &mut PgConnection,
    new: &NewAllocationGrant<'_>,
) -> sqlx::Result<bool> {
    sqlx::query(
        "DELETE FROM allocation_grants WHERE project_id = $1 AND expire_time <= clock_timestamp()",
    )
    .bind(new.project)
    .execute(&mut *conn)
    .await?;
    let done = sqlx::query(
        "INSERT INTO allocation_grants (id, project_id, allocation_id, principal_id, permission, creator, expire_time)
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
    )
    .bind(new.id)
    .bind(new.project)
    .bind(new.allocation)
    .bind(new.principal)
    .bind(new.permission.as_str())
    .bind(new.creator)
    .bind(new.expire_time)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// What the list of a project's grants can be selected by.
pub static ALLOCATION_GRANTS: Catalog = Catalog {
    fields: &[
        Field::sortable("allocation_id", Kind::Id, "listed.allocation_id"),
        Field::sortable("principal", Kind::Text, "listed.principal"),
        Field::sortable(
            "permission",
            Kind::OneOf(&["terminal", "serial_log"]),
            "listed.permission",
        ),
        Field::sortable("creator", Kind::Text, "listed.creator"),
        Field::sortable("create_time", Kind::Time, "listed.create_time"),
        Field::sortable("expire_time", Kind::Time, "listed.expire_time"),
    ],
    key: Field::new("id", Kind::Id, "listed.id"),
    order: "create_time desc",
};

/// A page of the grants of a project that have not expired and that a caller selects, and the token of the next one.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; database errors.
pub async fn list_allocation_grants(
    conn: &mut PgConnection,
    project: Uuid,
    (allocation, grantee): (Option<Uuid>, Option<Uuid>),
    selection: &Selection,
    wanted: Wanted<'_>,
) -> gpuaas_common::Result<(Vec<AllocationGrantRow>, String)> {
    let statement = Statement::new(&[
        "SELECT g.*, p.name AS principal FROM allocation_grants g JOIN principals p ON p.id = g.principal_id
          WHERE g.project_id = $1 AND ($2::uuid IS NULL OR g.allocation_id = $2)
            AND g.expire_time > clock_timestamp() AND ($3::uuid IS NULL OR g.principal_id = $3)",
    ])
    .bind(project)
    .bind(allocation)
    .bind(grantee);
    selection.page(conn, statement, wanted).await
}

/// One grant of a project.
///
/// # Errors
/// Database errors.
pub async fn find_allocation_grant(
    conn: &mut PgConnection,
    project: Uuid,
    id: Uuid,
) -> sqlx::Result<Option<AllocationGrantRow>> {
    let row = sqlx::query(
        "SELECT g.*, p.name AS principal FROM allocation_grants g JOIN principals p ON p.id = g.principal_id
          WHERE g.project_id = $1 AND g.id = $2",
    )
    .bind(project)
    .bind(id)
    .fetch_optional(conn)
    .await?;
    row.as_ref().map(read).transpose()
}

/// How many grants a project has.
///
/// # Errors
/// Database errors.
pub async fn count_allocation_grants(conn: &mut PgConnection, project: Uuid) -> sqlx::Result<i64> {
    sqlx::query_scalar(
        "SELECT count(*) FROM allocation_grants WHERE project_id = $1 AND expire_time > clock_timestamp()",
    )
    .bind(project)
    .fetch_one(conn)
    .await
}

/// Removes a grant.
///
/// # Errors
/// Database errors.
pub async fn delete_allocation_grant(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<()> {
    sqlx::query("DELETE FROM allocation_grants WHERE id = $1")
        .bind(id)
        .execute(conn)
        .await?;
    Ok(())
}
