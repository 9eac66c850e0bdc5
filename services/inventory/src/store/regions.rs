//! Regions by code.
use gpuaas_common::Result;
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use sqlx::{FromRow, PgConnection};

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

/// Most nodes that are named of a region.
const NODES_NAMED: i64 = 20;

/// What the list of regions can be selected by.
pub static CATALOG: Catalog = Catalog {
    fields: &[
        CODE,
        Field::sortable("display_name", Kind::Text, "listed.display_name"),
        Field::new("enabled", Kind::Flag, "listed.enabled"),
        Field::new(
            "unavailable_reason",
            Kind::Text,
            "listed.unavailable_reason",
        ),
        Field::sortable("create_time", Kind::Time, "listed.create_time"),
        Field::sortable("update_time", Kind::Time, "listed.update_time"),
    ],
    key: CODE,
    order: "code",
};

const CODE: Field = Field::sortable("code", Kind::Text, "listed.code");

/// A page of the regions that a caller selects, and the token of the next one.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; database errors.
pub async fn list(
    conn: &mut PgConnection,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> Result<(Vec<RegionRow>, String)> {
    let statement = Statement::new(&[
        "SELECT code, display_name, enabled, unavailable_reason, create_time, update_time FROM regions WHERE delete_time IS NULL",
    ]);
    selection.page(conn, statement, wanted).await
}

/// One region.
///
/// # Errors
/// Database errors.
pub async fn find(conn: &mut PgConnection, code: &str) -> sqlx::Result<Option<RegionRow>> {
    sqlx::query_as(
        "SELECT code, display_name, enabled, unavailable_reason FROM regions WHERE code = $1 AND delete_time IS NULL",
    )
    .bind(code)
    .fetch_optional(conn)
    .await
}

/// One region, as it is until the transaction ends.
///
/// # Errors
/// Database errors.
pub async fn lock(conn: &mut PgConnection, code: &str) -> sqlx::Result<Option<RegionRow>> {
    sqlx::query_as(
        "SELECT code, display_name, enabled, unavailable_reason FROM regions WHERE code = $1 AND delete_time IS NULL
            FOR UPDATE",
    )
    .bind(code)
    .fetch_optional(conn)
    .await
}

/// Keeps a region from being deleted until the transaction ends; false: there is none.
///
/// # Errors
/// Database errors.
pub async fn hold(conn: &mut PgConnection, code: &str) -> sqlx::Result<bool> {
    let held =
        sqlx::query("SELECT FROM regions WHERE code = $1 AND delete_time IS NULL FOR KEY SHARE")
            .bind(code)
            .fetch_optional(conn)
            .await?;
    Ok(held.is_some())
}

/// Nodes of a region, some of them when there are many; not those that were registered by mistake and deleted.
///
/// # Errors
/// Database errors.
pub async fn nodes(conn: &mut PgConnection, code: &str) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar(
        "SELECT format('node %s (%s%s)', hostname, id, ', ' || removed) FROM nodes
          WHERE region_code = $1 AND removed IS DISTINCT FROM 'deleted' ORDER BY hostname, id LIMIT $2",
    )
    .bind(code)
    .bind(NODES_NAMED)
    .fetch_all(conn)
    .await
}

/// Deletes a locked region. Nodes that were deleted before keep its row, which nothing shows.
///
/// # Errors
/// Database errors.
pub async fn delete(conn: &mut PgConnection, code: &str) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE regions SET delete_time = clock_timestamp(), revision = revision + 1 WHERE code = $1",
    )
    .bind(code)
    .execute(conn)
    .await?;
    Ok(())
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
             create_time = CASE WHEN regions.delete_time IS NULL THEN regions.create_time ELSE clock_timestamp() END,
             delete_time = NULL,
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
