//! Price versions: immutable rows, and which of them the ledger still has to hear of.
use gpuaas_common::Result;
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use jiff_sqlx::Timestamp;
use sqlx::{FromRow, PgConnection, PgExecutor};
use uuid::Uuid;

use crate::domain::money::{Currency, Price};

/// A price version as stored.
#[derive(Debug, Clone, FromRow)]
pub struct PriceVersion {
    /// Id.
    pub id: Uuid,
    /// SKU code.
    pub sku: String,
    currency: String,
    price_nanos: i64,
    /// From when on it is the SKU's price.
    pub effective_at: Timestamp,
}

impl PriceVersion {
    /// The price.
    pub fn price(&self) -> Price {
        price(&self.currency, self.price_nanos)
    }
}

/// A price from its columns.
pub(super) fn price(currency: &str, nanos: i64) -> Price {
    let currency = Currency::parse(currency).expect("the table checks the currency code");
    Price { currency, nanos }
}

/// Inserts a price version, effective now and after every earlier one of its SKU, whatever the clock does.
///
/// # Errors
/// Database errors.
pub async fn insert(
    conn: &mut PgConnection,
    id: Uuid,
    sku: &str,
    price: &Price,
) -> sqlx::Result<PriceVersion> {
    // two prices of one SKU at once would read the same predecessor
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('price_versions/' || $1, 0))")
        .bind(sku)
        .execute(&mut *conn)
        .await?;
    sqlx::query_as(
        "INSERT INTO price_versions (id, sku, currency, price_nanos, effective_at)
         SELECT $1, $2, $3, $4, greatest(clock_timestamp(), max(effective_at) + interval '1 microsecond')
         FROM price_versions WHERE sku = $2
         RETURNING id, sku, currency, price_nanos, effective_at",
    )
    .bind(id)
    .bind(sku)
    .bind(price.currency.as_str())
    .bind(price.nanos)
    .fetch_one(conn)
    .await
}

/// One price version.
///
/// # Errors
/// Database errors.
pub async fn get(executor: impl PgExecutor<'_>, id: Uuid) -> sqlx::Result<Option<PriceVersion>> {
    sqlx::query_as(
        "SELECT id, sku, currency, price_nanos, effective_at FROM price_versions WHERE id = $1",
    )
    .bind(id)
    .fetch_optional(executor)
    .await
}

/// What the list of price versions can be selected by.
pub static CATALOG: Catalog = Catalog {
    fields: &[
        Field::sortable("sku", Kind::Text, "listed.sku"),
        Field::sortable("currency", Kind::Text, "listed.currency"),
        Field::sortable("effective_time", Kind::Time, "listed.effective_at"),
    ],
    key: Field::new("id", Kind::Id, "listed.id"),
    order: "effective_time desc",
};

/// A page of the price versions that a caller selects, and the token of the next one.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; database errors.
pub async fn list(
    conn: &mut PgConnection,
    sku: Option<&str>,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> Result<(Vec<PriceVersion>, String)> {
    let statement = Statement::new(&[
        "SELECT id, sku, currency, price_nanos, effective_at FROM price_versions WHERE ($1::text IS NULL OR sku = $1)",
    ])
    .bind(sku);
    selection.page(conn, statement, wanted).await
}

/// The oldest price version of each SKU that the ledger has not acknowledged: a SKU's prices are published in
/// their order.
///
/// # Errors
/// Database errors.
pub async fn unpublished(executor: impl PgExecutor<'_>) -> sqlx::Result<Vec<PriceVersion>> {
    sqlx::query_as(
        "SELECT DISTINCT ON (sku) id, sku, currency, price_nanos, effective_at FROM price_versions
         WHERE published_at IS NULL ORDER BY sku, effective_at LIMIT 100",
    )
    .fetch_all(executor)
    .await
}

/// Notes that the ledger acknowledged a price version. A second note changes nothing.
///
/// # Errors
/// Database errors.
pub async fn set_published(executor: impl PgExecutor<'_>, id: Uuid) -> sqlx::Result<()> {
    sqlx::query("UPDATE price_versions SET published_at = clock_timestamp() WHERE id = $1 AND published_at IS NULL")
        .bind(id)
        .execute(executor)
        .await?;
    Ok(())
}
