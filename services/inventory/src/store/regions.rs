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
        "SELECT code, display_name, enabled, unavailable_reason, create_time, update_time FROM regions",
    ]);
    selection.page(conn, statement, wanted).await
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

/// One region, as it is until the transaction ends.
///
/// # Errors
/// Database errors.
pub async fn lock(conn: &mut PgConnection, code: &str) -> sqlx::Result<Option<RegionRow>> {
    sqlx::query_as(
        "SELECT code, display_name, enabled, unavailable_reason FROM regions WHERE code = $1 FOR NO KEY UPDATE",
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
