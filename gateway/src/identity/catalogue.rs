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
    let client = RegionServiceClient::new(call.app.peers.channel("inventory")?);
    every_page(|page_token| {
        let mut client = client.clone();
        async move {
            let request = ListRegionsRequest {
                page_size: PAGE,
                page_token,
                ..Default::default()
            };
            let request = signed_as(call, "inventory", (&[], false), request)?;
            let page = client.list_regions(request).await?.into_inner();
            let codes = page.regions.into_iter().map(|region| region.code);
            Ok((codes.collect(), page.next_page_token))
        }
    })
    .await
}

/// The codes of the SKUs: of all for an administrator, else of those that the caller may launch.
pub(super) async fn skus(call: &Call<'_>) -> Result<BTreeSet<String>> {
    let client = SkuServiceClient::new(call.app.peers.channel("scheduler")?);
    let projects = call.principal().projects();
    let parts: Vec<&[Uuid]> = match call.administers() || projects.is_empty() {
        true => vec![&[]],
        // a service takes no more of them in one call
        false => projects.chunks(MAX_PROJECTS).collect(),
    };
    let mut found = BTreeSet::new();
    for part in parts {
        let of_part = every_page(|page_token| {
            let mut client = client.clone();
            async move {
                let request = ListSkusRequest {
                    page_size: PAGE,
                    page_token,
                    ..Default::default()
                };
                let reach = (part, call.administers());
                let request = signed_as(call, "scheduler", reach, request)?;
                let page = client.list_skus(request).await?.into_inner();
                let codes = page.skus.into_iter().map(|sku| sku.code);
                Ok((codes.collect(), page.next_page_token))
            }
        });
        found.extend(of_part.await?);
    }
    Ok(found)
}

/// The codes of all pages of a list: `page` asks for one by its token, and tells that of the next.
async fn every_page<F>(page: impl Fn(String) -> F) -> Result<BTreeSet<String>>
where
    F: Future<Output = Result<(Vec<String>, String)>>,
{
    let (mut found, mut page_token) = (BTreeSet::new(), String::new());
    loop {
        let (codes, next) = page(page_token).await?;
        found.extend(codes);
        if next.is_empty() {
            return Ok(found);
        }
        page_token = next;
    }
}
