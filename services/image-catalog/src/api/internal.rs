//! `ImageCatalogService`: what other services ask the catalog.
use gpuaas_common::{Error, id};
use gpuaas_proto::gpuaas::images::v1::Image;
use gpuaas_proto::gpuaas::internal::images::v1::image_catalog_service_server::ImageCatalogService;
use gpuaas_proto::gpuaas::internal::images::v1::{
    GetImageRequest, ReportNodeImageRequest, ReportNodeImageResponse,
};
use tonic::{Request, Response, Status};

use super::{Api, parse_slug, to_proto, unknown};
use crate::store::{cache, images};
use gpuaas_common::value::Digest;

#[tonic::async_trait]
impl ImageCatalogService for Api {
    async fn get_image(
        &self,
        request: Request<GetImageRequest>,
    ) -> Result<Response<Image>, Status> {
        let slug = request.into_inner().slug;
        // a slug that cannot exist is as unknown as one that does not
        let found = images::get(&self.pool, &slug).await.map_err(Error::from)?;
        let image = found.ok_or_else(|| unknown(&slug))?;
        Ok(Response::new(to_proto(&image)))
    }

    async fn report_node_image(
        &self,
        request: Request<ReportNodeImageRequest>,
    ) -> Result<Response<ReportNodeImageResponse>, Status> {
        let request = request.into_inner();
        let node_id = id::parse("node_id", &request.node_id)?;
        let slug = parse_slug("image_slug", &request.image_slug)?;
        let digest = request
            .digest
            .parse()
            .map_err(|_| Error::invalid("digest", format!("must be {}", Digest::RULE)))?;
        let verified = cache::report(&self.pool, node_id, &slug, &digest)
            .await
            .map_err(Error::from)?
            .ok_or_else(|| unknown(slug.as_str()))?;
        if verified {
            tracing::info!(%node_id, image_slug = %slug, %digest, "record verified node image");
        } else {
            tracing::warn!(%node_id, image_slug = %slug, %digest, "refuse node image with another digest");
        }
        Ok(Response::new(ReportNodeImageResponse { verified }))
    }
}
