//! One thin method per RPC: parse, ask the registry, call the store, map.
mod admin;
mod create;
mod internal;
mod source;
mod user;

use gpuaas_common::Error;
use gpuaas_common::client::GrpcChannel;
use gpuaas_common::page;
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::time::proto_time;
use gpuaas_proto::gpuaas::common::v1::ResourceMetadata;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::images::v1::{Image, ListImagesRequest, ListImagesResponse};
use sqlx::PgPool;
use tonic::Code;

use crate::registry::{Registry, Verifications};
use crate::store::images::{self, Filter};
use gpuaas_common::value::{ImageSlug, ParseError};

/// All services of the catalog.
#[derive(Clone)]
pub struct Api {
    /// Database of this service.
    pub pool: PgPool,
    /// The service that knows SKUs.
    pub scheduler: GrpcChannel,
    /// Where images are published.
    pub registry: Registry,
    /// Registries that images may come from, "host" or "host:port".
    pub allowed_registries: Vec<String>,
    /// Whether the whole image is read and checked before it becomes active.
    pub verify_on_create: bool,
    /// Those readings.
    pub verifications: Verifications,
}

impl Api {
    async fn list(
        &self,
        request: &ListImagesRequest,
        active_only: bool,
    ) -> Result<ListImagesResponse, Error> {
        let selection = Selection::parse(&images::CATALOG, &request.filter, &request.order_by)?;
        let wanted = Wanted {
            page_token: &request.page_token,
            size: page::page_size(request.page_size)?,
            query: &[
                if active_only { "images" } else { "all-images" },
                request.sku.as_str(),
            ],
        };
        let filter = Filter {
            active_only,
            sku: Some(request.sku.as_str()).filter(|sku| !sku.is_empty()),
        };
        let mut conn = self.pool.acquire().await?;
        let (rows, next_page_token) = images::list(&mut conn, filter, &selection, wanted).await?;
        Ok(ListImagesResponse {
            images: rows.iter().map(to_proto).collect(),
            next_page_token,
        })
    }

    async fn image(&self, slug: &ImageSlug) -> Result<images::Image, Error> {
        images::get(&self.pool, slug.as_str())
            .await?
            .ok_or_else(|| unknown(slug.as_str()))
    }
}

fn parse_slug(field: &str, text: &str) -> Result<ImageSlug, Error> {
    if text.is_empty() {
        return Err(Error::required(field));
    }
    text.parse()
        .map_err(|error: ParseError| Error::invalid(field, format!("must be {}", error.rule)))
}

fn unknown(slug: &str) -> Error {
    Error::new(
        Code::NotFound,
        ErrorReason::ImageUnknown,
        format!("there is no image {slug:?}"),
    )
    .field("slug", "must be the slug of an existing image")
}

fn to_proto(image: &images::Image) -> Image {
    Image {
        slug: image.slug.clone(),
        display_name: image.display_name.clone(),
        status: image.status().to_wire().into(),
        driver_strategy: image.driver_strategy().to_wire().into(),
        source_uri: image.source_uri.clone(),
        digest: image.digest_sha256.clone().unwrap_or_default(),
        size_bytes: image.size_bytes(),
        compatible_skus: image.compatible_skus.clone(),
        boot_timeout_seconds: image.boot_timeout_seconds(),
        readiness_checks: image
            .readiness_checks
            .iter()
            .map(gpuaas_common::readiness::Check::to_wire)
            .collect(),
        metadata: Some(ResourceMetadata {
            create_time: Some(proto_time(image.created_at.to_jiff())),
            update_time: Some(proto_time(image.updated_at.to_jiff())),
            revision: image.revision,
            labels: [].into(),
        }),
        etag: image.revision.to_string(),
    }
}
