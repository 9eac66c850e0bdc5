//! Rows of `os_images` (E-01, E-02).
use gpuaas_common::Result;
use gpuaas_common::readiness;
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use jiff_sqlx::Timestamp;
use sqlx::types::Json;
use sqlx::{FromRow, PgConnection, PgExecutor};

use crate::domain::image::{DriverStrategy, Status};
use crate::domain::source::Source;
use crate::registry::Resolved;
use gpuaas_common::value::ImageSlug;

/// An image as stored.
#[derive(Debug, Clone, FromRow)]
pub struct Image {
    /// Name.
    pub slug: String,
    /// For people.
    pub display_name: String,
    status: String,
    driver_strategy: String,
    /// Pinned once the artifact was resolved.
    pub source_uri: String,
    /// Of the raw image; absent for a placeholder (E-07).
    pub digest_sha256: Option<String>,
    size_bytes: Option<i64>,
    /// SKUs that can run it (E-12, E-13).
    pub compatible_skus: Vec<String>,
    boot_timeout_seconds: i32,
    /// What must pass in a guest before its allocation is active (INC-24).
    pub readiness_checks: Json<Vec<readiness::Check>>,
    /// Grows by one with every change.
    pub revision: i64,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

impl Image {
    /// Whether users can choose it.
    pub fn status(&self) -> Status {
        Status::from_stored(&self.status).expect("the table checks the status")
    }

    /// How its guest gets drivers.
    pub fn driver_strategy(&self) -> DriverStrategy {
        DriverStrategy::from_stored(&self.driver_strategy).expect("the table checks the strategy")
    }

    /// Bytes of the raw image; 0 for a placeholder.
    pub fn size_bytes(&self) -> u64 {
        u64::try_from(self.size_bytes.unwrap_or(0)).expect("the table checks the size")
    }

    /// Seconds the guest may take from start to a working login.
    pub fn boot_timeout_seconds(&self) -> u32 {
        u32::try_from(self.boot_timeout_seconds).expect("the table checks the timeout")
    }
}

/// An image to insert.
#[derive(Debug, Clone)]
pub struct NewImage {
    /// Name.
    pub slug: ImageSlug,
    /// For people.
    pub display_name: String,
    /// Whether users can choose it.
    pub status: Status,
    /// How its guest gets drivers.
    pub driver_strategy: DriverStrategy,
    /// As given.
    pub source: Source,
    /// As published; absent for a placeholder.
    pub resolved: Option<Resolved>,
    /// SKUs that can run it.
    pub compatible_skus: Vec<String>,
    /// Seconds.
    pub boot_timeout_seconds: u32,
    /// What must pass in a guest before its allocation is active.
    pub readiness_checks: Vec<readiness::Check>,
}

/// Inserts an image; `None` when the slug exists, which is left as it is (INC-38). The conflict has no target: two inserts of
/// one slug at once may meet at the key of slug and digest first.
///
/// # Errors
/// Database errors.
pub async fn insert(conn: &mut PgConnection, image: &NewImage) -> sqlx::Result<Option<Image>> {
    let pinned = image.resolved.as_ref();
    sqlx::query_as(
        "INSERT INTO os_images (slug, display_name, status, driver_strategy, source_uri, digest_sha256, size_bytes,
                                compatible_skus, boot_timeout_seconds, metadata, readiness_checks)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
         ON CONFLICT DO NOTHING
         RETURNING slug, display_name, status, driver_strategy, source_uri, digest_sha256, size_bytes,
                   compatible_skus, boot_timeout_seconds, readiness_checks, revision, created_at, updated_at",
    )
    .bind(image.slug.as_str())
    .bind(&image.display_name)
    .bind(image.status.as_str())
    .bind(image.driver_strategy.as_str())
    .bind(pinned.map_or(&image.source, |resolved| &resolved.source).to_string())
    .bind(pinned.map(|resolved| resolved.image.digest.to_string()))
    .bind(pinned.map(size))
    .bind(&image.compatible_skus)
    .bind(i32::try_from(image.boot_timeout_seconds).unwrap_or(i32::MAX))
    .bind(metadata(&image.slug, &image.source))
    .bind(Json(&image.readiness_checks))
    .fetch_optional(conn)
    .await
}

/// Keys of E-02. The reference stays the public one that was given, whatever it is pinned to (E-19).
fn metadata(slug: &ImageSlug, source: &Source) -> serde_json::Value {
    serde_json::json!({ "image_path": gpuaas_common::image::path(slug.as_str()), "artifact_ref": source.reference() })
}

