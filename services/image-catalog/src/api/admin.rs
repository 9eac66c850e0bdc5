//! `ImageAdminService`: publishing images, enabling them, and what nodes hold (E-24, E-25, H-15).
//!
//! partly E-24: no image is deleted; one that is disabled is not launched any more
//! partly H-15: no image is deleted; one that is disabled is not launched any more
use gpuaas_common::idempotency::{self, Lookup, Scope};
use gpuaas_common::identity::Caller;
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::time::proto_time;
use gpuaas_common::{Error, audit, etag, id, page};
use gpuaas_proto::gpuaas::images::v1::image_admin_service_server::ImageAdminService;
use gpuaas_proto::gpuaas::images::v1::{
    CreateImageRequest, Image, ListImagesRequest, ListImagesResponse, ListNodeImageCacheRequest,
    ListNodeImageCacheResponse, NodeImage, SetImageStatusRequest,
};
use tonic::{Request, Response};

use super::source::refusal;
use super::{Api, parse_slug, to_proto, unknown};
use crate::domain::image::Status;
use crate::registry::Resolved;
use crate::store::{cache, images};

const SET_STATUS: &str = "SetImageStatus";

#[tonic::async_trait]
impl ImageAdminService for Api {
    async fn create_image(
        &self,
        request: Request<CreateImageRequest>,
    ) -> Result<Response<Image>, tonic::Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(
            self.create(&caller, request.get_ref()).await?,
        ))
    }

    async fn set_image_status(
        &self,
        request: Request<SetImageStatusRequest>,
    ) -> Result<Response<Image>, tonic::Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(
            self.set_status(&caller, request.get_ref()).await?,
        ))
    }

    async fn list_all_images(
        &self,
        request: Request<ListImagesRequest>,
    ) -> Result<Response<ListImagesResponse>, tonic::Status> {
        Caller::of(&request)?;
        Ok(Response::new(self.list(request.get_ref(), false).await?))
    }

    async fn list_node_image_cache(
        &self,
        request: Request<ListNodeImageCacheRequest>,
    ) -> Result<Response<ListNodeImageCacheResponse>, tonic::Status> {
        Caller::of(&request)?;
        let request = request.get_ref();
        let node_id = id::parse("node_id", &request.node_id)?;
        let selection = Selection::parse(&cache::IMAGES, "", "")?;
        let wanted = Wanted {
            page_token: &request.page_token,
            size: page::page_size(request.page_size)?,
            query: &[&request.node_id],
        };
        let mut conn = self.pool.acquire().await.map_err(Error::from)?;
        let (rows, next_page_token) = cache::list(&mut conn, node_id, &selection, wanted).await?;
        let images = rows
            .into_iter()
            .map(|row| NodeImage {
                node_id: row.node_id.to_string(),
                image_slug: row.image_slug,
                status: row.status,
                digest: row.digest_sha256,
                verified_time: row.verified_at.map(|at| proto_time(at.to_jiff())),
            })
            .collect();
        Ok(Response::new(ListNodeImageCacheResponse {
            images,
            next_page_token,
        }))
    }
}

impl Api {
    async fn set_status(
        &self,
        caller: &Caller,
        request: &SetImageStatusRequest,
    ) -> Result<Image, Error> {
        let scope = Scope {
            principal: &caller.principal,
            method: SET_STATUS,
            key: caller.idempotency_key()?,
        };
        let hash = idempotency::hash(request);
        let slug = parse_slug("slug", &request.slug)?;
        let status = Status::from_wire(request.status())
            .ok_or_else(|| Error::invalid("status", "must be one of disabled, active"))?;

        let mut connection = self.pool.acquire().await?;
        let lookup = idempotency::lookup(&mut connection, scope, &hash).await?;
        drop(connection);
        let image = self.image(&slug).await?;
        if matches!(lookup, Lookup::Replay { .. }) {
            return Ok(to_proto(&image));
        }
        let resolved = self.resolve_placeholder(&image, status).await?;

        let mut tx = self.pool.begin().await?;
        idempotency::record(&mut tx, scope, &hash, slug.as_str()).await?;
        let before = images::lock(&mut tx, slug.as_str())
            .await?
            .ok_or_else(|| unknown(slug.as_str()))?;
        let before = to_proto(&before);
        etag::check(&request.etag, &before.etag)?;
        let row = images::set_status(&mut tx, slug.as_str(), status, resolved.as_ref())
            .await?
            .ok_or_else(|| unknown(slug.as_str()))?;
        let detail = serde_json::json!({ "status": status.as_str(), "digest": row.digest_sha256 });
        let after = to_proto(&row);
        let detail = audit::with_digests(detail, Some(&before), Some(&after));
        audit::record(
            &mut tx,
            audit::Entry {
                principal: &caller.principal,
                action: "image.update",
                resource: "image",
                resource_id: slug.as_str(),
                request_id: &caller.request_id,
                detail,
            },
        )
        .await?;
        tx.commit().await?;
        tracing::info!(image_slug = %slug, status = status.as_str(), "set image status");
        Ok(after)
    }

    /// An image is activated only with a digest: a placeholder gets its digest now, or stays what it is.
    async fn resolve_placeholder(
        &self,
        image: &images::Image,
        status: Status,
    ) -> Result<Option<Resolved>, Error> {
        if status == Status::Disabled || image.digest_sha256.is_some() {
            return Ok(None);
        }
        let source = self.parse_source(&image.source_uri)?;
        let resolved = self
            .published(&source)
            .await
            .map_err(|why| refusal(&source, why))?;
        Ok(Some(resolved))
    }
}
