//! An image catalog as the allocation service calls it.

use gpuaas_proto::gpuaas::images::v1 as images;
use gpuaas_proto::gpuaas::internal::images::v1 as internal_images;
use gpuaas_proto::gpuaas::internal::images::v1::image_catalog_service_server::ImageCatalogService;
use tonic::{Request, Response, Status};

use crate::host::{digest, rescue_digest, rescue_image};

/// A catalog with one image per status.
pub struct Catalog;

#[tonic::async_trait]
impl ImageCatalogService for Catalog {
    async fn get_image(
        &self,
        request: Request<internal_images::GetImageRequest>,
    ) -> Result<Response<images::Image>, Status> {
        let slug = request.into_inner().slug;
        let (status, sku) = match slug.as_str() {
            "lab-mini" => (images::ImageStatus::Active, "lab-slice"),
            "old-mini" => (images::ImageStatus::Disabled, "lab-slice"),
            "rescue-mini" => (images::ImageStatus::Active, "lab-slice"),
            "h200-base" => (images::ImageStatus::Active, "h200-sxm-slice"),
            "node-base" => (images::ImageStatus::Active, "h200-sxm-node"),
            _ => {
                let reason = gpuaas_proto::gpuaas::errors::v1::ErrorReason::ImageUnknown;
                return Err(gpuaas_common::Error::new(
                    tonic::Code::NotFound,
                    reason,
                    "no such image",
                )
                .into());
            }
        };
        let (digest, size_bytes) = match slug.as_str() {
            "rescue-mini" => (rescue_digest(), rescue_image().len() as u64),
            _ => (digest(), 1 << 20),
        };
        Ok(Response::new(images::Image {
            slug,
            status: status.into(),
            driver_strategy: 1,
            source_uri: format!("oci://registry.test/guests/lab-mini@{digest}"),
            digest,
            size_bytes,
            compatible_skus: vec![sku.into()],
            boot_timeout_seconds: 30,
            ..images::Image::default()
        }))
    }

    async fn report_node_image(
        &self,
        request: Request<internal_images::ReportNodeImageRequest>,
    ) -> Result<Response<internal_images::ReportNodeImageResponse>, Status> {
        let verified = request.into_inner().digest == digest();
        Ok(Response::new(internal_images::ReportNodeImageResponse {
            verified,
        }))
    }
}
