//! Rows of `node_image_cache` (E-03, E-04).
use jiff_sqlx::Timestamp;
use sqlx::{FromRow, PgConnection, PgExecutor};
use uuid::Uuid;

use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use gpuaas_common::value::Digest;
use gpuaas_common::value::ImageSlug;

/// An image in a node's cache.
#[derive(Debug, Clone, FromRow)]
pub struct Cached {
    /// The node.
    pub node_id: Uuid,
    /// The image.
    pub image_slug: String,
    /// "verified" or "absent".
    pub status: String,
    /// As the node computed it.
    pub digest_sha256: String,
    /// When it was last found right; absent unless verified.
    pub verified_at: Option<Timestamp>,
}

/// Records what a node computed from its file, as verified only when it is the catalog's digest (E-05, E-06).
/// Returns whether it is; `None` when there is no such image.
///
/// # Errors
/// Database errors.
pub async fn report(
    executor: impl PgExecutor<'_>,
    node_id: Uuid,
    slug: &ImageSlug,
    digest: &Digest,
) -> sqlx::Result<Option<bool>> {
    sqlx::query_scalar(
        "INSERT INTO node_image_cache AS cache
             (node_id, image_slug, status, digest_sha256, local_path, verified_at, updated_at)
         SELECT $1, image.slug,
                CASE WHEN right_digest THEN 'verified' ELSE 'absent' END, $3, $4,
                CASE WHEN right_digest THEN clock_timestamp() END, clock_timestamp()
         FROM os_images image, LATERAL (SELECT (image.digest_sha256 = $3) IS TRUE AS right_digest) judged
         WHERE image.slug = $2
         ON CONFLICT (node_id, image_slug) DO UPDATE
         SET status = excluded.status, digest_sha256 = excluded.digest_sha256, local_path = excluded.local_path,
             verified_at = excluded.verified_at, updated_at = excluded.updated_at
         RETURNING cache.status = 'verified'",
    )
    .bind(node_id)
    .bind(slug.as_str())
    .bind(digest.as_str())
    .bind(gpuaas_common::image::path(slug.as_str()))
    .fetch_optional(executor)
    .await
}

/// The order of a node's images: that of their slugs.
pub static IMAGES: Catalog = Catalog {
    fields: &[],
    key: Field::new("image_slug", Kind::Text, "listed.image_slug"),
    order: "",
};

/// A page of what a node holds, and the token of the next one.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; database errors.
pub async fn list(
    conn: &mut PgConnection,
    node_id: Uuid,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> gpuaas_common::Result<(Vec<Cached>, String)> {
    let statement = Statement::new(&[
        "SELECT node_id, image_slug, status, digest_sha256, verified_at FROM node_image_cache WHERE node_id = $1",
    ])
    .bind(node_id);
    selection.page(conn, statement, wanted).await
}
