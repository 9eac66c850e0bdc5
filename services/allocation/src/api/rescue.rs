//! The image that a VM is rescued with.
use gpuaas_common::Error;
use gpuaas_common::value::ImageSlug;
use gpuaas_placement::model::{Allocation, Image};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::Code;

use super::create::{catalog_image, frozen, refused};
use crate::domain::fields;
use crate::domain::request::check_image_of;
use crate::workflow::Deps;

const FIELD: &str = "image";

/// The image of the catalog with this slug: active, for the allocation's SKU, and another than its own. A disk that was cloned from
/// the image it is rescued with has the same identifiers as the rescue disk, and the guest would boot the wrong one.
///
/// # Errors
/// The image is unknown, or not fit; the catalog does not answer.
pub async fn image(deps: &Deps, row: &Allocation, slug: &str) -> Result<Image, Error> {
    let slug: ImageSlug = fields::parse(FIELD, slug)?;
    let image = catalog_image(deps, &slug).await?;
    check_image_of(&row.sku, &image).map_err(refused)?;
    if image.digest == row.image.digest {
        let rule = "must be another image than the allocation's own: the disks of both would look the same to the rescue system";
        let text = format!("{FIELD}: {rule}");
        let error = Error::new(Code::InvalidArgument, ErrorReason::ImageNotCompatible, text);
        return Err(error.field(FIELD, rule));
    }
    Image::try_from(frozen(image)).map_err(Error::internal)
}
