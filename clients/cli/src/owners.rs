//! Allocations of any project by their names, as an administrator sees them.
use std::collections::HashMap;

use gpuaas_proto::gpuaas::allocation::v1::GetAllocationDetailRequest;

use crate::api::Api;
use crate::project;

/// Most names that one table looks up; the rest are shown as ids.
const MAX_LOOKUPS: usize = 64;

/// "NAME of PROJECT" by the allocation's id. One that cannot be read is left out, so that its id is shown.
pub async fn of(api: &Api, ids: impl Iterator<Item = &str>) -> HashMap<String, String> {
    let mut ids: Vec<&str> = ids.filter(|id| !id.is_empty()).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut owners = HashMap::new();
    if ids.is_empty() {
        return owners;
    }
    let projects = project::names(api).await;
    for id in ids.into_iter().take(MAX_LOOKUPS) {
        let request = GetAllocationDetailRequest {
            allocation_id: id.to_owned(),
        };
        let Ok(detail) = api.call(&request).await else {
            continue;
        };
        let allocation = detail.message.allocation.unwrap_or_default();
        let config = allocation.config.unwrap_or_default();
        if !config.name.is_empty() {
            let project = project::name_of(&projects, &config.project_id);
            owners.insert(id.to_owned(), format!("{} of {project}", config.name));
        }
    }
    owners
}

/// The owner of an allocation, else its id.
pub fn name_of(owners: &HashMap<String, String>, id: &str) -> String {
    owners.get(id).cloned().unwrap_or_else(|| id.to_owned())
}
