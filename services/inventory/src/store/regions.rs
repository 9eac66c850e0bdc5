//! Regions by code.
use sqlx::{FromRow, PgConnection, PgPool};

/// A region.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct RegionRow {
    /// Code, the key.
    pub code: String,
    /// For people.
    pub display_name: String,
    /// Capacity is offered there.
    pub enabled: bool,
    /// Shown when it is not.
    pub unavailable_reason: String,
}

/// Regions after a code, by code, at most `limit`.
///
/// # Errors
/// Database errors.
pub async fn list(pool: &PgPool, after: &str, limit: i64) -> sqlx::Result<Vec<RegionRow>> {
    sqlx::query_as(
        "SELECT code, display_name, enabled, unavailable_reason FROM regions WHERE code > $1 ORDER BY code LIMIT $2",
    )
    .bind(after)
    .bind(limit)
    .fetch_all(pool)
    .await
}

/// One region.
///
/// # Errors
/// Database errors.
pub async fn find(conn: &mut PgConnection, code: &str) -> sqlx::Result<Option<RegionRow>> {
    sqlx::query_as(
        "SELECT code, display_name, enabled, unavailable_reason FROM regions WHERE code = $1",
    )
    .bind(code)
    .fetch_optional(conn)
    .await
}

/// Creates or replaces a region.
///
/// # Errors
/// Database errors.
pub async fn put(conn: &mut PgConnection, region: &RegionRow) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO regions (code, display_name, enabled, unavailable_reason) VALUES ($1, $2, $3, $4)
         ON CONFLICT (code) DO UPDATE SET
             display_name = EXCLUDED.display_name,
             enabled = EXCLUDED.enabled,
             unavailable_reason = EXCLUDED.unavailable_reason,
             revision = regions.revision + 1,
             update_time = greatest(clock_timestamp(), regions.update_time)",
    )
    .bind(&region.code)
    .bind(&region.display_name)
    .bind(region.enabled)
    .bind(&region.unavailable_reason)
    .execute(conn)
    .await?;
    Ok(())
}
