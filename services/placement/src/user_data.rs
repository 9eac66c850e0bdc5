//! User data of launches that are not over. The database forgets it when the launch ends, whoever ends it.
use gpuaas_common::user_data::UserData;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::{Error, Result};

/// Stores it beside its allocation, in the transaction that makes that.
pub(crate) async fn store(conn: &mut PgConnection, id: Uuid, data: &UserData) -> Result<()> {
    sqlx::query("INSERT INTO allocation_user_data (allocation_id, user_data) VALUES ($1, $2)")
        .bind(id)
        .bind(data.as_str())
        .execute(conn)
        .await?;
    Ok(())
}

/// The user data of an allocation that is being launched, for its host.
///
/// # Errors
/// [`Error::NotFound`] when it was launched without, or its launch is over.
pub async fn get(conn: &mut PgConnection, id: Uuid) -> Result<String> {
    sqlx::query_scalar("SELECT user_data FROM allocation_user_data WHERE allocation_id = $1")
        .bind(id)
        .fetch_optional(conn)
        .await?
        .ok_or_else(|| Error::not_found("user data of allocation", id))
}