fn size(resolved: &Resolved) -> i64 {
    i64::try_from(resolved.image.size).expect("the manifest format has 63 bits for it")
}

/// One image of any status.
///
/// # Errors
/// Database errors.
pub async fn get(executor: impl PgExecutor<'_>, slug: &str) -> sqlx::Result<Option<Image>> {
    sqlx::query_as(
        "SELECT slug, display_name, status, driver_strategy, source_uri, digest_sha256, size_bytes,
                compatible_skus, boot_timeout_seconds, readiness_checks, revision, created_at, updated_at
         FROM os_images WHERE slug = $1",
    )
    .bind(slug)
    .fetch_optional(executor)
    .await
}

/// The same, as it is until the transaction ends.
///
/// # Errors
/// Database errors.
pub async fn lock(conn: &mut PgConnection, slug: &str) -> sqlx::Result<Option<Image>> {
    sqlx::query_as(
        "SELECT slug, display_name, status, driver_strategy, source_uri, digest_sha256, size_bytes,
                compatible_skus, boot_timeout_seconds, readiness_checks, revision, created_at, updated_at
         FROM os_images WHERE slug = $1 FOR NO KEY UPDATE",
    )
    .bind(slug)
    .fetch_optional(conn)
    .await
}

/// Which images to list.
#[derive(Debug, Clone, Copy)]
pub struct Filter<'a> {
    /// Only those users can choose.
    pub active_only: bool,
    /// Only those this SKU can run (E-13).
    pub sku: Option<&'a str>,
}

/// What the list of images can be selected by.
pub static CATALOG: Catalog = Catalog {
    fields: &[
        SLUG,
        Field::sortable("display_name", Kind::Text, "listed.display_name"),
        Field::sortable(
            "status",
            Kind::OneOf(&["disabled", "active"]),
            "listed.status",
        ),
        Field::new(
            "driver_strategy",
            Kind::OneOf(&["none", "cloud_init", "preinstalled"]),
            "listed.driver_strategy",
        ),
        Field::new("size_bytes", Kind::Number, "coalesce(listed.size_bytes, 0)"),
        Field::sortable("create_time", Kind::Time, "listed.created_at"),
        Field::sortable("update_time", Kind::Time, "listed.updated_at"),
    ],
    key: SLUG,
    order: "slug",
};

const SLUG: Field = Field::sortable("slug", Kind::Text, "listed.slug");

/// A page of the images that a caller selects, and the token of the next one.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; database errors.
pub async fn list(
    conn: &mut PgConnection,
    filter: Filter<'_>,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> Result<(Vec<Image>, String)> {
    let statement = Statement::new(&[
        "SELECT slug, display_name, status, driver_strategy, source_uri, digest_sha256, size_bytes,
                compatible_skus, boot_timeout_seconds, readiness_checks, revision, created_at, updated_at
         FROM os_images
         WHERE (NOT $1 OR status = 'active') AND ($2::text IS NULL OR compatible_skus @> ARRAY[$2])",
    ])
    .bind(filter.active_only)
    .bind(filter.sku);
    selection.page(conn, statement, wanted).await
}

/// Sets the status; with `resolved` a placeholder gets its digest in the same statement. `None` when there is no
/// such image. Setting what is set changes nothing.
///
/// # Errors
/// Database errors; the table refuses to activate an image without a digest.
pub async fn set_status(
    conn: &mut PgConnection,
    slug: &str,
    status: Status,
    resolved: Option<&Resolved>,
) -> sqlx::Result<Option<Image>> {
    sqlx::query(
        "UPDATE os_images
         SET status = $2,
             source_uri = CASE WHEN digest_sha256 IS NULL THEN coalesce($3, source_uri) ELSE source_uri END,
             digest_sha256 = coalesce(digest_sha256, $4),
             size_bytes = coalesce(size_bytes, $5),
             revision = revision + 1, updated_at = greatest(clock_timestamp(), updated_at)
         WHERE slug = $1 AND (status <> $2 OR (digest_sha256 IS NULL AND $4::text IS NOT NULL))",
    )
    .bind(slug)
    .bind(status.as_str())
    .bind(resolved.map(|resolved| resolved.source.to_string()))
    .bind(resolved.map(|resolved| resolved.image.digest.to_string()))
    .bind(resolved.map(size))
    .execute(&mut *conn)
    .await?;
    get(conn, slug).await
}
