//! Invitations: who may become a member of what.
use jiff_sqlx::Timestamp;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection, Row as _};
use uuid::Uuid;

use super::members::Group;
use super::principal::{Role, decode};
use super::tenant::TenantState;

/// An invitation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvitationRow {
    /// Id.
    pub id: Uuid,
    /// What it is for.
    pub group: Group,
    /// Its slugs.
    pub target: String,
    /// Its state, with that of its organisation.
    pub target_state: TenantState,
    /// Whom it is for.
    pub email: String,
    /// What that one becomes.
    pub role: Role,
    /// Principal who invited.
    pub inviter: String,
    /// When it was made.
    pub create_time: Timestamp,
    /// When it ends.
    pub expire_time: Timestamp,
    /// It is past that time.
    pub expired: bool,
    /// When it was revoked.
    pub revoke_time: Option<Timestamp>,
    /// When it was accepted.
    pub accept_time: Option<Timestamp>,
    /// Id and name of the principal who accepted it.
    pub accepted_by: Option<(Uuid, String)>,
}

/// A new invitation.
#[derive(Clone, Debug)]
pub struct NewInvitation<'a> {
    /// Id.
    pub id: Uuid,
    /// What it is for.
    pub group: Group,
    /// Whom it is for.
    pub email: &'a str,
    /// What that one becomes.
    pub role: Role,
    /// SHA-256 of its token.
    pub token_hash: &'a [u8],
    /// Principal who invites.
    pub inviter: &'a str,
    /// When it ends.
    pub expire_time: Timestamp,
}

const SELECT: &str =
    "SELECT i.*, i.expire_time <= clock_timestamp() AS expired, p.name AS accepted_name,
            concat_ws('/', o.slug, j.slug) AS target,
            CASE WHEN 'closed' IN (j.state, o.state) THEN 'closed'
                 WHEN 'suspended' IN (j.state, o.state) THEN 'suspended' ELSE 'active' END AS target_state
       FROM invitations i
       LEFT JOIN projects j ON j.id = i.project_id
       JOIN organisations o ON o.id = coalesce(i.organisation_id, j.organisation_id)
       LEFT JOIN principals p ON p.id = i.accepted_by";

fn read(row: &PgRow) -> sqlx::Result<InvitationRow> {
    let organisation: Option<Uuid> = row.try_get("organisation_id")?;
    let group = match organisation {
        Some(id) => Group::Organisation(id),
        None => Group::Project(row.try_get("project_id")?),
    };
    let accepted_by: Option<Uuid> = row.try_get("accepted_by")?;
    let accepted_name: Option<String> = row.try_get("accepted_name")?;
    Ok(InvitationRow {
        id: row.try_get("id")?,
        group,
        target: row.try_get("target")?,
        target_state: decode(row, "target_state", TenantState::parse)?,
        email: row.try_get("email")?,
        role: decode(row, "role", Role::parse)?,
        inviter: row.try_get("inviter")?,
        create_time: row.try_get("create_time")?,
        expire_time: row.try_get("expire_time")?,
        expired: row.try_get("expired")?,
        revoke_time: row.try_get("revoke_time")?,
        accept_time: row.try_get("accept_time")?,
        accepted_by: accepted_by.zip(accepted_name),
    })
}

