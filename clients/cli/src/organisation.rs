//! The caller's organisations by their names.
use gpuaas_proto::gpuaas::identity::v1::ListOrganisationsRequest;

use crate::api::Api;
use crate::failure::Failure;
use crate::suggest;

/// The id of one of the caller's organisations, which is given by its slug or its id.
///
/// # Errors
/// There is none of this name.
pub async fn id(api: &Api, given: &str) -> Result<String, Failure> {
    let request = ListOrganisationsRequest::default();
    let all = api.call_all_pages(&request, "organisations").await?;
    let all = all.message.organisations;
    let found = all.iter().find(|one| one.slug == given || one.id == given);
    found.map(|one| one.id.clone()).ok_or_else(|| {
        let names = all.iter().map(|one| one.slug.as_str());
        let message = format!("no organisation is named {given:?}; see: gpuaas organisation list");
        Failure::NotFound(suggest::with_nearest(message, given, names))
    })
}
