//! What a project changes of its allocation.
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::allocations::UPDATED;
use crate::error::{Error, Result};
use crate::model::Scope;
use crate::{allocations, lock, outbox};

/// What a project changes of its allocation; none: as it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Update<'a> {
    /// Name for people.
    pub display_name: Option<&'a str>,
    /// Whether a release by the project is refused.
    pub termination_protection: Option<bool>,
    /// When the platform releases it.
    pub auto_release: Option<AutoRelease>,
}

/// When the platform releases an allocation.
#[derive(Debug, Clone, Copy)]
pub enum AutoRelease {
    /// Not by itself.
    Never,
    /// Then.
    At(Timestamp),
}

/// Changes what is given; nothing when all is so already.
///
/// # Errors
/// [`Error::NotFound`] when there is none in this scope; [`Error::Invalid`] when it would be protected and end by itself.
pub async fn apply(
    conn: &mut PgConnection,
    scope: Scope,
    id: Uuid,
    update: Update<'_>,
) -> Result<()> {
    let before = lock::allocation(conn, scope, id).await?;
    let name = update.display_name.unwrap_or(&before.display_name);
    let protected = update
        .termination_protection
        .unwrap_or(before.termination_protection);
    let ends = match update.auto_release {
        None => before.auto_release_at,
        Some(AutoRelease::Never) => None,
        Some(AutoRelease::At(time)) => Some(time),
    };
    if protected && ends.is_some() {
        return Err(Error::Invalid {
            reason: ErrorReason::FieldInvalid,
            field: "termination_protection",
            rule: "cannot be set together with a release time".to_owned(),
        });
    }
    let same_end = ends.map(Timestamp::to_jiff) == before.auto_release_at.map(Timestamp::to_jiff);
    if same_end && name == before.display_name && protected == before.termination_protection {
        return Ok(());
    }
    sqlx::query(
        "UPDATE allocations
            SET display_name = $2, termination_protection = $3, auto_release_at = $4, revision = revision + 1,
                updated_at = greatest(clock_timestamp(), updated_at)
          WHERE id = $1",
    )
    .bind(id)
    .bind(name)
    .bind(protected)
    .bind(ends)
    .execute(&mut *conn)
    .await?;
    let allocation = allocations::get(conn, Scope::Platform, id).await?;
    outbox::append_allocation(conn, &format!("allocation.{UPDATED}"), &allocation).await
}
