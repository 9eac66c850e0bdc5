//! Which regions and SKUs there are, as the caller sees them, asked of the services that know.
use std::collections::BTreeSet;

use gpuaas_common::Result;
use gpuaas_proto::gpuaas::inventory::v1::ListRegionsRequest;
use gpuaas_proto::gpuaas::inventory::v1::region_service_client::RegionServiceClient;
use gpuaas_proto::gpuaas::scheduler::v1::ListSkusRequest;
use gpuaas_proto::gpuaas::scheduler::v1::sku_service_client::SkuServiceClient;
use uuid::Uuid;

use super::call::Call;
use super::running::signed_as;
use crate::auth::sessions::MAX_PROJECTS;

/// The largest page.
const PAGE: i32 = 500;

/// The codes of all regions, closed ones too.
pub(super) async fn regions(call: &Call<'_>) -> Result<BTreeSet<String>> {
    let mut client = RegionServiceClient::new(call.app.peers.channel("inventory")?);
    let (mut found, mut page_token) = (BTreeSet::new(), String::new());
    loop {
        let request = ListRegionsRequest {
            page_size: PAGE,
            page_token,
            ..Default::default()
        };
        let request = signed_as(call, "inventory", (&[], false), request)?;
        let page = client.list_regions(request).await?.into_inner();
        found.extend(page.regions.into_iter().map(|region| region.code));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(found);
        }
    }
}

/// The codes of the SKUs: of all for an administrator, else of those that the caller may launch.
pub(super) async fn skus(call: &Call<'_>) -> Result<BTreeSet<String>> {
    let mut client = SkuServiceClient::new(call.app.peers.channel("scheduler")?);
    let projects = call.principal().projects();
    let parts: Vec<&[Uuid]> = match call.administers() || projects.is_empty() {
        true => vec![&[]],
        // a service takes no more of them in one call
        false => projects.chunks(MAX_PROJECTS).collect(),
    };
    let mut found = BTreeSet::new();
    for part in parts {
        let mut page_token = String::new();
        loop {
            let request = ListSkusRequest {
                page_size: PAGE,
                page_token,
                ..Default::default()
            };
            let request = signed_as(call, "scheduler", (part, call.administers()), request)?;
            let page = client.list_skus(request).await?.into_inner();
            found.extend(page.skus.into_iter().map(|sku| sku.code));
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
    }
    Ok(found)
}
