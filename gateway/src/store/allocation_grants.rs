//! Grants for single allocations of a project.
use jiff_sqlx::Timestamp;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};
use uuid::Uuid;

use super::principal::decode;

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

/// Grants of a project before one by id that have not expired, newest first.
///
/// # Errors
/// Database errors.
pub async fn list_allocation_grants(
    conn: &mut PgConnection,
    project: Uuid,
    (allocation, grantee): (Option<Uuid>, Option<Uuid>),
    before: Uuid,
    limit: i64,
) -> sqlx::Result<Vec<AllocationGrantRow>> {
    let rows = sqlx::query(
        "SELECT g.*, p.name AS principal FROM allocation_grants g JOIN principals p ON p.id = g.principal_id
          WHERE g.project_id = $1 AND ($2::uuid IS NULL OR g.allocation_id = $2) AND g.id < $3
            AND g.expire_time > clock_timestamp() AND ($5::uuid IS NULL OR g.principal_id = $5)
          ORDER BY g.id DESC LIMIT $4",
    )
    .bind(project)
    .bind(allocation)
    .bind(before)
    .bind(limit)
    .bind(grantee)
    .fetch_all(conn)
    .await?;
    rows.iter().map(read).collect()
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
