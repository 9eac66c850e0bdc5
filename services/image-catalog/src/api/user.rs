//! `ImageService`: the images a user can choose.
use gpuaas_common::identity::Caller;
use gpuaas_proto::gpuaas::images::v1::image_service_server::ImageService;
use gpuaas_proto::gpuaas::images::v1::{ListImagesRequest, ListImagesResponse};
use tonic::{Request, Response, Status};

use super::Api;

#[tonic::async_trait]
impl ImageService for Api {
    async fn list_images(
        &self,
        request: Request<ListImagesRequest>,
    ) -> Result<Response<ListImagesResponse>, Status> {
        Caller::of(&request)?;
        Ok(Response::new(self.list(request.get_ref(), true).await?))
    }
}
