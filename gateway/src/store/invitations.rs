//! Invitations: who may become a member of what.
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use jiff_sqlx::Timestamp;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, FromRow, PgConnection, Row as _};
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
    /// How members read of that one.
    pub shown_inviter: String,
    /// When it was made.
    pub create_time: Timestamp,
    /// When it ends.
    pub expire_time: Timestamp,
    /// Its own state.
    pub state: InvitationState,
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
    /// How members read of that one, whatever becomes of it.
    pub shown_inviter: &'a str,
    /// When it ends.
    pub expire_time: Timestamp,
}

const SELECT: &str =
    "SELECT i.*, p.name AS accepted_name,
            CASE WHEN i.accept_time IS NOT NULL THEN 'accepted' WHEN i.revoke_time IS NOT NULL THEN 'revoked'
                 WHEN i.expire_time <= clock_timestamp() THEN 'expired' ELSE 'pending' END AS state,
            concat_ws('/', o.slug, j.slug) AS target,
            CASE WHEN 'closed' IN (j.state, o.state) THEN 'closed'
                 WHEN 'suspended' IN (j.state, o.state) THEN 'suspended' ELSE 'active' END AS target_state
       FROM invitations i
       LEFT JOIN projects j ON j.id = i.project_id
       JOIN organisations o ON o.id = coalesce(i.organisation_id, j.organisation_id)
       LEFT JOIN principals p ON p.id = i.accepted_by";

impl FromRow<'_, PgRow> for InvitationRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        read(row)
    }
}

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
        shown_inviter: row.try_get("shown_inviter")?,
        create_time: row.try_get("create_time")?,
        expire_time: row.try_get("expire_time")?,
        state: decode(row, "state", InvitationState::parse)?,
        accept_time: row.try_get("accept_time")?,
        accepted_by: accepted_by.zip(accepted_name),
    })
}

/// Organisation and project: one of them.
fn columns(group: Group) -> (Option<Uuid>, Option<Uuid>) {
    match group {
        Group::Organisation(id) => (Some(id), None),
        Group::Project(id) => (None, Some(id)),
    }
}

/// Adds an invitation.
///
/// # Errors
/// Database errors.
pub async fn insert_invitation(
    conn: &mut PgConnection,
    new: &NewInvitation<'_>,
) -> sqlx::Result<()> {
    let (organisation, project) = columns(new.group);
    sqlx::query(
        "INSERT INTO invitations (id, organisation_id, project_id, email, role, token_hash, inviter, shown_inviter, expire_time)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    )
    .bind(new.id)
    .bind(organisation)
    .bind(project)
    .bind(new.email)
    .bind(new.role.as_str())
    .bind(new.token_hash)
    .bind(new.inviter)
    .bind(new.shown_inviter)
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

/// State of an invitation.
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

impl InvitationState {
    /// From the column.
    fn parse(text: &str) -> Option<Self> {
        match text {
            "pending" => Some(Self::Pending),
            "accepted" => Some(Self::Accepted),
            "revoked" => Some(Self::Revoked),
            "expired" => Some(Self::Expired),
            _ => None,
        }
    }

    /// For the column.
    fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Accepted => "accepted",
            Self::Revoked => "revoked",
            Self::Expired => "expired",
        }
    }
}

/// What a list of invitations can be selected by.
pub static INVITATIONS: Catalog = Catalog {
    fields: &[
        Field::sortable("email", Kind::Text, "listed.email"),
        Field::sortable(
            "role",
            Kind::OneOf(&["owner", "member", "viewer", "billing"]),
            "listed.role",
        ),
        Field::new(
            "state",
            Kind::OneOf(&["pending", "accepted", "revoked", "expired"]),
            "listed.state",
        ),
        Field::sortable("inviter", Kind::Text, "listed.shown_inviter"),
        Field::new("accepted_by", Kind::Text, "listed.accepted_name"),
        Field::sortable("create_time", Kind::Time, "listed.create_time"),
        Field::sortable("expire_time", Kind::Time, "listed.expire_time"),
        Field::new("accept_time", Kind::Time, "listed.accept_time"),
    ],
    key: Field::new("id", Kind::Id, "listed.id"),
    order: "create_time desc",
};

/// A page of the invitations that a caller selects, of one state when it is given, and the token of the next one.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; database errors.
pub async fn list_invitations(
    conn: &mut PgConnection,
    group: Group,
    state: Option<InvitationState>,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> gpuaas_common::Result<(Vec<InvitationRow>, String)> {
    let (organisation, project) = columns(group);
    let statement = Statement::new(&[
        "SELECT * FROM (",
        SELECT,
        " WHERE (i.organisation_id = $1 OR i.project_id = $2)) AS of_group WHERE ($3::text IS NULL OR state = $3)",
    ])
    .bind(organisation)
    .bind(project)
    .bind(state.map(InvitationState::as_str));
    selection.page(conn, statement, wanted).await
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