/// Adds an invitation.
///
/// # Errors
/// Database errors.
pub async fn insert_invitation(
    conn: &mut PgConnection,
    new: &NewInvitation<'_>,
) -> sqlx::Result<()> {
    let (organisation, project) = match new.group {
        Group::Organisation(id) => (Some(id), None),
        Group::Project(id) => (None, Some(id)),
    };
    sqlx::query(
        "INSERT INTO invitations (id, organisation_id, project_id, email, role, token_hash, inviter, expire_time)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(new.id)
    .bind(organisation)
    .bind(project)
    .bind(new.email)
    .bind(new.role.as_str())
    .bind(new.token_hash)
    .bind(new.inviter)
    .bind(new.expire_time)
    .execute(conn)
    .await?;
    Ok(())
}

/// One invitation.
///
/// # Errors
/// Database errors.
pub async fn find_invitation(
    conn: &mut PgConnection,
    id: Uuid,
) -> sqlx::Result<Option<InvitationRow>> {
    let sql = format!("{SELECT} WHERE i.id = $1");
    let row = sqlx::query(AssertSqlSafe(sql))
        .bind(id)
        .fetch_optional(conn)
        .await?;
    row.as_ref().map(read).transpose()
}

/// The invitation of a token.
///
/// # Errors
/// Database errors.
pub async fn invitation_of_token(
    conn: &mut PgConnection,
    token_hash: &[u8],
) -> sqlx::Result<Option<InvitationRow>> {
    let sql = format!("{SELECT} WHERE i.token_hash = $1");
    let row = sqlx::query(AssertSqlSafe(sql))
        .bind(token_hash)
        .fetch_optional(conn)
        .await?;
    row.as_ref().map(read).transpose()
}

/// An invitation, locked until the end of the transaction: of two who accept it one comes second. What it is for is locked
/// before, by everybody, so that nobody waits for who waits.
///
/// # Errors
/// Database errors.
pub async fn lock_invitation(
    conn: &mut PgConnection,
    id: Uuid,
) -> sqlx::Result<Option<InvitationRow>> {
    let sql = format!("{SELECT} WHERE i.id = $1 FOR UPDATE OF i");
    let row = sqlx::query(AssertSqlSafe(sql))
        .bind(id)
        .fetch_optional(conn)
        .await?;
    row.as_ref().map(read).transpose()
}

/// States to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvitationState {
    /// Can be accepted.
    Pending,
    /// Somebody has.
    Accepted,
    /// Nobody can any more.
    Revoked,
    /// Nobody has in time.
    Expired,
}

impl InvitationRow {
    /// Its state.
    pub fn state(&self) -> InvitationState {
        if self.accept_time.is_some() {
            InvitationState::Accepted
        } else if self.revoke_time.is_some() {
            InvitationState::Revoked
        } else if self.expired {
            InvitationState::Expired
        } else {
            InvitationState::Pending
        }
    }
}

/// Invitations before one by id, newest first.
///
/// # Errors
/// Database errors.
pub async fn list_invitations(
    conn: &mut PgConnection,
    group: Group,
    state: Option<InvitationState>,
    before: Uuid,
    limit: i64,
) -> sqlx::Result<Vec<InvitationRow>> {
    let of = match group {
        Group::Organisation(_) => "i.organisation_id = $1",
        Group::Project(_) => "i.project_id = $1",
    };
    let in_state = match state {
        None => "true",
        Some(InvitationState::Accepted) => "i.accept_time IS NOT NULL",
        Some(InvitationState::Revoked) => "i.revoke_time IS NOT NULL",
        Some(InvitationState::Expired) => {
            "i.accept_time IS NULL AND i.revoke_time IS NULL AND i.expire_time <= clock_timestamp()"
        }
        Some(InvitationState::Pending) => {
            "i.accept_time IS NULL AND i.revoke_time IS NULL AND i.expire_time > clock_timestamp()"
        }
    };
    let sql =
        format!("{SELECT} WHERE {of} AND {in_state} AND i.id < $2 ORDER BY i.id DESC LIMIT $3");
    let rows = sqlx::query(AssertSqlSafe(sql))
        .bind(group.id())
        .bind(before)
        .bind(limit)
        .fetch_all(conn)
        .await?;
    rows.iter().map(read).collect()
}

/// Revokes an invitation that is not used.
///
/// # Errors
/// Database errors; also for one that is accepted or revoked.
pub async fn revoke_invitation(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<()> {
    sqlx::query("UPDATE invitations SET revoke_time = clock_timestamp() WHERE id = $1")
        .bind(id)
        .execute(conn)
        .await?;
    Ok(())
}

/// Uses an invitation.
///
/// # Errors
/// Database errors; also for one that is accepted or revoked.
pub async fn accept_invitation(
    conn: &mut PgConnection,
    id: Uuid,
    principal: Uuid,
) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE invitations SET accept_time = clock_timestamp(), accepted_by = $2 WHERE id = $1",
    )
    .bind(id)
    .bind(principal)
    .execute(conn)
    .await?;
    Ok(())
}
